/* Two ranks exchange values by persistent requests, and keep these. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double mine = rank, theirs = -1;
    MPI_Request requests[2];
    MPI_Send_init(&mine, 1, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(&theirs, 1, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD, &requests[1]);
    for (int step = 0; step < 3; step++) {
        mine = rank + step;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    printf("rank %d: %g\n", rank, theirs);
    /* WRONG: the requests are never freed */
#ifdef FIXED
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
#endif
    return MPI_Finalize();
}
