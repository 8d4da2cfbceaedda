/* Short messages between two ranks, each of which is there before it is received, so that the count of instructions is exact.
 * The first argument says what is measured (pingpong, window, unexpected, barrier), the second how often. What is counted
 * happens in functions whose names begin with "counted". */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WINDOW = 32 };

static int rank;
static double value;
static MPI_Request requests[WINDOW];
/* Whose turn it is, in memory that both ranks have. */
static int *turn;

static void until(int now) {
    while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) < now) sched_yield();
}

static void next(void) { __atomic_fetch_add(turn, 1, __ATOMIC_SEQ_CST); }

/* A process that may have no more threads has no agent either, which would take some of the messages, uncounted. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    (void)thread, (void)attributes, (void)start, (void)argument;
    return EAGAIN;
}

#define COUNTED __attribute__((noinline)) static void

COUNTED counted_send(void) { MPI_Send(&value, 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD); }

COUNTED counted_recv(void) {
    MPI_Recv(&value, 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

COUNTED counted_isend(void) {
    for (int i = 0; i < WINDOW; i++) MPI_Isend(&value, 1, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD, &requests[i]);
}

COUNTED counted_irecv(void) {
    for (int i = 0; i < WINDOW; i++) MPI_Irecv(&value, 1, MPI_DOUBLE, 0, 5, MPI_COMM_WORLD, &requests[i]);
}

COUNTED counted_waitall(void) { MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE); }

COUNTED counted_barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static void pingpong(int i) {
    if (rank == 0) {
        until(2 * i);
        counted_send();
        next();
        until(2 * i + 2);
        counted_recv();
    } else {
        until(2 * i + 1);
        counted_recv();
        counted_send();
        next();
    }
}

static void window(int i) {
    if (rank == 0) {
        until(3 * i + 1);
        counted_isend();
        counted_waitall();
        next();
    } else {
        until(3 * i);
        counted_irecv();
        next();
        until(3 * i + 2);
        counted_waitall();
        next();
    }
}

/* The messages are in the NIC's store, since one that was sent after them has been received. */
static void unexpected(int i) {
    if (rank == 0) {
        until(i);
        for (int j = 0; j < WINDOW; j++) MPI_Send(&value, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
        MPI_Send(&value, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&value, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int j = 0; j < WINDOW; j++) counted_recv();
        next();
    }
}

/* Counted at the rank that comes second: the other's message is there. */
static void barrier(int i) {
    if (rank == 0) {
        next();
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        until(i + 1);
        usleep(2000);
        counted_barrier();
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (argc != 3) return 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char name[64];
    snprintf(name, sizeof name, "/ferrywire-ring-%d", getpid());
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    int memory = shm_open(name, O_RDWR | O_CREAT, 0600);
    if (memory < 0 || ftruncate(memory, 4096) != 0) return 2;
    turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) shm_unlink(name);
    /* First contact is not what is measured. */
    for (int i = 0; i < 50; i++) MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < atoi(argv[2]); i++) {
        if (strcmp(argv[1], "pingpong") == 0) pingpong(i);
        if (strcmp(argv[1], "window") == 0) window(i);
        if (strcmp(argv[1], "unexpected") == 0) unexpected(i);
        if (strcmp(argv[1], "barrier") == 0) barrier(i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
