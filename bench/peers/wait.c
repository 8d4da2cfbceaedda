/* Two ranks: the cost of being blocked in MPI_Recv, and the wake-up latency.
 *
 *   blocked seconds=2 cpu_ms=   CPU time of the waiting process, all its threads
 *   wake us=                    from before MPI_Send to after MPI_Recv, after waits of 20 ms */
#include "peer.h"

enum { WAKES_MAX = 50 };

/* One clock for both: they are on one host. */
static double wait_for(double ns, double *cpu_ns)
{
    double sent;
    if (self.rank == 0) {
        sleep_to(wall_ns() + ns);
        sent = wall_ns();
        MPI_Send(&sent, 1, MPI_DOUBLE, 1, 0, EVERYONE);
        return 0;
    }
    *cpu_ns = process_ns();
    MPI_Recv(&sent, 1, MPI_DOUBLE, 0, 0, EVERYONE, MPI_STATUS_IGNORE);
    double late = wall_ns() - sent;
    *cpu_ns = process_ns() - *cpu_ns;
    return late;
}

int main(int argc, char **argv)
{
    double late[WAKES_MAX], result[2] = { 0, 0 }, unused;

    begin(argc, argv, 2);
    if (self.rank < 2) {
        int wakes = self.quick ? 20 : WAKES_MAX;
        meet(1 - self.rank);
        wait_for(2e9, &result[0]);
        for (int i = 0; i < wakes; i++)
            late[i] = wait_for(20e6, &unused);
        result[1] = median(late, wakes);
        if (self.rank == 1)
            MPI_Send(result, 2, MPI_DOUBLE, 0, 1, EVERYONE);
        else
            MPI_Recv(result, 2, MPI_DOUBLE, 1, 1, EVERYONE, MPI_STATUS_IGNORE);
        figure("blocked seconds=2 cpu_ms=%.2f", result[0] / 1e6);
        figure("wake us=%.2f", result[1] / 1e3);
    }
    MPI_Finalize();
}
