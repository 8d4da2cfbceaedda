/* Rank 0 sends three floats, and rank 1 receives them without blocking, as doubles. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    float sent[3] = {1, 2, 3};
    MPI_Request request;
    if (rank == 0) {
        MPI_Send(sent, 3, MPI_FLOAT, 1, 2, MPI_COMM_WORLD);
    } else if (rank == 1) {
#ifdef FIXED
        MPI_Irecv(sent, 3, MPI_FLOAT, 0, 2, MPI_COMM_WORLD, &request);
#else
        static double received[3];
        MPI_Irecv(received, 3, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD, &request); /* WRONG: floats were sent */
#endif
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    printf("rank %d is done\n", rank);
    return MPI_Finalize();
}
