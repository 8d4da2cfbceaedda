/* Collectives with 32-bit counts: blocking, nonblocking and persistent; of elements with and without gaps;
 * in place; in intracommunicators and in intercommunicators. Elements are pairs that stand for functions
 * x -> a x + b, and the operator of reductions is their composition, which does not commute. */
#include <string.h>

#include "check.h"

#define RANKS_MAX 16
#define EACH 3
#define ROOM (EACH * RANKS_MAX * RANKS_MAX)
#define UNTOUCHED 0x7e7e7e7eu

typedef unsigned Cell;

/* How collectives are called, and where: set by main. */
static enum { BLOCKING, BEGUN, PERSISTENT, REPEATED, WAYS } way;
static int in_place;
static MPI_Comm comm;
static int rank, size;
/* The size of the remote group, if there is one. */
static int others;

static MPI_Datatype type;
static int stride, second;
static MPI_Op compose, keep_left;
static Cell out[4 * ROOM], in[4 * ROOM];

/* The same call in its three forms. */
#define CALL(Name, Iname, ...)                                                              \
    do {                                                                                    \
        MPI_Request request;                                                                \
        if (way == BLOCKING) {                                                              \
            OK(MPI_##Name(__VA_ARGS__));                                                    \
        } else if (way == BEGUN) {                                                          \
            OK(MPI_##Iname(__VA_ARGS__, &request));                                         \
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                                      \
        } else {                                                                            \
            OK(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request));                    \
            for (int again = 0; again < (way == REPEATED && !in_place ? 2 : 1); again++) {  \
                OK(MPI_Start(&request));                                                    \
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                                  \
            }                                                                               \
            OK(MPI_Request_free(&request));                                                 \
        }                                                                                   \
    } while (0)

static Cell a_of(int from, int at) { return 3 * from + 2 + at; }
static Cell b_of(int from, int at) { return 5 * from + 7 * at + 1; }

static void put(Cell *buffer, int at, Cell a, Cell b) {
    buffer[stride * at] = a;
    buffer[stride * at + second] = b;
}

static int holds(const Cell *buffer, int at, Cell a, Cell b) {
    return buffer[stride * at] == a && buffer[stride * at + second] == b;
}

/* Elements first..first+count of rank `from` are at `at` in the result. */
static int got(int at, int from, int first, int count) {
    for (int i = 0; i < count; i++)
        if (!holds(in, at + i, a_of(from, first + i), b_of(from, first + i))) return 0;
    return 1;
}

static void fill(int count) {
    for (int at = 0; at < 4 * ROOM; at++) out[at] = in[at] = UNTOUCHED;
    for (int at = 0; at < count; at++) put(out, at, a_of(rank, at), b_of(rank, at));
}

/* Nothing was written between the elements or after the last. */
static void clean(int count) {
    for (int at = 0; at < stride * count; at++)
        CHECK(at % stride == 0 || at % stride == second || in[at] == UNTOUCHED);
    for (int at = stride * count; at < 4 * ROOM; at++) CHECK(in[at] == UNTOUCHED);
}

static void composed(void *left, void *right, int *count, MPI_Datatype *of) {
    int wide = *of == type ? stride : 2, next = *of == type ? second : 1;
    for (int at = 0; at < *count; at++) {
        Cell *l = (Cell *)left + wide * at, *r = (Cell *)right + wide * at;
        r[next] = l[0] * r[next] + l[next];
        r[0] = l[0] * r[0];
    }
}

static void left_kept(void *left, void *right, int *count, MPI_Datatype *of) {
    int wide = *of == type ? stride : 2, next = *of == type ? second : 1;
    for (int at = 0; at < *count; at++) {
        ((Cell *)right)[wide * at] = ((Cell *)left)[wide * at];
        ((Cell *)right)[wide * at + next] = ((Cell *)left)[wide * at + next];
    }
}

/* Element `first + i` of ranks 0 to `last`, composed, is at `at + i`. */
static int reduced(int at, int last, int first, int count) {
    for (int i = 0; i < count; i++) {
        Cell a = a_of(0, first + i), b = b_of(0, first + i);
        for (int from = 1; from <= last; from++) {
            b = a * b_of(from, first + i) + b;
            a = a * a_of(from, first + i);
        }
        if (!holds(in, at + i, a, b)) return 0;
    }
    return 1;
}

/* The send buffer, or MPI_IN_PLACE. */
static const void *given(void) { return in_place ? MPI_IN_PLACE : (void *)out; }

/* In place, puts the contribution into the receive buffer. */
static void place(int at, int first, int count) {
    for (int i = 0; in_place && i < count; i++)
        put(in, at + i, a_of(rank, first + i), b_of(rank, first + i));
}

static void barrier(void) {
    MPI_Request request;
    OK(MPI_Barrier(comm));
    OK(MPI_Ibarrier(comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Barrier_init(comm, MPI_INFO_NULL, &request));
    OK(MPI_Start(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&request));
}

static void bcast(int root) {
    fill(EACH);
    if (rank == root) place(0, 0, EACH);
    for (int at = 0; rank == root && at < EACH; at++) put(in, at, a_of(root, at), b_of(root, at));
    CALL(Bcast, Ibcast, in, EACH, type, root, comm);
    CHECK(got(0, root, 0, EACH));
    clean(EACH);
}

/* The number of elements of each rank in the calls where they differ; their displacements, with a gap. */
static int counts[RANKS_MAX], displacements[RANKS_MAX], places[RANKS_MAX], bytes[RANKS_MAX];
static MPI_Datatype types[RANKS_MAX];

static int several(int ranks) {
    int end = 1;
    for (int at = 0; at < ranks; at++) {
        counts[at] = at % (EACH + 1);
        displacements[at] = end;
        types[at] = type;
        end += counts[at] + 1;
    }
    return end;
}

static void gather(int root) {
    int here = rank == root && in_place, end;
    fill(EACH);
    if (here) place(EACH * rank, 0, EACH);
    CALL(Gather, Igather, here ? MPI_IN_PLACE : (void *)out, EACH, type, in, EACH, type, root, comm);
    for (int from = 0; rank == root && from < size; from++) CHECK(got(EACH * from, from, 0, EACH));
    clean(rank == root ? EACH * size : 0);
    end = several(size);
    fill(EACH);
    if (here) place(displacements[rank], 0, counts[rank]);
    CALL(Gatherv, Igatherv, here ? MPI_IN_PLACE : (void *)out, rank % (EACH + 1), type, in, counts,
         displacements, type, root, comm);
    for (int from = 0; rank == root && from < size; from++) {
        CHECK(got(displacements[from], from, 0, counts[from]));
        CHECK(in[stride * (displacements[from] + counts[from])] == UNTOUCHED);
    }
    clean(rank == root ? end : 0);
}

static void scatter(int root) {
    int here = rank == root && in_place, mine;
    fill(EACH * size);
    CALL(Scatter, Iscatter, out, EACH, type, here ? MPI_IN_PLACE : (void *)in, EACH, type, root, comm);
    CHECK(here || got(0, root, EACH * rank, EACH));
    clean(here ? 0 : EACH);
    fill(several(size));
    mine = rank % (EACH + 1);
    CALL(Scatterv, Iscatterv, out, counts, displacements, type, here ? MPI_IN_PLACE : (void *)in, mine,
         type, root, comm);
    CHECK(here || got(0, root, displacements[rank], mine));
    clean(here ? 0 : mine);
}

static void allgather(void) {
    int end;
    fill(EACH);
    place(EACH * rank, 0, EACH);
    CALL(Allgather, Iallgather, given(), EACH, type, in, EACH, type, comm);
    for (int from = 0; from < size; from++) CHECK(got(EACH * from, from, 0, EACH));
    clean(EACH * size);
    end = several(size);
    fill(EACH);
    place(displacements[rank], 0, counts[rank]);
    CALL(Allgatherv, Iallgatherv, given(), counts[rank], type, in, counts, displacements, type, comm);
    for (int from = 0; from < size; from++) CHECK(got(displacements[from], from, 0, counts[from]));
    clean(end);
}

static void alltoall(void) {
    fill(EACH * size);
    place(0, 0, EACH * size);
    CALL(Alltoall, Ialltoall, given(), EACH, type, in, EACH, type, comm);
    for (int from = 0; from < size; from++) CHECK(got(EACH * from, from, EACH * rank, EACH));
    clean(EACH * size);
    /* Each pair of ranks exchanges the same number of elements, as is required in place. */
    fill(size * EACH);
    for (int at = 0; at < size; at++) {
        counts[at] = (at + rank) % EACH;
        displacements[at] = EACH * at;
        bytes[at] = EACH * at * stride * (int)sizeof(Cell);
        types[at] = type;
    }
    place(0, 0, EACH * size);
    CALL(Alltoallv, Ialltoallv, given(), counts, displacements, type, in, counts, displacements, type,
         comm);
    for (int from = 0; from < size; from++) CHECK(got(EACH * from, from, EACH * rank, counts[from]));
    fill(size * EACH);
    place(0, 0, EACH * size);
    CALL(Alltoallw, Ialltoallw, given(), counts, bytes, types, in, counts, bytes, types, comm);
    for (int from = 0; from < size; from++) CHECK(got(EACH * from, from, EACH * rank, counts[from]));
}

static void reduce(int root) {
    int here = rank == root && in_place;
    fill(EACH);
    if (here) place(0, 0, EACH);
    CALL(Reduce, Ireduce, here ? MPI_IN_PLACE : (void *)out, in, EACH, type, compose, root, comm);
    CHECK(rank != root || reduced(0, size - 1, 0, EACH));
    clean(rank == root ? EACH : 0);
}

static void allreduce(void) {
    double sum[2], given_sum[2] = {rank, 0.5};
    fill(EACH);
    place(0, 0, EACH);
    CALL(Allreduce, Iallreduce, given(), in, EACH, type, compose, comm);
    CHECK(reduced(0, size - 1, 0, EACH));
    clean(EACH);
    fill(1);
    place(0, 0, 1);
    CALL(Allreduce, Iallreduce, given(), in, 1, type, keep_left, comm);
    CHECK(got(0, 0, 0, 1));
    memcpy(sum, given_sum, sizeof sum);
    CALL(Allreduce, Iallreduce, in_place ? MPI_IN_PLACE : (void *)given_sum, sum, 2, MPI_DOUBLE, MPI_SUM,
         comm);
    CHECK(sum[0] == size * (size - 1) / 2 && sum[1] == 0.5 * size);
}

static void reduce_scatter(void) {
    int total = 0;
    fill(EACH * size);
    place(0, 0, EACH * size);
    CALL(Reduce_scatter_block, Ireduce_scatter_block, given(), in, EACH, type, compose, comm);
    CHECK(reduced(0, size - 1, EACH * rank, EACH));
    clean(in_place ? EACH * size : EACH);
    several(size);
    for (int at = 0; at < size; at++) {
        places[at] = total;
        total += counts[at];
    }
    fill(total);
    place(0, 0, total);
    CALL(Reduce_scatter, Ireduce_scatter, given(), in, counts, type, compose, comm);
    CHECK(reduced(0, size - 1, places[rank], counts[rank]));
}

static void scan(void) {
    fill(EACH);
    place(0, 0, EACH);
    CALL(Scan, Iscan, given(), in, EACH, type, compose, comm);
    CHECK(reduced(0, rank, 0, EACH));
    fill(EACH);
    place(0, 0, EACH);
    CALL(Exscan, Iexscan, given(), in, EACH, type, compose, comm);
    CHECK(rank == 0 || reduced(0, rank - 1, 0, EACH));
}

/* An exclusive scan gives rank 0 no result: it may pass no memory, and what it passes stays unchanged. */
static void first_gets_nothing(void) {
    int mine = rank + 1, sum = -5;
    CALL(Exscan, Iexscan, &mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == (rank == 0 ? -5 : rank * (rank + 1) / 2));
    CALL(Exscan, Iexscan, &mine, rank == 0 ? NULL : &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(mine == rank + 1 && sum == (rank == 0 ? -5 : rank * (rank + 1) / 2));
}

/* Collectives without data and without buffers. */
static void nothing(void) {
    int none[RANKS_MAX] = {0};
    CALL(Bcast, Ibcast, NULL, 0, type, 0, comm);
    CALL(Gather, Igather, NULL, 0, type, NULL, 0, type, 0, comm);
    CALL(Scatter, Iscatter, NULL, 0, type, NULL, 0, type, 0, comm);
    CALL(Allgather, Iallgather, NULL, 0, type, NULL, 0, type, comm);
    CALL(Allgatherv, Iallgatherv, NULL, 0, type, NULL, none, none, type, comm);
    CALL(Alltoall, Ialltoall, NULL, 0, type, NULL, 0, type, comm);
    CALL(Alltoallv, Ialltoallv, NULL, none, none, type, NULL, none, none, type, comm);
    CALL(Reduce, Ireduce, NULL, NULL, 0, MPI_INT, MPI_SUM, 0, comm);
    CALL(Allreduce, Iallreduce, NULL, NULL, 0, MPI_INT, MPI_SUM, comm);
    CALL(Reduce_scatter, Ireduce_scatter, NULL, NULL, none, MPI_INT, MPI_SUM, comm);
    CALL(Scan, Iscan, NULL, NULL, 0, MPI_INT, MPI_SUM, comm);
}

/* The same element by its address. */
static void bottom(void) {
    MPI_Datatype here;
    MPI_Aint address;
    fill(1);
    if (rank == size - 1) put(in, 0, 11, 12);
    OK(MPI_Get_address(in, &address));
    OK(MPI_Type_create_hindexed(1, (int[]){1}, &address, type, &here));
    OK(MPI_Type_commit(&here));
    CALL(Bcast, Ibcast, MPI_BOTTOM, 1, here, size - 1, comm);
    CHECK(holds(in, 0, 11, 12));
    OK(MPI_Type_free(&here));
}

static void within(void) {
    for (int root = 0; root < size; root += size > 1 ? size - 1 : 1) {
        bcast(root);
        gather(root);
        scatter(root);
        reduce(root);
    }
    allgather();
    alltoall();
    allreduce();
    reduce_scatter();
    scan();
    first_gets_nothing();
    nothing();
    bottom();
}

/* Intercommunicators: one group gets what the other contributes. `low` is the group that has the root. */
static void across(int low) {
    int root = low ? (rank == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0, end;
    int whole = size * others;
    fill(EACH);
    CALL(Bcast, Ibcast, low ? out : in, EACH, type, root, comm);
    CHECK(low || got(0, 0, 0, EACH));
    clean(low ? 0 : EACH);

    fill(EACH);
    CALL(Gather, Igather, out, EACH, type, in, EACH, type, root, comm);
    for (int from = 0; root == MPI_ROOT && from < others; from++) CHECK(got(EACH * from, from, 0, EACH));
    clean(root == MPI_ROOT ? EACH * others : 0);

    end = several(others);
    fill(EACH);
    CALL(Gatherv, Igatherv, out, rank % (EACH + 1), type, in, counts, displacements, type, root, comm);
    for (int from = 0; root == MPI_ROOT && from < others; from++)
        CHECK(got(displacements[from], from, 0, counts[from]));
    clean(root == MPI_ROOT ? end : 0);

    fill(EACH * others);
    CALL(Scatter, Iscatter, out, EACH, type, in, EACH, type, root, comm);
    CHECK(low || got(0, 0, EACH * rank, EACH));
    clean(low ? 0 : EACH);

    fill(several(others));
    CALL(Scatterv, Iscatterv, out, counts, displacements, type, in, rank % (EACH + 1), type, root, comm);
    several(size);
    CHECK(low || got(0, 0, displacements[rank], rank % (EACH + 1)));

    fill(EACH);
    CALL(Reduce, Ireduce, out, in, EACH, type, compose, root, comm);
    CHECK(root != MPI_ROOT || reduced(0, others - 1, 0, EACH));
    clean(root == MPI_ROOT ? EACH : 0);

    fill(EACH);
    CALL(Allreduce, Iallreduce, out, in, EACH, type, compose, comm);
    CHECK(reduced(0, others - 1, 0, EACH));

    fill(EACH);
    CALL(Allgather, Iallgather, out, EACH, type, in, EACH, type, comm);
    for (int from = 0; from < others; from++) CHECK(got(EACH * from, from, 0, EACH));
    clean(EACH * others);

    end = several(others);
    fill(EACH);
    CALL(Allgatherv, Iallgatherv, out, rank % (EACH + 1), type, in, counts, displacements, type, comm);
    for (int from = 0; from < others; from++) CHECK(got(displacements[from], from, 0, counts[from]));
    clean(end);

    fill(EACH * others);
    CALL(Alltoall, Ialltoall, out, EACH, type, in, EACH, type, comm);
    for (int from = 0; from < others; from++) CHECK(got(EACH * from, from, EACH * rank, EACH));

    fill(EACH * others);
    for (int at = 0; at < others; at++) {
        counts[at] = (at + rank) % EACH;
        displacements[at] = EACH * at;
        bytes[at] = EACH * at * stride * (int)sizeof(Cell);
        types[at] = type;
    }
    CALL(Alltoallv, Ialltoallv, out, counts, displacements, type, in, counts, displacements, type, comm);
    for (int from = 0; from < others; from++) CHECK(got(EACH * from, from, EACH * rank, counts[from]));
    fill(EACH * others);
    CALL(Alltoallw, Ialltoallw, out, counts, bytes, types, in, counts, bytes, types, comm);
    for (int from = 0; from < others; from++) CHECK(got(EACH * from, from, EACH * rank, counts[from]));

    /* Each group distributes as many elements as the other group has ranks. */
    fill(whole);
    CALL(Reduce_scatter_block, Ireduce_scatter_block, out, in, others, type, compose, comm);
    CHECK(reduced(0, others - 1, others * rank, others));
    fill(whole);
    for (int at = 0; at < size; at++) counts[at] = at == size - 1 ? whole - at : 1;
    CALL(Reduce_scatter, Ireduce_scatter, out, in, counts, type, compose, comm);
    CHECK(reduced(0, others - 1, rank, counts[rank]));
}

/* Several at once on one communicator, complete in any order; of a length that uses rendezvous. */
static void together(void) {
    enum { LONG = 30000, SORTS = 6 };
    MPI_Request requests[SORTS];
    int *buffers[2 * SORTS], index;
    for (int at = 0; at < 2 * SORTS; at++) {
        buffers[at] = malloc(LONG * size * sizeof(int));
        CHECK(buffers[at] != NULL);
        for (int i = 0; i < LONG * size; i++) buffers[at][i] = at % 2 ? -1 : 1000 * rank + i % 997;
    }
    if (rank == 0) memcpy(buffers[1], buffers[0], LONG * sizeof(int));
    OK(MPI_Ibcast(buffers[1], LONG, MPI_INT, 0, comm, &requests[0]));
    OK(MPI_Iallreduce(buffers[2], buffers[3], LONG, MPI_INT, MPI_SUM, comm, &requests[1]));
    OK(MPI_Iallgather(buffers[4], LONG, MPI_INT, buffers[5], LONG, MPI_INT, comm, &requests[2]));
    OK(MPI_Ialltoall(buffers[6], LONG, MPI_INT, buffers[7], LONG, MPI_INT, comm, &requests[3]));
    OK(MPI_Iscan(buffers[8], buffers[9], LONG, MPI_INT, MPI_MAX, comm, &requests[4]));
    OK(MPI_Ireduce_scatter_block(buffers[10], buffers[11], LONG, MPI_INT, MPI_SUM, comm, &requests[5]));
    /* A collective that was started later may be waited for first. */
    OK(MPI_Barrier(comm));
    OK(MPI_Wait(&requests[3], MPI_STATUS_IGNORE));
    for (int left = SORTS - 1; left > 0; left--) {
        OK(MPI_Waitany(SORTS, requests, &index, MPI_STATUS_IGNORE));
        CHECK(index != 3 && index != MPI_UNDEFINED);
    }
    for (int i = 0; i < LONG; i++) {
        int sum = 1000 * size * (size - 1) / 2, there = (LONG * rank + i) % 997;
        CHECK(buffers[1][i] == i % 997);
        CHECK(buffers[3][i] == sum + size * (i % 997));
        CHECK(buffers[9][i] == 1000 * rank + i % 997);
        CHECK(buffers[11][i] == sum + size * there);
        for (int from = 0; from < size; from++) {
            CHECK(buffers[5][LONG * from + i] == 1000 * from + i % 997);
            CHECK(buffers[7][LONG * from + i] == 1000 * from + there);
        }
    }
    for (int at = 0; at < 2 * SORTS; at++) free(buffers[at]);
}

/* In every way, with both kinds of elements. */
static void everything(MPI_Datatype plain, MPI_Datatype gapped, int low) {
    barrier();
    for (int gaps = 0; gaps < 2; gaps++) {
        type = gaps ? gapped : plain;
        stride = gaps ? 4 : 2;
        second = gaps ? 2 : 1;
        for (int round = 0; round < WAYS; round++) {
            way = round;
            in_place = 0;
            if (others > 0) {
                across(low);
                across(!low);
                continue;
            }
            within();
            in_place = 1;
            within();
        }
    }
}

int main(int argc, char **argv) {
    MPI_Datatype plain, vector, gapped;
    int commutes;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Type_contiguous(2, MPI_UNSIGNED, &plain));
    OK(MPI_Type_commit(&plain));
    OK(MPI_Type_vector(2, 1, 2, MPI_UNSIGNED, &vector));
    OK(MPI_Type_create_resized(vector, 0, 4 * sizeof(Cell), &gapped));
    OK(MPI_Type_commit(&gapped));
    OK(MPI_Type_free(&vector));
    OK(MPI_Op_create(composed, 0, &compose));
    OK(MPI_Op_create(left_kept, 0, &keep_left));
    OK(MPI_Op_commutative(compose, &commutes));
    CHECK(!commutes);

    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    CHECK(size <= RANKS_MAX);
    everything(plain, gapped, 0);
    together();

    if (size > 1) {
        MPI_Comm half;
        int world_size = size, low = rank < size / 2;
        OK(MPI_Comm_free(&comm));
        OK(MPI_Comm_split(MPI_COMM_WORLD, low, 0, &half));
        OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? world_size / 2 : 0, 5, &comm));
        OK(MPI_Comm_rank(comm, &rank));
        OK(MPI_Comm_size(comm, &size));
        OK(MPI_Comm_remote_size(comm, &others));
        CHECK(size + others == world_size);
        everything(plain, gapped, low);
        OK(MPI_Comm_free(&half));
    }
    OK(MPI_Comm_free(&comm));

    Cell left[2] = {2, 3}, right[2] = {5, 7};
    OK(MPI_Reduce_local(left, right, 1, plain, compose));
    CHECK(right[0] == 10 && right[1] == 17);
    OK(MPI_Op_free(&compose));
    OK(MPI_Op_free(&keep_left));
    OK(MPI_Type_free(&plain));
    OK(MPI_Type_free(&gapped));
    OK(MPI_Finalize());
    return 0;
}
