/* usage: mpiexec -n 2 halo [-c compute_us] [-i iters]   what an exchange costs a program that computes in between
 * Irecv, Isend and Waitall with the other rank, then compute_us without a call; time of the exchange, median and 90 %. */
#include "bench.h"
enum { MAXI = 5001 };

int main(int argc, char **argv) {
    static double t[MAXI];
    static const int sizes[] = {8, 4096, 65536, 1 << 20};
    bench_init(&argc, &argv);
    need_ranks(2);
    double compute = opt_num(argc, argv, "-c", 200);
    int iters = (int)opt_num(argc, argv, "-i", 1000);
    if (iters > MAXI) iters = MAXI;
    char *in = calloc(1 << 20, 1), *out = calloc(1 << 20, 1);
    for (int s = 0; s < 4 && rank_ < 2; s++) {
        for (int i = 0; i < iters; i++) {
            MPI_Request r[2];
            double began = now_ns();
            MPI_Irecv(in, sizes[s], MPI_BYTE, 1 - rank_, 0, MPI_COMM_WORLD, &r[0]);
            MPI_Isend(out, sizes[s], MPI_BYTE, 1 - rank_, 0, MPI_COMM_WORLD, &r[1]);
            MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
            t[i] = now_ns() - began;
            spin_ns(compute * 1e3);
        }
        double middle = median(t, iters);
        if (rank_ == 0)
            printf("halo size=%d compute_us=%.0f exchange_us=%.2f p90_us=%.2f\n", sizes[s], compute, middle / 1e3,
                   t[iters * 9 / 10] / 1e3);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
