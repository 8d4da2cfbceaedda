/* Ranks on two hosts add up a sum in each step. Nothing is wrong with the program: while it runs, somebody pulls
   the cable of the second host, once rank 0 has said that it is ready. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

#ifdef FIXED
#define STEPS 100
#else
#define STEPS 6000 /* WRONG: it runs long enough for an accident */
#endif

int main(int argc, char **argv) {
    int rank;
    double mine, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < STEPS; step++) {
        mine = rank + step;
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0 && step == 10) {
            printf("ready\n");
            fflush(stdout);
        }
        usleep(10000);
    }
    if (rank == 0)
        printf("the sum is %g\n", sum);
    return MPI_Finalize();
}
