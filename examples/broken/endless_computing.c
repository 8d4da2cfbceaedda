/* Each rank computes a square root by Newton's method, and the roots are added up. The tolerance is absolute: it is
   finer than doubles of the size of rank 2's number are, so rank 2 never comes to an end. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank;
    double numbers[] = {4, 9, 2e9, 16}, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double number = numbers[rank % 4], root = number;
    MPI_Barrier(MPI_COMM_WORLD);
#ifdef FIXED
    while (fabs(root * root - number) > 1e-12 * number)
#else
    while (fabs(root * root - number) > 1e-12) /* WRONG: the tolerance should be relative to the number */
#endif
        root = (root + number / root) / 2;
    MPI_Allreduce(&root, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("the sum of the roots is %g\n", sum);
    return MPI_Finalize();
}
