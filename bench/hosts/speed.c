/* speed half|stream|rate BYTES ROUNDS: speed of messages between the two halves of all ranks, which are on two hosts.
 *
 *     half     a round trip between ranks 0 and 1, halved; mean in microseconds, as fi_pingpong counts
 *     stream   windows of messages from rank 0 to rank 1, each window answered by an empty message; MB per second
 *     rate     the same by all pairs of a rank in the lower half and its partner in the upper half; thousand messages
 *              per second
 *
 * Ranks are pinned to the cores in turn. Prints one figure. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 64 };

static void stay(int rank)
{
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(rank % sysconf(_SC_NPROCESSORS_ONLN), &core);
    sched_setaffinity(0, sizeof core, &core);
}

static void bounce(int first, int partner, char *bytes, int len, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        if (first)
            MPI_Send(bytes, len, MPI_BYTE, partner, 0, MPI_COMM_WORLD);
        MPI_Recv(bytes, len, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!first)
            MPI_Send(bytes, len, MPI_BYTE, partner, 0, MPI_COMM_WORLD);
    }
}

static void stream(int first, int partner, int window, char *bytes, int len, int rounds)
{
    MPI_Request requests[WINDOW];
    for (int round = 0; round < rounds; round++) {
        for (int at = 0; at < window; at++)
            if (first)
                MPI_Isend(bytes, len, MPI_BYTE, partner, 0, MPI_COMM_WORLD, &requests[at]);
            else
                MPI_Irecv(bytes, len, MPI_BYTE, partner, 0, MPI_COMM_WORLD, &requests[at]);
        MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
        if (first)
            MPI_Recv(NULL, 0, MPI_BYTE, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(NULL, 0, MPI_BYTE, partner, 1, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const char *what = argc > 1 ? argv[1] : "half";
    int me, size, len = argc > 2 ? atoi(argv[2]) : 8, rounds = argc > 3 ? atoi(argv[3]) : 20000;
    char *bytes = calloc(1, (size_t)len + 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int first = me < size / 2, partner = (me + size / 2) % size, window = strcmp(what, "rate") ? 8 : WINDOW;
    /* Partners are on different cores. */
    stay(first ? me : partner + 1);
    for (int warm = 1; warm >= 0; warm--) {
        int times = warm ? rounds / 10 + 1 : rounds;
        MPI_Barrier(MPI_COMM_WORLD);
        double begun = MPI_Wtime();
        if (!strcmp(what, "half"))
            bounce(first, partner, bytes, len, times);
        else
            stream(first, partner, window, bytes, len, times);
        MPI_Barrier(MPI_COMM_WORLD);
        double took = MPI_Wtime() - begun;
        if (warm || me)
            continue;
        if (!strcmp(what, "half"))
            printf("speed %.3f\n", took / rounds / 2 * 1e6);
        else if (!strcmp(what, "stream"))
            printf("speed %.2f\n", (double)len * window * rounds / took / 1e6);
        else
            printf("speed %.2f\n", size / 2.0 * window * rounds / took / 1e3);
    }
    free(bytes);
    MPI_Finalize();
    return 0;
}
