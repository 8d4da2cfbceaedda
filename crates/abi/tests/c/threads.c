/* Four threads of each rank at once, on their own communicators and on a shared one: each gets the results of its
 * own calls. For an even number of ranks, which form pairs. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

#define THREADS 4
#define ROUNDS 60
#define WINDOW 8
#define LONG 20000

static int rank, size, mate;
static MPI_Comm own[THREADS], shared;

/* The word that rank `from` sends in thread `thread`, in message `number`, at index `at`. */
static int64_t word(int from, int thread, int number, int at) {
    return ((int64_t)from << 48) + ((int64_t)thread << 40) + ((int64_t)number << 20) + at;
}

/* Lengths differ, so that some messages are eager and some use rendezvous. */
static int length(int number) { return number % 7 == 6 ? LONG : 1 + number % 50; }

static int64_t *filled(int thread, int number) {
    int64_t *words = malloc(LONG * sizeof *words);
    CHECK(words != NULL);
    for (int at = 0; at < length(number); at++) words[at] = word(rank, thread, number, at);
    return words;
}

static void check(const int64_t *words, int thread, int number) {
    for (int at = 0; at < length(number); at++) CHECK(words[at] == word(mate, thread, number, at));
}

static void blocking(MPI_Comm comm, int tag, int thread) {
    int64_t *in = malloc(LONG * sizeof *in);
    for (int number = 0; number < ROUNDS; number++) {
        int64_t *out = filled(thread, number);
        MPI_Status status;
        int count;
        if (rank < mate) OK(MPI_Send(out, length(number), MPI_INT64_T, mate, tag, comm));
        OK(MPI_Recv(in, LONG, MPI_INT64_T, mate, tag, comm, &status));
        if (rank > mate) OK(MPI_Send(out, length(number), MPI_INT64_T, mate, tag, comm));
        OK(MPI_Get_count(&status, MPI_INT64_T, &count));
        CHECK(count == length(number) && status.MPI_TAG == tag);
        check(in, thread, number);
        free(out);
    }
    free(in);
}

/* A window of receives and sends, complete in any order. */
static void windowed(MPI_Comm comm, int tag, int thread) {
    int64_t *in[WINDOW], *out[WINDOW];
    MPI_Request requests[2 * WINDOW];
    MPI_Status statuses[2 * WINDOW];
    for (int at = 0; at < WINDOW; at++) in[at] = malloc(LONG * sizeof **in);
    for (int round = 0; round < ROUNDS; round++) {
        int left = 2 * WINDOW, index, flag, some, indices[2 * WINDOW];
        for (int at = 0; at < WINDOW; at++) {
            out[at] = filled(thread, WINDOW * round + at);
            OK(MPI_Irecv(in[at], LONG, MPI_INT64_T, mate, tag, comm, &requests[at]));
            OK(MPI_Isend(out[at], length(WINDOW * round + at), MPI_INT64_T, mate, tag, comm,
                         &requests[WINDOW + at]));
        }
        while (left > 0) {
            switch (round % 4) {
            case 0:
                OK(MPI_Waitany(2 * WINDOW, requests, &index, statuses));
                CHECK(index != MPI_UNDEFINED);
                left--;
                break;
            case 1:
                OK(MPI_Waitsome(2 * WINDOW, requests, &some, indices, statuses));
                CHECK(some > 0);
                left -= some;
                break;
            case 2:
                OK(MPI_Testany(2 * WINDOW, requests, &index, &flag, statuses));
                if (flag) left--;
                break;
            default:
                OK(MPI_Testsome(2 * WINDOW, requests, &some, indices, statuses));
                left -= some;
            }
        }
        for (int at = 0; at < 2 * WINDOW; at++) CHECK(requests[at] == MPI_REQUEST_NULL);
        for (int at = 0; at < WINDOW; at++) {
            check(in[at], thread, WINDOW * round + at);
            free(out[at]);
        }
    }
    for (int at = 0; at < WINDOW; at++) free(in[at]);
}

/* Matched probes: no other thread gets a message that one has matched. */
static void probed(MPI_Comm comm, int tag, int thread) {
    for (int number = 0; number < ROUNDS; number++) {
        int64_t *out = filled(thread, number), *in;
        MPI_Message message;
        MPI_Request request;
        MPI_Status status;
        int count, flag = 0;
        OK(MPI_Isend(out, length(number), MPI_INT64_T, mate, tag, comm, &request));
        if (number % 2 == 0) {
            OK(MPI_Mprobe(mate, tag, comm, &message, &status));
        } else {
            while (!flag) OK(MPI_Improbe(mate, tag, comm, &flag, &message, &status));
        }
        OK(MPI_Get_count(&status, MPI_INT64_T, &count));
        CHECK(count == length(number));
        in = malloc(count * sizeof *in);
        OK(MPI_Mrecv(in, count, MPI_INT64_T, &message, MPI_STATUS_IGNORE));
        check(in, thread, number);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        free(in);
        free(out);
    }
}

/* Collectives, each thread on its own communicator. */
static void collectives(MPI_Comm comm, int thread) {
    for (int round = 0; round < ROUNDS; round++) {
        int64_t sum = 0, all[64], mine = word(rank, thread, round, 0);
        MPI_Request request;
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, comm));
        for (int from = 0; from < size; from++) sum -= word(from, thread, round, 0);
        CHECK(sum == 0);
        OK(MPI_Iallgather(&mine, 1, MPI_INT64_T, all, 1, MPI_INT64_T, comm, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int from = 0; from < size; from++) CHECK(all[from] == word(from, thread, round, 0));
        if (rank == round % size) sum = 1000 + round;
        OK(MPI_Bcast(&sum, 1, MPI_INT64_T, round % size, comm));
        CHECK(sum == 1000 + round);
        OK(MPI_Barrier(comm));
    }
}

static int query(void *state, MPI_Status *status) {
    OK(MPI_Status_set_elements(status, MPI_INT, *(int *)state));
    OK(MPI_Status_set_cancelled(status, 0));
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int release(void *state) {
    *(int *)state = -1;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete) {
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

static void *completer(void *request) {
    OK(MPI_Grequest_complete(*(MPI_Request *)request));
    return NULL;
}

/* A generalised request that another thread completes while this one waits for it. */
static void general(void) {
    for (int round = 0; round < ROUNDS; round++) {
        int state = round, count;
        pthread_t helper;
        MPI_Request request, same;
        MPI_Status status;
        OK(MPI_Grequest_start(query, release, cancel, &state, &request));
        same = request;
        CHECK(pthread_create(&helper, NULL, completer, &same) == 0);
        OK(MPI_Wait(&request, &status));
        CHECK(pthread_join(helper, NULL) == 0);
        OK(MPI_Get_count(&status, MPI_INT, &count));
        CHECK(count == round && state == -1);
    }
}

static void *work(void *argument) {
    int thread = (int)(intptr_t)argument;
    blocking(own[thread], 3, thread);
    windowed(own[thread], 3, thread);
    blocking(shared, thread, thread);
    windowed(shared, thread, thread);
    probed(shared, 10 + thread, thread);
    probed(own[thread], 5, thread);
    collectives(own[thread], thread);
    general();
    /* Each thread does something else at the same time. */
    for (int turn = 0; turn < THREADS; turn++) {
        switch ((turn + thread) % THREADS) {
        case 0: blocking(shared, 20 + thread, thread); break;
        case 1: windowed(shared, 20 + thread, thread); break;
        case 2: collectives(own[thread], thread); break;
        default: probed(shared, 20 + thread, thread);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(size % 2 == 0 && size <= 64);
    mate = rank ^ 1;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &shared));
    for (int at = 0; at < THREADS; at++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &own[at]));
    for (int at = 0; at < THREADS; at++)
        CHECK(pthread_create(&threads[at], NULL, work, (void *)(intptr_t)at) == 0);
    for (int at = 0; at < THREADS; at++) CHECK(pthread_join(threads[at], NULL) == 0);
    for (int at = 0; at < THREADS; at++) OK(MPI_Comm_free(&own[at]));
    OK(MPI_Comm_free(&shared));
    OK(MPI_Finalize());
    return 0;
}
