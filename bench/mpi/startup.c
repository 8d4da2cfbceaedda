/* usage: mpiexec -n N startup   time of MPI_Init and MPI_Finalize, memory per rank after init and after an alltoall (kB)
 * The wall time of the whole job is measured from outside (compare: wall_s). */
#include "bench.h"

static double field_kb(const char *file, const char *key) {
    char line[256];
    double v = -1;
    FILE *f = fopen(file, "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key))) { v = atof(line + strlen(key)); break; }
    if (f) fclose(f);
    return v;
}
static void memory(double *m) {
    m[0] = field_kb("/proc/self/status", "VmRSS:");
    m[1] = field_kb("/proc/self/smaps_rollup", "Pss:");
    m[2] = field_kb("/proc/self/smaps_rollup", "Private_Dirty:");
}
int main(int argc, char **argv) {
    double m[8], s[8], x[8], base[3];
    memory(base); /* shared libraries are mapped already, MPI_Init has not run */
    double t0 = now_ns();
    bench_init(&argc, &argv);
    m[6] = (now_ns() - t0) / 1e6;
    memory(m);
    char *a = calloc((size_t)size_, 8), *b = calloc((size_t)size_, 8);
    t0 = now_ns();
    MPI_Alltoall(a, 8, MPI_BYTE, b, 8, MPI_BYTE, MPI_COMM_WORLD);
    m[7] = (now_ns() - t0) / 1e6;
    memory(m + 3);
    MPI_Reduce(m, s, 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(m, x, 8, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    int n = size_, r = rank_;
    t0 = now_ns();
    MPI_Finalize();
    if (r == 0)
        printf("startup n=%d init_ms=%.2f init_max_ms=%.2f alltoall1_ms=%.3f finalize_ms=%.2f base_rss_kB=%.0f rss_init_kB=%.0f pss_init_kB=%.0f "
               "dirty_init_kB=%.0f rss_a2a_kB=%.0f rss_a2a_max_kB=%.0f pss_a2a_kB=%.0f dirty_a2a_kB=%.0f\n",
               n, s[6] / n, x[6], s[7] / n, (now_ns() - t0) / 1e6, base[0], s[0] / n, s[1] / n, s[2] / n, s[3] / n, x[3], s[4] / n, s[5] / n);
    return 0;
}
