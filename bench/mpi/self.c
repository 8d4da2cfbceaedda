/* Sends 8 bytes to itself and receives them, as often as the argument says. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    long times = argc > 1 ? atol(argv[1]) : 0;
    double sent = 1, received = 1;
    MPI_Init(&argc, &argv);
    for (long i = 0; i < times; i++) {
        received = 0;
        MPI_Send(&sent, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
        MPI_Recv(&received, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return received != sent;
}
