/* Output of ranks before the job ends in another way than by MPI_Finalize.
   lastwords abort | error | unsupported | assert | input */
#define _POSIX_C_SOURCE 200809L
#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

/* Holds the lock of a stream that is never written. */
static void *reads(void *stream) {
    fgetc(stream);
    return stream;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int rank, size, byte = 0;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    printf("rank %d was here\n", rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        if (strcmp(what, "input") == 0) {
            pthread_t reader;
            int ends[2];
            if (pipe(ends) != 0) return 1;
            pthread_create(&reader, NULL, reads, fdopen(ends[0], "r"));
        }
        assert(strcmp(what, "assert") != 0);
        printf("last words");
        if (strcmp(what, "error") == 0) MPI_Send(&byte, 1, MPI_BYTE, size, 0, MPI_COMM_WORLD);
        MPI_Abort(MPI_COMM_WORLD, 42);
    }
    /* The other ranks wait until they are ended too. */
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}
