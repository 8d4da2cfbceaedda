/* With --on-death continue, a rank that has finalised is not dead: operations to which it has contributed continue at
   the other ranks. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <mpi-ext.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int me, size, sum = -1, got = -1;
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &me));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    MPI_Comm again;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &again));
    OK(MPI_Comm_free(&again));
    /* All others have left when rank 1 enters, and rank 0 waits for it. */
    if (me == 1) usleep(300000);
    OK(MPI_Reduce(&me, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD));
    if (me == 1) {
        usleep(100000);
        OK(MPI_Send(&me, 1, MPI_INT, 0, 7, MPI_COMM_WORLD));
    } else if (me == 0) {
        CHECK(sum == size * (size - 1) / 2);
        /* From any source, although some ranks can no longer send. */
        OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(got == 1);
        MPI_Group failed;
        int count;
        OK(MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed));
        OK(MPI_Group_size(failed, &count));
        CHECK(count == 0);
        OK(MPI_Group_free(&failed));
    }
    OK(MPI_Finalize());
    return 0;
}
