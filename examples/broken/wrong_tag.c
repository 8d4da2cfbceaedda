/* Rank 0 gives rank 1 a number to square and waits for the result. Rank 1 answers with the tag of tasks instead of
   that of results. */
#include <mpi.h>
#include <stdio.h>

enum { TASK = 7, RESULT = 8 };

int main(int argc, char **argv) {
    int rank;
    double number = 1.5;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Send(&number, 1, MPI_DOUBLE, 1, TASK, MPI_COMM_WORLD);
        MPI_Recv(&number, 1, MPI_DOUBLE, 1, RESULT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("the square is %g\n", number);
    } else if (rank == 1) {
        MPI_Recv(&number, 1, MPI_DOUBLE, 0, TASK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        number *= number;
#ifdef FIXED
        MPI_Send(&number, 1, MPI_DOUBLE, 0, RESULT, MPI_COMM_WORLD);
#else
        MPI_Send(&number, 1, MPI_DOUBLE, 0, TASK, MPI_COMM_WORLD); /* WRONG: the tag should be RESULT */
#endif
    }
    return MPI_Finalize();
}
