/* Ranks take numbers from a counter in the memory of rank 0, one after the other. Rank 1 finds that it needs none,
   and goes on without unlocking the window. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size, *counter, number = 0;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(sizeof *counter, sizeof *counter, MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &window);
    MPI_Win_set_name(window, "counter");
    *counter = 0;
    for (int turn = 0; turn < size; turn++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (turn != rank)
            continue;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Get(&number, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
        MPI_Win_flush(0, window);
        if (rank == 1) {
#ifdef FIXED
            MPI_Win_unlock(0, window);
#endif
            continue; /* WRONG: the window is still locked */
        }
        int next = number + 1;
        MPI_Put(&next, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
        MPI_Win_unlock(0, window);
    }
    printf("rank %d: number %d\n", rank, number);
    MPI_Win_free(&window);
    return MPI_Finalize();
}
