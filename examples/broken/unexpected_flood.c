/* Rank 1 sends its samples and then their number; rank 0 wants the number first. All samples have to wait
   unexpected at rank 0, 80 MB of them, which works only if the MPI has room for them. */
#include <mpi.h>
#include <stdio.h>

#define SAMPLES 20000
#define LENGTH 512

int main(int argc, char **argv) {
    int rank, samples = SAMPLES;
    double sample[LENGTH] = {0}, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Recv(&samples, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < samples; i++) {
            MPI_Recv(sample, LENGTH, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            sum += sample[0];
        }
        printf("the mean is %g\n", sum / samples);
    } else if (rank == 1) {
#ifdef FIXED
        MPI_Send(&samples, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
#endif
        for (int i = 0; i < SAMPLES; i++) {
            sample[0] = i;
            MPI_Send(sample, LENGTH, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
        }
#ifndef FIXED
        MPI_Send(&samples, 1, MPI_INT, 0, 2, MPI_COMM_WORLD); /* WRONG: rank 0 receives the number before the samples */
#endif
    }
    return MPI_Finalize();
}
