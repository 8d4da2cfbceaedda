/* A reduction with a user-defined operator on one communicator while all ranks wait on another, which may be in
   another plane: a waiting thread runs the operator, however it waits. */
#include "check.h"

#define ROUNDS 12

static int rank, size;

static void add(void *in, void *out, int *count, MPI_Datatype *type) {
    (void)type;
    for (int at = 0; at < *count; at++) ((int *)out)[at] += ((int *)in)[at];
}

static void be_late(void) {
    double until = MPI_Wtime() + 0.005;
    while (MPI_Wtime() < until) {}
}

int main(int argc, char **argv) {
    int provided, all;
    MPI_Comm comms[3], bridge;
    MPI_Op op;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    for (int at = 0; at < 3; at++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[at]));
    OK(MPI_Op_create(add, 1, &op));
    all = size * (size - 1) / 2;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm other = comms[1 + round % 2], made;
        MPI_Request request;
        int sum = -1, value = rank, over = 0, next = (rank + 1) % size;
        if (rank == size - 1) be_late();
        OK(MPI_Reduce(&value, &sum, 1, MPI_INT, op, 0, comms[0]));
        switch (round % 6) {
        case 0: OK(MPI_Barrier(other)); break;
        case 1: OK(MPI_Comm_dup(other, &made)); OK(MPI_Comm_free(&made)); break;
        case 2: OK(MPI_Comm_split(other, 0, 0, &made)); OK(MPI_Comm_free(&made)); break;
        case 3:
            OK(MPI_Ibarrier(other, &request));
            while (!over) OK(MPI_Test(&request, &over, MPI_STATUS_IGNORE));
            break;
        case 4:
            /* The answer comes when the root has its sum. */
            if (rank) {
                OK(MPI_Probe(0, 3, other, MPI_STATUS_IGNORE));
                OK(MPI_Recv(&value, 1, MPI_INT, 0, 3, other, MPI_STATUS_IGNORE));
            } else {
                for (int to = 1; to < size; to++) OK(MPI_Send(&sum, 1, MPI_INT, to, 3, other));
            }
            break;
        default:
            OK(MPI_Isend(&value, 1, MPI_INT, next, 4, other, &request));
            while (!over) OK(MPI_Iprobe(MPI_ANY_SOURCE, 4, other, &over, MPI_STATUS_IGNORE));
            OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 4, other, MPI_STATUS_IGNORE));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        if (!rank) CHECK(sum == all);
    }
    /* The last reduction, while others create an intercommunicator or are in MPI_Finalize. */
    int sum = -1;
    OK(MPI_Reduce(&rank, &sum, 1, MPI_INT, op, 0, comms[0]));
    if (size > 1) {
        MPI_Comm half;
        OK(MPI_Comm_split(comms[1], rank % 2, 0, &half));
        OK(MPI_Intercomm_create(half, 0, comms[2], rank % 2 ? 0 : 1, 9, &bridge));
        OK(MPI_Comm_free(&bridge));
        OK(MPI_Comm_free(&half));
    }
    OK(MPI_Reduce(&rank, &sum, 1, MPI_INT, op, 0, comms[0]));
    return MPI_Finalize();
}
