/* Of two ranks, one posts receives and sleeps; the other sends and measures how long that takes. Further ranks only
 * make the machine oversubscribed. While the first rank sleeps, its agent handles the receives, and an agent that is
 * not woken is as late as the rank.
 *
 *     wakeups again COUNT LIMIT_MS            the agent has ended its last operation when 1 MB is posted
 *     wakeups random SECONDS LIMIT_MS [SEED]  posts, pauses and messages at random
 *
 * A busy machine is late too. So a thread in each rank sleeps for a while, repeatedly, and records how late it was
 * woken: a send is late if it took longer than the limit while neither thread was late by half of it. If one was, the
 * send is counted as inconclusive. Exits with 1 if a send was late, or if all sends were inconclusive. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 1 << 20, SHORT_TAG = 1, LONG_TAG = 2, GO_TAG = 3, LATE_TAG = 4, BATCH_MAX = 24, SAMPLES_MAX = 1 << 20 };

static int rank;
static MPI_Comm pair = MPI_COMM_NULL;
static char *bytes;

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

static void pause_us(double us)
{
    struct timespec time = { (time_t)(us / 1e6), (long)((us - 1e6 * (double)(time_t)(us / 1e6)) * 1e3) };
    nanosleep(&time, NULL);
}

/* How late the machine has woken the other thread since the last query, in ns. */
static atomic_llong late_ns;
static atomic_llong due_ns;
static atomic_int over;

static void *watch(void *unused)
{
    (void)unused;
    while (!over) {
        long long due = (long long)(1e6 * now_ms()) + 300000;
        due_ns = due;
        pause_us(300);
        long long late = (long long)(1e6 * now_ms()) - due;
        if (late > late_ns)
            late_ns = late;
    }
    return NULL;
}

static double lateness_ms(void)
{
    long long late = atomic_exchange(&late_ns, 0);
    long long waiting = (long long)(1e6 * now_ms()) - due_ns;
    return 1e-6 * (double)(waiting > late ? waiting : late);
}

static double samples[SAMPLES_MAX];
static long count, unsaid, lates;

/* Records the duration of a send. */
static void note(double ms, double machine_ms, double limit_ms, const char *what)
{
    if (count < SAMPLES_MAX)
        samples[count] = ms;
    count++;
    if (ms <= limit_ms)
        return;
    if (machine_ms > limit_ms / 2) {
        unsaid++;
        return;
    }
    lates++;
    printf("late: %s took %.2f ms, while the machine was late by %.2f ms\n", what, ms, machine_ms);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int report(double limit_ms)
{
    long kept = count < SAMPLES_MAX ? count : SAMPLES_MAX;
    qsort(samples, (size_t)kept, sizeof samples[0], by_size);
    printf("%ld sends: median %.3f ms, 99%% %.3f ms, 99.9%% %.3f ms, most %.3f ms; above %.1f ms: %ld late, %ld on a busy "
           "machine\n",
           count, samples[kept / 2], samples[kept * 99 / 100], samples[kept * 999 / 1000], samples[kept - 1], limit_ms, lates,
           unsaid);
    return lates > 0 || unsaid == count;
}

/* The agent of rank 0 completes a short receive and has nothing left to do; then 1 MB is posted. */
static void again(int times, double limit_ms)
{
    for (int i = 0; i < times; i++) {
        MPI_Barrier(pair);
        if (rank == 0) {
            int word;
            MPI_Request requests[2];
            lateness_ms();
            MPI_Irecv(&word, 1, MPI_INT, 1, SHORT_TAG, pair, &requests[0]);
            pause_us(12e3 + i % 7 * 1e3);
            MPI_Irecv(bytes, LONG, MPI_BYTE, 1, LONG_TAG, pair, &requests[1]);
            /* A rank whose agent is not woken is as late as this. */
            pause_us(20e3 + 6e3 * limit_ms);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            double late = lateness_ms();
            MPI_Send(&late, 1, MPI_DOUBLE, 1, LATE_TAG, pair);
        } else {
            int word = i;
            pause_us(3e3 + i % 5 * 500);
            MPI_Send(&word, 1, MPI_INT, 0, SHORT_TAG, pair);
            pause_us(22e3);
            lateness_ms();
            double start = now_ms(), theirs;
            MPI_Send(bytes, LONG, MPI_BYTE, 0, LONG_TAG, pair);
            double took = now_ms() - start, ours = lateness_ms();
            MPI_Recv(&theirs, 1, MPI_DOUBLE, 0, LATE_TAG, pair, MPI_STATUS_IGNORE);
            note(took, ours > theirs ? ours : theirs, limit_ms, "1 MB to a receive that was posted");
        }
    }
}

static uint64_t state;

static unsigned draw(unsigned below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % below;
}

static int length(unsigned which)
{
    return which == 0 ? LONG : which < 4 ? 100000 : which < 8 ? 3000 : 8;
}

/* Both ranks draw the same numbers. Rank 0 posts a batch and sleeps; rank 1 sends it one by one, each until matched. */
static void at_random(double seconds, double limit_ms)
{
    double end = now_ms() + 1e3 * seconds;
    for (int going = 1; going;) {
        int batch = 1 + (int)draw(BATCH_MAX), lengths[BATCH_MAX];
        double pauses[BATCH_MAX], away = 6e3 * limit_ms;
        for (int i = 0; i < batch; i++) {
            lengths[i] = length(draw(32));
            unsigned kind = draw(8);
            pauses[i] = kind == 0 ? draw(4000) : kind < 4 ? draw(60) : 0;
            away += pauses[i] + 300;
        }
        unsigned looks = draw(4);
        if (rank == 0) {
            MPI_Request requests[BATCH_MAX];
            size_t at = 0;
            for (int i = 0; i < batch; i++) {
                MPI_Irecv(bytes + at, lengths[i], MPI_BYTE, 1, LONG_TAG, pair, &requests[i]);
                at += (size_t)lengths[i];
            }
            lateness_ms();
            going = now_ms() < end;
            MPI_Send(&going, 1, MPI_INT, 1, GO_TAG, pair);
            if (looks == 0) {
                int flag;
                pause_us(500);
                MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
            }
            pause_us(away);
            MPI_Waitall(batch, requests, MPI_STATUSES_IGNORE);
            double late = lateness_ms();
            MPI_Send(&late, 1, MPI_DOUBLE, 1, LATE_TAG, pair);
        } else {
            double took[BATCH_MAX], ours[BATCH_MAX], theirs;
            MPI_Recv(&going, 1, MPI_INT, 0, GO_TAG, pair, MPI_STATUS_IGNORE);
            for (int i = 0; i < batch; i++) {
                if (pauses[i] > 0)
                    pause_us(pauses[i]);
                lateness_ms();
                double start = now_ms();
                MPI_Ssend(bytes, lengths[i], MPI_BYTE, 0, LONG_TAG, pair);
                took[i] = now_ms() - start;
                ours[i] = lateness_ms();
            }
            MPI_Recv(&theirs, 1, MPI_DOUBLE, 0, LATE_TAG, pair, MPI_STATUS_IGNORE);
            for (int i = 0; i < batch; i++) {
                char what[64];
                snprintf(what, sizeof what, "message %d of %d, %d bytes,", i, batch, lengths[i]);
                note(took[i], ours[i] > theirs ? ours[i] : theirs, limit_ms, what);
            }
        }
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 4) {
        fprintf(stderr, "usage: wakeups again COUNT LIMIT_MS | wakeups random SECONDS LIMIT_MS [SEED]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    bytes = calloc(BATCH_MAX, LONG);
    state = argc > 4 ? strtoull(argv[4], NULL, 10) * 2654435769u + 1 : 88172645463325252u;
    double limit_ms = atof(argv[3]);
    MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &pair);
    if (pair == MPI_COMM_NULL) {
        MPI_Finalize();
        free(bytes);
        return 0;
    }
    pthread_t watcher;
    pthread_create(&watcher, NULL, watch, NULL);
    pause_us(1e3);
    if (strcmp(argv[1], "again") == 0)
        again(atoi(argv[2]), limit_ms);
    else
        at_random(atof(argv[2]), limit_ms);
    over = 1;
    pthread_join(watcher, NULL);
    int failed = rank == 1 ? report(limit_ms) : 0;
    MPI_Comm_free(&pair);
    MPI_Finalize();
    free(bytes);
    return failed;
}
