/* Rank 0 waits until another program has written the file `parameters`, and broadcasts what it says. The file never
   comes, and all other ranks wait in the broadcast. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank;
    double step = 0.1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
#ifndef FIXED
        while (access("parameters", R_OK) != 0) /* WRONG: there is no limit to how long it waits */
            usleep(100000);
#endif
        FILE *file = fopen("parameters", "r");
        if (file == NULL || fscanf(file, "%lf", &step) != 1)
            printf("no parameters: the step is %g\n", step);
        if (file != NULL)
            fclose(file);
    }
    MPI_Bcast(&step, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    printf("rank %d: the step is %g\n", rank, step);
    return MPI_Finalize();
}
