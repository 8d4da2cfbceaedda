/* More ranks than cores: a rank that waits must yield to the one that it waits for.
 *
 *   ring ranks=N us=         a token of 8 bytes once around
 *   allreduce ranks=N us=    one double, sum
 *   stencil ranks=N us=      one step: halo of one cell to either side, then 4,096 cells of each rank
 *
 * and for each the processor time of all ranks together, `ring-cpu ranks=N cpu_us=` and so on. */
#include "peer.h"

enum { CELLS = 4096, TAG = 1 };

static int left, right;
static double cells[2][CELLS + 2];

static void ring(int unused, int laps)
{
    double token = unused;
    while (laps-- > 0) {
        if (self.rank == 0)
            MPI_Send(&token, 1, MPI_DOUBLE, right, TAG, EVERYONE);
        MPI_Recv(&token, 1, MPI_DOUBLE, left, TAG, EVERYONE, MPI_STATUS_IGNORE);
        if (self.rank != 0)
            MPI_Send(&token, 1, MPI_DOUBLE, right, TAG, EVERYONE);
    }
}

static void allreduce(int unused, int count)
{
    double part = unused + self.rank, sum;
    while (count-- > 0)
        MPI_Allreduce(&part, &sum, 1, MPI_DOUBLE, MPI_SUM, EVERYONE);
}

static void stencil(int unused, int steps)
{
    (void)unused;
    for (int step = 0; step < steps; step++) {
        double *from = cells[step % 2], *to = cells[(step + 1) % 2];
        MPI_Sendrecv(&from[1], 1, MPI_DOUBLE, left, TAG, &from[CELLS + 1], 1, MPI_DOUBLE, right, TAG,
                     EVERYONE, MPI_STATUS_IGNORE);
        MPI_Sendrecv(&from[CELLS], 1, MPI_DOUBLE, right, TAG, &from[0], 1, MPI_DOUBLE, left, TAG,
                     EVERYONE, MPI_STATUS_IGNORE);
        for (int i = 1; i <= CELLS; i++)
            to[i] = 0.25 * from[i - 1] + 0.5 * from[i] + 0.25 * from[i + 1];
    }
}

/* Libraries differ by a factor of a thousand here, so the count doubles until it takes long enough. */
static void measure(const char *name, work_fn *work)
{
    double enough_ns = self.quick ? 100e6 : 300e6;
    for (int count = 1;; count *= 2) {
        MPI_Barrier(EVERYONE);
        double wall = wall_ns(), cpu = process_ns(), longest, total;
        work(0, count);
        wall = wall_ns() - wall;
        cpu = process_ns() - cpu;
        MPI_Allreduce(&wall, &longest, 1, MPI_DOUBLE, MPI_MAX, EVERYONE);
        if (longest < enough_ns)
            continue;
        MPI_Reduce(&cpu, &total, 1, MPI_DOUBLE, MPI_SUM, 0, EVERYONE);
        figure("%s ranks=%d us=%.2f", name, self.ranks, longest / count / 1e3);
        figure("%s-cpu ranks=%d cpu_us=%.2f", name, self.ranks, total / count / 1e3);
        return;
    }
}

int main(int argc, char **argv)
{
    begin(argc, argv, 2);
    left = (self.rank + self.ranks - 1) % self.ranks;
    right = (self.rank + 1) % self.ranks;
    for (int i = 0; i < CELLS + 2; i++)
        cells[0][i] = self.rank;
    measure("ring", ring);
    measure("allreduce", allreduce);
    measure("stencil", stencil);
    MPI_Finalize();
}
