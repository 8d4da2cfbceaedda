/* Rank 0 tells its workers to stop, more often than they listen. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int stop = 1;
#ifdef FIXED
    int times = 1;
#else
    int times = 3; /* WRONG: each worker stops once */
#endif
    if (rank == 0) {
        for (int worker = 1; worker < 3; worker++)
            for (int i = 0; i < times; i++)
                MPI_Send(&stop, 1, MPI_INT, worker, 9, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&stop, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("rank %d stops\n", rank);
    }
    return MPI_Finalize();
}
