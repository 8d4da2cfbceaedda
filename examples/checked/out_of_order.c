/* Two receives with the same tag complete in another order than they were posted in: the second is of another type
   than the second message. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double first = 1, second = 2;
    float other = 3;
    if (rank == 0) {
        MPI_Send(&first, 1, MPI_DOUBLE, 1, 6, MPI_COMM_WORLD);
        MPI_Send(&second, 1, MPI_DOUBLE, 1, 6, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Request requests[2];
        MPI_Irecv(&first, 1, MPI_DOUBLE, 0, 6, MPI_COMM_WORLD, &requests[0]);
#ifdef FIXED
        MPI_Irecv(&second, 1, MPI_DOUBLE, 0, 6, MPI_COMM_WORLD, &requests[1]);
#else
        float parts[2];
        MPI_Irecv(parts, 2, MPI_FLOAT, 0, 6, MPI_COMM_WORLD, &requests[1]); /* WRONG: this message is a double */
        other = parts[0];
#endif
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    printf("rank %d: %g, %g, %g\n", rank, first, second, other);
    return MPI_Finalize();
}
