/* Rank 0 receives results from two workers at the same time, into one buffer. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double results[2] = {rank, rank};
    if (rank == 0) {
        MPI_Request requests[2];
        MPI_Irecv(&results[0], 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, &requests[0]);
#ifdef FIXED
        MPI_Irecv(&results[1], 1, MPI_DOUBLE, 2, 1, MPI_COMM_WORLD, &requests[1]);
#else
        MPI_Irecv(&results[0], 1, MPI_DOUBLE, 2, 1, MPI_COMM_WORLD, &requests[1]); /* WRONG: the same buffer */
#endif
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        printf("the results are %g and %g\n", results[0], results[1]);
    } else {
        MPI_Send(results, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
    }
    return MPI_Finalize();
}
