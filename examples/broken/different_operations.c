/* Ranks add up the mass in their slices of a rod. The last slice is shorter and has a branch of its own, in which
   the operation was copied from another line: MPI_MAX. No rank hangs, and the sum is wrong. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size;
    double mass, total = 0, longest;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    mass = 10;
    MPI_Allreduce(&mass, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank < size - 1) {
        MPI_Allreduce(&mass, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    } else {
        mass = 4;
#ifdef FIXED
        MPI_Allreduce(&mass, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
#else
        MPI_Allreduce(&mass, &total, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD); /* WRONG: the others say MPI_SUM */
#endif
    }
    printf("rank %d: the rod has a mass of %g, and %g in its heaviest slice\n", rank, total, longest);
    return MPI_Finalize();
}
