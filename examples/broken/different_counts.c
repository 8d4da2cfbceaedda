/* Ranks add up histograms of their measurements. Each has as many bins as it needs for its own values, and rank 3
   needs fewer than the others. */
#include <mpi.h>
#include <stdio.h>

#define BINS 100

int main(int argc, char **argv) {
    int rank, histogram[BINS] = {0}, sum[BINS] = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int largest = rank == 3 ? 49 : 99;
    for (int value = 0; value < 1000; value++)
        histogram[value % (largest + 1)]++;
#ifdef FIXED
    int bins = BINS;
#else
    int bins = largest + 1; /* WRONG: all ranks have to pass the same count */
#endif
    MPI_Allreduce(histogram, sum, bins, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d: %d values in the first bin\n", rank, sum[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
