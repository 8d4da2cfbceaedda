/* Rank 0 opens its window in each step, and rank 1 puts a new value there. When the value has not changed, rank 1
   leaves out the step, but rank 0 waits for it. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    double *edge, value = 0, before = -1;
    MPI_Win window;
    MPI_Group world, other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(sizeof *edge, sizeof *edge, MPI_INFO_NULL, MPI_COMM_WORLD, &edge, &window);
    MPI_Win_set_name(window, "edge");
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, (int[]){1 - rank}, &other);
    for (int step = 0; step < 3; step++) {
        if (rank == 0) {
            MPI_Win_post(other, 0, window);
            MPI_Win_wait(window);
        } else if (rank == 1) {
            value = step < 2 ? step : value;
#ifndef FIXED
            if (value == before)
                continue; /* WRONG: MPI_Win_start and MPI_Win_complete are needed even if nothing is put */
#endif
            MPI_Win_start(other, 0, window);
            if (value != before)
                MPI_Put(&value, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, window);
            MPI_Win_complete(window);
            before = value;
        }
    }
    if (rank == 0)
        printf("the edge is at %g\n", *edge);
    MPI_Group_free(&other);
    MPI_Group_free(&world);
    MPI_Win_free(&window);
    return MPI_Finalize();
}
