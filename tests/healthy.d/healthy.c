// Correct programs that look as if they hung: all ranks wait for something, and what it is comes late.
//
//     healthy CASE SECONDS
//
// Each case ends by itself after some SECONDS, and prints nothing. tests/healthy runs them.
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int rank, size;
static double seconds;
static int pipe_ends[2];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Uses a processor without calling MPI.
static void compute(double for_seconds) {
    volatile double sum = 0;
    for (double until = now() + for_seconds; now() < until;)
        for (int i = 0; i < 100000; i++)
            sum += i;
}

static void rest(double for_seconds) {
    struct timespec time = {(time_t)for_seconds, (long)(1e9 * (for_seconds - (double)(time_t)for_seconds))};
    nanosleep(&time, NULL);
}

// The last rank sends to all others, which wait for it.
static void send_all(int tag) {
    for (int to = 0; to < size; to++)
        if (to != rank)
            MPI_Send(&rank, 1, MPI_INT, to, tag, MPI_COMM_WORLD);
}

static void receive_from(int source, int tag) {
    int value;
    MPI_Recv(&value, 1, MPI_INT, source, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int is_last(void) { return rank == size - 1; }

static void computes(void) {
    if (is_last()) {
        compute(seconds);
        send_all(1);
    } else {
        receive_from(size - 1, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void sleeps(void) {
    if (is_last())
        rest(seconds);
    MPI_Barrier(MPI_COMM_WORLD);
}

// Each rank waits for the one before, which sleeps after it has received: for most of the time one alone does not wait.
static void passes_on(void) {
    for (int round = 0; round < 2; round++) {
        if (rank == 0) {
            MPI_Send(&round, 1, MPI_INT, (rank + 1) % size, 2, MPI_COMM_WORLD);
            receive_from(size - 1, 2);
        } else {
            receive_from(rank - 1, 2);
            rest(seconds / 2 / size);
            MPI_Send(&round, 1, MPI_INT, (rank + 1) % size, 2, MPI_COMM_WORLD);
        }
    }
}

static void *sends_later(void *unused) {
    rest(seconds);
    send_all(3);
    MPI_Send(&rank, 1, MPI_INT, rank, 3, MPI_COMM_WORLD);
    return unused;
}

// All ranks wait in MPI, and a thread that has made no call yet is going to send.
static void thread_sleeps(void) {
    pthread_t thread;
    if (is_last())
        pthread_create(&thread, NULL, sends_later, NULL);
    receive_from(size - 1, 3);
    if (is_last())
        pthread_join(thread, NULL);
}

static void *sends_after_a_byte(void *unused) {
    char byte;
    if (read(pipe_ends[0], &byte, 1) != 1)
        abort();
    send_all(4);
    MPI_Send(&rank, 1, MPI_INT, rank, 4, MPI_COMM_WORLD);
    return unused;
}

// The thread waits for another process.
static void thread_reads(void) {
    pthread_t thread;
    pid_t child = 0;
    if (is_last()) {
        if (pipe(pipe_ends))
            abort();
        child = fork();
        if (child == 0) {
            rest(seconds);
            _exit(write(pipe_ends[1], "x", 1) != 1);
        }
        pthread_create(&thread, NULL, sends_after_a_byte, NULL);
    }
    receive_from(size - 1, 4);
    if (is_last()) {
        pthread_join(thread, NULL);
        waitpid(child, NULL, 0);
    }
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int told;

static void *sends_when_told(void *unused) {
    pthread_mutex_lock(&mutex);
    while (!told)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    send_all(5);
    MPI_Send(&rank, 1, MPI_INT, rank, 5, MPI_COMM_WORLD);
    return unused;
}

static void *tells_later(void *unused) {
    rest(seconds);
    pthread_mutex_lock(&mutex);
    told = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
    return unused;
}

// One thread waits for another, which sleeps.
static void threads_wait(void) {
    pthread_t sender, teller;
    if (is_last()) {
        pthread_create(&sender, NULL, sends_when_told, NULL);
        pthread_create(&teller, NULL, tells_later, NULL);
    }
    receive_from(size - 1, 5);
    if (is_last()) {
        pthread_join(sender, NULL);
        pthread_join(teller, NULL);
    }
}

static void on_timer(union sigval unused) {
    (void)unused;
    send_all(6);
    MPI_Send(&rank, 1, MPI_INT, rank, 6, MPI_COMM_WORLD);
}

// The thread that sends does not exist until a timer of the system starts it.
static void timer_sends(void) {
    timer_t timer;
    if (is_last()) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD};
        event.sigev_notify_function = on_timer;
        struct itimerspec when = {.it_value = {(time_t)seconds, 1}};
        if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &when, NULL))
            abort();
    }
    receive_from(size - 1, 6);
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_last())
        timer_delete(timer);
}

// A rank is stopped by a process of its own, and continues.
static void stopped(void) {
    if (is_last()) {
        pid_t me = getpid(), child = fork();
        if (child == 0) {
            kill(me, SIGSTOP);
            rest(seconds);
            kill(me, SIGCONT);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

// Another rank holds the lock that all wait for.
static void lock_kept(void) {
    int *memory;
    MPI_Win window;
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    if (is_last())
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_last())
        rest(seconds);
    else
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Win_unlock(0, window);
    MPI_Win_free(&window);
}

// All wait for requests, and one polls for a message that comes late.
static void polls(void) {
    int value, done = 0;
    MPI_Request request;
    MPI_Irecv(&value, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD, &request);
    if (is_last()) {
        double until = now() + seconds;
        while (now() < until)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    MPI_Send(&rank, 1, MPI_INT, (rank + size - 1) % size, 7, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

// Messages and collective calls without a pause.
static void busy(void) {
    for (double until = now() + seconds;;) {
        int on = now() < until, all;
        MPI_Sendrecv(&on, 1, MPI_INT, (rank + 1) % size, 8, &all, 1, MPI_INT, (rank + size - 1) % size, 8,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(&on, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        if (!all)
            return;
    }
}

// A program that does nothing for long after its last call, and one that leaves early.
static void leaves_late(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (is_last())
        rest(seconds);
    exit(0);
}

static const struct {
    const char *name;
    void (*run)(void);
} CASES[] = {
    {"computes", computes},         {"sleeps", sleeps},       {"passes_on", passes_on},
    {"thread_sleeps", thread_sleeps}, {"thread_reads", thread_reads}, {"threads_wait", threads_wait},
    {"timer_sends", timer_sends},   {"stopped", stopped},     {"lock_kept", lock_kept},
    {"polls", polls},               {"busy", busy},           {"leaves_late", leaves_late},
};

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    seconds = argc > 2 ? atof(argv[2]) : 1;
    for (size_t i = 0; argc > 1 && i < sizeof CASES / sizeof *CASES; i++)
        if (strcmp(CASES[i].name, argv[1]) == 0) {
            CASES[i].run();
            return MPI_Finalize();
        }
    fprintf(stderr, "usage: healthy CASE SECONDS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
}
