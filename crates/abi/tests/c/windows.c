/* Windows of every kind: puts, gets and accumulates of many types, under every kind of synchronisation. Sums under
   contention are exact. */
#include "check.h"

#include <string.h>

enum { ROOM = 64, ROUNDS = 400 };

static int rank, size;

static const char *NAMES[] = {"allocate", "shared", "create", "dynamic"};
enum { KINDS = 4, SHARED = 1, DYNAMIC = 3 };

struct window {
    MPI_Win win;
    char *base;
    MPI_Aint *at; /* Where the memory of each rank begins, as displacement. */
    int kind;
};

static struct window made(int kind, MPI_Aint bytes, int unit) {
    struct window window = {.kind = kind, .at = calloc(size, sizeof *window.at)};
    MPI_Aint address = 0;
    if (kind == 0)
        OK(MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &window.base, &window.win));
    if (kind == 1)
        OK(MPI_Win_allocate_shared(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &window.base, &window.win));
    if (kind >= 2)
        CHECK((window.base = calloc(1, bytes)) != NULL);
    if (kind == 2)
        OK(MPI_Win_create(window.base, bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &window.win));
    if (kind == 3) {
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window.win));
        OK(MPI_Win_attach(window.win, window.base, bytes));
        OK(MPI_Get_address(window.base, &address));
    }
    OK(MPI_Allgather(&address, 1, MPI_AINT, window.at, 1, MPI_AINT, MPI_COMM_WORLD));
    memset(window.base, 0, bytes);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return window;
}

static void freed(struct window window) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (window.kind == DYNAMIC)
        OK(MPI_Win_detach(window.win, window.base));
    OK(MPI_Win_free(&window.win));
    CHECK(window.win == MPI_WIN_NULL);
    if (window.kind >= 2)
        free(window.base);
    free(window.at);
}

/* Displacement of element `index` at `target`, in a window whose unit is the element. */
static MPI_Aint place(struct window window, int target, int index, int bytes) {
    return window.kind == DYNAMIC ? window.at[target] + (MPI_Aint)index * bytes : index;
}

/* Every rank writes to its right neighbour and reads from its left one. */
static void fences(int kind) {
    struct window window = made(kind, ROOM * sizeof(int), sizeof(int));
    int *mine = (int *)window.base, values[ROOM], found[ROOM], right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int i = 0; i < ROOM; i++)
        values[i] = rank * 1000 + i;
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, window.win));
    OK(MPI_Put(values, ROOM, MPI_INT, right, place(window, right, 0, 4), ROOM, MPI_INT, window.win));
    OK(MPI_Win_fence(0, window.win));
    for (int i = 0; i < ROOM; i++)
        CHECK(mine[i] == left * 1000 + i);
    /* Every second element, in reverse order of two halves. */
    MPI_Datatype sparse;
    OK(MPI_Type_vector(ROOM / 4, 1, 2, MPI_INT, &sparse));
    OK(MPI_Type_commit(&sparse));
    memset(found, -1, sizeof found);
    OK(MPI_Get(found, 1, sparse, left, place(window, left, ROOM / 2, 4), 1, sparse, window.win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, window.win));
    for (int i = 0; i < ROOM / 2; i++)
        CHECK(found[i] == (i % 2 ? -1 : (left + size - 1) % size * 1000 + ROOM / 2 + i));
    OK(MPI_Type_free(&sparse));
    freed(window);
}

/* Rank 0 gives each other rank a number, and takes it back doubled. */
static void groups(int kind) {
    struct window window = made(kind, sizeof(int), sizeof(int));
    MPI_Group all, others;
    int first = 0, number, flag = 0;
    OK(MPI_Win_get_group(window.win, &all));
    if (size > 1 && rank == 0) {
        OK(MPI_Group_excl(all, 1, &first, &others));
        for (int round = 0; round < 2; round++) {
            OK(MPI_Win_start(others, 0, window.win));
            for (int target = 1; target < size; target++) {
                number = round * 100 + target;
                OK(MPI_Put(&number, 1, MPI_INT, target, place(window, target, 0, 4), 1, MPI_INT, window.win));
            }
            OK(MPI_Win_complete(window.win));
        }
        OK(MPI_Group_free(&others));
    } else if (size > 1) {
        OK(MPI_Group_incl(all, 1, &first, &others));
        for (int round = 0; round < 2; round++) {
            OK(MPI_Win_post(others, 0, window.win));
            if (round)
                while (!flag)
                    OK(MPI_Win_test(window.win, &flag));
            else
                OK(MPI_Win_wait(window.win));
            CHECK(*(int *)window.base == round * 100 + rank);
        }
        OK(MPI_Group_free(&others));
    }
    OK(MPI_Group_free(&all));
    freed(window);
}

/* All ranks add to the same numbers of rank 0, each type by its own kind of atomic operation. */
#define SUMS(TYPE, MPI_TYPE)                                                                                      \
    do {                                                                                                         \
        struct window window = made(kind, 4 * sizeof(TYPE), sizeof(TYPE));                                        \
        TYPE one[3] = {1, 2, 3}, before[3], last = 0;                                                             \
        OK(MPI_Win_lock_all(0, window.win));                                                                      \
        for (int round = 0; round < ROUNDS; round++) {                                                            \
            OK(MPI_Accumulate(one, 3, MPI_TYPE, 0, place(window, 0, 0, sizeof(TYPE)), 3, MPI_TYPE, MPI_SUM, window.win)); \
            OK(MPI_Fetch_and_op(one, before, MPI_TYPE, 0, place(window, 0, 0, sizeof(TYPE)), MPI_SUM, window.win)); \
            OK(MPI_Win_flush(0, window.win));                                                                     \
            CHECK(round == 0 || before[0] != last); /* It has grown since. */                                      \
            last = before[0];                                                                                    \
        }                                                                                                        \
        OK(MPI_Win_unlock_all(window.win));                                                                       \
        OK(MPI_Barrier(MPI_COMM_WORLD));                                                                          \
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window.win));                                                      \
        OK(MPI_Get_accumulate(NULL, 0, MPI_TYPE, before, 3, MPI_TYPE, 0, place(window, 0, 0, sizeof(TYPE)), 3,     \
                              MPI_TYPE, MPI_NO_OP, window.win));                                                  \
        OK(MPI_Win_unlock(0, window.win));                                                                        \
        CHECK(before[0] == (TYPE)(2LL * ROUNDS * size) && before[1] == before[0]);                                \
        CHECK(before[2] == (TYPE)(3LL * ROUNDS * size));                                                          \
        freed(window);                                                                                           \
    } while (0)

static void sums(int kind) {
    SUMS(int, MPI_INT);
    SUMS(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    SUMS(short, MPI_SHORT);
    SUMS(float, MPI_FLOAT);
    SUMS(double, MPI_DOUBLE);
    SUMS(long double, MPI_LONG_DOUBLE);
}

/* A counter that is read, incremented and written under a lock for one, and one by compare-and-swap. */
static void locks(int kind) {
    struct window window = made(kind, 2 * sizeof(long), sizeof(long));
    long number, next, found;
    for (int round = 0; round < ROUNDS; round++) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window.win));
        OK(MPI_Get(&number, 1, MPI_LONG, 0, place(window, 0, 0, sizeof(long)), 1, MPI_LONG, window.win));
        OK(MPI_Win_flush(0, window.win));
        number++;
        OK(MPI_Put(&number, 1, MPI_LONG, 0, place(window, 0, 0, sizeof(long)), 1, MPI_LONG, window.win));
        OK(MPI_Win_unlock(0, window.win));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window.win));
        found = 0;
        do {
            number = found;
            next = number + 1;
            OK(MPI_Compare_and_swap(&next, &number, &found, MPI_LONG, 0, place(window, 0, 1, sizeof(long)), window.win));
            OK(MPI_Win_flush(0, window.win));
        } while (found != number);
        OK(MPI_Win_unlock(0, window.win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window.win));
        CHECK(((long *)window.base)[0] == (long)ROUNDS * size && ((long *)window.base)[1] == (long)ROUNDS * size);
        OK(MPI_Win_unlock(0, window.win));
    }
    freed(window);
}

/* Where the largest number is: pairs whose parts have a gap between them. */
static void places(int kind) {
    struct {
        short value;
        int index;
    } mine = {(short)(rank * 7 % 5), rank}, found;
    struct window window = made(kind, sizeof mine, sizeof mine);
    MPI_Request request;
    if (rank == 0)
        memset(window.base, 0, sizeof mine), ((int *)window.base)[1] = size;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, window.win));
    OK(MPI_Raccumulate(&mine, 1, MPI_SHORT_INT, 0, place(window, 0, 0, sizeof mine), 1, MPI_SHORT_INT, MPI_MAXLOC,
                       window.win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_flush_all(window.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Rget(&found, 1, MPI_SHORT_INT, 0, place(window, 0, 0, sizeof mine), 1, MPI_SHORT_INT, window.win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_unlock_all(window.win));
    int best = 0;
    for (int other = 0; other < size; other++)
        if (other * 7 % 5 > best * 7 % 5)
            best = other;
    CHECK(found.value == best * 7 % 5 && found.index == best);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    freed(window);
}

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

static void wrong_calls(int kind) {
    struct window window = made(kind, ROOM, 1);
    char byte = 1;
    void *base;
    int *flavor, *model, flag;
    MPI_Aint *bytes;
    const int flavors[] = {MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_SHARED, MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_DYNAMIC};
    OK(MPI_Win_get_attr(window.win, MPI_WIN_BASE, &base, &flag));
    CHECK(flag && base == (kind == DYNAMIC ? NULL : window.base));
    OK(MPI_Win_get_attr(window.win, MPI_WIN_SIZE, &bytes, &flag));
    CHECK(flag && *bytes == (kind == DYNAMIC ? 0 : ROOM));
    OK(MPI_Win_get_attr(window.win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag));
    OK(MPI_Win_get_attr(window.win, MPI_WIN_MODEL, &model, &flag));
    CHECK(*flavor == flavors[kind] && *model == MPI_WIN_UNIFIED);
    OK(MPI_Win_set_errhandler(window.win, MPI_ERRORS_RETURN));
    MPI_Aint start = place(window, rank, 0, 1);
    CHECK(class_of(MPI_Put(&byte, 1, MPI_CHAR, rank, start, 1, MPI_CHAR, window.win)) == MPI_ERR_RMA_SYNC);
    CHECK(class_of(MPI_Win_unlock(rank, window.win)) == MPI_ERR_RMA_SYNC);
    CHECK(class_of(MPI_Win_complete(window.win)) == MPI_ERR_RMA_SYNC);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window.win));
    CHECK(class_of(MPI_Put(&byte, 1, MPI_CHAR, rank, start + ROOM, 1, MPI_CHAR, window.win)) == MPI_ERR_RMA_RANGE);
    CHECK(class_of(MPI_Put(&byte, 1, MPI_CHAR, rank, start - 1, 1, MPI_CHAR, window.win)) == MPI_ERR_RMA_RANGE);
    float real[3] = {0};
    CHECK(class_of(MPI_Compare_and_swap(&real[0], &real[1], &real[2], MPI_FLOAT, rank, start, window.win)) ==
          MPI_ERR_TYPE);
    CHECK(class_of(MPI_Put(&byte, 1, MPI_CHAR, size, start, 1, MPI_CHAR, window.win)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Win_lock_all(0, window.win)) == MPI_ERR_RMA_SYNC);
    CHECK(class_of(MPI_Win_free(&window.win)) == MPI_ERR_RMA_SYNC);
    OK(MPI_Put(&byte, 1, MPI_CHAR, MPI_PROC_NULL, 0, 1, MPI_CHAR, window.win));
    OK(MPI_Put(&byte, 1, MPI_CHAR, rank, start + ROOM - 1, 1, MPI_CHAR, window.win));
    OK(MPI_Win_unlock(rank, window.win));
    CHECK(window.base[ROOM - 1] == 1);
    /* Beyond the window of another rank, which may be found out at the end. */
    int next = (rank + 1) % size, outside;
    OK(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, window.win));
    outside = MPI_Put(&byte, 1, MPI_CHAR, next, place(window, next, ROOM, 1), 1, MPI_CHAR, window.win);
    int end = MPI_Win_unlock(next, window.win);
    CHECK(class_of(outside == MPI_SUCCESS ? end : outside) == MPI_ERR_RMA_RANGE);
    freed(window);
}

/* Parts of a shared window follow each other, whatever their lengths; an empty one is no null pointer. */
static void shared_memory(void) {
    MPI_Win win;
    int *mine, *part, unit;
    MPI_Aint bytes = rank % 3 * (MPI_Aint)sizeof(int), found;
    OK(MPI_Win_allocate_shared(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win));
    CHECK(mine != NULL);
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < rank % 3; i++)
        mine[i] = rank * 10 + i;
    OK(MPI_Win_fence(0, win));
    int *next = NULL;
    for (int other = 0; other < size; other++) {
        OK(MPI_Win_shared_query(win, other, &found, &unit, &part));
        CHECK(found == other % 3 * (MPI_Aint)sizeof(int) && unit == sizeof(int));
        CHECK(next == NULL || part == next);
        for (int i = 0; i < other % 3; i++)
            CHECK(part[i] == other * 10 + i);
        next = part + other % 3;
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    OK(MPI_Win_free(&win));
}

/* More than there is: an error for all, and no rank waits. */
static void too_much(void) {
    MPI_Win win;
    void *base;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Aint bytes = rank == size - 1 ? (MPI_Aint)1 << 60 : 8;
    CHECK(class_of(MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win)) == MPI_ERR_NO_MEM);
    CHECK(win == MPI_WIN_NULL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Memory is aligned as the program asks, up to a page. */
static void aligned(void) {
    MPI_Win win;
    MPI_Info asked, used;
    void *base;
    char value[8];
    int length = sizeof value, flag;
    OK(MPI_Info_create(&asked));
    OK(MPI_Info_set(asked, "mpi_minimum_memory_alignment", "2048"));
    OK(MPI_Win_allocate(8, 1, asked, MPI_COMM_WORLD, &base, &win));
    CHECK((MPI_Aint)base % 2048 == 0);
    OK(MPI_Win_get_info(win, &used));
    OK(MPI_Info_get_string(used, "mpi_minimum_memory_alignment", &length, value, &flag));
    CHECK(flag && !strcmp(value, "2048"));
    OK(MPI_Info_free(&used));
    OK(MPI_Win_free(&win));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Info_set(asked, "mpi_minimum_memory_alignment", "1048576"));
    CHECK(class_of(MPI_Win_allocate(8, 1, asked, MPI_COMM_WORLD, &base, &win)) == MPI_ERR_INFO_VALUE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    OK(MPI_Info_free(&asked));
}

/* Ranks of several hosts share no memory: they are told, and all other windows work. */
static int share_memory(void) {
    MPI_Comm host;
    MPI_Win win;
    void *base;
    int ranks, mine, all;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    OK(MPI_Comm_size(host, &ranks));
    OK(MPI_Comm_free(&host));
    mine = ranks == size;
    OK(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
    if (!all) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        CHECK(class_of(MPI_Win_allocate_shared(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win)) == MPI_ERR_RMA_SHARED);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    }
    return all;
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    int shared = share_memory();
    for (int kind = 0; kind < KINDS; kind++) {
        if (kind == SHARED && !shared)
            continue;
        if (argc > 1 && rank == 0)
            printf("%s\n", NAMES[kind]);
        fences(kind);
        groups(kind);
        sums(kind);
        locks(kind);
        places(kind);
        wrong_calls(kind);
    }
    if (shared)
        shared_memory();
    too_much();
    aligned();
    OK(MPI_Finalize());
    return 0;
}
