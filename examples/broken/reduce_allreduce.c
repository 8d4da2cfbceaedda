/* All ranks integrate a part of 4 / (1 + x * x), and the parts are added up to pi. The branch of rank 0 calls
   MPI_Reduce, that of the others MPI_Allreduce. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size, intervals = 1000;
    double part = 0, pi = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Bcast(&intervals, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = rank; i < intervals; i += size) {
        double x = (i + 0.5) / intervals;
        part += 4 / (1 + x * x) / intervals;
    }
    if (rank == 0) {
#ifdef FIXED
        MPI_Allreduce(&part, &pi, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
#else
        MPI_Reduce(&part, &pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD); /* WRONG: the others call MPI_Allreduce */
#endif
        printf("pi is about %.6f\n", pi);
    } else {
        MPI_Allreduce(&part, &pi, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (pi < 3)
            printf("rank %d: pi is too small\n", rank);
    }
    return MPI_Finalize();
}
