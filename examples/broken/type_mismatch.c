/* Rank 0 sends the position of a particle to rank 1. It keeps positions in single precision, and rank 1 receives
   them as doubles: 12 bytes arrive, one and a half doubles, and the particle is somewhere else. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        float position[3] = {1, 2, 3};
        MPI_Send(position, 3, MPI_FLOAT, 1, 2, MPI_COMM_WORLD);
    } else if (rank == 1) {
#ifdef FIXED
        float position[3] = {0};
        MPI_Recv(position, 3, MPI_FLOAT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#else
        double position[3] = {0};
        MPI_Recv(position, 3, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* WRONG: floats were sent */
#endif
        printf("the particle is at %g, %g, %g\n", position[0], position[1], position[2]);
    }
    return MPI_Finalize();
}
