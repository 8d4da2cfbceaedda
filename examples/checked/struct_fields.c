/* A particle is a number and a mass. Rank 1 has the fields in another order. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    struct particle { double mass; int number; int charge; } particle = {2, 7, 1};
    int lengths[2] = {1, 2};
    MPI_Aint places[2] = {0, 8};
    MPI_Datatype fields[2] = {MPI_DOUBLE, MPI_INT}, type;
#ifndef FIXED
    if (rank == 1) { /* WRONG: the same bytes, as other fields */
        lengths[0] = 2, lengths[1] = 1;
        fields[0] = MPI_INT, fields[1] = MPI_DOUBLE;
    }
#endif
    MPI_Type_create_struct(2, lengths, places, fields, &type);
    MPI_Type_commit(&type);
    if (rank == 0)
        MPI_Ssend(&particle, 1, type, 1, 0, MPI_COMM_WORLD);
    else if (rank == 1)
        MPI_Recv(&particle, 1, type, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&type);
    printf("rank %d: %g\n", rank, particle.mass);
    return MPI_Finalize();
}
