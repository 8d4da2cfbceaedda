/* Communicators that are created at the same time: of overlapping groups, from several at once, by several threads,
   and up to the last number. */
#include "check.h"

#include <pthread.h>

#define ROUNDS 20
#define EACH 24
#define NUMBERS 4096

static int rank, size;

/* Delays this rank. */
static void compute(double seconds) {
    double until = MPI_Wtime() + seconds;
    while (MPI_Wtime() < until) {}
}

/* Checks by a sum that a communicator has the right members. */
static void works(MPI_Comm comm, int expected) {
    int sum = -1;
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK(sum == expected);
}

/* A communicator of this rank and another, if there is such a rank. */
static MPI_Comm with(int other) {
    MPI_Group world, pair;
    MPI_Comm comm;
    int ranks[2] = {rank < other ? rank : other, rank < other ? other : rank};
    if (other >= size) return MPI_COMM_NULL;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 2, ranks, &pair));
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, pair, 0, &comm));
    OK(MPI_Group_free(&pair));
    OK(MPI_Group_free(&world));
    return comm;
}

/* Rows and columns, all with the same tag: each row shares a rank with each column. */
static void groups_overlap(void) {
    for (int round = 0; round < ROUNDS; round++) {
        if (round % size == rank) compute(0.002);
        MPI_Comm row = with(rank ^ 1), column = with(rank ^ 2);
        if (row != MPI_COMM_NULL) works(row, rank + (rank ^ 1));
        if (column != MPI_COMM_NULL) works(column, rank + (rank ^ 2));
        if (row != MPI_COMM_NULL) OK(MPI_Comm_free(&row));
        if (column != MPI_COMM_NULL) OK(MPI_Comm_free(&column));
    }
}

/* Tags of concurrent calls may differ in any of their bits. */
static void tags_are_told_apart(void) {
    MPI_Group world;
    MPI_Comm comm;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int bit = 0; bit < 24; bit++) {
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, world, 1 << bit, &comm));
        works(comm, size * (size - 1) / 2);
        OK(MPI_Comm_free(&comm));
    }
    OK(MPI_Group_free(&world));
}

/* Duplicates of two communicators. Half of the ranks begin with those of one, half with those of the other, and each
   waits for them in another order. */
static void duplicates_at_once(void) {
    MPI_Comm parents[2], comms[2 * EACH];
    MPI_Request requests[2 * EACH];
    for (int at = 0; at < 2; at++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &parents[at]));
    for (int half = 0; half < 2; half++) {
        int which = (rank + half) % 2;
        for (int at = 0; at < EACH; at++) {
            int place = which * EACH + at;
            OK(MPI_Comm_idup(parents[which], &comms[place], &requests[place]));
        }
    }
    switch (rank % 3) {
    case 0: OK(MPI_Waitall(2 * EACH, requests, MPI_STATUSES_IGNORE)); break;
    case 1:
        for (int at = 0; at < 2 * EACH; at++) OK(MPI_Wait(&requests[at], MPI_STATUS_IGNORE));
        break;
    default:
        for (int at = 2 * EACH; at-- > 0;) OK(MPI_Wait(&requests[at], MPI_STATUS_IGNORE));
    }
    for (int at = 0; at < 2 * EACH; at++) {
        works(comms[at], size * (size - 1) / 2);
        OK(MPI_Comm_free(&comms[at]));
    }
    for (int at = 0; at < 2; at++) OK(MPI_Comm_free(&parents[at]));
}

/* Others are created while duplicates for which a rank is late are in progress. */
static void nobody_waits_for_a_late_rank(void) {
    MPI_Comm late[EACH], itself, pair, halves, bridge;
    MPI_Request requests[EACH];
    if (rank) for (int at = 0; at < EACH; at++) OK(MPI_Comm_idup(MPI_COMM_WORLD, &late[at], &requests[at]));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &itself));
    works(itself, rank);
    OK(MPI_Comm_free(&itself));
    pair = with(rank ^ 1);
    if (pair != MPI_COMM_NULL) {
        works(pair, rank + (rank ^ 1));
        /* One rank on each side. */
        OK(MPI_Comm_split(pair, rank, 0, &halves));
        OK(MPI_Intercomm_create(halves, 0, pair, rank & 1 ? 0 : 1, 7, &bridge));
        int theirs = -1;
        OK(MPI_Allreduce(&rank, &theirs, 1, MPI_INT, MPI_SUM, bridge));
        CHECK(theirs == (rank ^ 1));
        OK(MPI_Comm_free(&bridge));
        OK(MPI_Comm_free(&halves));
        OK(MPI_Comm_free(&pair));
    }
    if (!rank) for (int at = 0; at < EACH; at++) OK(MPI_Comm_idup(MPI_COMM_WORLD, &late[at], &requests[at]));
    for (int at = EACH; at-- > 0;) OK(MPI_Wait(&requests[at], MPI_STATUS_IGNORE));
    for (int at = 0; at < EACH; at++) {
        works(late[at], size * (size - 1) / 2);
        OK(MPI_Comm_free(&late[at]));
    }
}

static void *duplicate(void *argument) {
    MPI_Comm *pair = argument;
    OK(MPI_Comm_dup(pair[0], &pair[1]));
    return NULL;
}

/* Rank 0 has one thread and creates one after the other; other ranks create them at the same time, and may agree on
   the second first. */
static void threads_make_them_in_any_order(void) {
    MPI_Comm comms[4][2];
    pthread_t threads[4];
    for (int at = 0; at < 4; at++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[at][0]));
    for (int round = 0; round < ROUNDS; round++) {
        if (rank) {
            for (int at = 0; at < 4; at++) CHECK(!pthread_create(&threads[at], NULL, duplicate, comms[at]));
            for (int at = 0; at < 4; at++) CHECK(!pthread_join(threads[at], NULL));
        } else {
            for (int at = 4; at-- > 0;) duplicate(comms[at]);
        }
        for (int at = 0; at < 4; at++) {
            works(comms[at][1], size * (size - 1) / 2);
            OK(MPI_Comm_free(&comms[at][1]));
        }
    }
    for (int at = 0; at < 4; at++) OK(MPI_Comm_free(&comms[at][0]));
}

/* Creation fails when the last number is taken, and not before. */
static void numbers_are_used_up(void) {
    static MPI_Comm comms[NUMBERS];
    int count = 0, class;
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    while (count < NUMBERS && MPI_Comm_dup(MPI_COMM_SELF, &comms[count]) == MPI_SUCCESS) count++;
    CHECK(count == NUMBERS - 3);
    MPI_Error_class(MPI_Comm_dup(MPI_COMM_SELF, &comms[count]), &class);
    CHECK(class == MPI_ERR_OTHER);
    MPI_Comm world;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &world) != MPI_SUCCESS);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));
    while (count-- > 0) OK(MPI_Comm_free(&comms[count]));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &world));
    works(world, size * (size - 1) / 2);
    OK(MPI_Comm_free(&world));
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    groups_overlap();
    tags_are_told_apart();
    duplicates_at_once();
    nobody_waits_for_a_late_rank();
    threads_make_them_in_any_order();
    numbers_are_used_up();
    return MPI_Finalize();
}
