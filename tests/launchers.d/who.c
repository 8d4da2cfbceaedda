// Prints its rank, for tests/launchers.
//
//     who            each rank prints "rank R of N", and the sum of all ranks is checked; then how many ranks share its
//                    memory, and its MPI_APPNUM, -1 if unset
//     who abort      the last rank calls MPI_Abort with 7, while the others wait
//     who leave F    the process that creates the file F ends with 3 before MPI_Init

#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    // The rank of a process is not known before MPI_Init, so the first process leaves.
    if (strcmp(what, "leave") == 0 && open(argv[2], O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0)
        return 3;

    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(what, "abort") == 0 && rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (strcmp(what, "abort") == 0)
        MPI_Recv(&sum, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size * (size - 1) / 2) {
        fprintf(stderr, "the sum of the ranks of %d is %d\n", size, sum);
        return 1;
    }
    MPI_Comm shared;
    int near, *program, known;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
    MPI_Comm_size(shared, &near);
    MPI_Comm_free(&shared);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &program, &known);
    printf("rank %d of %d\n", rank, size);
    printf("near %d, program %d\n", near, known ? *program : -1);
    MPI_Finalize();
    return 0;
}
