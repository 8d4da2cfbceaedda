/* Two ranks share a plate and exchange their edges after every step. Both send first, and an edge is too long to be
   sent eagerly, so each waits for a receive that the other has not reached. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CELLS (512 * 1024)

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int other = 1 - rank;
    double *edge = calloc(CELLS, sizeof *edge), *halo = calloc(CELLS, sizeof *halo);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < CELLS; i++)
            edge[i] = (edge[i] + halo[i] + rank) / 2;
#ifdef FIXED
        MPI_Sendrecv(edge, CELLS, MPI_DOUBLE, other, 7, halo, CELLS, MPI_DOUBLE, other, 7, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
#else
        MPI_Send(edge, CELLS, MPI_DOUBLE, other, 7, MPI_COMM_WORLD); /* WRONG: neither rank receives yet */
        MPI_Recv(halo, CELLS, MPI_DOUBLE, other, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#endif
    }
    printf("rank %d: the edge is at %g\n", rank, edge[0]);
    free(edge);
    free(halo);
    return MPI_Finalize();
}
