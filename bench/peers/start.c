/* Starts and ends, nothing else. The launching script times the whole.
 *
 *   init ranks=N ms=       MPI_Init, on rank 0
 *   finalize ranks=N ms=   MPI_Finalize, on rank 0 */
#include "peer.h"

int main(int argc, char **argv)
{
    double at[4];
    at[0] = wall_ns();
    begin(argc, argv, 1);
    at[1] = at[2] = wall_ns();
    MPI_Finalize();
    at[3] = wall_ns();
    figure("init ranks=%d ms=%.2f", self.ranks, (at[1] - at[0]) / 1e6);
    figure("finalize ranks=%d ms=%.2f", self.ranks, (at[3] - at[2]) / 1e6);
}
