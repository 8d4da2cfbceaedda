/* Rank 0 sends a temperature to rank 1 in every step, by a persistent request. It never starts the request:
   MPI_Wait returns at once for a request that is not active, and rank 1 waits for the first temperature. */
#include <mpi.h>
#include <stdio.h>

#define STEPS 3

int main(int argc, char **argv) {
    int rank;
    double temperature = 20;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Request request;
        MPI_Send_init(&temperature, 1, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD, &request);
        for (int step = 0; step < STEPS; step++) {
            temperature += 0.5;
            /* WRONG: the request is not started */
#ifdef FIXED
            MPI_Start(&request);
#endif
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&request);
    } else if (rank == 1) {
        for (int step = 0; step < STEPS; step++)
            MPI_Recv(&temperature, 1, MPI_DOUBLE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("the temperature is %g\n", temperature);
    }
    return MPI_Finalize();
}
