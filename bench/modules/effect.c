/* The benefit of modules: broadcasts whose inner ranks are late, answers of ranks that compute, reductions meanwhile.
 *
 *     effect broadcast BROADCAST.wasm [-i ITERATIONS] [-max US] [-b BYTES]    any number of ranks
 *     effect echo ECHO.wasm [-i ITERATIONS] [-busy US]                        two ranks
 *     effect reduce VARIANCE.wasm [-i ITERATIONS] [-busy US] [-e ELEMENTS]    any number of ranks
 *     effect pingpong NOOP.wat [-i ITERATIONS]                                two ranks
 *
 * broadcast: a barrier, a random delay of up to -max at each rank, a broadcast from rank 0, and a delay to a common
 * end. It is done by a tree of receives and sends in the application, by MPI_Bcast, and by the module. Printed are the
 * time in the call, which on hosts that poll is the CPU utilisation (call_us, of all ranks; inner_call_us, of the inner
 * ranks of the tree); the CPU time of the whole process of inner ranks, with the agent that drives the NIC
 * (inner_cpu_us); and how late the last rank has its bytes, counted from when it and the root had arrived (late_us).
 *
 * echo asks a rank that computes for -busy at a time and polls for requests in between, and then one that never polls: it
 * has a module, or a handler of active messages.
 *
 * reduce starts a reduction with an operator of the program, computes for -busy, and waits: once with a function, which only
 * runs in calls of MPI, and once with the same as code on the NIC. Printed is the time in MPI_Wait.
 *
 * pingpong is half a round trip of 8 bytes, with a module that delivers everything and without. */
#include "load.h"

enum { BYTES_MAX = 65536, TAG = 4 };
static char bytes[BYTES_MAX];

static void by_tree(int count, MPI_Comm comm) {
    if (rank_ > 0) MPI_Recv(bytes, count, MPI_BYTE, (rank_ - 1) / 2, TAG, comm, MPI_STATUS_IGNORE);
    for (int child = 2 * rank_ + 1; child <= 2 * rank_ + 2 && child < size_; child++)
        MPI_Send(bytes, count, MPI_BYTE, child, TAG, comm);
}

static void by_library(int count, MPI_Comm comm) {
    MPI_Bcast(bytes, count, MPI_BYTE, 0, comm);
}

static void by_module(int count, MPI_Comm comm) {
    if (rank_ == 0) MPI_Send(bytes, count, MPI_BYTE, 0, TAG, comm);
    else MPI_Recv(bytes, count, MPI_BYTE, 0, TAG, comm, MPI_STATUS_IGNORE);
}

static void broadcast(const char *how, void (*call)(int, MPI_Comm), MPI_Comm comm, int iterations, double max, int count) {
    int inner = rank_ > 0 && 2 * rank_ + 1 < size_;
    double wall = 0, cpu = 0, late = 0, slack = 200e3;
    srand48(12345 + 7919 * rank_);
    for (int i = -5; i < iterations; i++) {
        if (i == 0) wall = cpu = late = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        double cpu_began = proc_cpu_ns(), began = now_ns();
        sleep_until(began + drand48() * max);
        double called = now_ns();
        memcpy(bytes, &called, sizeof called);
        call(count, comm);
        double done = now_ns(), root_called;
        wall += done - called;
        memcpy(&root_called, bytes, sizeof root_called);
        sleep_until(began + max + slack);
        cpu += proc_cpu_ns() - cpu_began;
        double mine = done - (called > root_called ? called : root_called), last;
        MPI_Reduce(&mine, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        late += last;
    }
    double own[4] = { inner ? wall : 0, inner ? cpu : 0, inner, wall }, sum[4];
    MPI_Reduce(own, sum, 4, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    double each = 1e3 * iterations;
    if (rank_ == 0)
        printf("broadcast how=%s n=%d bytes=%d max_us=%.0f call_us=%.2f inner_call_us=%.2f inner_cpu_us=%.2f late_us=%.2f\n",
               how, size_, count, max / 1e3, sum[3] / size_ / each, sum[0] / sum[2] / each, sum[1] / sum[2] / each, late / each);
}

static void ask(const char *how, MPI_Comm comm, int iterations) {
    double *took = malloc(sizeof *took * (size_t)iterations);
    for (int i = 0; i < iterations; i++) {
        double number = i, began = now_ns();
        MPI_Send(&number, 1, MPI_DOUBLE, 1, TAG, comm);
        MPI_Recv(&number, 1, MPI_DOUBLE, 1, TAG + 1, comm, MPI_STATUS_IGNORE);
        took[i] = now_ns() - began;
        sleep_until(now_ns() + 3e6 * drand48());
    }
    double middle = median(took, iterations);
    printf("echo how=%s median_us=%.2f p90_us=%.2f\n", how, middle / 1e3, took[iterations * 9 / 10] / 1e3);
    free(took);
}

/* Computes, and polls for requests in between, for as long as the other side asks. */
static void compute(int looking, int iterations, double busy) {
    MPI_Request over;
    int done = 0, answered = 0;
    MPI_Irecv(NULL, 0, MPI_BYTE, 0, 9, MPI_COMM_WORLD, &over);
    while (!done) {
        spin_ns(busy);
        for (int there = 1; looking && there && answered < iterations;) {
            double number;
            MPI_Iprobe(0, TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
            if (!there) break;
            MPI_Recv(&number, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&number, 1, MPI_DOUBLE, 0, TAG + 1, MPI_COMM_WORLD);
            answered++;
        }
        MPI_Test(&over, &done, MPI_STATUS_IGNORE);
    }
}

/* What examples/modules/echo.c does. */
static int answer(const Ferry_Am_message *message, void *state) {
    (void)state;
    if (message->tag % 2 == 1) return FERRY_AM_DELIVER;
    message->send(message, message->source, message->tag + 1, message->bytes, message->len);
    return FERRY_AM_DONE;
}

static void echo(MPI_Comm module, int iterations, double busy) {
    static const char *const ways[] = { "application", "module", "handler" };
    MPI_Comm comms[] = { MPI_COMM_WORLD, module, MPI_COMM_NULL };
    Ferry_Am_create(MPI_COMM_WORLD, "handler", answer, NULL, &comms[2]);
    for (int way = 0; way < 3; way++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank_ == 0) {
            ask(ways[way], comms[way], iterations);
            MPI_Send(NULL, 0, MPI_BYTE, 1, 9, MPI_COMM_WORLD);
        } else if (rank_ == 1) {
            compute(way == 0, iterations, busy);
        }
    }
    Ferry_Module_unload(&comms[2]);
}

enum { IN_SET = 3, SETS_MAX = 8192 };
static double sets[SETS_MAX][IN_SET], merged[SETS_MAX][IN_SET];

/* What examples/modules/variance.c does. */
static void merge(void *from, void *into, int *count, MPI_Datatype *type) {
    double(*others)[IN_SET] = from, (*ones)[IN_SET] = into;
    (void)type;
    for (int i = 0; i < *count; i++) {
        double one = ones[i][0], other = others[i][0], both = one + other, apart = others[i][1] - ones[i][1];
        if (other <= 0) continue;
        ones[i][0] = both;
        ones[i][1] += apart * (other / both);
        ones[i][2] += others[i][2] + apart * apart * (one * other / both);
    }
}

static void reduce(const char *how, MPI_Op op, MPI_Datatype set, int elements, int iterations, double busy) {
    double *took = malloc(sizeof *took * (size_t)iterations);
    for (int i = 0; i < iterations; i++) {
        MPI_Request request;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Iallreduce(sets, merged, elements, set, op, MPI_COMM_WORLD, &request);
        spin_ns(busy);
        double began = now_ns(), mine, last;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        mine = now_ns() - began;
        if (merged[elements - 1][0] != size_) MPI_Abort(MPI_COMM_WORLD, 3);
        MPI_Reduce(&mine, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        took[i] = last;
    }
    double middle = median(took, iterations);
    if (rank_ == 0) printf("reduce how=%s wait_us=%.2f\n", how, middle / 1e3);
    free(took);
}

static void reductions(const char *file, int elements, int iterations, double busy) {
    MPI_Datatype set;
    MPI_Op function, code;
    if (elements > SETS_MAX) elements = SETS_MAX;
    for (int i = 0; i < SETS_MAX; i++) sets[i][0] = 1, sets[i][1] = rank_ + i;
    MPI_Type_contiguous(IN_SET, MPI_DOUBLE, &set);
    MPI_Type_commit(&set);
    MPI_Op_create(merge, 1, &function);
    Ferry_Op_create(code_, read_code(file), 1, &code);
    reduce("function", function, set, elements, iterations, busy);
    reduce("code", code, set, elements, iterations, busy);
    MPI_Op_free(&function);
    MPI_Op_free(&code);
    MPI_Type_free(&set);
}

/* Half a round trip of 8 bytes, in nanoseconds. */
static double half(MPI_Comm comm, int iterations) {
    double number = 0, began = 0;
    for (int i = -iterations / 10; i < iterations; i++) {
        if (i == 0) began = now_ns();
        for (int turn = 0; turn < 2; turn++) {
            if (rank_ == turn) MPI_Send(&number, 1, MPI_DOUBLE, 1 - turn, TAG, comm);
            else MPI_Recv(&number, 1, MPI_DOUBLE, turn, TAG, comm, MPI_STATUS_IGNORE);
        }
    }
    return (now_ns() - began) / iterations / 2;
}

/* Messages without and with a module alternate, since the machine changes by the minute. */
static void pingpong(MPI_Comm module, int iterations) {
    enum { ROUNDS = 41 };
    double without[ROUNDS], with[ROUNDS], more[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        without[round] = half(MPI_COMM_WORLD, iterations);
        with[round] = half(module, iterations);
        more[round] = with[round] - without[round];
    }
    double plain = median(without, ROUNDS), through = median(with, ROUNDS), difference = median(more, ROUNDS);
    if (rank_ == 0) printf("pingpong without_ns=%.1f with_ns=%.1f more_ns=%.1f\n", plain, through, difference);
}

int main(int argc, char **argv) {
    bench_init(&argc, &argv);
    need_ranks(2);
    if (argc < 3) {
        if (rank_ == 0) fputs("usage: effect broadcast|echo|reduce|pingpong MODULE [options]\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int iterations = (int)opt_num(argc, argv, "-i", 100);
    if (!strcmp(argv[1], "reduce")) {
        int elements = (int)opt_num(argc, argv, "-e", 1024);
        reductions(argv[2], elements, iterations, 1e3 * opt_num(argc, argv, "-busy", 2000));
        return MPI_Finalize();
    }
    double began = now_ns();
    MPI_Comm module = load("effect", argv[2]);
    if (rank_ == 0) printf("load n=%d ms=%.2f\n", size_, (now_ns() - began) / 1e6);
    if (!strcmp(argv[1], "broadcast")) {
        double max = 1e3 * opt_num(argc, argv, "-max", 5000);
        int count = (int)opt_num(argc, argv, "-b", 4096);
        broadcast("tree", by_tree, MPI_COMM_WORLD, iterations, max, count);
        broadcast("library", by_library, MPI_COMM_WORLD, iterations, max, count);
        broadcast("module", by_module, module, iterations, max, count);
    } else if (!strcmp(argv[1], "pingpong")) {
        pingpong(module, iterations);
    } else {
        echo(module, iterations, 1e3 * opt_num(argc, argv, "-busy", 10000));
    }
    Ferry_Module_unload(&module);
    MPI_Finalize();
    return 0;
}
