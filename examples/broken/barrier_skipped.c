/* Particles leave the domain step by step, and all ranks meet in a barrier after each step. Rank 2 has fewer
   particles, runs out of them and leaves the loop, while the others wait for it. */
#include <mpi.h>
#include <stdio.h>

#define STEPS 8

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int particles = rank == 2 ? 4 : 10;
    for (int step = 0; step < STEPS; step++) {
#ifndef FIXED
        if (particles == 0)
            break; /* WRONG: a rank without particles still has to take part in the barrier */
#endif
        particles -= particles > 0;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    printf("rank %d: %d particles are left\n", rank, particles);
    return MPI_Finalize();
}
