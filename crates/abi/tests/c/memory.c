/* The memory of a rank before and after a large collective. */
#include <string.h>
#include <unistd.h>

#include "check.h"

static long kilobytes(void) {
    long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &all, &resident) == 2);
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char **argv) {
    int rank, ranks, bytes = 64 << 20;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    long before = kilobytes();
    char *all = malloc((size_t)ranks * bytes);
    memset(all, rank, (size_t)ranks * bytes);
    OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_BYTE, all, bytes, MPI_BYTE, MPI_COMM_WORLD));
    CHECK(all[0] == 0 && all[(size_t)ranks * bytes - 1] == ranks - 1);
    free(all);
    long after = kilobytes();
    printf("rank %d: before %ld after %ld KB\n", rank, before, after);
    CHECK(after - before < 8 << 10);
    return MPI_Finalize();
}
