/* Rank 0 receives a parameter from rank 1 while it computes. It never waits for the receive, so it may compute with
   a parameter that has not arrived, and the request is lost. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    double parameter = 0, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Request request;
        MPI_Irecv(&parameter, 1, MPI_DOUBLE, 1, 6, MPI_COMM_WORLD, &request);
        for (int i = 1; i < 1000; i++)
            sum += 1.0 / i;
        /* WRONG: nobody waits for the parameter */
#ifdef FIXED
        MPI_Wait(&request, MPI_STATUS_IGNORE);
#endif
        printf("the result is %g\n", sum * parameter);
    } else if (rank == 1) {
        parameter = 2;
        MPI_Send(&parameter, 1, MPI_DOUBLE, 0, 6, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
