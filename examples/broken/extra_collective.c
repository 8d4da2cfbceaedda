/* All ranks read their part of the input and stop together if one of them finds an error. Only a rank with an error
   asks the others, who have gone on to the next step. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, seed = 7, errors;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Bcast(&seed, 1, MPI_INT, 0, MPI_COMM_WORLD);
    int bad = (rank * seed) % 16 == 3; /* rank 5 */
#ifndef FIXED
    errors = 0;
    if (bad) /* WRONG: ranks without an error have to call MPI_Allreduce, too */
#endif
        MPI_Allreduce(&bad, &errors, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (errors > 0 && rank == 0)
        printf("%d ranks could not read their input\n", errors);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
