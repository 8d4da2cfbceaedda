/* Forked children of a rank: queries, exec and a regular exit work; calls that drive the job are refused with a
   message, whichever system call made the child; and the rank continues unaffected. */
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REFUSED = 126 };

static int rank, size;
static MPI_Comm copy;
static MPI_Request pending;

static void only_asks(void)
{
    int flag = 0, of = -1;
    OK(MPI_Initialized(&flag));
    CHECK(flag);
    OK(MPI_Finalized(&flag));
    CHECK(!flag);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &of));
    CHECK(of == rank);
    CHECK(MPI_Wtime() >= 0);
}

static void ends_in_order(void)
{
    int flag = 0;
    OK(MPI_Finalize());
    OK(MPI_Finalized(&flag));
    CHECK(flag);
}

static void execs(void)
{
    execlp("true", "true", (char *)0);
    _exit(1);
}

static void sends(void)
{
    MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 9, MPI_COMM_WORLD);
}

static void sends_on_a_copy(void)
{
    MPI_Request request;
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 9, copy, &request);
}

static void sums(void)
{
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void waits(void)
{
    MPI_Wait(&pending, MPI_STATUS_IGNORE);
}

static void probes(void)
{
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static pid_t by_fork(void)
{
    return fork();
}

/* pthread_atfork handlers do not run in such a child. */
static pid_t by_clone(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

/* The exit code of a child that runs `does`, and its output. */
static int child(pid_t (*make)(void), void (*does)(void), char *said, size_t room)
{
    int ends[2], status = 0;
    size_t len = 0;
    CHECK(pipe(ends) == 0);
    fflush(0);
    pid_t pid = make();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], 2);
        does();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t more; len < room - 1 && (more = read(ends[0], said + len, room - 1 - len)) > 0;)
        len += (size_t)more;
    said[len] = 0;
    close(ends[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int main(int argc, char **argv)
{
    void (*const harmless[])(void) = {only_asks, ends_in_order, execs};
    void (*const refused[])(void) = {sends, sends_on_a_copy, sums, waits, probes};
    pid_t (*const ways[])(void) = {by_fork, by_clone};
    int got = -1, sum = 0;
    char said[1000];
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    /* A handler that returns errors does not make a child part of the job. */
    OK(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
    OK(MPI_Irecv(&got, 1, MPI_INT, (rank + size - 1) % size, 7, copy, &pending));
    for (int way = 0; way < 2; way++) {
        for (size_t at = 0; at < sizeof harmless / sizeof *harmless; at++) {
            int code = child(ways[way], harmless[at], said, sizeof said);
            CHECK(code == 0 && !strstr(said, "ferrywire"));
        }
        for (size_t at = 0; at < sizeof refused / sizeof *refused; at++) {
            int code = child(ways[way], refused[at], said, sizeof said);
            if (code != REFUSED || !strstr(said, "forked from a rank"))
                fprintf(stderr, "way %d, call %zu: exit code %d, \"%s\"\n", way, at, code, said);
            CHECK(code == REFUSED && strstr(said, "forked from a rank"));
        }
    }
    /* A request that is over before another rank has made its children could be waited for there. */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 7, copy));
    OK(MPI_Wait(&pending, MPI_STATUS_IGNORE));
    CHECK(got == (rank + size - 1) % size);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == size * (size - 1) / 2);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Finalize());
    return 0;
}
