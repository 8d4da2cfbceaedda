/* Rank 1 receives a row of doubles three times, but the third message has integers of 64 bits. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double row[2] = {1, 2};
    long long numbers[2] = {3, 4};
    for (int step = 0; step < 3; step++) {
        if (rank == 1) {
            MPI_Request request;
            MPI_Irecv(row, 2, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            continue;
        }
#ifndef FIXED
        if (step == 2) {
            MPI_Send(numbers, 2, MPI_INT64_T, 1, 1, MPI_COMM_WORLD); /* WRONG: rank 1 expects doubles */
            continue;
        }
#endif
        MPI_Send(row, 2, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
    }
    printf("rank %d: %g, %lld\n", rank, row[1], numbers[1]);
    return MPI_Finalize();
}
