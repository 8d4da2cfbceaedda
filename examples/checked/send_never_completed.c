/* Rank 0 sends a value without blocking and never completes the send: a short message arrives anyway. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double value = 2;
    MPI_Request request;
    if (rank == 0) {
        MPI_Isend(&value, 1, MPI_DOUBLE, 1, 3, MPI_COMM_WORLD, &request);
        /* WRONG: nobody waits for the send */
#ifdef FIXED
        MPI_Wait(&request, MPI_STATUS_IGNORE);
#endif
    } else if (rank == 1) {
        MPI_Recv(&value, 1, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("the value is %g\n", value);
    }
    return MPI_Finalize();
}
