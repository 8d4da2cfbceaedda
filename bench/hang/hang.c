/* Ranks that wait for each other for ever: each receives from the next one, and nobody sends. Before, they exchange
   messages for a while that differs from run to run, so that the deadlock begins at any moment between two looks of the
   launcher. Each says by the clock when it begins to wait. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
    int rank, size, token = 0;
    struct timespec now;
    double until;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    until = MPI_Wtime() + atof(argv[1]);
    for (int over = 0; !over;) {
        over = MPI_Wtime() >= until;
        MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("waits %.6f\n", (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    fflush(stdout);
    MPI_Recv(&token, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return MPI_Finalize();
}
