/* Random accesses in random epochs, against a model: epochs [SEED [ROUNDS]]. Without a seed, the clock makes one.

   All ranks know the plan of all, from the seed, and keep a model of all windows. In each round, each block of each window
   has a use: one rank puts there, or some get, or one rank changes it by accumulates, whose order matters, or all ranks
   accumulate with the same operation. So what is there after the round, and what each rank has got, is known. */
#include "check.h"

#include <string.h>
#include <time.h>

enum { BLOCKS = 8, BLOCK = 8, SLOTS = BLOCKS * BLOCK, RANKS_MAX = 64, OPS = 12 };
enum use { PUTS, GETS, CHANGES, SHARED_CHANGES, USES };
enum sync { FENCE, GROUPS, LOCKS, LOCK_ALL, LOCK_EACH, SYNCS };
enum kind { ALLOCATED, SHARED, CREATED, DYNAMIC, KINDS };
enum what { PUT, GET, ACCUMULATE, FETCH, FETCH_MANY, SWAP };

static int rank, size;
static long model[RANKS_MAX][SLOTS];

struct access {
    enum what what;
    int target, first, count, stride, exclusive, request, flush;
    MPI_Op op;
    long values[BLOCK], compare, found[BLOCK], expected[BLOCK];
};

static unsigned long next_random(unsigned long *state) {
    *state += 0x9e3779b97f4a7c15UL;
    unsigned long mixed = *state;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9UL;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebUL;
    return mixed ^ mixed >> 31;
}

static int below(unsigned long *state, int limit) {
    return (int)(next_random(state) % (unsigned long)limit);
}

static long combined(MPI_Op op, long old, long value) {
    if (op == MPI_SUM)
        return old + value;
    if (op == MPI_BXOR)
        return old ^ value;
    if (op == MPI_MAX)
        return old > value ? old : value;
    return op == MPI_REPLACE ? value : old;
}

/* The accesses of a rank in a round. Those of others change only the model. */
static int planned(unsigned long seed, int round, int origin, struct access *accesses) {
    unsigned long state = seed * 1000003UL + (unsigned long)round * 1009UL + (unsigned long)origin;
    const MPI_Op ops[] = {MPI_SUM, MPI_BXOR, MPI_MAX, MPI_REPLACE, MPI_NO_OP};
    char used[RANKS_MAX][BLOCKS] = {{0}};
    int count = 0;
    for (int tried = 0; tried < OPS; tried++) {
        int target = below(&state, size), block = below(&state, BLOCKS);
        unsigned long of_block = seed ^ ((unsigned long)round << 40) ^ ((unsigned long)target << 20) ^ (unsigned long)block;
        enum use use = (enum use)below(&of_block, USES);
        int owner = below(&of_block, size);
        MPI_Op common = ops[below(&of_block, 3)];
        struct access *access = &accesses[count];
        memset(access, 0, sizeof *access);
        access->target = target;
        access->stride = 1 + below(&state, 2);
        access->count = 1 + below(&state, BLOCK / access->stride);
        access->first = block * BLOCK + below(&state, BLOCK - (access->count - 1) * access->stride);
        access->exclusive = below(&state, 2);
        access->request = below(&state, 2);
        access->flush = below(&state, 3);
        for (int i = 0; i < BLOCK; i++)
            access->values[i] = (long)(next_random(&state) >> 8);
        int choice = below(&state, 4);
        if (use == PUTS && owner == origin && !used[target][block])
            access->what = PUT;
        else if (use == GETS)
            access->what = GET;
        else if (use == CHANGES && owner == origin)
            access->what = (enum what)(ACCUMULATE + choice), access->op = ops[below(&state, 5)];
        else if (use == SHARED_CHANGES)
            access->what = ACCUMULATE, access->op = common;
        else
            continue;
        used[target][block] = 1;
        if (access->what == ACCUMULATE && access->op == MPI_NO_OP)
            access->op = MPI_SUM;
        if (access->what == FETCH || access->what == SWAP)
            access->count = 1;
        long *slots = &model[target][access->first];
        /* Half of the swaps find what they expect. */
        access->compare = access->values[1] % 2 ? slots[0] : access->values[1];
        for (int i = 0; i < access->count; i++) {
            long *slot = &slots[i * access->stride];
            access->expected[i] = *slot;
            if (access->what == PUT)
                *slot = access->values[i];
            else if (access->what == SWAP)
                *slot = *slot == access->compare ? access->values[i] : *slot;
            else if (access->what != GET)
                *slot = combined(access->op, *slot, access->values[i]);
        }
        count++;
    }
    return count;
}

static MPI_Datatype sparse[BLOCK + 1];
static MPI_Aint *bases;

static void perform(MPI_Win win, struct access *access) {
    int n = access->count, target = access->target;
    MPI_Aint at = bases[target] + (MPI_Aint)access->first * (MPI_Aint)sizeof(long);
    MPI_Datatype type = access->stride == 2 ? sparse[n] : MPI_LONG;
    int count = access->stride == 2 ? 1 : n;
    MPI_Request request = MPI_REQUEST_NULL;
    if (access->what == PUT && access->request)
        OK(MPI_Rput(access->values, n, MPI_LONG, target, at, count, type, win, &request));
    else if (access->what == PUT)
        OK(MPI_Put(access->values, n, MPI_LONG, target, at, count, type, win));
    else if (access->what == GET && access->request)
        OK(MPI_Rget(access->found, n, MPI_LONG, target, at, count, type, win, &request));
    else if (access->what == GET)
        OK(MPI_Get(access->found, n, MPI_LONG, target, at, count, type, win));
    else if (access->what == ACCUMULATE && access->request)
        OK(MPI_Raccumulate(access->values, n, MPI_LONG, target, at, count, type, access->op, win, &request));
    else if (access->what == ACCUMULATE)
        OK(MPI_Accumulate(access->values, n, MPI_LONG, target, at, count, type, access->op, win));
    else if (access->what == FETCH)
        OK(MPI_Fetch_and_op(access->values, access->found, MPI_LONG, target, at, access->op, win));
    else if (access->what == FETCH_MANY && access->request)
        OK(MPI_Rget_accumulate(access->values, n, MPI_LONG, access->found, n, MPI_LONG, target, at, count, type,
                               access->op, win, &request));
    else if (access->what == FETCH_MANY)
        OK(MPI_Get_accumulate(access->values, n, MPI_LONG, access->found, n, MPI_LONG, target, at, count, type,
                              access->op, win));
    else
        OK(MPI_Compare_and_swap(access->values, &access->compare, access->found, MPI_LONG, target, at, win));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void perform_all(MPI_Win win, enum sync sync, struct access *accesses, int count) {
    MPI_Group all;
    OK(MPI_Win_get_group(win, &all));
    if (sync == FENCE)
        OK(MPI_Win_fence(0, win));
    if (sync == GROUPS) {
        OK(MPI_Win_post(all, 0, win));
        OK(MPI_Win_start(all, 0, win));
    }
    if (sync == LOCK_ALL)
        OK(MPI_Win_lock_all(0, win));
    if (sync == LOCK_EACH)
        for (int target = 0; target < size; target++)
            OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win));
    for (int i = 0; i < count; i++) {
        struct access *access = &accesses[i];
        /* Requests belong to passive targets. */
        access->request = access->request && sync != FENCE && sync != GROUPS;
        if (sync == LOCKS)
            OK(MPI_Win_lock(access->exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, access->target, 0, win));
        perform(win, access);
        if (sync >= LOCKS && access->flush == 1)
            OK(MPI_Win_flush(access->target, win));
        if (sync >= LOCKS && access->flush == 2)
            OK(MPI_Win_flush_local_all(win));
        if (sync == LOCKS)
            OK(MPI_Win_unlock(access->target, win));
    }
    if (sync == FENCE)
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    if (sync == GROUPS) {
        OK(MPI_Win_complete(win));
        OK(MPI_Win_wait(win));
    }
    if (sync == LOCK_ALL)
        OK(MPI_Win_unlock_all(win));
    if (sync == LOCK_EACH)
        for (int target = 0; target < size; target++)
            OK(MPI_Win_unlock(target, win));
    OK(MPI_Group_free(&all));
}

static void check_all(unsigned long seed, int round, struct access *accesses, int count, const long *mine) {
    for (int i = 0; i < count; i++)
        for (int at = 0; at < accesses[i].count; at++)
            if (accesses[i].what != PUT && accesses[i].what != ACCUMULATE && accesses[i].found[at] != accesses[i].expected[at]) {
                fprintf(stderr, "seed %lu, round %d: rank %d got %lx from slot %d of rank %d, not %lx\n", seed, round, rank,
                        accesses[i].found[at], accesses[i].first + at * accesses[i].stride, accesses[i].target,
                        accesses[i].expected[at]);
                exit(1);
            }
    for (int slot = 0; slot < SLOTS; slot++)
        if (mine[slot] != model[rank][slot]) {
            fprintf(stderr, "seed %lu, round %d: slot %d of rank %d is %lx, not %lx\n", seed, round, slot, rank, mine[slot],
                    model[rank][slot]);
            exit(1);
        }
}

static void run(unsigned long seed, int rounds, enum kind kind) {
    MPI_Win win;
    MPI_Aint base = 0, bytes = sizeof model[0];
    long *mine = NULL;
    if (kind == ALLOCATED)
        OK(MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win));
    if (kind == SHARED)
        OK(MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win));
    if (kind == CREATED || kind == DYNAMIC)
        CHECK((mine = malloc((size_t)bytes)) != NULL);
    if (kind == CREATED)
        OK(MPI_Win_create(mine, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    if (kind == DYNAMIC) {
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        OK(MPI_Win_attach(win, mine, bytes));
        OK(MPI_Get_address(mine, &base));
    }
    OK(MPI_Allgather(&base, 1, MPI_AINT, bases, 1, MPI_AINT, MPI_COMM_WORLD));
    memset(mine, 0, (size_t)bytes);
    memset(model, 0, sizeof model);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    static struct access accesses[OPS], others[OPS];
    for (int round = 0; round < rounds; round++) {
        int count = 0;
        for (int origin = 0; origin < size; origin++) {
            int planned_here = planned(seed, round, origin, origin == rank ? accesses : others);
            count = origin == rank ? planned_here : count;
        }
        unsigned long state = seed + (unsigned long)round;
        perform_all(win, (enum sync)below(&state, SYNCS), accesses, count);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
        check_all(seed, round, accesses, count, mine);
        OK(MPI_Win_unlock(rank, win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    if (kind == DYNAMIC)
        OK(MPI_Win_detach(win, mine));
    OK(MPI_Win_free(&win));
    if (kind == CREATED || kind == DYNAMIC)
        free(mine);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(size <= RANKS_MAX);
    unsigned long seed = argc > 1 ? strtoul(argv[1], NULL, 0) : (unsigned long)time(NULL);
    int rounds = argc > 2 ? atoi(argv[2]) : 40, ranks_here;
    OK(MPI_Bcast(&seed, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD));
    CHECK((bases = calloc((size_t)size, sizeof *bases)) != NULL);
    for (int n = 1; n <= BLOCK; n++) {
        OK(MPI_Type_vector(n, 1, 2, MPI_LONG, &sparse[n]));
        OK(MPI_Type_commit(&sparse[n]));
    }
    MPI_Comm host;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    OK(MPI_Comm_size(host, &ranks_here));
    OK(MPI_Allreduce(MPI_IN_PLACE, &ranks_here, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    OK(MPI_Comm_free(&host));
    for (int kind = 0; kind < KINDS; kind++)
        if (kind != SHARED || ranks_here == size)
            run(seed, rounds, (enum kind)kind);
    for (int n = 1; n <= BLOCK; n++)
        OK(MPI_Type_free(&sparse[n]));
    free(bases);
    OK(MPI_Finalize());
    return 0;
}
