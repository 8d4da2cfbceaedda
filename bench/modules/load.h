/* A module from a file, on a communicator of all ranks. */
#include "../mpi/bench.h"
#include <ferry.h>

static char code_[1 << 20];

/* Reads code, and returns its length. */
static MPI_Count read_code(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    size_t length = fread(code_, 1, sizeof code_, file);
    fclose(file);
    return (MPI_Count)length;
}

static MPI_Comm load(const char *name, const char *path) {
    MPI_Comm comm;
    Ferry_Module_load(MPI_COMM_WORLD, name, code_, read_code(path), &comm);
    return comm;
}
