/* Shared by the programs of this folder: clocks, pinning, repetition, and printing of figures.
 *
 * A figure is one line, `name key=value ... unit=value`: the pairs before the last identify the case, the last is the
 * measurement, and its key is the unit. `--quick` repeats less. */
#ifndef PEER_H
#define PEER_H

#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EVERYONE MPI_COMM_WORLD

static struct {
    int rank, ranks;
    int quick;
    int rounds; /* How often a measurement is repeated; the median counts. */
} self;

static inline double clock_ns(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static inline double wall_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
static inline double thread_ns(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }
static inline double process_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

static inline void sleep_to(double at_ns)
{
    struct timespec at;
    at.tv_sec = (time_t)(at_ns / 1e9);
    at.tv_nsec = (long)(at_ns - (double)at.tv_sec * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
        ;
}

/* Pins each rank to a core if there are enough. Otherwise the scheduler decides. */
static void pin(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (self.ranks > cores)
        return;
    cpu_set_t mine;
    CPU_ZERO(&mine);
    CPU_SET((unsigned)(self.rank % cores), &mine);
    sched_setaffinity(0, sizeof mine, &mine);
}

static void begin(int argc, char **argv, int ranks_min)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(EVERYONE, &self.rank);
    MPI_Comm_size(EVERYONE, &self.ranks);
    if (self.ranks < ranks_min) {
        fprintf(stderr, "this takes %d ranks\n", ranks_min);
        MPI_Abort(EVERYONE, 2);
    }
    self.quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    self.rounds = self.quick ? 5 : 11;
    pin();
}

static int by_size(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return a < b ? -1 : a > b;
}

static inline double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_size);
    double low = values[(count - 1) / 2], high = values[count / 2];
    return (low + high) / 2;
}

/* Nanoseconds for one of the `count` operations that `work` does with `what`: the median of the rounds. */
typedef void work_fn(int what, int count);
static inline double typical_ns(work_fn *work, int what, int count)
{
    double took[16];
    work(what, count); /* Warms up. */
    for (int round = 0; round < self.rounds; round++) {
        double from = wall_ns();
        work(what, count);
        took[round] = (wall_ns() - from) / count;
    }
    return median(took, self.rounds);
}

/* Returns when both ranks are here, and have received what the other sent before. */
static inline void meet(int other)
{
    enum { HERE = 30001 };
    MPI_Sendrecv(NULL, 0, MPI_BYTE, other, HERE, NULL, 0, MPI_BYTE, other, HERE, EVERYONE,
                 MPI_STATUS_IGNORE);
}

/* Prints a figure, on rank 0 only. A function, so that every rank evaluates its arguments. */
__attribute__((format(printf, 1, 2))) static inline void figure(const char *format, ...)
{
    if (self.rank != 0)
        return;
    va_list values;
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
    putchar('\n');
    fflush(stdout);
}

#endif
