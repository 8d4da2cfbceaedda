/* Active messages, by ferry.h: a counter and a table that others change while their owner computes, and errors. */
#include "check.h"

#include <ferry.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { CELLS = 16, ROUNDS = 50, SECONDS_MAX = 30 };
/* What a message asks for: add to a cell, which is answered with what it was; or deliver it. */
enum { ADD = 2, ANSWER = 3, PLAIN = 4, WRONG = 5, FLOOD = 6 };

struct request {
    int64_t cell, by;
};

/* Each rank has a table; only its handler changes it. */
static _Atomic int64_t table[CELLS];
static atomic_int flooded;
static int rank, size;

static int handler(const Ferry_Am_message *message, void *state)
{
    struct request request;
    int64_t before;
    CHECK(message->rank == rank && message->size == size && state == &table);
    switch (message->tag) {
    case ADD:
        CHECK(message->len == sizeof request);
        memcpy(&request, message->bytes, sizeof request);
        before = atomic_fetch_add(&table[request.cell], request.by);
        OK(message->raise(message, 3, 1));
        OK(message->send(message, message->source, ANSWER, &before, sizeof before));
        return FERRY_AM_DONE;
    case WRONG:
        CHECK(message->send(message, size, 0, "", 0) == MPI_ERR_RANK);
        CHECK(message->send(message, -1, 0, "", 0) == MPI_ERR_RANK);
        CHECK(message->send(message, 0, -1, "", 0) == MPI_ERR_TAG);
        CHECK(message->send(message, 0, 1 << 30, "", 0) == MPI_ERR_TAG);
        CHECK(message->send(message, 0, 0, "", -1) == MPI_ERR_COUNT);
        CHECK(message->raise(message, FERRY_MODULE_COUNTERS, 1) == MPI_ERR_ARG);
        CHECK(message->raise(message, -1, 1) == MPI_ERR_ARG);
        return 7;
    case FLOOD:
        /* So often that the limit is met. */
        while (message->send(message, rank, PLAIN, "x", 1) == MPI_SUCCESS) atomic_fetch_add(&flooded, 1);
        return FERRY_AM_DONE;
    default:
        return FERRY_AM_DELIVER;
    }
}

static void expect(int error, const char *part)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    CHECK(error != MPI_SUCCESS);
    OK(MPI_Error_string(error, text, &length));
    if (strstr(text, part) == NULL) {
        fprintf(stderr, "not in \"%s\": %s\n", text, part);
        exit(1);
    }
}

/* All ranks add to the tables of all, and each waits for its answers only. */
static void tables(MPI_Comm comm)
{
    for (int i = 0; i < ROUNDS; i++) {
        int other = (rank + i) % size;
        struct request request = {i % CELLS, rank + 1};
        int64_t before = -1;
        OK(MPI_Send(&request, sizeof request, MPI_BYTE, other, ADD, comm));
        OK(MPI_Recv(&before, 1, MPI_INT64_T, other, ANSWER, comm, MPI_STATUS_IGNORE));
        CHECK(before >= 0);
    }
    OK(MPI_Barrier(comm));
    int64_t sum = 0, all;
    for (int i = 0; i < CELLS; i++) sum += atomic_load(&table[i]);
    OK(MPI_Allreduce(&sum, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
    CHECK(all == (int64_t)ROUNDS * size * (size + 1) / 2);

    Ferry_Module_stats stats;
    OK(Ferry_Module_get_stats(comm, &stats));
    CHECK(stats.consumed == ROUNDS && stats.delivered == ROUNDS && stats.sent == ROUNDS && stats.faults == 0);
    OK(Ferry_Module_wait(comm, 3, ROUNDS));
}

/* The owner of a table makes no call of MPI until it sees what others have added. */
static void while_computing(MPI_Comm comm)
{
    int next = (rank + 1) % size;
    struct request request = {0, 1000};
    int64_t before, first = atomic_load(&table[0]);
    time_t end = time(NULL) + SECONDS_MAX;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Send(&request, sizeof request, MPI_BYTE, next, ADD, comm));
    while (atomic_load(&table[0]) < first + 1000) CHECK(time(NULL) < end);
    OK(MPI_Recv(&before, 1, MPI_INT64_T, next, ANSWER, comm, MPI_STATUS_IGNORE));
}

static void errors(MPI_Comm comm)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size, count = 0, number = 5;
    MPI_Comm none, world;
    static char large[65537];
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &world));
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    expect(Ferry_Am_create(world, "none", NULL, NULL, &none), "the handler is a null pointer");
    OK(MPI_Comm_free(&world));

    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Send(&number, 1, MPI_INT, next, WRONG, comm));
    expect(MPI_Recv(&number, 1, MPI_INT, before, WRONG, comm, MPI_STATUS_IGNORE), "it returned an invalid verdict");
    OK(MPI_Sendrecv(large, sizeof large, MPI_BYTE, next, PLAIN, large, 0, MPI_BYTE, MPI_PROC_NULL, 0, comm,
                    MPI_STATUS_IGNORE));
    expect(MPI_Recv(large, sizeof large, MPI_BYTE, before, PLAIN, comm, MPI_STATUS_IGNORE),
           "the message is longer than");

    OK(MPI_Send(&number, 1, MPI_INT, next, FLOOD, comm));
    for (char byte; count < 64; count++) OK(MPI_Recv(&byte, 1, MPI_CHAR, rank, PLAIN, comm, MPI_STATUS_IGNORE));
    CHECK(atomic_load(&flooded) == 64);
}

int main(int argc, char **argv)
{
    MPI_Comm comm, listed;
    int count;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(Ferry_Am_create(MPI_COMM_WORLD, "table", handler, &table, &comm));
    OK(Ferry_Module_list(1, &listed, &count));
    CHECK(count == 1 && listed == comm);
    tables(comm);
    while_computing(comm);
    errors(comm);
    OK(Ferry_Module_unload(&comm));
    CHECK(comm == MPI_COMM_NULL);
    OK(MPI_Finalize());
    return 0;
}
