/* Threads that each have a communicator, and requests of several communicators that are waited for together.
   Where the machine has cores to spare, each communicator is in another plane: with one rank on two cores. */
#include "check.h"

#include <pthread.h>

#define COMMS 5
#define ROUNDS 500
#define LENGTH 20000

static int rank, size, before, after;
static MPI_Comm comms[COMMS];

static void *talk(void *argument) {
    int which = *(int *)argument;
    MPI_Comm comm = comms[which];
    static int buffers[COMMS][2][LENGTH];
    int *out = buffers[which][0], *in = buffers[which][1];
    for (int round = 0; round < ROUNDS; round++) {
        int length = round % 50 == 49 ? LENGTH : 1 + round % 7, sum, least[2];
        MPI_Status status;
        MPI_Message message;
        for (int at = 0; at < length; at++) out[at] = rank + which + round + at;
        MPI_Request request;
        OK(MPI_Isend(out, length, MPI_INT, after, 1, comm, &request));
        /* Other threads send the same with the same tag, in their communicators. */
        if (round % 2) {
            OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, &status));
            OK(MPI_Mrecv(in, length, MPI_INT, &message, &status));
        } else {
            OK(MPI_Recv(in, length, MPI_INT, MPI_ANY_SOURCE, 1, comm, &status));
        }
        CHECK(status.MPI_SOURCE == before);
        for (int at = 0; at < length; at++) CHECK(in[at] == before + which + round + at);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (round % 25 == 0) {
            OK(MPI_Allreduce(&which, &sum, 1, MPI_INT, MPI_SUM, comm));
            CHECK(sum == which * size);
            OK(MPI_Iallreduce((int[]){rank, which}, least, 2, MPI_INT, MPI_MIN, comm, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            CHECK(least[0] == 0 && least[1] == which);
        }
    }
    return NULL;
}

static void threads_have_communicators_of_their_own(void) {
    pthread_t threads[COMMS];
    int which[COMMS];
    for (int at = 0; at < COMMS; at++) {
        which[at] = at;
        CHECK(pthread_create(&threads[at], NULL, talk, &which[at]) == 0);
    }
    for (int at = 0; at < COMMS; at++) CHECK(pthread_join(threads[at], NULL) == 0);
}

/* The first half of the requests are receives. */
static void begin(int *out, int *in, MPI_Request *requests) {
    for (int at = 0; at < COMMS; at++) {
        out[at] = 10 * rank + at;
        in[at] = -1;
        OK(MPI_Irecv(&in[at], 1, MPI_INT, before, 2, comms[at], &requests[at]));
    }
    for (int at = COMMS - 1; at >= 0; at--)
        OK(MPI_Issend(&out[at], 1, MPI_INT, after, 2, comms[at], &requests[COMMS + at]));
}

static void check(const int *in, const MPI_Request *requests) {
    for (int at = 0; at < COMMS; at++) CHECK(in[at] == 10 * before + at);
    for (int at = 0; at < 2 * COMMS; at++) CHECK(requests[at] == MPI_REQUEST_NULL);
}

static void requests_of_several_are_waited_for_together(void) {
    int out[COMMS], in[COMMS], count, index, indices[2 * COMMS], flag = 0;
    MPI_Request requests[2 * COMMS];
    MPI_Status statuses[2 * COMMS];
    begin(out, in, requests);
    OK(MPI_Waitall(2 * COMMS, requests, statuses));
    check(in, requests);
    for (int at = 0; at < COMMS; at++) CHECK(statuses[at].MPI_SOURCE == before);

    begin(out, in, requests);
    while (!flag) OK(MPI_Testall(2 * COMMS, requests, &flag, MPI_STATUSES_IGNORE));
    check(in, requests);

    begin(out, in, requests);
    for (int nth = 0; nth < 2 * COMMS; nth++) {
        OK(MPI_Waitany(2 * COMMS, requests, &index, statuses));
        CHECK(index != MPI_UNDEFINED);
    }
    check(in, requests);

    begin(out, in, requests);
    for (int over = 0; over < 2 * COMMS; over += count) {
        OK(MPI_Waitsome(2 * COMMS, requests, &count, indices, statuses));
        CHECK(count > 0);
    }
    check(in, requests);

    /* Freed while active, and cancelled. */
    begin(out, in, requests);
    for (int at = COMMS; at < 2 * COMMS; at++) OK(MPI_Request_free(&requests[at]));
    OK(MPI_Waitall(COMMS, requests, statuses));
    check(in, requests);
    OK(MPI_Barrier(comms[1]));
    for (int at = 0; at < COMMS; at++) {
        OK(MPI_Irecv(&in[at], 1, MPI_INT, before, 3, comms[at], &requests[at]));
        OK(MPI_Cancel(&requests[at]));
    }
    OK(MPI_Waitall(COMMS, requests, statuses));
    for (int at = 0; at < COMMS; at++) {
        OK(MPI_Test_cancelled(&statuses[at], &flag));
        CHECK(flag);
    }
}

static void buffered_messages_of_several_are_flushed_together(void) {
    static int out[LENGTH], in[LENGTH], room[2 * COMMS * LENGTH];
    void *address;
    int bytes;
    MPI_Request request;
    OK(MPI_Buffer_attach(room, sizeof room));
    for (int at = 0; at < COMMS; at++)
        OK(MPI_Bsend(out, LENGTH, MPI_INT, after, 4, comms[at]));
    OK(MPI_Buffer_iflush(&request));
    for (int at = COMMS - 1; at >= 0; at--)
        OK(MPI_Recv(in, LENGTH, MPI_INT, before, 4, comms[at], MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_detach(&address, &bytes));
}

static void add(void *from, void *into, int *length, MPI_Datatype *datatype) {
    (void)datatype;
    for (int at = 0; at < *length; at++) ((int *)into)[at] += ((int *)from)[at];
}

/* The others wait on another communicator while the first rank needs their operator to run. */
static void operators_run_while_all_wait_elsewhere(void) {
    MPI_Op op;
    OK(MPI_Op_create(add, 1, &op));
    for (int at = 0; at < COMMS; at++) {
        MPI_Comm elsewhere = comms[(at + 1) % COMMS];
        int sum, word = 0;
        MPI_Request request;
        OK(MPI_Iallreduce((int[]){rank}, &sum, 1, MPI_INT, op, comms[at], &request));
        if (rank == 0) {
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            for (int to = 1; to < size; to++) OK(MPI_Send(&word, 1, MPI_INT, to, 5, elsewhere));
        } else {
            OK(MPI_Recv(&word, 1, MPI_INT, 0, 5, elsewhere, MPI_STATUS_IGNORE));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        CHECK(sum == size * (size - 1) / 2);
    }
    OK(MPI_Op_free(&op));
}

static void communicators_are_made_from_those_of_others(void) {
    int total, half = rank % 2;
    MPI_Comm part, between, all;
    OK(MPI_Comm_split(comms[2], half, rank, &part));
    OK(MPI_Allreduce(&half, &total, 1, MPI_INT, MPI_SUM, part));
    CHECK(total == (half ? size / 2 : 0));
    if (size > 1) {
        OK(MPI_Intercomm_create(part, 0, comms[3], 1 - half, 6, &between));
        OK(MPI_Intercomm_merge(between, half, &all));
        OK(MPI_Allreduce(&half, &total, 1, MPI_INT, MPI_SUM, all));
        CHECK(total == size / 2);
        OK(MPI_Comm_free(&between));
        OK(MPI_Comm_free(&all));
    }
    OK(MPI_Comm_free(&part));
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    before = (rank + size - 1) % size;
    after = (rank + 1) % size;
    comms[0] = MPI_COMM_WORLD;
    for (int at = 1; at < COMMS; at++) OK(MPI_Comm_dup(comms[at - 1], &comms[at]));
    threads_have_communicators_of_their_own();
    requests_of_several_are_waited_for_together();
    buffered_messages_of_several_are_flushed_together();
    operators_run_while_all_wait_elsewhere();
    communicators_are_made_from_those_of_others();
    for (int at = 1; at < COMMS; at++) OK(MPI_Comm_free(&comms[at]));
    OK(MPI_Finalize());
    return 0;
}
