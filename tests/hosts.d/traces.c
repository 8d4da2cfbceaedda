/* Messages around a ring whose times are known: with --trace, tests/hosts compares them with what the clock of the machine
   said. Each rank also forks a child that makes queries, which are no calls of the rank. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { QUERIES = 500 };

static long long real_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv)
{
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 50;
    double seconds = argc > 2 ? atof(argv[2]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int of;
        for (int query = 0; query < QUERIES; query++)
            MPI_Comm_rank(MPI_COMM_WORLD, &of);
        _exit(of != rank);
    }
    int status;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    long long *at = malloc(sizeof *at * rounds);
    for (int round = 0; round < rounds; round++) {
        MPI_Request request;
        int got;
        MPI_Irecv(&got, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &request);
        at[round] = real_ns();
        MPI_Send(&round, 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (got != round)
            MPI_Abort(MPI_COMM_WORLD, 2);
        usleep(seconds * 1e6 / rounds);
    }
    for (int round = 0; round < rounds; round++)
        printf("sent %d %lld\n", rank, at[round]);
    free(at);
    return MPI_Finalize();
}
