/* Rank 1 sends rank 0 the corners of a polygon. Rank 0 has room for two corners, and three arrive. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    double corners[] = {0, 0, 4, 0, 0, 3};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
#ifdef FIXED
        double received[6] = {0};
#else
        double received[4] = {0}; /* WRONG: a corner has two coordinates, and there are three corners */
#endif
        int count = sizeof received / sizeof received[0];
        MPI_Recv(received, count, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("the second corner is at %g, %g\n", received[2], received[3]);
    } else if (rank == 1) {
        MPI_Send(corners, 6, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
