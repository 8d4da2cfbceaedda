/* Atomicity under contention: all ranks change the same elements, of every width, by accumulates, fetches and swaps in
   random order, under every kind of lock. What is lost or torn shows in the sums at the end, or in what was fetched.

       atomicity [OPERATIONS [SEED]]

   OPERATIONS is how many all ranks do together. For a long run:

       ferry cc -O2 crates/abi/tests/c/atomicity.c -o atomicity && ferry run -n 32 ./atomicity 1000000 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <complex.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef long long number;

static int rank, size;
static unsigned long long state;

static unsigned random_below(unsigned bound) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % bound;
}

/* An element is made of a number, and gives it back. Elements of two parts are torn if these do not belong together. */
#define ELEMENT(NAME, TYPE, MADE, NUMBER, WHOLE)                                                                  \
    static void store_##NAME(void *at, number n) {                                                               \
        TYPE x = MADE;                                                                                           \
        memcpy(at, &x, sizeof x);                                                                                \
    }                                                                                                            \
    static number load_##NAME(const void *at) {                                                                  \
        TYPE x;                                                                                                  \
        memcpy(&x, at, sizeof x);                                                                                \
        CHECK(WHOLE);                                                                                            \
        return (number)(NUMBER);                                                                                 \
    }
#define SIMPLE(NAME, TYPE) ELEMENT(NAME, TYPE, (TYPE)n, x, 1)
#define COMPLEX(NAME, TYPE) ELEMENT(NAME, TYPE complex, (TYPE)n + 2 * (TYPE)n * I, creall(x), cimagl(x) == 2 * creall(x))
#define PAIR(NAME, TYPE)                                                                                          \
    struct NAME {                                                                                                \
        TYPE value;                                                                                              \
        int index;                                                                                               \
    };                                                                                                           \
    ELEMENT(NAME, struct NAME, ((struct NAME){(TYPE)n, (int)(7 * n + 1)}), x.value, x.index == 7 * (int)x.value + 1)

SIMPLE(int8, int8_t)
SIMPLE(int16, int16_t)
SIMPLE(int32, int32_t)
SIMPLE(int64, int64_t)
SIMPLE(uint8, uint8_t)
SIMPLE(uint16, uint16_t)
SIMPLE(uint32, uint32_t)
SIMPLE(uint64, uint64_t)
SIMPLE(float, float)
SIMPLE(double, double)
SIMPLE(long_double, long double)
COMPLEX(float_complex, float)
COMPLEX(double_complex, double)
COMPLEX(long_double_complex, long double)
PAIR(short_int, short)
PAIR(two_ints, int)
PAIR(long_int, long)
PAIR(float_int, float)
PAIR(double_int, double)
PAIR(long_double_int, long double)

/* What may be done with a type. */
enum { SUMS = 1, SWAPS = 2, BITS = 4, ORDER = 8, TICKETS = 16, PAIRS = 32, UNALIGNED = 64 };
enum { NARROW = SUMS | SWAPS | BITS | ORDER, INTEGER = NARROW | TICKETS, REAL = SUMS | ORDER | TICKETS };

struct type {
    const char *name;
    MPI_Datatype handle;
    int bytes, uses;
    void (*store)(void *, number);
    number (*load)(const void *);
};
#define TYPE(NAME, C, HANDLE, USES) {#NAME, HANDLE, sizeof(C), USES, store_##NAME, load_##NAME}

static struct type types[] = {
    TYPE(int8, int8_t, MPI_INT8_T, NARROW),
    TYPE(uint8, uint8_t, MPI_BYTE, SWAPS | BITS),
    TYPE(int16, int16_t, MPI_INT16_T, NARROW),
    TYPE(uint8, uint8_t, MPI_UINT8_T, NARROW),
    TYPE(uint16, uint16_t, MPI_UINT16_T, NARROW),
    TYPE(int32, int32_t, MPI_INT32_T, INTEGER),
    TYPE(uint32, uint32_t, MPI_UINT32_T, INTEGER),
    TYPE(int64, int64_t, MPI_INT64_T, INTEGER),
    TYPE(uint64, uint64_t, MPI_UINT64_T, INTEGER),
    TYPE(int16, int16_t, MPI_INT16_T, NARROW | UNALIGNED),
    TYPE(int32, int32_t, MPI_INT32_T, INTEGER | UNALIGNED),
    TYPE(int64, int64_t, MPI_INT64_T, INTEGER | UNALIGNED),
    TYPE(float, float, MPI_FLOAT, REAL),
    TYPE(double, double, MPI_DOUBLE, REAL),
    TYPE(long_double, long double, MPI_LONG_DOUBLE, REAL),
    TYPE(float_complex, float complex, MPI_C_FLOAT_COMPLEX, SUMS),
    TYPE(double_complex, double complex, MPI_C_DOUBLE_COMPLEX, SUMS),
    TYPE(long_double_complex, long double complex, MPI_C_LONG_DOUBLE_COMPLEX, SUMS),
    TYPE(short_int, struct short_int, MPI_SHORT_INT, PAIRS),
    TYPE(two_ints, struct two_ints, MPI_2INT, PAIRS),
    TYPE(long_int, struct long_int, MPI_LONG_INT, PAIRS),
    TYPE(float_int, struct float_int, MPI_FLOAT_INT, PAIRS),
    TYPE(double_int, struct double_int, MPI_DOUBLE_INT, PAIRS),
    TYPE(long_double_int, struct long_double_int, MPI_LONG_DOUBLE_INT, PAIRS),
};
enum { KINDS_OF_TYPES = sizeof types / sizeof *types };

/* The elements of each type. Some are for one operation, which is all that MPI asks for. On `MIXED` sums and swaps meet,
   which Ferrywire allows. */
enum { SUM, SUM_LAST = 2, SWAPPED, MIXED, TICKET, BIT, LARGEST, SMALLEST, ELEMENTS };
static const char *PARTS[] = {"sum", "sum", "sum", "swapped", "mixed", "ticket", "bits", "largest", "smallest"};
/* What is noted of each element, then of the tickets: sum and squares; last, of the words under an exclusive lock. */
enum { TICKETS_SUM = ELEMENTS, TICKETS_SQUARES, NOTES };
enum { BYTES_MAX = 32, ALIGNMENT = 32, PAIR_FIRST = 30000, BURST_MAX = 6, WORDS = 3 };

static const char *NAMES[] = {"allocate", "shared", "create", "dynamic"};
enum { ALLOCATE, SHARED, CREATE, DYNAMIC, KINDS };

static int kind;
static MPI_Win win;
static char *base;
static MPI_Aint *bases;           /* Where the memory of each rank begins, as displacement. */
static MPI_Aint places[KINDS_OF_TYPES], words_at, room;
static number *notes, *words;     /* By target and type; by target. */
static number *last_ticket;
static number done;               /* Operations of this rank. */
static int flush_all;             /* Whether the epoch is for all ranks. */

static void lay_out(void) {
    for (int type = 0; type < KINDS_OF_TYPES; type++) {
        CHECK(types[type].bytes <= BYTES_MAX);
        places[type] = room + !!(types[type].uses & UNALIGNED);
        room += ((ELEMENTS * types[type].bytes + 1) / ALIGNMENT + 1) * ALIGNMENT;
    }
    words_at = room;
    room += WORDS * (MPI_Aint)sizeof(number);
}

static number *note(int target, int type, int what) {
    return &notes[((number)target * KINDS_OF_TYPES + type) * NOTES + what];
}

static void make_window(void) {
    MPI_Aint address = 0;
    if (kind == ALLOCATE)
        OK(MPI_Win_allocate(room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    if (kind == SHARED)
        OK(MPI_Win_allocate_shared(room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    if (kind >= CREATE)
        CHECK((base = malloc(room)) != NULL);
    if (kind == CREATE)
        OK(MPI_Win_create(base, room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    if (kind == DYNAMIC) {
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        OK(MPI_Win_attach(win, base, room));
        OK(MPI_Get_address(base, &address));
    }
    OK(MPI_Allgather(&address, 1, MPI_AINT, bases, 1, MPI_AINT, MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
    memset(base, 0, room);
    for (int type = 0; type < KINDS_OF_TYPES; type++)
        types[type].store(base + places[type] + SMALLEST * types[type].bytes, types[type].uses & PAIRS ? PAIR_FIRST : 0);
    OK(MPI_Win_unlock(rank, win));
    memset(notes, 0, sizeof(number) * size * KINDS_OF_TYPES * NOTES);
    memset(words, 0, sizeof(number) * size);
    for (int i = 0; i < size * KINDS_OF_TYPES; i++)
        last_ticket[i] = -1, *note(i / KINDS_OF_TYPES, i % KINDS_OF_TYPES, SMALLEST) = -PAIR_FIRST;
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void free_window(void) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (kind == DYNAMIC)
        OK(MPI_Win_detach(win, base));
    OK(MPI_Win_free(&win));
    if (kind >= CREATE)
        free(base);
}

static void flush(int target) {
    if (flush_all && random_below(2))
        OK(MPI_Win_flush_all(win));
    else
        OK(MPI_Win_flush(target, win));
}

/* Adds to an element, or replaces it, if it is still what it was: until it is. Returns what it was before. */
static number swap(int target, int type, MPI_Aint at, number n) {
    char old[BYTES_MAX] = {0}, next[BYTES_MAX], found[BYTES_MAX];
    int bytes = types[type].bytes;
    for (;;) {
        types[type].store(next, types[type].load(old) + n);
        OK(MPI_Compare_and_swap(next, old, found, types[type].handle, target, at, win));
        flush(target);
        if (memcmp(old, found, bytes) == 0)
            return types[type].load(old);
        memcpy(old, found, bytes);
    }
}

/* One operation on a random element. `buffer` stays as it is until the epoch ends. */
static void operate(int target, char *buffer) {
    int index = random_below(KINDS_OF_TYPES), element, count = 1;
    struct type *type = &types[index];
    MPI_Op op = MPI_SUM;
    number n = (number)random_below(7) - 3;
    char found[(SUM_LAST + 1) * BYTES_MAX];
    do
        element = random_below(ELEMENTS);
    while (!(element <= SUM_LAST ? type->uses & SUMS
             : element == SWAPPED ? type->uses & SWAPS
             : element == MIXED ? (type->uses & SUMS) && (type->uses & SWAPS)
             : element == TICKET ? type->uses & TICKETS
             : element == BIT ? type->uses & BITS
             : element == LARGEST ? type->uses & ORDER
                                  : type->uses & PAIRS));
    MPI_Aint at = bases[target] + places[index] + element * type->bytes;
    if (element <= SUM_LAST)
        count = 1 + random_below(SUM_LAST + 1 - element);
    if (element == TICKET)
        n = 1;
    if (element == BIT)
        op = MPI_BXOR, n = random_below(128);
    if (element == LARGEST)
        op = MPI_MAX, n = type->bytes == 1 ? random_below(100) : done % PAIR_FIRST;
    if (element == SMALLEST)
        op = MPI_MINLOC, n = PAIR_FIRST - 1 - done % PAIR_FIRST;
    /* Sums of complex numbers are torn if one part is read without the other, so they are read often. */
    if (element != TICKET && random_below(4) == 0) {
        if (random_below(2)) {
            count = 1;
            OK(MPI_Fetch_and_op(NULL, found, type->handle, target, at, MPI_NO_OP, win));
        } else {
            OK(MPI_Get_accumulate(NULL, 0, type->handle, found, count, type->handle, target, at, count, type->handle,
                                  MPI_NO_OP, win));
        }
        flush(target);
        for (int i = 0; i < count; i++)
            type->load(found + i * type->bytes);
        return;
    }
    for (int i = 0; i < count; i++)
        type->store(buffer + i * type->bytes, n + (element <= SUM_LAST ? i : 0));
    int call = element == SWAPPED || (element >= MIXED && element <= TICKET && (type->uses & SWAPS) && random_below(3) == 0)
                   ? 3
                   : (int)random_below(element == TICKET ? 2 : 3);
    number before = 0;
    if (call == 3)
        before = swap(target, index, at, n);
    if (call == 2)
        OK(MPI_Accumulate(buffer, count, type->handle, target, at, count, type->handle, op, win));
    if (call == 1)
        OK(MPI_Get_accumulate(buffer, count, type->handle, found, count, type->handle, target, at, count, type->handle, op, win));
    if (call == 0) {
        count = 1;
        OK(MPI_Fetch_and_op(buffer, found, type->handle, target, at, op, win));
    }
    if (call < 2) {
        flush(target);
        before = type->load(found);
    }
    if (element == TICKET) {
        number *last = &last_ticket[target * KINDS_OF_TYPES + index];
        CHECK(before > *last);
        *last = before;
        *note(target, index, TICKETS_SUM) += before;
        *note(target, index, TICKETS_SQUARES) += before * before;
    }
    for (int i = 0; i < count; i++) {
        number *sum = note(target, index, element + i);
        if (element == BIT)
            *sum ^= n;
        else if (element == LARGEST)
            *sum = n > *sum ? n : *sum;
        else if (element == SMALLEST)
            *sum = -n > *sum ? -n : *sum;
        else
            *sum += n + (element <= SUM_LAST ? i : 0);
    }
}

/* Words that belong together are read and written by accesses that are not atomic, under a lock for one. */
static void exclude(int target) {
    number found[WORDS], n = (number)random_below(7) - 3;
    MPI_Aint at = bases[target] + words_at;
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
    OK(MPI_Get(found, WORDS, MPI_LONG_LONG, target, at, WORDS, MPI_LONG_LONG, win));
    OK(MPI_Win_flush(target, win));
    for (int i = 0; i < WORDS; i++)
        CHECK(found[i] == (i + 1) * found[0]);
    for (int i = 0; i < WORDS; i++)
        found[i] += (i + 1) * n;
    if (random_below(4) == 0)
        sched_yield(); /* Whoever does not respect the lock comes now. */
    OK(MPI_Put(found, WORDS, MPI_LONG_LONG, target, at, WORDS, MPI_LONG_LONG, win));
    OK(MPI_Win_unlock(target, win));
    words[target] += n;
}

/* Rank 0 is the target of most epochs. */
static int some_target(void) { return random_below(4) ? 0 : (int)random_below(size); }

static void epoch(number left) {
    char buffers[BURST_MAX][(SUM_LAST + 1) * BYTES_MAX];
    int target = some_target(), sort = random_below(8);
    number burst = 1 + random_below(BURST_MAX);
    if (burst > left)
        burst = left;
    if (sort == 0) {
        exclude(target);
        done++;
        return;
    }
    flush_all = sort >= 5;
    if (flush_all)
        OK(MPI_Win_lock_all(0, win));
    else
        OK(MPI_Win_lock(sort == 1 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, win));
    for (int i = 0; i < burst; i++, done++)
        operate(flush_all ? some_target() : target, buffers[i]);
    if (flush_all)
        OK(MPI_Win_unlock_all(win));
    else
        OK(MPI_Win_unlock(target, win));
}

static int is_wrong(const char *name, const char *part, number found, number expected) {
    if (found != expected)
        fprintf(stderr, "rank %d, window %s, %s, %s: %lld, but the ranks made it %lld\n", rank, NAMES[kind], name, part, found, expected);
    return found != expected;
}

/* Compares the memory of this rank with what all ranks say that they did. */
static int verify(void) {
    int wrong = 0, length = size * KINDS_OF_TYPES * NOTES;
    number *all[3], sum;
    const MPI_Op ops[3] = {MPI_SUM, MPI_BXOR, MPI_MAX};
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 3; i++) {
        CHECK((all[i] = malloc(sizeof(number) * length)) != NULL);
        OK(MPI_Allreduce(notes, all[i], length, MPI_LONG_LONG, ops[i], MPI_COMM_WORLD));
    }
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
    for (int type = 0; type < KINDS_OF_TYPES; type++) {
        number first = note(rank, type, 0) - notes, count = all[0][first + TICKET];
        char found[BYTES_MAX], expected[BYTES_MAX], name[64];
        snprintf(name, sizeof name, "%s%s", types[type].uses & UNALIGNED ? "unaligned " : "", types[type].name);
        for (int element = 0; element < ELEMENTS; element++) {
            number made = all[element == BIT ? 1 : element >= LARGEST ? 2 : 0][first + element];
            if (element == SMALLEST && !(types[type].uses & PAIRS))
                continue;
            types[type].store(expected, element == SMALLEST ? -made : made);
            OK(MPI_Get(found, 1, types[type].handle, rank, bases[rank] + places[type] + element * types[type].bytes, 1,
                       types[type].handle, win));
            OK(MPI_Win_flush(rank, win));
            /* Of pairs, only the smallest is used: the others are zero, and do not belong together. */
            if (element == SMALLEST || !(types[type].uses & PAIRS))
                wrong += is_wrong(name, PARTS[element], types[type].load(found), types[type].load(expected));
        }
        wrong += is_wrong(name, "sum of tickets", all[0][first + TICKETS_SUM], count * (count - 1) / 2);
        wrong += is_wrong(name, "squares of tickets", all[0][first + TICKETS_SQUARES], (count - 1) * count * (2 * count - 1) / 6);
    }
    number *mine = (number *)(base + words_at);
    OK(MPI_Reduce_scatter_block(words, &sum, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < WORDS; i++)
        wrong += is_wrong("words", "under exclusive locks", mine[i], (i + 1) * sum);
    OK(MPI_Win_unlock(rank, win));
    for (int i = 0; i < 3; i++)
        free(all[i]);
    return wrong;
}

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

/* Whether the system lets ranks reach each other's own memory, which windows other than allocated ones need. */
static int is_reachable(void) {
    char byte = 0, memory = 0;
    int mine, all;
    MPI_Win own;
    OK(MPI_Win_create(&memory, 1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own));
    OK(MPI_Win_set_errhandler(own, MPI_ERRORS_RETURN));
    OK(MPI_Win_fence(0, own));
    mine = class_of(MPI_Put(&byte, 1, MPI_CHAR, (rank + 1) % size, 0, 1, MPI_CHAR, own)) != MPI_ERR_RMA_SHARED;
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, own));
    OK(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
    OK(MPI_Win_free(&own));
    return all;
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    number operations = argc > 1 ? atoll(argv[1]) : 20000;
    unsigned long long seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (unsigned long long)time(NULL);
    OK(MPI_Bcast(&seed, 1, MPI_UNSIGNED_LONG_LONG, 0, MPI_COMM_WORLD));
    if (rank == 0)
        printf("seed %llu: ferry run -n %d atomicity %lld %llu\n", seed, size, operations, seed), fflush(stdout);
    state = (seed + 1) * 0x9e3779b97f4a7c15u ^ (unsigned long long)(rank + 1) * 0xbf58476d1ce4e5b9u;
    bases = calloc(size, sizeof *bases);
    words = calloc(size, sizeof *words);
    notes = calloc((size_t)size * KINDS_OF_TYPES * NOTES, sizeof *notes);
    last_ticket = calloc((size_t)size * KINDS_OF_TYPES, sizeof *last_ticket);
    CHECK(bases && words && notes && last_ticket);
    lay_out();
    MPI_Comm host;
    int neighbours, wrong = 0, reachable = is_reachable();
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    OK(MPI_Comm_size(host, &neighbours));
    OK(MPI_Comm_free(&host));
    if (!reachable && rank == 0)
        printf("not tested: windows of a program's own memory, which the system does not let other processes reach\n");
    number share = operations / KINDS / size + 1;
    for (kind = 0; kind < (reachable ? KINDS : CREATE); kind++) {
        if (kind == SHARED && neighbours != size)
            continue;
        make_window();
        for (number end = done + share; done < end;)
            epoch(end - done);
        wrong += verify();
        free_window();
    }
    OK(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(wrong == 0);
    OK(MPI_Finalize());
    return 0;
}
