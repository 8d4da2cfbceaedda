/* Rank 1 starts a persistent receive once more than there are messages to wait for, and then leaves. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double value = 0;
    MPI_Request request;
    if (rank == 0) {
        value = 5;
        MPI_Send(&value, 1, MPI_DOUBLE, 1, 2, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv_init(&value, 1, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        /* WRONG: nobody waits for what was started */
#ifdef FIXED
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
#endif
        printf("the value is %g\n", value);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
