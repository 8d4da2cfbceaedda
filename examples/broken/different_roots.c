/* Each rank has found a tour through many cities, and the owner of the shortest broadcasts it. Ranks have not
   agreed on who that is: rank 3 has a short tour and takes itself for the owner. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CITIES (256 * 1024)

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int *tour = malloc(CITIES * sizeof *tour);
    for (int i = 0; i < CITIES; i++)
        tour[i] = (i * 17 + rank) % CITIES;
    struct {
        double length;
        int owner;
    } mine = {rank == 3 ? 80 : 100 + rank, rank}, best;
#ifdef FIXED
    MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
#else
    best = mine; /* WRONG: the ranks have to agree on the owner */
    if (mine.length > 90)
        best.owner = 0;
#endif
    MPI_Bcast(tour, CITIES, MPI_INT, best.owner, MPI_COMM_WORLD);
    printf("rank %d: the tour begins in city %d\n", rank, tour[0]);
    free(tour);
    return MPI_Finalize();
}
