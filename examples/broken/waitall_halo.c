/* A square of 4 by 4 ranks exchanges rows with the ranks above and below, then adds up a residual. The bound of the
   sends downward is wrong by one, so the ranks of the last line wait for rows that nobody sends. */
#include <mpi.h>
#include <stdio.h>

#define SIDE 4
#define CELLS 64

int main(int argc, char **argv) {
    int rank, count = 0;
    double mine[CELLS] = {0}, above[CELLS] = {0}, below[CELLS] = {0}, residual, sum;
    MPI_Request requests[4];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int line = rank / SIDE;
    for (int i = 0; i < CELLS; i++)
        mine[i] = rank;
    if (line > 0) {
        MPI_Irecv(above, CELLS, MPI_DOUBLE, rank - SIDE, 2, MPI_COMM_WORLD, &requests[count++]);
        MPI_Isend(mine, CELLS, MPI_DOUBLE, rank - SIDE, 1, MPI_COMM_WORLD, &requests[count++]);
    }
    if (line < SIDE - 1)
        MPI_Irecv(below, CELLS, MPI_DOUBLE, rank + SIDE, 1, MPI_COMM_WORLD, &requests[count++]);
#ifdef FIXED
    if (line < SIDE - 1)
#else
    if (line < SIDE - 2) /* WRONG: the last line but one has a rank below it, too */
#endif
        MPI_Isend(mine, CELLS, MPI_DOUBLE, rank + SIDE, 2, MPI_COMM_WORLD, &requests[count++]);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    residual = mine[0] - (above[0] + below[0]) / 2;
    MPI_Allreduce(&residual, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("the residual is %g\n", sum);
    return MPI_Finalize();
}
