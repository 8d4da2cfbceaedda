/* usage: mpiexec -n 2 beside [-i iters] [-b bulk bytes] [-k transfers in flight]   short messages beside long ones
 * Half a round trip of 8 bytes on a communicator of its own: alone (mode=alone), and while -k messages of -b bytes are in
 * flight each way on another one (mode=beside), each replaced as soon as it is over. Median and 99th percentile.
 * bulk_MBs: the bytes of long messages received by rank 0 in the meantime. */
#include "bench.h"
enum { MAXI = 100000, MAXK = 16, TAG = 3 };

static double t[MAXI];
static char *bulk;
static MPI_Request all[2 * MAXK];
static size_t bytes;
static int k;
static double received;
/* Sends and receives that this rank has started. */
static long started[2];

static void start(MPI_Comm comm, int which) {
    char *at = bulk + bytes * (size_t)which;
    started[which >= k]++;
    if (which < k) MPI_Isend(at, (int)bytes, MPI_BYTE, 1 - rank_, TAG, comm, &all[which]);
    else MPI_Irecv(at, (int)bytes, MPI_BYTE, 1 - rank_, TAG, comm, &all[which]);
}

/* Replaces what is over, without waiting. A short send is over at once, so each request is replaced once. */
static void keep_going(MPI_Comm comm) {
    for (int i = 0, which, over; i < 2 * k; i++) {
        MPI_Testany(2 * k, all, &which, &over, MPI_STATUS_IGNORE);
        if (!over || which == MPI_UNDEFINED) return;
        if (which >= k) received += (double)bytes;
        start(comm, which);
    }
}

/* Starts what the other rank needs to end: it may have started more receives than we have sends, or the reverse. */
static void finish(MPI_Comm comm) {
    long theirs[2];
    MPI_Sendrecv(started, 2, MPI_LONG, 1 - rank_, 0, theirs, 2, MPI_LONG, 1 - rank_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    long sends = theirs[1] - started[0], receives = theirs[0] - started[1];
    for (int which = 0; sends > 0; which = (which + 1) % k, sends--) {
        MPI_Wait(&all[which], MPI_STATUS_IGNORE);
        start(comm, which);
    }
    for (int which = 0; receives > 0; which = (which + 1) % k, receives--) {
        MPI_Wait(&all[k + which], MPI_STATUS_IGNORE);
        start(comm, k + which);
    }
    MPI_Waitall(2 * k, all, MPI_STATUSES_IGNORE);
}

static void measure(const char *mode, MPI_Comm shorts, MPI_Comm longs, int iters) {
    double number = 0, began = now_ns();
    received = 0;
    for (int i = -100; i < iters; i++) {
        double t0 = now_ns();
        for (int turn = 0; turn < 2; turn++) {
            if (turn == rank_) MPI_Send(&number, 1, MPI_DOUBLE, 1 - rank_, 0, shorts);
            else MPI_Recv(&number, 1, MPI_DOUBLE, 1 - rank_, 0, shorts, MPI_STATUS_IGNORE);
        }
        if (i >= 0) t[i] = 0.5 * (now_ns() - t0);
        if (longs != MPI_COMM_NULL) keep_going(longs);
    }
    double rate = received / (now_ns() - began) * 1e3;
    double middle = median(t, iters);
    if (rank_ == 0)
        printf("beside mode=%s half_ns=%.0f p99_ns=%.0f bulk_MBs=%.0f\n", mode, middle, t[iters * 99 / 100], rate);
}

int main(int argc, char **argv) {
    bench_init(&argc, &argv);
    need_ranks(2);
    int iters = (int)opt_num(argc, argv, "-i", 5000);
    if (iters > MAXI) iters = MAXI;
    bytes = (size_t)opt_num(argc, argv, "-b", 4 << 20);
    k = (int)opt_num(argc, argv, "-k", 2);
    if (k > MAXK) k = MAXK;
    bulk = calloc(2 * (size_t)k, bytes);
    MPI_Comm shorts, longs;
    MPI_Comm_dup(MPI_COMM_WORLD, &shorts);
    MPI_Comm_dup(MPI_COMM_WORLD, &longs);
    measure("alone", shorts, MPI_COMM_NULL, iters);
    for (int i = 0; i < 2 * k; i++) start(longs, i);
    measure("beside", shorts, longs, iters);
    finish(longs);
    MPI_Finalize();
    free(bulk);
    return 0;
}
