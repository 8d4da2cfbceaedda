/* Sums over all ranks, again and again, while some of them are killed.
 *
 *     shrink ITERATIONS [MICROSECONDS]
 *
 * When a sum fails, each rank that notices revokes the communicator, and the survivors shrink it and go on from the
 * last sum that all of them have. In the end all must have done as many sums, with the same result.
 *
 * Each rank prints the moments, by CLOCK_MONOTONIC in nanoseconds, of its first error after each death and of going on:
 *
 *     shrink noticed RANK MOMENT CLASS
 *     shrink goes on RANK MOMENT SIZE
 *     shrink done RANK SUMS SIZE */

#include <mpi.h>
#include <mpi-ext.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = 40000 };

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void fail(int rank, const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code != MPI_SUCCESS) MPI_Error_string(code, text, &length);
    fprintf(stderr, "shrink: rank %d: %s %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Sums until all are done or one fails. */
static int add_up(int me, MPI_Comm comm, int *done, int iterations, int pause)
{
    static double value[LONGEST], sum[LONGEST];
    int size;
    MPI_Comm_size(comm, &size);
    for (; *done < iterations; ++*done) {
        /* Short and long ones, which use different algorithms. */
        int count = *done % 8 == 7 ? LONGEST : *done % 3 == 0 ? 600 : 1;
        for (int at = 0; at < count; at++) value[at] = *done + at;
        int code = MPI_Allreduce(value, sum, count, MPI_DOUBLE, MPI_SUM, comm);
        if (code == MPI_SUCCESS && *done % 7 == 6) code = MPI_Barrier(comm);
        if (code != MPI_SUCCESS) return code;
        for (int at = 0; at < count; at++)
            if (sum[at] != (double)size * (*done + at)) fail(me, "a wrong sum", MPI_SUCCESS);
        if (pause) usleep(pause);
    }
    return MPI_SUCCESS;
}

/* Excludes the dead, until all survivors agree. Returns the first sum that not all of them have. */
static int go_on(int me, MPI_Comm *comm, int done)
{
    for (;;) {
        MPI_Comm left;
        int code = MPIX_Comm_shrink(*comm, &left);
        if (code != MPI_SUCCESS) fail(me, "shrink:", code);
        if (*comm != MPI_COMM_WORLD) MPI_Comm_free(comm);
        *comm = left;
        int least, size;
        int all = MPI_Allreduce(&done, &least, 1, MPI_INT, MPI_MIN, left) == MPI_SUCCESS;
        if (!all) MPIX_Comm_revoke(left);
        /* Another rank may die at any moment: all go on, or all try again. */
        MPIX_Comm_agree(left, &all);
        if (all) {
            MPI_Comm_size(left, &size);
            printf("shrink goes on %d %lld %d\n", me, (long long)now(), size);
            fflush(stdout);
            return least;
        }
    }
}

int main(int argc, char **argv)
{
    int iterations = argc > 1 ? atoi(argv[1]) : 1000;
    int pause = argc > 2 ? atoi(argv[2]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int me, size;
    MPI_Comm_rank(comm, &me);
    printf("shrink begins %d %lld %d\n", me, (long long)now(), (int)getpid());
    fflush(stdout);
    int done = 0;
    for (;;) {
        int code = add_up(me, comm, &done, iterations, pause);
        if (code != MPI_SUCCESS) {
            int class;
            MPI_Error_class(code, &class);
            printf("shrink noticed %d %lld %d\n", me, (long long)now(), class);
            fflush(stdout);
            if (class != MPIX_ERR_PROC_FAILED && class != MPIX_ERR_REVOKED) fail(me, "another error:", code);
            MPIX_Comm_revoke(comm);
        }
        /* Some may be done where others have failed: all leave, or all go on. */
        int all = code == MPI_SUCCESS;
        MPIX_Comm_agree(comm, &all);
        if (all) break;
        done = go_on(me, &comm, done);
    }
    MPI_Comm_size(comm, &size);
    printf("shrink done %d %d %d\n", me, done, size);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
