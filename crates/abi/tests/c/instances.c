/* Collectives are counted with few bits. None is mistaken for another, however many there are, whatever stays open, and
   even if only one rank finds an error. */
#include "check.h"

/* More than the instances of collectives. */
#define MANY 40000

static int rank, size;

/* Persistent collectives may be started in any order, so each must be distinct from all others that exist. */
static void persistent_ones_are_told_apart(void) {
    int first = 100, last = 200;
    MPI_Request early, late, gone;
    if (rank) first = last = 0;
    OK(MPI_Bcast_init(&first, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &early));
    for (int at = 0; at < MANY; at++) {
        OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &gone));
        OK(MPI_Request_free(&gone));
        OK(MPI_Bcast_init(&last, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &late));
        /* The last one before a multiple of 4096, where a counter may wrap around. */
        if (at % 4096 == 4095) {
            OK(MPI_Start(rank ? &late : &early));
            OK(MPI_Start(rank ? &early : &late));
            OK(MPI_Wait(&early, MPI_STATUS_IGNORE));
            OK(MPI_Wait(&late, MPI_STATUS_IGNORE));
            CHECK(first == 100 && last == 200);
            if (rank) first = last = 0;
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
        OK(MPI_Request_free(&late));
    }
    OK(MPI_Request_free(&early));
}

/* A barrier that rank 1 enters last, and meanwhile more collectives than there are instances. With four ranks, rank 2
   hears from rank 0 in the barrier only after it has heard from rank 1, but in all broadcasts. */
static void one_stays_open(void) {
    static MPI_Request requests[MANY];
    static int numbers[MANY];
    MPI_Request barrier;
    int over = 1, late = size > 1, nothing = 0;
    /* Rank 1 waits for messages that are sent after all of them. */
    for (int other = 0; rank == late && other < size; other++) {
        if (other == late) continue;
        OK(MPI_Recv(&nothing, 1, MPI_INT, other, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &barrier));
    for (int at = 0; at < MANY; at++) {
        numbers[at] = rank ? 0 : at + 1;
        OK(MPI_Ibcast(&numbers[at], 1, MPI_INT, 0, MPI_COMM_WORLD, &requests[at]));
    }
    if (rank != late) {
        OK(MPI_Test(&barrier, &over, MPI_STATUS_IGNORE));
        CHECK(!over);
        OK(MPI_Send(&nothing, 1, MPI_INT, late, 5, MPI_COMM_WORLD));
    }
    for (int at = 0; at < MANY; at++) {
        OK(MPI_Wait(&requests[at], MPI_STATUS_IGNORE));
        CHECK(numbers[at] == at + 1);
    }
    OK(MPI_Wait(&barrier, MPI_STATUS_IGNORE));
}

/* The same with collectives that wait for all ranks, all of which have entered the barrier. */
static void one_stays_open_beside_others(void) {
    MPI_Request barrier;
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int at = 0; at < MANY; at++) {
        int sum = 0;
        if (at == 10) OK(MPI_Ibarrier(comm, &barrier));
        OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK(sum == size * (size - 1) / 2);
    }
    OK(MPI_Wait(&barrier, MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&comm));
}

/* Rank 0 begins a sum before a barrier, and the others after it: the two never match each other. */
static void kinds_are_told_apart(void) {
    MPI_Request request;
    int one = 1, sum = 0, over = 0;
    for (int at = 0; at < 100; at++) {
        if (rank) OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
        if (!rank) {
            OK(MPI_Test(&request, &over, MPI_STATUS_IGNORE));
            CHECK(!over || size == 1);
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(sum == size);
    }
}

/* Later collectives match. */
static void sums_are_right(MPI_Comm comm) {
    int one = 1, sum = -1;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK(sum == size);
}

/* An error that only rank 0 finds. The others make calls that do not wait for it; where there is no such call, only
   one rank calls at all. */
#define FAILS(call) CHECK((call) != MPI_SUCCESS)

static void errors_of_one_rank_are_counted(void) {
    MPI_Comm comm, none;
    MPI_Request request;
    int value = 1000, all[64], counts[64], displs[64];
    MPI_Datatype types[64];
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int at = 0; at < 64; at++) {
        counts[at] = rank ? 1 : -1;
        displs[at] = at;
        types[at] = rank ? MPI_INT : MPI_DATATYPE_NULL;
    }
    /* The other ranks only send, and return. */
    if (rank) OK(MPI_Gather(&value, 1, MPI_INT, NULL, 1, MPI_INT, 0, comm));
    else FAILS(MPI_Gather(&value, 1, MPI_INT, NULL, 1, MPI_INT, 0, comm));
    sums_are_right(comm);
    if (rank) OK(MPI_Gatherv(&value, 1, MPI_INT, NULL, NULL, NULL, MPI_INT, 0, comm));
    else FAILS(MPI_Gatherv(&value, 1, MPI_INT, all, counts, displs, MPI_INT, 0, comm));
    sums_are_right(comm);
    if (rank == size - 1) OK(MPI_Igather(&value, 1, MPI_INT, NULL, 1, MPI_INT, 0, comm, &request));
    else if (rank) OK(MPI_Igather(&value, 1, MPI_INT, NULL, 1, MPI_INT, 0, comm, &request));
    else FAILS(MPI_Igather(&value, 1, MPI_INT, all, 1, MPI_DATATYPE_NULL, 0, comm, &request));
    if (rank) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    sums_are_right(comm);
    /* A persistent collective that is never started. */
    if (rank) {
        OK(MPI_Alltoallw_init(all, counts, displs, types, all + 32, counts, displs, types, comm, MPI_INFO_NULL,
                              &request));
        OK(MPI_Request_free(&request));
    } else {
        FAILS(MPI_Alltoallw_init(all, counts, displs, types, all + 32, counts, displs, types, comm,
                                 MPI_INFO_NULL, &request));
    }
    value = rank ? 0 : 7;
    OK(MPI_Bcast_init(&value, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &request));
    OK(MPI_Start(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(value == 7);
    OK(MPI_Request_free(&request));
    /* An error that all ranks find. */
    FAILS(MPI_Comm_split(comm, -5, 0, &none));
    FAILS(MPI_Comm_create(comm, MPI_GROUP_NULL, &none));
    FAILS(MPI_Reduce(&value, NULL, 1, MPI_INT, MPI_OP_NULL, 0, comm));
    sums_are_right(comm);
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    errors_of_one_rank_are_counted();
    persistent_ones_are_told_apart();
    one_stays_open();
    one_stays_open_beside_others();
    kinds_are_told_apart();
    return MPI_Finalize();
}
