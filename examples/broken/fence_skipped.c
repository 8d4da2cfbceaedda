/* Ranks put their edge into the window of their right neighbour in each step, between two fences. Rank 2 has
   converged after two steps and leaves the loop, while the others wait for its next fence. */
#include <mpi.h>
#include <stdio.h>

#define STEPS 4

int main(int argc, char **argv) {
    int rank, size;
    double *halo, edge;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(sizeof *halo, sizeof *halo, MPI_INFO_NULL, MPI_COMM_WORLD, &halo, &window);
    MPI_Win_set_name(window, "halo");
    *halo = 0;
    edge = rank;
    for (int step = 0; step < STEPS; step++) {
#ifndef FIXED
        if (rank == 2 && step == 2)
            break; /* WRONG: all ranks of the window have to call MPI_Win_fence */
#endif
        MPI_Win_fence(0, window);
        MPI_Put(&edge, 1, MPI_DOUBLE, (rank + 1) % size, 0, 1, MPI_DOUBLE, window);
        MPI_Win_fence(0, window);
        edge = (edge + *halo) / 2;
    }
    printf("rank %d: the edge is at %g\n", rank, edge);
    MPI_Win_free(&window);
    return MPI_Finalize();
}
