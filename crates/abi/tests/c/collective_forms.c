/* Every collective in each of its forms: blocking, non-blocking and persistent, with int counts and with large ones.
 * All forms of a collective are given the same data and must have the same result. */
#include "check.h"

#include <string.h>

enum { RANKS_MAX = 16, BLOCK = 3, ROOM = RANKS_MAX * (RANKS_MAX + 2) };

static int rank, size, left, right;
static MPI_Comm comm = MPI_COMM_WORLD, ring;

/* What is sent, what is in the receive buffer before the call, and what must be there afterwards. */
static int in[ROOM], before[ROOM], after[ROOM], out[ROOM];
/* Items at the beginning that may have any value afterwards. */
static int undefined;

/* The same numbers in the types of both variants. */
static int counts[RANKS_MAX], displs[RANKS_MAX], others[RANKS_MAX], bytes[RANKS_MAX];
static MPI_Count counts_c[RANKS_MAX], others_c[RANKS_MAX];
static MPI_Aint displs_c[RANKS_MAX], bytes_c[RANKS_MAX];
static MPI_Datatype types[RANKS_MAX];

static int value(int from, int to, int at) { return from * 10000 + to * 100 + at; }

static void clear(void) {
    for (int i = 0; i < ROOM; i++)
        in[i] = before[i] = after[i] = -1;
}

/* The count and the displacement of a block, with a gap behind it. */
static void set_block(int at, int count, int other, int displ) {
    counts_c[at] = counts[at] = count;
    others_c[at] = others[at] = other;
    displs_c[at] = displs[at] = displ;
    bytes_c[at] = bytes[at] = displ * (int)sizeof(int);
    types[at] = MPI_INT;
}

static void prepare(void) { memcpy(out, before, sizeof out); }
static void verify(const char *form) {
    for (int i = undefined; i < ROOM; i++) {
        if (out[i] != after[i]) {
            fprintf(stderr, "rank %d: %s: item %d is %d, not %d\n", rank, form, i, out[i], after[i]);
            exit(1);
        }
    }
}

#define DONE(form)                                 \
    do {                                           \
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE)); \
        verify(form);                              \
    } while (0)

/* The three forms of one variant; a persistent request is started twice. */
#define VARIANT(Name, name, c, ARGUMENTS)                                \
    do {                                                                 \
        MPI_Request request;                                             \
        prepare();                                                       \
        OK(MPI_##Name##c(ARGUMENTS(c)));                                 \
        verify("MPI_" #Name #c);                                         \
        prepare();                                                       \
        OK(MPI_I##name##c(ARGUMENTS(c), &request));                      \
        DONE("MPI_I" #name #c);                                          \
        OK(MPI_##Name##_init##c(ARGUMENTS(c), MPI_INFO_NULL, &request)); \
        for (int again = 0; again < 2; again++) {                        \
            prepare();                                                   \
            OK(MPI_Start(&request));                                     \
            DONE("MPI_" #Name "_init" #c);                               \
        }                                                                \
        OK(MPI_Request_free(&request));                                  \
    } while (0)
#define FORMS(Name, name, ARGUMENTS)        \
    do {                                    \
        VARIANT(Name, name, , ARGUMENTS);   \
        VARIANT(Name, name, _c, ARGUMENTS); \
    } while (0)

#define BCAST(c) out, BLOCK, MPI_INT, size - 1, comm
#define GATHER(c) in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, size - 1, comm
#define ALL(c) in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, comm
static void equal_blocks(void) {
    clear();
    for (int i = 0; i < BLOCK; i++) {
        after[i] = value(size - 1, 0, i);
        if (rank == size - 1) before[i] = after[i];
    }
    FORMS(Bcast, bcast, BCAST);

    clear();
    for (int i = 0; i < BLOCK; i++) {
        in[i] = value(rank, 0, i);
        for (int from = 0; from < size && rank == size - 1; from++)
            after[from * BLOCK + i] = value(from, 0, i);
    }
    FORMS(Gather, gather, GATHER);
    for (int from = 0; from < size; from++)
        for (int i = 0; i < BLOCK; i++)
            after[from * BLOCK + i] = value(from, 0, i);
    FORMS(Allgather, allgather, ALL);

    clear();
    for (int to = 0; to < size; to++)
        for (int i = 0; i < BLOCK; i++) {
            in[to * BLOCK + i] = value(rank, to, i);
            after[to * BLOCK + i] = value(to, rank, i);
        }
    FORMS(Alltoall, alltoall, ALL);
    for (int i = 0; i < ROOM; i++)
        after[i] = i < BLOCK ? value(size - 1, rank, i) : -1;
    FORMS(Scatter, scatter, GATHER);
}

#define GATHERV(c) in, rank + 1, MPI_INT, out, counts##c, displs##c, MPI_INT, size - 1, comm
#define SCATTERV(c) in, counts##c, displs##c, MPI_INT, out, rank + 1, MPI_INT, size - 1, comm
#define ALLGATHERV(c) in, rank + 1, MPI_INT, out, counts##c, displs##c, MPI_INT, comm
#define ALLTOALLV(c) in, counts##c, displs##c, MPI_INT, out, counts##c, displs##c, MPI_INT, comm
#define ALLTOALLW(c) in, counts##c, bytes##c, types, out, counts##c, bytes##c, types, comm
static void unequal_blocks(void) {
    int gap = size + 1;
    clear();
    for (int from = 0; from < size; from++)
        set_block(from, from + 1, 0, from * gap);
    for (int i = 0; i <= rank; i++)
        in[i] = value(rank, 0, i);
    for (int from = 0; from < size && rank == size - 1; from++)
        for (int i = 0; i <= from; i++)
            after[from * gap + i] = value(from, 0, i);
    FORMS(Gatherv, gatherv, GATHERV);
    for (int from = 0; from < size; from++)
        for (int i = 0; i <= from; i++)
            after[from * gap + i] = value(from, 0, i);
    FORMS(Allgatherv, allgatherv, ALLGATHERV);

    clear();
    for (int to = 0; to < size; to++)
        for (int i = 0; i <= to; i++)
            in[to * gap + i] = value(rank, to, i);
    for (int i = 0; i <= rank; i++)
        after[i] = value(size - 1, rank, i);
    FORMS(Scatterv, scatterv, SCATTERV);

    clear();
    for (int to = 0; to < size; to++) {
        set_block(to, 1 + (rank + to) % 3, 0, to * 4);
        for (int i = 0; i < counts[to]; i++) {
            in[to * 4 + i] = value(rank, to, i);
            after[to * 4 + i] = value(to, rank, i);
        }
    }
    FORMS(Alltoallv, alltoallv, ALLTOALLV);
    FORMS(Alltoallw, alltoallw, ALLTOALLW);
}

#define REDUCE(c) in, out, BLOCK, MPI_INT, MPI_SUM, size - 1, comm
#define ALLREDUCE(c) in, out, BLOCK, MPI_INT, MPI_SUM, comm
#define REDUCE_SCATTER(c) in, out, counts##c, MPI_INT, MPI_SUM, comm
static int sum(int below, int at) { return below * (below - 1) / 2 + below * at; }
static void reductions(void) {
    clear();
    for (int i = 0; i < BLOCK; i++) {
        in[i] = rank + i;
        if (rank == size - 1) after[i] = sum(size, i);
    }
    FORMS(Reduce, reduce, REDUCE);
    for (int i = 0; i < BLOCK; i++)
        after[i] = sum(size, i);
    FORMS(Allreduce, allreduce, ALLREDUCE);
    for (int i = 0; i < BLOCK; i++)
        after[i] = sum(rank + 1, i);
    FORMS(Scan, scan, ALLREDUCE);
    for (int i = 0; i < BLOCK; i++)
        after[i] = sum(rank, i);
    undefined = rank == 0 ? BLOCK : 0;
    FORMS(Exscan, exscan, ALLREDUCE);
    undefined = 0;

    clear();
    for (int i = 0; i < size * BLOCK; i++)
        in[i] = rank + i;
    for (int i = 0; i < BLOCK; i++)
        after[i] = sum(size, rank * BLOCK + i);
    FORMS(Reduce_scatter_block, reduce_scatter_block, ALLREDUCE);

    clear();
    int start = 0, all = 0;
    for (int to = 0; to < size; to++) {
        set_block(to, to + 1, 0, 0);
        if (to < rank) start += to + 1;
        all += to + 1;
    }
    for (int i = 0; i < all; i++)
        in[i] = rank + i;
    for (int i = 0; i <= rank; i++)
        after[i] = sum(size, start + i);
    FORMS(Reduce_scatter, reduce_scatter, REDUCE_SCATTER);
}

#define NEIGHBORS(c) in, BLOCK, MPI_INT, out, BLOCK, MPI_INT, ring
#define NEIGHBOR_ALLGATHERV(c) in, 1 + rank % 3, MPI_INT, out, counts##c, displs##c, MPI_INT, ring
#define NEIGHBOR_ALLTOALLV(c) in, counts##c, displs##c, MPI_INT, out, others##c, displs##c, MPI_INT, ring
/* The displacements are addresses in both variants. */
#define NEIGHBOR_ALLTOALLW(c) in, counts##c, bytes_c, types, out, others##c, bytes_c, types, ring
static void neighbors(void) {
    int periodic = 1, places[2];
    OK(MPI_Cart_create(comm, 1, &size, &periodic, 0, &ring));
    places[0] = left = (rank + size - 1) % size;
    places[1] = right = (rank + 1) % size;
    clear();
    for (int i = 0; i < BLOCK; i++) {
        in[i] = value(rank, 0, i);
        after[i] = value(left, 0, i);
        after[BLOCK + i] = value(right, 0, i);
    }
    FORMS(Neighbor_allgather, neighbor_allgather, NEIGHBORS);

    clear();
    for (int side = 0; side < 2; side++) {
        set_block(side, 1 + places[side] % 3, 0, side * 5);
        for (int i = 0; i < counts[side]; i++)
            after[side * 5 + i] = value(places[side], 0, i);
    }
    for (int i = 0; i < 1 + rank % 3; i++)
        in[i] = value(rank, 0, i);
    FORMS(Neighbor_allgatherv, neighbor_allgatherv, NEIGHBOR_ALLGATHERV);

    /* What comes from the left has been sent to the right. */
    clear();
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < BLOCK; i++) {
            in[side * BLOCK + i] = value(rank, side, i);
            after[side * BLOCK + i] = value(places[side], 1 - side, i);
        }
    FORMS(Neighbor_alltoall, neighbor_alltoall, NEIGHBORS);

    clear();
    for (int side = 0; side < 2; side++) {
        set_block(side, 1 + side, 2 - side, side * 4);
        for (int i = 0; i < counts[side]; i++)
            in[side * 4 + i] = value(rank, side, i);
        for (int i = 0; i < others[side]; i++)
            after[side * 4 + i] = value(places[side], 1 - side, i);
    }
    FORMS(Neighbor_alltoallv, neighbor_alltoallv, NEIGHBOR_ALLTOALLV);
    FORMS(Neighbor_alltoallw, neighbor_alltoallw, NEIGHBOR_ALLTOALLW);
    OK(MPI_Comm_free(&ring));
}

/* Affine functions x -> a x + b, two numbers each, one after the other: it is associative and does not commute. */
static void compose(const int *earlier, int *later) {
    later[1] += later[0] * earlier[1];
    later[0] *= earlier[0];
}
static void chain(void *earlier, void *later, int *len, MPI_Datatype *datatype) {
    CHECK(*datatype == MPI_2INT);
    for (int i = 0; i < *len; i++)
        compose((int *)earlier + 2 * i, (int *)later + 2 * i);
}
static void chain_c(void *earlier, void *later, MPI_Count *len, MPI_Datatype *datatype) {
    CHECK(*datatype == MPI_2INT);
    for (MPI_Count i = 0; i < *len; i++)
        compose((int *)earlier + 2 * i, (int *)later + 2 * i);
}

#define OPERATORS(c)                                                          \
    do {                                                                      \
        MPI_Op op;                                                            \
        int one[4] = {2, 3, 5, 7}, two[4] = {11, 13, 17, 19}, commutes = -1;  \
        OK(MPI_Op_create##c(chain##c, 0, &op));                               \
        OK(MPI_Op_commutative(op, &commutes));                                \
        CHECK(commutes == 0);                                                 \
        OK(MPI_Reduce_local##c(one, two, 2, MPI_2INT, op));                   \
        CHECK(two[0] == 22 && two[1] == 46 && two[2] == 85 && two[3] == 138); \
        one[0] = 2, one[1] = one[3] = rank, one[2] = 3;                       \
        OK(MPI_Allreduce##c(one, two, 2, MPI_2INT, op, comm));                \
        int all[4] = {1, 0, 1, 0};                                            \
        for (int i = 0; i < size; i++) {                                      \
            all[0] *= 2, all[1] = 2 * all[1] + i;                             \
            all[2] *= 3, all[3] = 3 * all[3] + i;                             \
        }                                                                     \
        CHECK(memcmp(two, all, sizeof all) == 0);                             \
        OK(MPI_Op_free(&op));                                                 \
        CHECK(op == MPI_OP_NULL);                                             \
    } while (0)

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(size <= RANKS_MAX);
    equal_blocks();
    unequal_blocks();
    reductions();
    neighbors();
    OPERATORS();
    OPERATORS(_c);
    return MPI_Finalize();
}
