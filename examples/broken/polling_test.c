/* Rank 0 improves its estimate for as long as rank 1 has not sent its own. Rank 1 sends only if its estimate is
   better, so rank 0 polls for ever. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, done = 0;
    double estimate = 0, other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Request request;
        MPI_Irecv(&other, 1, MPI_DOUBLE, 1, 4, MPI_COMM_WORLD, &request);
        for (long i = 1; !done; i++) {
            estimate += 1.0 / i / i;
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
        printf("estimates: %g and %g\n", estimate > 0 ? estimate : 0, other);
    } else if (rank == 1) {
        estimate = 1.5;
#ifdef FIXED
        MPI_Send(&estimate, 1, MPI_DOUBLE, 0, 4, MPI_COMM_WORLD);
#else
        if (estimate > 1.6) /* WRONG: rank 0 waits for a message in any case */
            MPI_Send(&estimate, 1, MPI_DOUBLE, 0, 4, MPI_COMM_WORLD);
#endif
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
