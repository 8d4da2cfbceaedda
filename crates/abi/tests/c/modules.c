/* Modules, by ferry.h: loading, using, inspecting, replacing, unloading, and the errors of each. */
#include "check.h"

#include <ferry.h>
#include <string.h>

/* Even tags are requests, and are answered with the next odd one; each request raises counter 3. */
static const char ECHO[] =
    "(module (import \"ferry\" \"tag\" (func $tag (result i32)))"
    " (import \"ferry\" \"sender\" (func $sender (result i32)))"
    " (import \"ferry\" \"length\" (func $length (result i32)))"
    " (import \"ferry\" \"read\" (func $read (param i32 i32 i32)))"
    " (import \"ferry\" \"send\" (func $send (param i32 i32 i32 i32)))"
    " (import \"ferry\" \"raise\" (func $raise (param i32 i64)))"
    " (memory (export \"memory\") 2)"
    " (func (export \"on_message\") (result i32)"
    "  (if (i32.and (call $tag) (i32.const 1)) (then (return (i32.const 0))))"
    "  (call $read (i32.const 0) (i32.const 0) (call $length))"
    "  (call $send (call $sender) (i32.add (call $tag) (i32.const 1)) (i32.const 0) (call $length))"
    "  (call $raise (i32.const 3) (i64.const 1))"
    "  (i32.const 1)))";

static const char DELIVERS[] = "(module (func (export \"on_message\") (result i32) i32.const 0))";
static const char LOOPS[] =
    "(module (func (export \"on_message\") (result i32) (loop $again br $again) i32.const 0))";

static int rank, size;

static MPI_Comm load(const char *name, const char *code) {
    MPI_Comm comm;
    OK(Ferry_Module_load(MPI_COMM_WORLD, name, code, (MPI_Count)strlen(code), &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    return comm;
}

/* Checks a part of the text of an error. */
static void expect(int error, const char *part) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    CHECK(error != MPI_SUCCESS);
    OK(MPI_Error_string(error, text, &length));
    if (strstr(text, part) == NULL) {
        fprintf(stderr, "not in \"%s\": %s\n", text, part);
        exit(1);
    }
}

static void echo(void) {
    MPI_Comm comm = load("echo", ECHO), listed[2];
    int next = (rank + 1) % size, before = (rank + size - 1) % size, count, other;
    char name[MPI_MAX_OBJECT_NAME];
    OK(MPI_Comm_get_name(comm, name, &count));
    CHECK(strcmp(name, "echo") == 0);
    OK(MPI_Comm_size(comm, &count));
    CHECK(count == size);

    /* The receiving rank makes no calls for these requests. */
    for (int i = 0; i < 20; i++) {
        OK(MPI_Send(&i, 1, MPI_INT, next, 6, comm));
        OK(MPI_Recv(&other, 1, MPI_INT, next, 7, comm, MPI_STATUS_IGNORE));
        CHECK(other == i);
    }
    OK(Ferry_Module_wait(comm, 3, 20));
    Ferry_Module_stats stats;
    OK(Ferry_Module_get_stats(comm, &stats));
    /* Requests, and the answers to this rank's requests. */
    CHECK(stats.messages >= 40 && stats.delivered == 20 && stats.consumed == 20 && stats.sent == 20);
    CHECK(stats.bytes >= 160 && stats.faults == 0 && stats.fuel > 0 && stats.last_fault[0] == 0);

    /* Collectives bypass the module. */
    int sum = 1;
    OK(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK(sum == size);

    MPI_Comm second = load("second", DELIVERS);
    OK(Ferry_Module_list(2, listed, &count));
    CHECK(count == 2 && listed[0] == comm && listed[1] == second);
    OK(Ferry_Module_list(0, NULL, &count));
    CHECK(count == 2);

    /* Two modules at once: a message goes to the module of its communicator. */
    OK(MPI_Send(&rank, 1, MPI_INT, next, 6, second));
    OK(MPI_Recv(&other, 1, MPI_INT, before, 6, second, MPI_STATUS_IGNORE));
    CHECK(other == before);
    OK(Ferry_Module_unload(&second));
    CHECK(second == MPI_COMM_NULL);
    OK(Ferry_Module_list(2, listed, &count));
    CHECK(count == 1 && listed[0] == comm);

    /* The new module delivers what the old one answered; the statistics are kept. */
    OK(Ferry_Module_replace(comm, DELIVERS, (MPI_Count)strlen(DELIVERS)));
    OK(MPI_Send(&rank, 1, MPI_INT, next, 6, comm));
    OK(MPI_Recv(&other, 1, MPI_INT, before, 6, comm, MPI_STATUS_IGNORE));
    CHECK(other == before);
    OK(Ferry_Module_get_stats(comm, &stats));
    CHECK(stats.delivered == 21 && stats.consumed == 20);
    OK(Ferry_Module_unload(&comm));
}

static void faults(void) {
    MPI_Comm comm = load("loops", LOOPS);
    int next = (rank + 1) % size, before = (rank + size - 1) % size, number = 5;
    char why[200];
    OK(MPI_Send(&number, 1, MPI_INT, next, 9, comm));
    snprintf(why, sizeof why, "in loops: the module failed on the message from rank %d with tag 9: it used up its fuel",
             before);
    expect(MPI_Recv(&number, 1, MPI_INT, before, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE), why);
    CHECK(number == 5);
    Ferry_Module_stats stats;
    OK(Ferry_Module_get_stats(comm, &stats));
    CHECK(stats.faults >= 1 && stats.messages >= 1 && strstr(stats.last_fault, "it used up its fuel"));

    /* A probe sees the message, and a receive reports the fault. */
    MPI_Status status;
    int count;
    OK(MPI_Send(&number, 1, MPI_INT, next, 10, comm));
    OK(MPI_Probe(before, 10, comm, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == 0 && status.MPI_SOURCE == before);
    expect(MPI_Recv(&number, 1, MPI_INT, before, 10, comm, &status), "with tag 10: it used up its fuel");

    expect(Ferry_Module_wait(comm, 8, 1), "invalid counter 8; modules have counters 0 to 7");
    OK(MPI_Barrier(comm));
    /* Freeing the communicator unloads the module at this rank. */
    OK(MPI_Comm_free(&comm));
}

static void refusals(void) {
    static const char STRANGER[] =
        "(module (import \"env\" \"printf\" (func)) (func (export \"on_message\") (result i32) i32.const 0))";
    MPI_Comm comm, world;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &world));
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    expect(Ferry_Module_load(world, "no", "nonsense", 8, &comm), "the code is not WebAssembly");
    CHECK(comm == MPI_COMM_NULL);
    expect(Ferry_Module_load(world, "no", STRANGER, (MPI_Count)strlen(STRANGER), &comm),
           "the module imports `env.printf`");
    expect(Ferry_Module_load(world, "no", "", -1, &comm), "invalid code length -1");
    if (size > 1) {
        const char *code = rank == size - 1 ? LOOPS : DELIVERS;
        char why[100];
        snprintf(why, sizeof why, "rank %d passed different code from rank 0", size - 1);
        expect(Ferry_Module_load(world, "no", code, (MPI_Count)strlen(code), &comm), why);
    }
    expect(Ferry_Module_replace(world, DELIVERS, (MPI_Count)strlen(DELIVERS)), "the communicator has no module");
    OK(MPI_Comm_free(&world));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    echo();
    faults();
    refusals();
    /* A module that is not unloaded is freed with the rank. */
    load("left", DELIVERS);
    OK(MPI_Finalize());
    return 0;
}
