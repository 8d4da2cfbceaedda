/* Two ranks exchange rows, and receive into the row that they are sending. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double rows[2][100] = {{rank}};
    MPI_Request requests[2];
#ifdef FIXED
    double *into = rows[1];
#else
    double *into = &rows[0][50]; /* WRONG: the first half of the row that arrives overwrites what is sent */
#endif
    MPI_Isend(rows[0], 100, MPI_DOUBLE, 1 - rank, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(into, 100, MPI_DOUBLE, 1 - rank, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (rank == 0)
        printf("the row begins with %g\n", into[0]);
    return MPI_Finalize();
}
