/* A module from a file, on a communicator of all ranks. */
#include "../mpi/bench.h"
#include <ferry.h>

static MPI_Comm load(const char *name, const char *path) {
    static char code[1 << 20];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    size_t length = fread(code, 1, sizeof code, file);
    fclose(file);
    MPI_Comm comm;
    Ferry_Module_load(MPI_COMM_WORLD, name, code, (MPI_Count)length, &comm);
    return comm;
}
