/* Each rank checks its part of the input before all of them add up its length. Rank 3 has nothing to do and returns
   from main without MPI_Finalize, while the others wait for it. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, total;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int lines = rank == 3 ? 0 : 100;
#ifndef FIXED
    if (lines == 0)
        return 0; /* WRONG: the other ranks wait for this one in MPI_Allreduce */
#endif
    MPI_Allreduce(&lines, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d lines\n", total);
    return MPI_Finalize();
}
