/* Rank 0 sends a column of a matrix by a persistent request, and changes it before the send is complete. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    static int matrix[4][4];
    MPI_Datatype column;
    MPI_Type_vector(4, 1, 4, MPI_INT, &column);
    MPI_Type_commit(&column);
    if (rank == 0) {
        MPI_Request request;
        MPI_Send_init(matrix, 1, column, 1, 8, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        matrix[0][1] = 1;
#ifndef FIXED
        matrix[3][0] = 1; /* WRONG: it is in the column */
#endif
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
    } else if (rank == 1) {
        MPI_Recv(matrix, 4, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("the column ends with %d\n", matrix[0][3]);
    }
    MPI_Type_free(&column);
    return MPI_Finalize();
}
