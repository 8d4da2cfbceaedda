/* Rank 0 sends a result and then its error estimate, which rank 1 does not ask for. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double result = 3, estimate = 0.1;
    if (rank == 0) {
        MPI_Send(&result, 1, MPI_DOUBLE, 1, 4, MPI_COMM_WORLD);
        MPI_Send(&estimate, 1, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(&result, 1, MPI_DOUBLE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        /* WRONG: the second message is not received */
#ifdef FIXED
        MPI_Recv(&estimate, 1, MPI_DOUBLE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#endif
        printf("the result is %g\n", result);
    }
    return MPI_Finalize();
}
