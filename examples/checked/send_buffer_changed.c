/* Rank 0 begins to send a row, and computes the next one in the same buffer before the send is complete. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    static double row[1000];
    if (rank == 0) {
        MPI_Request request;
        row[0] = 1;
        MPI_Isend(row, 1000, MPI_DOUBLE, 1, 3, MPI_COMM_WORLD, &request);
#ifdef FIXED
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        row[0] = 2;
#else
        row[0] = 2; /* WRONG: the row is still being sent */
        MPI_Wait(&request, MPI_STATUS_IGNORE);
#endif
    } else if (rank == 1) {
        MPI_Recv(row, 1000, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("the row begins with %g\n", row[0]);
    }
    return MPI_Finalize();
}
