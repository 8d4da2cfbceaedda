/* Ranks add their numbers up along a tree: at distance 1 odd ranks send to their left, then at distance 2 rank 2
   sends to rank 0. The receiver always expects its direct neighbour, whatever the distance. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double sum = rank + 1, part;
    for (int distance = 1; distance < size; distance *= 2) {
        if (rank % (2 * distance) == distance) {
            MPI_Send(&sum, 1, MPI_DOUBLE, rank - distance, 0, MPI_COMM_WORLD);
            break;
        }
        if (rank + distance < size) {
#ifdef FIXED
            int source = rank + distance;
#else
            int source = rank + 1; /* WRONG: right for the first distance only */
#endif
            MPI_Recv(&part, 1, MPI_DOUBLE, source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            sum += part;
        }
    }
    if (rank == 0)
        printf("the sum is %g\n", sum);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
