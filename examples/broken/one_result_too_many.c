/* Rank 0 collects the results of ten tasks, which the other ranks share. Ten tasks cannot be divided by three
   ranks, so only nine are done, and rank 0 waits for the tenth result. */
#include <mpi.h>
#include <stdio.h>

#define TASKS 10

int main(int argc, char **argv) {
    int rank, size;
    double result, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int workers = size - 1;
    if (rank == 0) {
        for (int i = 0; i < TASKS; i++) {
            MPI_Recv(&result, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            sum += result;
        }
        printf("the sum is %g\n", sum);
    } else {
#ifdef FIXED
        int mine = TASKS / workers + (rank <= TASKS % workers);
#else
        int mine = TASKS / workers; /* WRONG: the remainder is lost */
#endif
        for (int i = 0; i < mine; i++) {
            result = rank + i;
            MPI_Send(&result, 1, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD);
        }
    }
    return MPI_Finalize();
}
