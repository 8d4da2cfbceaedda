/* Sends 8 bytes to itself and receives them, in batches, and prints the processor time of a round in the fastest batch, in
   nanoseconds. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int argc, char **argv) {
    long batches = argc > 1 ? atol(argv[1]) : 200, times = 1000;
    double sent = 1, received = 1, best = 1e12;
    MPI_Init(&argc, &argv);
    for (long batch = 0; batch < batches; batch++) {
        double start = now();
        for (long i = 0; i < times; i++) {
            MPI_Send(&sent, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
            MPI_Recv(&received, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        double round = (now() - start) / times;
        best = round < best ? round : best;
    }
    printf("%.1f\n", best);
    MPI_Finalize();
    return received != sent;
}
