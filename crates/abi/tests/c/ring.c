/* Passes numbers round a ring of all ranks, by each way to send and to receive. */
#include "check.h"

#define LENGTH 20000

static int rank, size, before, after;

static void fill(double *numbers, int from) {
    for (int at = 0; at < LENGTH; at++) numbers[at] = from * 1e6 + at;
}

static void check_from(const double *numbers, int from, const MPI_Status *status, int tag) {
    CHECK(status->MPI_SOURCE == from);
    CHECK(status->MPI_TAG == tag);
    for (int at = 0; at < LENGTH; at++) CHECK(numbers[at] == from * 1e6 + at);
}

int main(int argc, char **argv) {
    static double out[LENGTH], in[LENGTH];
    MPI_Request requests[2];
    MPI_Status statuses[2];
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    before = (rank + size - 1) % size;
    after = (rank + 1) % size;
    fill(out, rank);

    OK(MPI_Sendrecv(out, LENGTH, MPI_DOUBLE, after, 1, in, LENGTH, MPI_DOUBLE, before, 1,
                    MPI_COMM_WORLD, statuses));
    check_from(in, before, statuses, 1);

    /* 64-bit counts. */
    OK(MPI_Irecv_c(in, LENGTH, MPI_DOUBLE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend_c(out, LENGTH, MPI_DOUBLE, after, 2, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, statuses));
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    check_from(in, before, &statuses[0], 2);

    /* Persistent, twice. */
    OK(MPI_Recv_init(in, LENGTH, MPI_DOUBLE, before, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Send_init(out, LENGTH, MPI_DOUBLE, after, 3, MPI_COMM_WORLD, &requests[1]));
    for (int time = 0; time < 2; time++) {
        in[0] = -1;
        OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, statuses));
        check_from(in, before, &statuses[0], 3);
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));

    /* By the profiling names. A synchronous send needs another rank that receives. */
    if (size > 1) {
        if (rank == 0) OK(PMPI_Ssend(out, LENGTH, MPI_DOUBLE, after, 4, MPI_COMM_WORLD));
        OK(PMPI_Recv(in, LENGTH, MPI_DOUBLE, before, 4, MPI_COMM_WORLD, statuses));
        if (rank != 0) OK(PMPI_Ssend(out, LENGTH, MPI_DOUBLE, after, 4, MPI_COMM_WORLD));
        check_from(in, before, statuses, 4);
    }
    OK(MPI_Finalize());
    return 0;
}
