/* The ranks of an ocean model pass a current downstream, from rank to rank. They receive in the model's own
   communicator, but send in MPI_COMM_WORLD. */
#include <mpi.h>
#include <stdio.h>

#define CELLS 100

int main(int argc, char **argv) {
    int rank, size;
    double current[CELLS] = {1};
    MPI_Comm ocean;
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &ocean);
    MPI_Comm_set_name(ocean, "ocean");
    MPI_Comm_rank(ocean, &rank);
    MPI_Comm_size(ocean, &size);
    if (rank > 0)
        MPI_Recv(current, CELLS, MPI_DOUBLE, rank - 1, 5, ocean, MPI_STATUS_IGNORE);
    current[0] *= 2;
    if (rank < size - 1) {
#ifdef FIXED
        MPI_Send(current, CELLS, MPI_DOUBLE, rank + 1, 5, ocean);
#else
        MPI_Send(current, CELLS, MPI_DOUBLE, rank + 1, 5, MPI_COMM_WORLD); /* WRONG: should be sent in ocean */
#endif
    } else {
        printf("the current is %g\n", current[0]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&ocean);
    return MPI_Finalize();
}
