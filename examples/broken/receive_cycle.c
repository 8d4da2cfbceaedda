/* A token goes round the ring, and each rank adds its number. No rank sends it off before it receives it, so
   everyone waits for its left neighbour. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size, token = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    /* WRONG: rank 0 has to send the token off first */
#ifdef FIXED
    if (rank == 0)
        MPI_Send(&token, 1, MPI_INT, right, 4, MPI_COMM_WORLD);
#endif
    MPI_Recv(&token, 1, MPI_INT, left, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    token += rank;
    if (rank == 0)
        printf("the token says %d\n", token);
    else
        MPI_Send(&token, 1, MPI_INT, right, 4, MPI_COMM_WORLD);
    return MPI_Finalize();
}
