/* The first program: initialises, prints its rank, finalises. */
#include "check.h"

int main(int argc, char **argv) {
    int rank, size, flag;
    OK(MPI_Initialized(&flag));
    CHECK(!flag);
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(0 <= rank && rank < size);
    printf("hello from %d of %d\n", rank, size);
    OK(MPI_Finalize());
    OK(MPI_Finalized(&flag));
    CHECK(flag);
    return 0;
}
