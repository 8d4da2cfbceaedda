/* Ranks add up a sum in each step. Rank 2 needs more memory than there is, and the system kills it, which is acted
   out here. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    double mine, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < 10; step++) {
        mine = rank + step;
#ifndef FIXED
        if (rank == 2 && step == 5)
            raise(SIGKILL); /* WRONG: what the system does to a process when memory is short */
#endif
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("the sum is %g\n", sum);
    return MPI_Finalize();
}
