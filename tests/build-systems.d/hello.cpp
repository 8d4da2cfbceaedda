#include <mpi.h>
#include <iostream>

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::cout << "C++ " + std::to_string(rank) + " of " + std::to_string(size) + "\n";
    MPI_Finalize();
    return size == 3 ? 0 : 1;
}
