/* usage: mpiexec -n N steady pingpong|allreduce|wait [-s bytes] [-t seconds]   rounds in each twentieth of a second
 * One line per slice: the time at its end in ns, and rounds per second in it. wait has none: all ranks wait for rank 0,
 * which sleeps. For bench/mpi/top. */
#include "bench.h"
#include <string.h>
enum { MAXN = 1 << 20, ROUNDS = 64 };
static char *sb, *rb;

/* Rounds between ranks 0 and 1, or of all. The first 8 bytes say whether rank 0 wants to stop. */
static double rounds(int pingpong, int bytes, double stop) {
    double *mine = (double *)sb, *theirs = (double *)rb;
    *mine = rank_ == 0 ? stop : 0;
    for (int i = 0; i < ROUNDS; i++) {
        if (!pingpong) MPI_Allreduce(sb, rb, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        else if (rank_ == 0) {
            MPI_Send(sb, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(rb, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(rb, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(sb, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
    return rank_ == 0 && pingpong ? stop : *theirs;
}
int main(int argc, char **argv) {
    bench_init(&argc, &argv);
    int pingpong = argc > 1 && strcmp(argv[1], "pingpong") == 0, bytes = (int)opt_num(argc, argv, "-s", 8);
    if (pingpong) need_ranks(2);
    if (bytes < 8 || bytes > MAXN) bytes = 8;
    sb = calloc(MAXN, 1);
    rb = calloc(MAXN, 1);
    double slice = now_ns(), end = slice + 1e9 * opt_num(argc, argv, "-t", 60), count = 0;
    if (argc > 1 && strcmp(argv[1], "wait") == 0) {
        if (rank_ == 0) sleep_until(end);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Finalize();
        return 0;
    }
    while (rounds(pingpong, bytes, now_ns() > end) == 0) {
        double now = now_ns();
        count += ROUNDS;
        if (rank_ == 0 && now > slice + 5e7) {
            printf("steady %.0f %.1f\n", now, 1e9 * count / (now - slice));
            fflush(stdout);
            slice = now;
            count = 0;
        }
    }
    MPI_Finalize();
    return 0;
}
