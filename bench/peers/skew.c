/* Does a reduction keep its callers busy while some of them are late?
 *
 * In each iteration, every rank sleeps for up to 5 ms, calls MPI_Reduce of 4 doubles to rank 0, and sleeps until all
 * are surely done. A library that waits by polling burns CPU time while others are late.
 *
 *   skew ranks=N cpu_us=       processor time of the caller inside one call, mean of all but the root
 *   skew-wall ranks=N us=      how long they were inside
 *   skew-job ranks=N cpu_us=   processor time of all ranks and all their threads, per call */
#include "peer.h"

enum { DELAY_NS_MAX = 5000000, SLACK_NS = 500000, WARM_UP = 5 };

/* A fixed sequence for each rank: every library sees the same delays. */
static double delay_ns(void)
{
    static unsigned long long state;
    if (state == 0)
        state = 0x9e3779b97f4a7c15ULL * (unsigned)(self.rank + 1);
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state % DELAY_NS_MAX);
}

int main(int argc, char **argv)
{
    double part[4] = { 1, 2, 3, 4 }, sum[4];
    double inside[2] = { 0, 0 }, job = 0;

    begin(argc, argv, 2);
    int calls = self.quick ? 40 : 100;
    for (int i = -WARM_UP; i < calls; i++) {
        if (i == 0) {
            inside[0] = inside[1] = 0;
            job = process_ns();
        }
        MPI_Barrier(EVERYONE);
        double from = wall_ns();
        sleep_to(from + delay_ns());
        double cpu = thread_ns(), wall = wall_ns();
        MPI_Reduce(part, sum, 4, MPI_DOUBLE, MPI_SUM, 0, EVERYONE);
        inside[0] += thread_ns() - cpu;
        inside[1] += wall_ns() - wall;
        sleep_to(from + DELAY_NS_MAX + SLACK_NS);
    }
    job = process_ns() - job;

    double mine[3] = { inside[0], inside[1], job }, all[3];
    if (self.rank == 0)
        mine[0] = mine[1] = 0; /* The root must wait for the last rank anyway. */
    MPI_Reduce(mine, all, 3, MPI_DOUBLE, MPI_SUM, 0, EVERYONE);
    double per_rank = 1e3 * calls * (self.ranks - 1);
    figure("skew ranks=%d cpu_us=%.2f", self.ranks, all[0] / per_rank);
    figure("skew-wall ranks=%d us=%.1f", self.ranks, all[1] / per_rank);
    figure("skew-job ranks=%d cpu_us=%.1f", self.ranks, all[2] / (1e3 * calls));
    MPI_Finalize();
}
