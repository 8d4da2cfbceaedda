/* idle SECONDS: ranks exchange messages, and then nothing happens: even ranks sleep, odd ranks wait for a message.
 * Prints the highest share of a core that a rank took meanwhile, in percent. */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double clock_seconds(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, token = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double seconds = argc > 1 ? atof(argv[1]) : 1, most, share;
    for (int peer = 0; peer < size; peer++)
        MPI_Sendrecv_replace(&token, 1, MPI_INT, peer, 0, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    struct timespec nap = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    double begun = clock_seconds(CLOCK_MONOTONIC), spent = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (rank % 2 == 0) {
        nanosleep(&nap, NULL);
        if (rank + 1 < size) MPI_Send(&token, 1, MPI_INT, rank + 1, 1, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&token, 1, MPI_INT, rank - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    share = (clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - spent) / (clock_seconds(CLOCK_MONOTONIC) - begun);
    MPI_Reduce(&share, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("idle percent=%.2f\n", 100 * most);
    MPI_Finalize();
    return 0;
}
