/* Rank 0 sends a column of a matrix to rank 1. Both make a datatype for it, and keep it. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double matrix[4][4] = {{1, 2}, {3, 4}};
    MPI_Datatype column;
    MPI_Type_vector(4, 1, 4, MPI_DOUBLE, &column);
    MPI_Type_set_name(column, "column");
    MPI_Type_commit(&column);
    if (rank == 0)
        MPI_Send(matrix, 1, column, 1, 0, MPI_COMM_WORLD);
    else if (rank == 1)
        MPI_Recv(&matrix[0][1], 1, column, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("rank %d: %g\n", rank, matrix[1][1]);
    /* WRONG: the datatype is never freed */
#ifdef FIXED
    MPI_Type_free(&column);
#endif
    return MPI_Finalize();
}
