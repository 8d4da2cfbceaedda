/* Each of two solvers duplicates the communicator of all ranks, and forgets the copy. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double residual = rank;
    for (int solver = 0; solver < 2; solver++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Allreduce(MPI_IN_PLACE, &residual, 1, MPI_DOUBLE, MPI_SUM, comm);
        /* WRONG: the copy is never freed */
#ifdef FIXED
        MPI_Comm_free(&comm);
#endif
    }
    printf("rank %d: %g\n", rank, residual);
    return MPI_Finalize();
}
