/* Rank 0 broadcasts the size of the problem, and the others receive it by MPI_Recv: a broadcast has to be called by
   all ranks. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        size = 1000;
        MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
    } else {
#ifdef FIXED
        MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
#else
        MPI_Recv(&size, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* WRONG: should be MPI_Bcast */
#endif
    }
    printf("rank %d: the problem has size %d\n", rank, size);
    return MPI_Finalize();
}
