/* Each rank sends two numbers to rank 0, which expects three: the rest of its table is never written. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int mine[3] = {rank, 1, 2}, table[12] = {0};
#ifdef FIXED
    int count = 3;
#else
    int count = rank == 0 ? 3 : 2; /* WRONG: rank 0 expects three of each */
#endif
    MPI_Gather(mine, count, MPI_INT, table, 3, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("the last number is %d\n", table[11]);
    return MPI_Finalize();
}
