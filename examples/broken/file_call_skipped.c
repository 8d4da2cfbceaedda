/* All ranks write the results of each step into one file by a collective call. Rank 3 has no results and leaves the
   call out. */
#include <mpi.h>
#include <stdio.h>

#define STEPS 3

int main(int argc, char **argv) {
    int rank, size, results[4];
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int count = rank == 3 ? 0 : 4;
    MPI_File_open(MPI_COMM_WORLD, "results.dat", MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < count; i++)
            results[i] = 100 * step + 10 * rank + i;
#ifndef FIXED
        if (count > 0) /* WRONG: a rank without results has to write, too, with a count of 0 */
#endif
            MPI_File_write_at_all(file, (step * size + rank) * sizeof results, results, count, MPI_INT,
                                  MPI_STATUS_IGNORE);
    }
    MPI_File_close(&file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("the results are in results.dat\n");
    return MPI_Finalize();
}
