/* Partitioned messages in a ring: all pairs of numbers of partitions, several messages under one tag, beside ordinary
   messages and receives with wildcards, while a rank waits for something else, and from several threads. */
#include "check.h"

#include <pthread.h>
#include <string.h>

static int rank, size, next, last;

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

static int value(int from, int round, int at) {
    return from * 1000003 + round * 1009 + at;
}

static int arrived(MPI_Request request, int partition) {
    int flag;
    OK(MPI_Parrived(request, partition, &flag));
    return flag;
}

/* A buffer in so many partitions here and there, started several times. */
static void pair(int ours, int theirs, int length, MPI_Comm comm) {
    int *out = calloc(length, sizeof *out), *in = calloc(length, sizeof *in);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    OK(MPI_Psend_init(out, ours, length / ours, MPI_INT, next, 3, comm, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Precv_init(in, theirs, length / theirs, MPI_INT, last, 3, comm, MPI_INFO_NULL, &requests[1]));
    CHECK(arrived(requests[1], 0));
    for (int round = 0; round < 3; round++) {
        for (int at = 0; at < length; at++) {
            out[at] = value(rank, round, at);
            in[at] = -1;
        }
        if (round == 1)
            OK(MPI_Startall(2, requests));
        else {
            OK(MPI_Start(&requests[1]));
            OK(MPI_Start(&requests[0]));
        }
        for (int nth = ours - 1; nth >= 0; nth--)
            OK(MPI_Pready((nth + round) % ours, requests[0]));
        for (int nth = 0; nth < theirs; nth++) {
            while (!arrived(requests[1], nth))
                ;
            for (int at = length / theirs * nth; at < length / theirs * (nth + 1); at++)
                CHECK(in[at] == value(last, round, at));
        }
        if (round == 2)
            for (int flag = 0; !flag;)
                OK(MPI_Testall(2, requests, &flag, statuses));
        else
            OK(MPI_Waitall(2, requests, statuses));
        int count;
        OK(MPI_Get_count(&statuses[1], MPI_INT, &count));
        CHECK(statuses[1].MPI_SOURCE == last && statuses[1].MPI_TAG == 3 && count == length);
        CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL);
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    free(out);
    free(in);
}

/* A partition arrives as soon as what it consists of is ready, not when everything is. */
static void one_by_one(void) {
    int out[6] = {0}, in[6] = {0}, token = 0;
    MPI_Request send, receive;
    OK(MPI_Psend_init(out, 6, 1, MPI_INT, next, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(in, 3, 2, MPI_INT, last, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    OK(MPI_Start(&receive));
    OK(MPI_Start(&send));
    for (int nth = 2; nth >= 0; nth--) {
        for (int half = 0; half < 2; half++) {
            CHECK(!arrived(receive, nth));
            OK(MPI_Barrier(MPI_COMM_WORLD));
            out[2 * nth + half] = value(rank, 0, 2 * nth + half);
            OK(MPI_Pready(2 * nth + half, send));
        }
        while (!arrived(receive, nth))
            ;
        CHECK(in[2 * nth] == value(last, 0, 2 * nth) && in[2 * nth + 1] == value(last, 0, 2 * nth + 1));
        OK(MPI_Sendrecv_replace(&token, 1, MPI_INT, next, 0, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
}

/* Messages under one tag are paired in the order of their initialisation, whatever the order of their starts, and meet
   no other messages. */
static void beside_others(void) {
    enum { PAIRS = 5 };
    int out[PAIRS][4], in[PAIRS][4], got = -1, flag;
    MPI_Request sends[PAIRS], receives[PAIRS], any;
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &any));
    for (int nth = 0; nth < PAIRS; nth++) {
        OK(MPI_Psend_init(out[nth], 2, 2, MPI_INT, next, 9, comm, MPI_INFO_NULL, &sends[nth]));
        OK(MPI_Precv_init(in[nth], 4, 1, MPI_INT, last, 9, comm, MPI_INFO_NULL, &receives[nth]));
        for (int at = 0; at < 4; at++)
            out[nth][at] = value(rank, nth, at);
    }
    for (int nth = PAIRS - 1; nth >= 0; nth--) {
        OK(MPI_Start(&sends[nth]));
        OK(MPI_Pready_range(0, 1, sends[nth]));
    }
    for (int nth = 0; nth < PAIRS; nth++)
        OK(MPI_Start(&receives[(nth + 2) % PAIRS]));
    OK(MPI_Waitall(PAIRS, receives, MPI_STATUSES_IGNORE));
    OK(MPI_Waitall(PAIRS, sends, MPI_STATUSES_IGNORE));
    for (int nth = 0; nth < PAIRS; nth++) {
        for (int at = 0; at < 4; at++)
            CHECK(in[nth][at] == value(last, nth, at));
        OK(MPI_Request_free(&sends[nth]));
        OK(MPI_Request_free(&receives[nth]));
    }
    OK(MPI_Test(&any, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
    OK(MPI_Barrier(comm));
    OK(MPI_Send(&rank, 1, MPI_INT, next, 9, comm));
    OK(MPI_Wait(&any, MPI_STATUS_IGNORE));
    CHECK(got == last);
    OK(MPI_Comm_free(&comm));
}

/* A rank whose partitions are ready waits for something else, and its receiver is late; and the other way round. */
static void while_away(int length) {
    int *out = calloc(length, sizeof *out), *in = calloc(length, sizeof *in), token = 0;
    MPI_Request request;
    if (size == 1)
        return;
    for (int late = 0; late < 2; late++) {
        if (rank == 0) {
            if (late == 0)
                OK(MPI_Recv(&token, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Psend_init(out, 4, length / 4, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
            for (int at = 0; at < length; at++)
                out[at] = value(late, 5, at);
            OK(MPI_Start(&request));
            OK(MPI_Pready_range(0, 3, request));
            if (late == 1) {
                OK(MPI_Send(&token, 1, MPI_INT, 1, 1, MPI_COMM_WORLD));
                OK(MPI_Recv(&token, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            }
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            if (late == 0)
                OK(MPI_Send(&token, 1, MPI_INT, 1, 1, MPI_COMM_WORLD));
            OK(MPI_Request_free(&request));
        } else if (rank == 1) {
            if (late == 1)
                OK(MPI_Recv(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Precv_init(in, 2, length / 2, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
            OK(MPI_Start(&request));
            if (late == 0) {
                OK(MPI_Send(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
                OK(MPI_Recv(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            }
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            for (int at = 0; at < length; at++)
                CHECK(in[at] == value(late, 5, at));
            if (late == 1)
                OK(MPI_Send(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
            OK(MPI_Request_free(&request));
        }
    }
    free(out);
    free(in);
}

/* Columns of a matrix, which are not contiguous, sent as such and received as rows, and the other way round. */
static void columns(void) {
    enum { ROWS = 12, COLUMNS = 6 };
    int out[ROWS][COLUMNS], in[COLUMNS][ROWS], back[ROWS][COLUMNS];
    MPI_Datatype column, one;
    OK(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column));
    OK(MPI_Type_create_resized(column, 0, sizeof(int), &one));
    OK(MPI_Type_commit(&one));
    MPI_Request send, receive;
    for (int row = 0; row < ROWS; row++)
        for (int at = 0; at < COLUMNS; at++) {
            out[row][at] = value(rank, row, at);
            back[row][at] = -1;
        }
    OK(MPI_Psend_init_c(out, 3, 2, one, next, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init_c(in, 2, 3 * ROWS, MPI_INT, last, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    OK(MPI_Start(&send));
    OK(MPI_Start(&receive));
    int list[] = {2, 0, 1};
    OK(MPI_Pready_list(3, list, send));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    for (int row = 0; row < ROWS; row++)
        for (int at = 0; at < COLUMNS; at++)
            CHECK(in[at][row] == value(last, row, at));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    OK(MPI_Psend_init(in, 4, 18, MPI_INT, last, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(back, 6, 1, one, next, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    OK(MPI_Type_free(&one));
    OK(MPI_Type_free(&column));
    OK(MPI_Start(&receive));
    OK(MPI_Start(&send));
    OK(MPI_Pready_range(0, 3, send));
    while (!arrived(receive, 5))
        ;
    CHECK(back[1][5] == value(rank, 1, 5));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CHECK(memcmp(out, back, sizeof out) == 0);
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
}

static void misuse(void) {
    int buffer[4] = {0}, wide[8] = {0}, many[12] = {0}, flag, count;
    MPI_Request send, receive, plain;
    MPI_Status status;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_Comm comm = MPI_COMM_WORLD;
    CHECK(class_of(MPI_Psend_init(buffer, -1, 1, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &send)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Psend_init(buffer, 1, -1, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &send)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Psend_init(buffer, 1, 1, MPI_INT, size, 0, comm, MPI_INFO_NULL, &send)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Precv_init(buffer, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm, MPI_INFO_NULL, &send)) ==
          MPI_ERR_RANK);
    CHECK(class_of(MPI_Precv_init(buffer, 1, 1, MPI_INT, 0, MPI_ANY_TAG, comm, MPI_INFO_NULL, &send)) == MPI_ERR_TAG);
    OK(MPI_Psend_init(buffer, 4, 1, MPI_INT, next, 0, comm, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(wide, 2, 2, MPI_INT, last, 0, comm, MPI_INFO_NULL, &receive));
    OK(MPI_Send_init(buffer, 1, MPI_INT, next, 0, comm, &plain));
    CHECK(class_of(MPI_Pready(0, send)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Pready(0, receive)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Pready(0, plain)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Pready(0, MPI_REQUEST_NULL)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Parrived(send, 0, &flag)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Parrived(receive, 2, &flag)) == MPI_ERR_ARG);
    OK(MPI_Start(&send));
    CHECK(class_of(MPI_Start(&send)) == MPI_ERR_REQUEST);
    CHECK(class_of(MPI_Pready(4, send)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Pready(-1, send)) == MPI_ERR_ARG);
    OK(MPI_Pready(1, send));
    CHECK(class_of(MPI_Pready(1, send)) == MPI_ERR_ARG);
    OK(MPI_Test(&send, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
    OK(MPI_Pready(0, send));
    OK(MPI_Pready_range(2, 3, send));
    OK(MPI_Start(&receive));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    OK(MPI_Request_free(&plain));
    /* More than there is room for is an error of the receiver. */
    OK(MPI_Psend_init(wide, 2, 4, MPI_INT, next, 0, comm, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(buffer, 2, 2, MPI_INT, last, 0, comm, MPI_INFO_NULL, &receive));
    OK(MPI_Start(&send));
    OK(MPI_Start(&receive));
    OK(MPI_Pready_range(0, 1, send));
    CHECK(class_of(MPI_Wait(&receive, MPI_STATUS_IGNORE)) == MPI_ERR_TRUNCATE);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    /* Less is not, and no partition goes out before it is ready. */
    MPI_Datatype gap;
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &gap));
    OK(MPI_Type_commit(&gap));
    OK(MPI_Psend_init(wide, 2, 1, gap, next, 0, comm, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(many, 4, 3, MPI_INT, last, 0, comm, MPI_INFO_NULL, &receive));
    OK(MPI_Start(&send));
    OK(MPI_Start(&receive));
    for (int nth = 0; nth < 2; nth++) {
        wide[3 * nth] = value(rank, nth, 0);
        wide[3 * nth + 2] = value(rank, nth, 1);
        OK(MPI_Barrier(comm));
        OK(MPI_Pready(nth, send));
    }
    OK(MPI_Wait(&receive, &status));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == 4);
    for (int nth = 0; nth < 4; nth++)
        CHECK(many[nth] == value(last, nth / 2, nth % 2));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    OK(MPI_Type_free(&gap));
    /* Nobody, and nothing. */
    OK(MPI_Psend_init(buffer, 2, 1, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(buffer, 2, 1, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_INFO_NULL, &receive));
    OK(MPI_Start(&send));
    OK(MPI_Start(&receive));
    OK(MPI_Pready_range(0, 1, send));
    CHECK(arrived(receive, 1));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&receive, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    for (int theirs = 0; theirs < 3; theirs++)
        for (int ours = 0; ours < 3; ours++) {
            OK(MPI_Psend_init(buffer, ours, 0, MPI_INT, next, 0, comm, MPI_INFO_NULL, &send));
            OK(MPI_Precv_init(buffer, theirs, 0, MPI_INT, last, 0, comm, MPI_INFO_NULL, &receive));
            OK(MPI_Start(&send));
            OK(MPI_Start(&receive));
            if (ours > 0)
                OK(MPI_Pready_range(0, ours - 1, send));
            OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
            OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            OK(MPI_Request_free(&send));
            OK(MPI_Request_free(&receive));
        }
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL));
}

enum { THREADS = 4, EACH = 16 };
static MPI_Request shared_send, shared_receive;
static int shared_out[THREADS * EACH], shared_in[THREADS * EACH];

static void *make_ready(void *argument) {
    int thread = *(int *)argument;
    for (int nth = thread * EACH; nth < (thread + 1) * EACH; nth++) {
        shared_out[nth] = value(rank, 8, nth);
        OK(MPI_Pready(nth, shared_send));
    }
    return NULL;
}

static void *await_arrival(void *argument) {
    int thread = *(int *)argument;
    for (int nth = thread * EACH; nth < (thread + 1) * EACH; nth++) {
        while (!arrived(shared_receive, nth))
            ;
        CHECK(shared_in[nth] == value(last, 8, nth));
    }
    return NULL;
}

/* Threads make partitions ready and look for them, while one waits for the send. */
static void threads(void) {
    pthread_t workers[2 * THREADS];
    int numbers[THREADS];
    OK(MPI_Psend_init(shared_out, THREADS * EACH, 1, MPI_INT, next, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &shared_send));
    OK(MPI_Precv_init(shared_in, THREADS * EACH, 1, MPI_INT, last, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                      &shared_receive));
    for (int round = 0; round < 10; round++) {
        memset(shared_in, 0, sizeof shared_in);
        OK(MPI_Start(&shared_send));
        OK(MPI_Start(&shared_receive));
        for (int nth = 0; nth < THREADS; nth++) {
            numbers[nth] = nth;
            pthread_create(&workers[2 * nth], NULL, make_ready, &numbers[nth]);
            pthread_create(&workers[2 * nth + 1], NULL, await_arrival, &numbers[nth]);
        }
        OK(MPI_Wait(&shared_send, MPI_STATUS_IGNORE));
        for (int nth = 0; nth < 2 * THREADS; nth++)
            pthread_join(workers[nth], NULL);
        OK(MPI_Wait(&shared_receive, MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(&shared_send));
    OK(MPI_Request_free(&shared_receive));
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    next = (rank + 1) % size;
    last = (rank + size - 1) % size;
    MPI_Comm copy;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    int numbers[] = {1, 2, 3, 4, 6, 12};
    for (int ours = 0; ours < 6; ours++)
        for (int theirs = 0; theirs < 6; theirs++) {
            pair(numbers[ours], numbers[theirs], 12, MPI_COMM_WORLD);
            pair(numbers[ours], numbers[theirs], 1200, copy);
        }
    pair(4, 3, 1200000, copy);
    pair(500, 100, 1000, copy);
    one_by_one();
    beside_others();
    while_away(400);
    while_away(400000);
    columns();
    misuse();
    threads();
    OK(MPI_Comm_free(&copy));
    OK(MPI_Finalize());
    return 0;
}
