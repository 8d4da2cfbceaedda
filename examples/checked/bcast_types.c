/* Rank 0 broadcasts integers, and the others take them for floats. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    union { int integers[2]; float floats[2]; } parameters = {{1, 2}};
#ifdef FIXED
    MPI_Bcast(&parameters, 2, MPI_INT, 0, MPI_COMM_WORLD);
#else
    MPI_Bcast(&parameters, 2, rank == 0 ? MPI_INT : MPI_FLOAT, 0, MPI_COMM_WORLD); /* WRONG: two types */
#endif
    printf("rank %d: %d\n", rank, parameters.integers[1]);
    return MPI_Finalize();
}
