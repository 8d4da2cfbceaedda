// Ranks that are spawned on several hosts, for tests/hosts: where they start, and who outlives whom. Each host is a
// network namespace.
//
//     children spread H        2 H children on H hosts: two on each, and all messages arrive
//     children on HOST         the key `host`: all children are on HOST; another name is an error
//     children outlive W       the children of W = old work on after their parents have ended, or W = new end long before
//     children die             a child is killed: its parent gets an error from a receive, and goes on
//     children orphans         the parents are killed: a child gets an error from a receive, and goes on

#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CHECK(that)                                                      \
    do {                                                                 \
        if (!(that)) {                                                   \
            fprintf(stderr, "line %d: %s is wrong\n", __LINE__, #that); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                \
        }                                                                \
    } while (0)

static int rank, size;

static long host(void) {
    struct stat space;
    CHECK(stat("/proc/self/ns/net", &space) == 0);
    return (long)space.st_ino;
}

static void rest(int ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static int spawn(char **argv, int ranks, const char *where, MPI_Comm *children) {
    MPI_Info info;
    MPI_Info_create(&info);
    if (where) MPI_Info_set(info, "host", where);
    int error = MPI_Comm_spawn(argv[0], argv + 1, ranks, info, 0, MPI_COMM_WORLD, children, MPI_ERRCODES_IGNORE);
    MPI_Info_free(&info);
    return error;
}

// Children tell the first parent their hosts, in order of their ranks, a long message from each.
static void tell(MPI_Comm parent) {
    static long here[100000];
    for (int i = 0; i < 100000; i++) here[i] = host();
    MPI_Send(here, 100000, MPI_LONG, 0, rank, parent);
}

static long *told(MPI_Comm children, int count) {
    static long here[100000];
    long *hosts = calloc(count, sizeof *hosts);
    for (int child = 0; child < count && rank == 0; child++) {
        MPI_Recv(here, 100000, MPI_LONG, child, child, children, MPI_STATUS_IGNORE);
        for (int i = 1; i < 100000; i++) CHECK(here[i] == here[0]);
        hosts[child] = here[0];
    }
    return hosts;
}

static void spread(char **argv, int count) {
    MPI_Comm children;
    CHECK(spawn(argv, 2 * count, NULL, &children) == MPI_SUCCESS);
    long *hosts = told(children, 2 * count);
    for (int i = 0; i < 2 * count && rank == 0; i++) {
        int same = 0;
        for (int j = 0; j < 2 * count; j++) same += hosts[j] == hosts[i];
        CHECK(same == 2 && hosts[i] == hosts[i ^ 1]);
    }
    free(hosts);
    MPI_Comm_disconnect(&children);
}

static void on(char **argv, const char *name) {
    MPI_Comm children;
    CHECK(spawn(argv, 3, name, &children) == MPI_SUCCESS);
    long *hosts = told(children, 3);
    CHECK(hosts[0] == hosts[1] && hosts[1] == hosts[2]);
    free(hosts);
    MPI_Comm_disconnect(&children);
    CHECK(spawn(argv, 1, "no-such-host", &children) != MPI_SUCCESS);
}

// A receive from the first of the others fails, because that one is killed.
static void miss(MPI_Comm others) {
    int number;
    MPI_Comm_set_errhandler(others, MPI_ERRORS_RETURN);
    CHECK(MPI_Recv(&number, 1, MPI_INT, 0, 9, others, MPI_STATUS_IGNORE) != MPI_SUCCESS);
}

static void child(const char *what, const char *how, MPI_Comm parent) {
    if (!strcmp(what, "spread") || !strcmp(what, "on")) tell(parent);
    if (!strcmp(what, "die")) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) raise(SIGKILL);
        rest(1000);
        return;
    }
    if (!strcmp(what, "orphans")) {
        miss(parent);
        printf("child %d goes on\n", rank);
        return;
    }
    MPI_Comm_disconnect(&parent);
    if (!strcmp(what, "outlive") && !strcmp(how, "old")) {
        rest(700);
        int sum;
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == size * (size - 1) / 2);
        if (rank == 0) printf("the children have summed\n");
    }
}

int main(int argc, char **argv) {
    MPI_Comm parent, children;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    const char *what = argv[1], *how = argc > 2 ? argv[2] : "";
    if (parent != MPI_COMM_NULL) {
        child(what, how, parent);
    } else if (!strcmp(what, "spread")) {
        spread(argv, atoi(how));
    } else if (!strcmp(what, "on")) {
        on(argv, how);
    } else {
        CHECK(spawn(argv, 4, NULL, &children) == MPI_SUCCESS);
        if (!strcmp(what, "die")) {
            miss(children);
            if (rank == 0) printf("the parents go on\n");
        } else if (!strcmp(what, "orphans")) {
            rest(200);
            raise(SIGKILL);
        } else {
            MPI_Comm_disconnect(&children);
            if (!strcmp(how, "new")) {
                rest(700);
                MPI_Barrier(MPI_COMM_WORLD);
            }
        }
    }
    MPI_Finalize();
    return 0;
}
