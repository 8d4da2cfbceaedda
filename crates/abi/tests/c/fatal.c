/* Errors without a handler: the job ends, and the reason is printed. fatal rank | truncation | early | late | abort */
#include <string.h>

#include "check.h"

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int numbers[4] = {0}, rank;
    if (strcmp(what, "early") == 0) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    if (rank == 1 && strcmp(what, "rank") == 0) MPI_Send(numbers, 4, MPI_INT, 2, 3, MPI_COMM_WORLD);
    if (rank == 1 && strcmp(what, "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 42);
    if (strcmp(what, "truncation") == 0) {
        if (rank == 0) MPI_Send(numbers, 4, MPI_INT, 1, 3, MPI_COMM_WORLD);
        if (rank == 1) MPI_Recv(numbers, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (strcmp(what, "late") == 0) {
        OK(MPI_Finalize());
        if (rank == 1) MPI_Barrier(MPI_COMM_WORLD);
        return 0;
    }
    /* The other rank waits until it is ended too. */
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}
