/* Rank 0 shows the first result that any worker finds, and then collects those of all workers in order. The first
   receive takes the result of rank 1, so the receive from rank 1 waits for one that was already taken. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size;
    double result, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        MPI_Status first = {.MPI_SOURCE = MPI_PROC_NULL};
        MPI_Recv(&result, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &first);
        printf("rank %d was first: %g\n", first.MPI_SOURCE, result);
        sum = result;
        for (int worker = 1; worker < size; worker++) {
            /* WRONG: the result of the first worker has been received already */
#ifdef FIXED
            if (worker == first.MPI_SOURCE)
                continue;
#endif
            MPI_Recv(&result, 1, MPI_DOUBLE, worker, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            sum += result;
        }
        printf("the sum is %g\n", sum);
    } else {
        usleep((rank - 1) * 300000); /* each rank computes longer than the one before it */
        result = 10 * rank;
        MPI_Send(&result, 1, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
