/* Operators whose code the NIC runs, by ferry.h: in all kinds of reductions, while the program computes, and their errors. */
#include "check.h"

#include <ferry.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { NUMBERS = 3000, GAP = 3, SECONDS_MAX = 30 };

/* For each element of eight bytes: what becomes of the one at $into. */
#define EACH(value)                                                                                          \
    "(module (memory (export \"memory\") 1)"                                                                 \
    " (func (export \"combine\") (param $from i32) (param $into i32) (param $count i32)"                     \
    "  (block $over (loop $next"                                                                             \
    "   (br_if $over (i32.eqz (local.get $count)))"                                                          \
    "   (i64.store (local.get $into) " value ")"                                                             \
    "   (local.set $from (i32.add (local.get $from) (i32.const 8)))"                                         \
    "   (local.set $into (i32.add (local.get $into) (i32.const 8)))"                                         \
    "   (local.set $count (i32.sub (local.get $count) (i32.const 1)))"                                       \
    "   (br $next)))))"

static const char ADD[] = EACH("(i64.add (i64.load (local.get $from)) (i64.load (local.get $into)))");
/* The result is the contribution of the first rank. */
static const char FIRST[] = EACH("(i64.load (local.get $from))");
static const char LOOPS[] =
    "(module (memory (export \"memory\") 1)"
    " (func (export \"combine\") (param i32 i32 i32) (loop $again br $again)))";

static int rank, size;
static int64_t mine[NUMBERS], result[NUMBERS];

static MPI_Op operator_of(const char *code, int commute) {
    MPI_Op op;
    int commutes;
    OK(Ferry_Op_create(code, (MPI_Count)strlen(code), commute, &op));
    OK(MPI_Op_commutative(op, &commutes));
    CHECK(commutes == commute);
    return op;
}

static void expect(int error, int class, const char *part) {
    char text[MPI_MAX_ERROR_STRING];
    int length, found;
    CHECK(error != MPI_SUCCESS);
    OK(MPI_Error_class(error, &found));
    OK(MPI_Error_string(error, text, &length));
    if (found != class || strstr(text, part) == NULL) {
        fprintf(stderr, "not in \"%s\": %s\n", text, part);
        exit(1);
    }
}

/* Whether the result is what the first `ranks` ranks contributed together. */
static void check_sums(const volatile int64_t *sums, int count, int64_t ranks) {
    for (int i = 0; i < count; i++) CHECK(sums[i] == i * ranks + ranks * (ranks - 1) / 2);
}

static void reductions(void) {
    MPI_Op add = operator_of(ADD, 1), first = operator_of(FIRST, 0);
    MPI_Request request;
    OK(MPI_Allreduce(mine, result, NUMBERS, MPI_INT64_T, add, MPI_COMM_WORLD));
    check_sums(result, NUMBERS, size);
    OK(MPI_Reduce(mine, result, NUMBERS, MPI_INT64_T, add, size - 1, MPI_COMM_WORLD));
    if (rank == size - 1) check_sums(result, NUMBERS, size);
    OK(MPI_Scan(mine, result, NUMBERS, MPI_INT64_T, add, MPI_COMM_WORLD));
    check_sums(result, NUMBERS, rank + 1);
    OK(MPI_Exscan(mine, result, NUMBERS, MPI_INT64_T, add, MPI_COMM_WORLD));
    if (rank > 0) check_sums(result, NUMBERS, rank);
    OK(MPI_Allreduce(mine, result, NUMBERS, MPI_INT64_T, first, MPI_COMM_WORLD));
    check_sums(result, NUMBERS, 1);
    OK(MPI_Reduce_local(mine, result, NUMBERS, MPI_INT64_T, add));
    for (int i = 0; i < NUMBERS; i++) CHECK(result[i] == 2 * i + rank);

    OK(MPI_Allreduce_init(mine, result, NUMBERS, MPI_INT64_T, add, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int i = 0; i < 3; i++) {
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        check_sums(result, NUMBERS, size);
    }
    OK(MPI_Request_free(&request));

    /* Freed while it is in use. */
    OK(MPI_Iallreduce(mine, result, NUMBERS, MPI_INT64_T, add, MPI_COMM_WORLD, &request));
    OK(MPI_Op_free(&add));
    CHECK(add == MPI_OP_NULL);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    check_sums(result, NUMBERS, size);
    OK(MPI_Op_free(&first));
}

/* Elements come without their gaps. */
static void elements_with_gaps(void) {
    MPI_Op add = operator_of(ADD, 1);
    MPI_Datatype apart, spaced;
    OK(MPI_Type_create_hindexed(2, (int[]){1, 1}, (MPI_Aint[]){0, 2 * sizeof *mine}, MPI_INT64_T, &apart));
    OK(MPI_Type_create_resized(apart, 0, GAP * sizeof *mine, &spaced));
    OK(MPI_Type_commit(&spaced));
    /* An element of it is two numbers; the code adds only the first of each. */
    memset(result, 0, sizeof result);
    OK(MPI_Allreduce(mine, result, 1, spaced, add, MPI_COMM_WORLD));
    CHECK(result[0] == (int64_t)size * (size - 1) / 2 && result[1] == 0);
    OK(MPI_Type_free(&apart));
    OK(MPI_Type_free(&spaced));
    OK(MPI_Op_free(&add));
}

/* The result comes although no rank calls MPI. */
static void progress(void) {
    MPI_Op add = operator_of(ADD, 1);
    MPI_Request request;
    time_t end = time(NULL) + SECONDS_MAX;
    volatile int64_t *last = &result[NUMBERS - 1];
    *last = -1;
    OK(MPI_Iallreduce(mine, result, NUMBERS, MPI_INT64_T, add, MPI_COMM_WORLD, &request));
    while (*last != (NUMBERS - 1) * (int64_t)size + (int64_t)size * (size - 1) / 2) CHECK(time(NULL) < end);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    check_sums(result, NUMBERS, size);
    OK(MPI_Op_free(&add));
}

static void errors(void) {
    static const char NO_OPERATOR[] = "(module (func (export \"on_message\") (result i32) i32.const 0))";
    static const char FAILED[] = "the operator failed, and cannot be used any more: it used up its fuel";
    MPI_Comm world;
    MPI_Op op;
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &world));
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    expect(Ferry_Op_create("nonsense", 8, 1, &op), MPI_ERR_OP, "the code is not WebAssembly");
    expect(Ferry_Op_create("", -1, 1, &op), MPI_ERR_COUNT, "invalid code length -1");
    expect(Ferry_Op_create(NO_OPERATOR, (MPI_Count)strlen(NO_OPERATOR), 1, &op), MPI_ERR_OP,
           "the operator exports no function `combine`");

    MPI_Datatype large;
    OK(MPI_Type_contiguous(40000, MPI_BYTE, &large));
    OK(MPI_Type_commit(&large));
    op = operator_of(ADD, 1);
    expect(MPI_Allreduce(mine, result, 0, large, op, world), MPI_ERR_OP,
           "an element has 40000 bytes; an operator on the NIC takes at most 32768");
    OK(MPI_Type_free(&large));
    OK(MPI_Op_free(&op));

    op = operator_of(LOOPS, 1);
    result[0] = 5;
    expect(MPI_Reduce_local(mine, result, 1, MPI_INT64_T, op), MPI_ERR_OP, FAILED);
    CHECK(result[0] == 5);
    expect(MPI_Reduce_local(mine, result, 1, MPI_INT64_T, op), MPI_ERR_OP, FAILED);
    OK(MPI_Op_free(&op));

    /* Ranks that have combined nothing do not know. */
    op = operator_of(LOOPS, 1);
    int error = MPI_Reduce(mine, result, 1, MPI_INT64_T, op, 0, world);
    if (size > 1 && rank == 0) expect(error, MPI_ERR_OP, FAILED);
    OK(MPI_Op_free(&op));
    OK(MPI_Comm_free(&world));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    for (int i = 0; i < NUMBERS; i++) mine[i] = i + rank;
    reductions();
    elements_with_gaps();
    progress();
    errors();
    OK(MPI_Finalize());
    return 0;
}
