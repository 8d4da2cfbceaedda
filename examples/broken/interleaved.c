/* Two models, each with a communicator of its own, run side by side in the same ranks, and both add up their
   energy. Even ranks do the ocean first, odd ranks the ice. */
#include <mpi.h>
#include <stdio.h>

static double energy(MPI_Comm model, double mine) {
    double sum;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, model);
    return sum;
}

int main(int argc, char **argv) {
    int rank;
    double water, frozen;
    MPI_Comm ocean, ice;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &ocean);
    MPI_Comm_set_name(ocean, "ocean");
    MPI_Comm_dup(MPI_COMM_WORLD, &ice);
    MPI_Comm_set_name(ice, "ice");
#ifdef FIXED
    int ocean_first = 1;
#else
    int ocean_first = rank % 2 == 0; /* WRONG: the order has to be the same at all ranks */
#endif
    if (ocean_first) {
        water = energy(ocean, rank);
        frozen = energy(ice, 1);
    } else {
        frozen = energy(ice, 1);
        water = energy(ocean, rank);
    }
    printf("rank %d: %g and %g\n", rank, water, frozen);
    MPI_Comm_free(&ocean);
    MPI_Comm_free(&ice);
    return MPI_Finalize();
}
