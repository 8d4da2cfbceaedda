/* onesided: one-sided operations of rank 0 on rank 1, or of all other ranks on rank 0.
 *
 *   onesided away WINDOW SECONDS OP[,OP...]   the target computes for SECONDS and calls nothing meanwhile
 *   onesided inside WINDOW SECONDS [BYTES]    the target waits in a barrier; put + flush and get + flush within lock_all
 *   onesided rate WINDOW SECONDS OP           as many as all ranks but 0 can do on rank 0, which waits in a barrier
 *   onesided memory WINDOW COUNT              memory for COUNT windows (allocate or create) of 64 bytes per rank
 *
 * WINDOW: allocate, shared, create, dynamic. Each figure is one line, printed when it is known: a case that hangs does not
 * lose those before it. */
#include "bench.h"

enum { ROOM = 1 << 20, SAMPLES_MAX = 1000, BATCH = 16, VECTOR = 512 };

static MPI_Win win;
static MPI_Aint target_at; /* Displacement of the target's memory. */
static char *ours;         /* Memory of the origin. */
static int target;

static void make_window(const char *kind) {
    char *base = NULL;
    MPI_Aint at[2] = {0, 0};
    if (!strcmp(kind, "allocate")) {
        MPI_Win_allocate(ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    } else if (!strcmp(kind, "shared")) {
        MPI_Win_allocate_shared(ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    } else {
        base = aligned_alloc(4096, ROOM);
        if (!strcmp(kind, "create")) {
            MPI_Win_create(base, ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        } else {
            MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
            MPI_Win_attach(win, base, ROOM);
            MPI_Get_address(base, &at[0]);
        }
    }
    memset(base, 0, ROOM);
    ours = aligned_alloc(4096, ROOM);
    memset(ours, 1, ROOM);
    target_at = at[0];
    MPI_Bcast(&target_at, 1, MPI_AINT, target, MPI_COMM_WORLD);
}

enum op { PUT, GET, RPUT, ACCUMULATE, RACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP, FLUSHED_PUT, OPS };
static const char *NAMES[] = {"put", "get", "rput", "accumulate", "raccumulate", "get_accumulate", "fetch_and_op",
                              "compare_and_swap", "flushed_put"};

/* Lock, operation, unlock; or put and flush, within lock_all. Locks are exclusive for all but accumulates. */
static void perform(enum op op) {
    static long value = 1, expected = 0, before;
    MPI_Request request;
    if (op != FLUSHED_PUT) MPI_Win_lock(op <= RPUT ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, win);
    switch (op) {
    case PUT:
    case FLUSHED_PUT:
        MPI_Put(&value, 1, MPI_LONG, target, target_at, 1, MPI_LONG, win);
        break;
    case GET:
        MPI_Get(&before, 1, MPI_LONG, target, target_at, 1, MPI_LONG, win);
        break;
    case RPUT:
        MPI_Rput(&value, 1, MPI_LONG, target, target_at, 1, MPI_LONG, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    case ACCUMULATE:
        MPI_Accumulate(&value, 1, MPI_LONG, target, target_at, 1, MPI_LONG, MPI_SUM, win);
        break;
    case RACCUMULATE:
        MPI_Raccumulate(&value, 1, MPI_LONG, target, target_at, 1, MPI_LONG, MPI_SUM, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    case GET_ACCUMULATE:
        MPI_Get_accumulate(&value, 1, MPI_LONG, &before, 1, MPI_LONG, target, target_at, 1, MPI_LONG, MPI_SUM, win);
        break;
    case FETCH_AND_OP:
        MPI_Fetch_and_op(&value, &before, MPI_LONG, target, target_at, MPI_SUM, win);
        break;
    default:
        MPI_Compare_and_swap(&value, &expected, &before, MPI_LONG, target, target_at, win);
    }
    if (op == FLUSHED_PUT) MPI_Win_flush(target, win);
    else MPI_Win_unlock(target, win);
}

static enum op named(const char *name) {
    for (int op = 0; op < OPS; op++)
        if (!strcmp(name, NAMES[op])) return op;
    fprintf(stderr, "onesided: no operation %s\n", name);
    MPI_Abort(MPI_COMM_WORLD, 2);
    return OPS;
}

static void away(const char *kind, double seconds, char *ops) {
    static double samples[SAMPLES_MAX];
    for (char *name = strtok(ops, ","); name; name = strtok(NULL, ",")) {
        enum op op = named(name);
        int count = 0;
        if (op == FLUSHED_PUT && !rank_) MPI_Win_lock_all(0, win);
        if (!rank_) perform(op); /* Whatever happens only once happens while the target is in the barrier. */
        MPI_Barrier(MPI_COMM_WORLD);
        double end = now_ns() + 1e9 * seconds;
        if (rank_ == target) {
            spin_until(end);
        } else {
            sleep_until(now_ns() + 2e7); /* By now the target has left the barrier. */
            while (count < SAMPLES_MAX && now_ns() < end - 1e7) {
                double began = now_ns();
                perform(op);
                samples[count++] = now_ns() - began;
            }
            double first = samples[0];
            printf("onesided window=%s op=%s count=%d first_us=%.3f us=%.3f\n", kind, name, count, first / 1e3,
                   median(samples, count) / 1e3);
            fflush(stdout);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (op == FLUSHED_PUT && !rank_) MPI_Win_unlock_all(win);
    }
}

static void move(int put, int bytes) {
    if (put) MPI_Put(ours, bytes, MPI_CHAR, target, target_at, bytes, MPI_CHAR, win);
    else MPI_Get(ours, bytes, MPI_CHAR, target, target_at, bytes, MPI_CHAR, win);
    MPI_Win_flush(target, win);
}

static void inside(const char *kind, double seconds, int bytes) {
    static double samples[SAMPLES_MAX];
    if (!rank_) {
        int batch = bytes > 4096 ? 1 : BATCH;
        MPI_Win_lock_all(0, win);
        for (int put = 1; put >= 0; put--) {
            int count = 0;
            for (int i = 0; i < 3; i++) move(put, bytes);
            double end = now_ns() + 1e9 * seconds;
            while (count < SAMPLES_MAX && (!count || now_ns() < end)) {
                double began = now_ns();
                for (int i = 0; i < batch; i++) move(put, bytes);
                samples[count++] = (now_ns() - began) / batch;
            }
            double ns = median(samples, count);
            printf("onesided window=%s op=%s bytes=%d ns=%.1f MBs=%.1f\n", kind, put ? "put" : "get", bytes, ns,
                   1e3 * bytes / ns);
            fflush(stdout);
        }
        MPI_Win_unlock_all(win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void rate(const char *kind, double seconds, const char *op) {
    static long one = 1, before;
    double each = 0, all;
    static double ones[VECTOR];
    int fetches = !strcmp(op, "fetch_and_op"), length = !strcmp(op, "accumulate_4096") ? VECTOR : 1;
    for (int i = 0; i < VECTOR; i++) ones[i] = 1;
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ != target) {
        double began = now_ns(), end = began + 1e9 * seconds;
        long count = 0;
        while (now_ns() < end) {
            for (int i = 0; i < BATCH; i++) {
                if (fetches) {
                    MPI_Fetch_and_op(&one, &before, MPI_LONG, target, target_at, MPI_SUM, win);
                    MPI_Win_flush(target, win);
                } else {
                    MPI_Accumulate(ones, length, MPI_DOUBLE, target, target_at, length, MPI_DOUBLE, MPI_SUM, win);
                }
            }
            if (!fetches) MPI_Win_flush(target, win);
            count += BATCH;
        }
        each = 1e9 * (double)count / (now_ns() - began);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    MPI_Reduce(&each, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!rank_) printf("onesided window=%s op=%s ranks=%d kops=%.3f\n", kind, op, size_, all / 1e3);
}

/* Memory of all ranks, in bytes. What they share counts once. */
static double memory_of_all(void) {
    char line[256];
    double mine = 0, all = 0, kilobytes;
    MPI_Barrier(MPI_COMM_WORLD);
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss: %lf", &kilobytes) == 1) mine = 1024 * kilobytes;
    if (file) fclose(file);
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* Bytes per rank and window: when all windows are open, when each rank has put to one other, and to all others. */
static void memory(const char *kind, int count) {
    enum { BYTES = 64 };
    MPI_Win *windows = malloc((size_t)count * sizeof *windows);
    long value = 1;
    double grown[3];
    int created = !strcmp(kind, "create");
    char *base = calloc((size_t)count, BYTES), *given;
    memory_of_all(); /* What the first call itself needs. */
    double before = memory_of_all();
    for (int i = 0; i < count; i++) {
        if (created) MPI_Win_create(base + i * BYTES, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &windows[i]);
        else MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &given, &windows[i]);
    }
    grown[0] = memory_of_all() - before;
    for (int others = 1, at = 1; at < 3; at++, others = size_) {
        for (int i = 0; i < count; i++) {
            MPI_Win_lock_all(0, windows[i]);
            for (int other = 1; other <= others; other++)
                MPI_Put(&value, 1, MPI_LONG, (rank_ + other) % size_, 0, 1, MPI_LONG, windows[i]);
            MPI_Win_unlock_all(windows[i]);
        }
        grown[at] = memory_of_all() - before;
    }
    for (int i = 0; i < count; i++) MPI_Win_free(&windows[i]);
    double each = (double)count * size_;
    if (!rank_)
        printf("onesided window=%s op=memory ranks=%d windows=%d open=%.0f one=%.0f all=%.0f\n", kind, size_, count,
               grown[0] / each, grown[1] / each, grown[2] / each);
    free(windows);
    free(base);
}

int main(int argc, char **argv) {
    bench_init(&argc, &argv);
    need_ranks(2);
    if (argc < 4) MPI_Abort(MPI_COMM_WORLD, 2);
    if (!strcmp(argv[1], "memory")) {
        memory(argv[2], atoi(argv[3]));
        MPI_Finalize();
        return 0;
    }
    int rates = !strcmp(argv[1], "rate");
    target = rates ? 0 : 1;
    make_window(argv[2]);
    double seconds = atof(argv[3]);
    if (!strcmp(argv[1], "away")) away(argv[2], seconds, argv[4]);
    else if (rates) rate(argv[2], seconds, argv[4]);
    else inside(argv[2], seconds, argc > 4 ? atoi(argv[4]) : 8);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
