/* Every rank passes its block of a matrix to its right neighbour, round and round. All of them send before they
   receive, and a block is too long to be sent eagerly, so nobody comes to its receive. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK (128 * 1024)

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    double *block = calloc(BLOCK, sizeof *block), *next = calloc(BLOCK, sizeof *next), sum = 0;
    for (int i = 0; i < BLOCK; i++)
        block[i] = rank;
    for (int turn = 0; turn < size; turn++) {
        sum += block[turn];
#ifdef FIXED
        MPI_Request sent;
        MPI_Isend(block, BLOCK, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &sent);
        MPI_Recv(next, BLOCK, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
#else
        MPI_Send(block, BLOCK, MPI_DOUBLE, right, 1, MPI_COMM_WORLD); /* WRONG: all ranks send, and none receives */
        MPI_Recv(next, BLOCK, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#endif
        double *other = block;
        block = next;
        next = other;
    }
    printf("rank %d: %g\n", rank, sum);
    free(block);
    free(next);
    return MPI_Finalize();
}
