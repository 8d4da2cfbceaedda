/* Rank 0 sends integers, and rank 1 receives floats of the same size: their values are nonsense. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int counts[4] = {1, 2, 3, 4};
    if (rank == 0) {
        MPI_Send(counts, 4, MPI_INT, 1, 5, MPI_COMM_WORLD);
    } else if (rank == 1) {
#ifdef FIXED
        MPI_Recv(counts, 4, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("the last count is %d\n", counts[3]);
#else
        float received[4];
        MPI_Recv(received, 4, MPI_FLOAT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* WRONG: these are integers */
        printf("the last count is %g\n", received[3]);
#endif
    }
    return MPI_Finalize();
}
