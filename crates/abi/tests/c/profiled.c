/* Calls that a tool may count. Calls that the library makes inside of them do not count. */
#include "check.h"

int main(int argc, char **argv) {
    int rank, size, got, sum;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Pcontrol(1));
    OK(MPI_Pcontrol(2, "hello"));
    OK(MPI_Pcontrol(3, 1.5, &rank, 'c', 4));
    for (int round = 0; rank == 0 && round < 3; round++)
        for (int to = 1; to < size; to++) OK(MPI_Send(&round, 1, MPI_INT, to, 0, MPI_COMM_WORLD));
    for (int round = 0; rank > 0 && round < 3; round++) {
        OK(MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(got == round);
    }
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == size * (size - 1) / 2);
    /* A call by its other name is not counted. */
    OK(PMPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Finalize());
    return 0;
}
