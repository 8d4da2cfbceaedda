/* The instructions of a message: run by `cost`, which counts those of send_one at rank 0 and of receive_one at
 * rank 1.
 *
 * Messages have arrived when they are received, so that no wait is counted. Rank 1 sleeps until then, and takes them
 * from their ring when it receives. Or it polls, as a busy program does; then it has taken them already, and only
 * matching is counted. With a module loaded, only this can be counted: while the rank sleeps, the agent takes the
 * messages.
 *
 *     cost sleeps|polls                 ordinary messages
 *     cost sleeps|polls MODULE          the same, with a module loaded on another communicator
 *     cost sleeps|polls MODULE through  messages that go through the module
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 20, BATCH = 16, WARM_UP = 4 };

typedef int load_module(MPI_Comm, const char *, const void *, MPI_Count, MPI_Comm *);

/* Looked up at run time, so that a library without modules can be counted, too. */
static MPI_Comm with_module(const char *path) {
    static char code[1 << 20];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    size_t bytes = fread(code, 1, sizeof code, file);
    fclose(file);
    load_module *load = (load_module *)dlsym(RTLD_DEFAULT, "Ferry_Module_load");
    if (load == NULL) {
        fputs("this library has no modules\n", stderr);
        exit(2);
    }
    MPI_Comm comm;
    load(MPI_COMM_WORLD, "cost", code, (MPI_Count)bytes, &comm);
    return comm;
}

/* Only these calls are counted. */
__attribute__((noinline)) void send_one(double *number, MPI_Comm comm) {
    MPI_Send(number, 1, MPI_DOUBLE, 1, 2, comm);
}

__attribute__((noinline)) void receive_one(double *number, MPI_Comm comm) {
    MPI_Recv(number, 1, MPI_DOUBLE, 0, 2, comm, MPI_STATUS_IGNORE);
}

/* Rank 0 begins when rank 1 has received everything, and nothing else is in flight. */
static void meet(int rank) {
    if (rank == 1) MPI_Send(NULL, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
    else MPI_Recv(NULL, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    int rank;
    double number = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm comm = MPI_COMM_WORLD;
    int polls = argc > 1 && strcmp(argv[1], "polls") == 0;
    if (argc > 2) {
        MPI_Comm module = with_module(argv[2]);
        comm = argc > 3 ? module : comm;
    }
    for (int round = 0; round < ROUNDS + WARM_UP; round++) {
        meet(rank);
        for (int i = 0; i < BATCH && rank == 0; i++) {
            send_one(&number, comm);
        }
        double until = MPI_Wtime() + 0.1;
        if (!polls) usleep(100000);
        for (int there; polls && rank == 1 && MPI_Wtime() < until;) {
            MPI_Iprobe(0, 99, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        }
        if (polls && rank == 0) usleep(100000);
        for (int i = 0; i < BATCH && rank == 1; i++) {
            receive_one(&number, comm);
        }
    }
    MPI_Finalize();
    if (rank == 0) {
        printf("%d\n", (ROUNDS + WARM_UP) * BATCH);
    }
    return 0;
}
