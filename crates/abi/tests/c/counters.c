/* Counters of windows: puts that raise them, waits, and messages and collectives that they start while the target does
   not call MPI. */
#include "check.h"

#include <ferry.h>
#include <string.h>

enum { ROOM = 64, ROUNDS = 100, LONG = 1 << 18, COUNTERS = 4 };
enum { ALLOCATED, CREATED, DYNAMIC, KINDS };

static int rank, size, right, left;

struct window {
    MPI_Win win;
    int *base;
    MPI_Aint *at; /* Where the memory of each rank begins, as displacement. */
    int kind;
};

/* A window of ints, with counters. */
static struct window made(int kind, int count) {
    struct window window = {.kind = kind, .at = calloc(size, sizeof *window.at)};
    MPI_Aint address = 0, bytes = (MPI_Aint)count * sizeof(int);
    if (kind == ALLOCATED)
        OK(MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window.base, &window.win));
    else
        CHECK((window.base = calloc(count, sizeof(int))) != NULL);
    if (kind == CREATED)
        OK(MPI_Win_create(window.base, bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window.win));
    if (kind == DYNAMIC) {
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window.win));
        OK(MPI_Win_attach(window.win, window.base, bytes));
        OK(MPI_Get_address(window.base, &address));
    }
    memset(window.base, 0, bytes);
    OK(MPI_Allgather(&address, 1, MPI_AINT, window.at, 1, MPI_AINT, MPI_COMM_WORLD));
    OK(Ferry_Win_counters(window.win, COUNTERS));
    return window;
}

static void freed(struct window window) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (window.kind == DYNAMIC)
        OK(MPI_Win_detach(window.win, window.base));
    OK(MPI_Win_free(&window.win));
    if (window.kind != ALLOCATED)
        free(window.base);
    free(window.at);
}

/* Displacement of element `index` at `target`. */
static MPI_Aint place(struct window window, int target, int index) {
    return window.kind == DYNAMIC ? window.at[target] + (MPI_Aint)(index * sizeof(int)) : index;
}

static void put(struct window window, const int *from, int count, int target, int index, int counter) {
    OK(Ferry_Put_notify(from, count, MPI_INT, target, place(window, target, index), count, MPI_INT, counter, window.win));
}

static MPI_Count value(struct window window, int counter) {
    MPI_Count found = -1;
    OK(Ferry_Counter_read(window.win, counter, &found));
    return found;
}

/* Each rank writes to its right neighbour, which waits for its counter and reads the bytes. Its answer is a put of
   nothing. */
static void neighbours(int kind) {
    struct window window = made(kind, ROOM);
    int values[ROOM];
    OK(MPI_Win_lock_all(0, window.win));
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < ROOM; i++)
            values[i] = rank * 1000 + round + i;
        put(window, values, ROOM, right, 0, 1);
        OK(Ferry_Counter_wait(window.win, 1, round));
        for (int i = 0; i < ROOM; i++)
            CHECK(window.base[i] == left * 1000 + round + i);
        put(window, NULL, 0, left, 0, 3);
        OK(Ferry_Counter_wait(window.win, 3, round));
    }
    OK(MPI_Win_unlock_all(window.win));
    CHECK(value(window, 0) == 0 && value(window, 1) == ROUNDS && value(window, 2) == 0 && value(window, 3) == ROUNDS);
    OK(Ferry_Counter_set(window.win, 1, 7));
    CHECK(value(window, 1) == 7);
    OK(Ferry_Counter_wait(window.win, 1, 7));
    freed(window);
}

/* Long puts, and puts whose elements have gaps: the counter is raised once, after all bytes. */
static void shapes(int kind) {
    struct window window = made(kind, LONG);
    int *values = malloc(LONG * sizeof(int));
    CHECK(values != NULL);
    for (int i = 0; i < LONG; i++)
        values[i] = rank + i;
    OK(MPI_Win_lock_all(0, window.win));
    put(window, values, LONG, right, 0, 0);
    OK(Ferry_Counter_wait(window.win, 0, 1));
    for (int i = 0; i < LONG; i++)
        CHECK(window.base[i] == left + i);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_Datatype odd;
    OK(MPI_Type_vector(ROOM, 1, 2, MPI_INT, &odd));
    OK(MPI_Type_commit(&odd));
    for (int i = 0; i < ROOM; i++)
        values[i] = -rank - i;
    OK(Ferry_Put_notify(values, ROOM, MPI_INT, right, place(window, right, 1), 1, odd, 0, window.win));
    OK(Ferry_Counter_wait(window.win, 0, 2));
    for (int i = 0; i < ROOM; i++)
        CHECK(window.base[2 * i] == left + 2 * i && window.base[2 * i + 1] == -left - i);
    CHECK(value(window, 0) == 2);
    OK(MPI_Type_free(&odd));
    OK(MPI_Win_unlock_all(window.win));
    free(values);
    freed(window);
}

/* All ranks raise a counter of rank 0, in epochs of fences. */
static void crowd(void) {
    struct window window = made(ALLOCATED, size);
    OK(MPI_Win_fence(0, window.win));
    for (int i = 0; i < ROUNDS; i++)
        put(window, &rank, 1, 0, rank, 2);
    OK(MPI_Win_fence(0, window.win));
    CHECK(value(window, 2) == (rank == 0 ? ROUNDS * size : 0));
    for (int i = 0; i < size && rank == 0; i++)
        CHECK(window.base[i] == i);
    freed(window);
}

/* Waits for a number in memory, without MPI. */
static void spin(volatile int *place, int until) {
    while (*place != until)
        continue;
}

/* A rank that does not call MPI answers: its NIC sends what was put, and receives. */
static void answers(int kind, int count) {
    struct window window = made(kind, count + 1);
    int *values = calloc(count, sizeof(int)), *got = calloc(count, sizeof(int));
    CHECK(values != NULL && got != NULL);
    if (rank == 1) {
        MPI_Request requests[2];
        MPI_Status statuses[2];
        int more = 0;
        OK(MPI_Send_init(window.base, count, MPI_INT, 0, 5, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Recv_init(&more, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[1]));
        for (int round = 1; round <= 3; round++) {
            for (int i = 0; i < 2; i++)
                OK(Ferry_Counter_trigger(window.win, i, round, &requests[i]));
            int flag = 1;
            OK(MPI_Testall(2, requests, &flag, statuses));
            CHECK(!flag);
            OK(MPI_Barrier(MPI_COMM_WORLD));
            spin(&window.base[count], round);
            OK(MPI_Waitall(2, requests, statuses));
            CHECK(more == 70 + round && statuses[1].MPI_SOURCE == 0 && statuses[1].MPI_TAG == round);
        }
        for (int i = 0; i < 2; i++)
            OK(MPI_Request_free(&requests[i]));
    }
    for (int round = 1; round <= 3 && rank != 1; round++) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (rank != 0)
            continue;
        for (int i = 0; i < count; i++)
            values[i] = round * 100 + i;
        int more = 70 + round;
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window.win));
        put(window, &more, 0, 1, 0, 1);
        OK(MPI_Ssend(&more, 1, MPI_INT, 1, round, MPI_COMM_WORLD));
        put(window, values, count, 1, 0, 0);
        OK(MPI_Recv(got, count, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(memcmp(values, got, count * sizeof(int)) == 0);
        OK(MPI_Put(&round, 1, MPI_INT, 1, place(window, 1, count), 1, MPI_INT, window.win));
        OK(MPI_Win_unlock(1, window.win));
    }
    free(values);
    free(got);
    freed(window);
}

/* Collectives that start when the neighbour has put the data that they take. */
static void collectives(void) {
    struct window window = made(ALLOCATED, ROOM);
    int values[ROOM], sums[ROOM], all[ROOM];
    MPI_Request requests[3];
    OK(MPI_Allreduce_init(window.base, sums, ROOM, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Bcast_init(window.base, ROOM, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[2]));
    OK(MPI_Win_lock_all(0, window.win));
    for (int round = 1; round <= 10; round++) {
        for (int i = 0; i < ROOM; i++)
            values[i] = rank * round + i;
        OK(MPI_Allreduce(values, all, ROOM, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        OK(Ferry_Counter_trigger(window.win, 0, 2 * round - 1, &requests[0]));
        put(window, values, ROOM, right, 0, 0);
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        CHECK(memcmp(all, sums, sizeof sums) == 0);
        for (int i = 0; i < ROOM; i++)
            CHECK(window.base[i] == left * round + i);
        for (int i = 0; i < 2; i++)
            OK(Ferry_Counter_trigger(window.win, 0, 2 * round, &requests[1 + i]));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        put(window, NULL, 0, right, 0, 0);
        OK(MPI_Waitall(2, &requests[1], MPI_STATUSES_IGNORE));
        for (int i = 0; i < ROOM; i++)
            CHECK(window.base[i] == (size - 1) * round + i);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Win_unlock_all(window.win));
    for (int i = 0; i < 3; i++)
        OK(MPI_Request_free(&requests[i]));
    freed(window);
}

static int class_of(int error) {
    int class = -1;
    OK(MPI_Error_class(error, &class));
    return class;
}

#define FAILS(class, call) CHECK(class_of(call) == (class))

static void errors(void) {
    struct window window = made(CREATED, 4);
    MPI_Win plain;
    MPI_Request request, sparse;
    MPI_Count found;
    MPI_Datatype gaps;
    int values[4] = {0}, flag = 0;
    OK(MPI_Win_create(values, sizeof values, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &plain));
    OK(MPI_Win_set_errhandler(window.win, MPI_ERRORS_RETURN));
    OK(MPI_Win_set_errhandler(plain, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_ARG, Ferry_Win_counters(window.win, COUNTERS));
    FAILS(MPI_ERR_ARG, Ferry_Win_counters(plain, 0));
    FAILS(MPI_ERR_ARG, Ferry_Counter_wait(plain, 0, 0));
    FAILS(MPI_ERR_ARG, Ferry_Counter_read(window.win, COUNTERS, &found));
    FAILS(MPI_ERR_ARG, Ferry_Counter_set(window.win, -1, 0));
    FAILS(MPI_ERR_ARG, Ferry_Counter_set(window.win, 0, -1));
    FAILS(MPI_ERR_RMA_SYNC, Ferry_Put_notify(values, 1, MPI_INT, 0, 0, 1, MPI_INT, 0, window.win));
    OK(MPI_Win_lock_all(0, window.win));
    OK(MPI_Win_lock_all(0, plain));
    FAILS(MPI_ERR_ARG, Ferry_Put_notify(values, 1, MPI_INT, 0, 0, 1, MPI_INT, 0, plain));
    FAILS(MPI_ERR_ARG, Ferry_Put_notify(values, 1, MPI_INT, 0, 0, 1, MPI_INT, COUNTERS, window.win));
    FAILS(MPI_ERR_ARG, Ferry_Put_notify(values, 1, MPI_INT, 0, 0, 2, MPI_INT, 0, window.win));
    FAILS(MPI_ERR_RANK, Ferry_Put_notify(values, 1, MPI_INT, size, 0, 1, MPI_INT, 0, window.win));
    FAILS(MPI_ERR_RMA_RANGE, Ferry_Put_notify(values, 1, MPI_INT, 0, 4, 1, MPI_INT, 0, window.win));
    OK(Ferry_Put_notify(values, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, 0, window.win));
    OK(MPI_Win_unlock_all(plain));
    OK(MPI_Win_unlock_all(window.win));
    if (size > 1) {
        /* Ranks that do not agree get no counters, and may try again. */
        FAILS(MPI_ERR_ARG, Ferry_Win_counters(plain, 1 + (rank == 0)));
        FAILS(MPI_ERR_ARG, Ferry_Counter_read(plain, 0, &found));
    }
    OK(Ferry_Win_counters(plain, 1));
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &gaps));
    OK(MPI_Type_commit(&gaps));
    OK(MPI_Send_init(values, 1, gaps, right, 9, MPI_COMM_WORLD, &sparse));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, Ferry_Counter_trigger(window.win, 0, 1, &sparse));
    OK(MPI_Request_free(&sparse));
    OK(MPI_Type_free(&gaps));
    OK(MPI_Irecv(values, 1, MPI_INT, left, 9, MPI_COMM_WORLD, &request));
    FAILS(MPI_ERR_REQUEST, Ferry_Counter_trigger(window.win, 0, 1, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    /* A receive that has been triggered and not started can be cancelled. */
    MPI_Status status;
    OK(MPI_Recv_init(values, 1, MPI_INT, left, 9, MPI_COMM_WORLD, &request));
    OK(Ferry_Counter_trigger(window.win, 0, 1, &request));
    FAILS(MPI_ERR_REQUEST, Ferry_Counter_trigger(window.win, 0, 1, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag);
    OK(MPI_Request_free(&request));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Win_free(&plain));
    freed(window);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    for (int kind = 0; kind < KINDS; kind++) {
        neighbours(kind);
        shapes(kind);
        if (size > 1) {
            answers(kind, ROOM);
            answers(kind, LONG);
        }
    }
    crowd();
    collectives();
    errors();
    OK(MPI_Finalize());
    return 0;
}
