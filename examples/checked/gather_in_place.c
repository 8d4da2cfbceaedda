/* Each rank has its number at its place in the table that the call fills. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int table[4] = {0};
    table[rank] = rank;
#ifdef FIXED
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, table, 1, MPI_INT, MPI_COMM_WORLD);
#else
    MPI_Allgather(&table[rank], 1, MPI_INT, table, 1, MPI_INT, MPI_COMM_WORLD); /* WRONG: the buffers overlap */
#endif
    printf("rank %d: %d\n", rank, table[3]);
    return MPI_Finalize();
}
