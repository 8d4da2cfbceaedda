/* many NS: how long after the moment NS all ranks are out of MPI_Init and a barrier, have exchanged with their
 * neighbours, and with all; and what each has then: open files, and private memory beyond what it had before
 * MPI_Init. */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOMENTS = 3, FIGURES = 3 * MOMENTS, LONG_BYTES = 100000 };

static double files(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = -3; /* Itself, "." and "..". */
    while (folder && readdir(folder)) count++;
    if (folder) closedir(folder);
    return count;
}

static double own_kb(void) {
    char line[256];
    double found = -1;
    FILE *told = fopen("/proc/self/smaps_rollup", "r");
    while (told && fgets(line, sizeof line, told))
        if (!strncmp(line, "Private_Dirty:", 14)) found = atof(line + 14);
    if (told) fclose(told);
    return found;
}

static double began_ns, before_kb;

static void look(double *figures, int moment) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    figures[3 * moment] = (double)now.tv_sec + 1e-9 * ((double)now.tv_nsec - began_ns);
    figures[3 * moment + 1] = files();
    figures[3 * moment + 2] = own_kb() - before_kb;
}

int main(int argc, char **argv) {
    static unsigned char out[LONG_BYTES], in[LONG_BYTES];
    /* So that the pages are private from the beginning. */
    memset(out, 1, sizeof out), memset(in, 1, sizeof in);
    began_ns = argc > 1 ? atof(argv[1]) : 0;
    before_kb = own_kb();
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    double mine[FIGURES], least[FIGURES], most[FIGURES];
    look(mine, 0);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size, lengths[] = { 8, 1000, LONG_BYTES };
    for (int i = 0; i < 3; i++)
        MPI_Sendrecv(out, lengths[i], MPI_BYTE, next, 1, in, lengths[i], MPI_BYTE, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    look(mine, 1);
    char *from = calloc((size_t)size, 8), *to = calloc((size_t)size, 8);
    MPI_Alltoall(from, 8, MPI_BYTE, to, 8, MPI_BYTE, MPI_COMM_WORLD);
    look(mine, 2);
    MPI_Reduce(mine, least, FIGURES, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(mine, most, FIGURES, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("many ranks=%d", size);
        const char *names[MOMENTS] = { "barrier", "neighbours", "all" };
        for (int i = 0; i < MOMENTS; i++) {
            double *low = least + 3 * i, *high = most + 3 * i;
            printf(" %s_s=%.3f %s_files=%.0f-%.0f", names[i], high[0], names[i], low[1], high[1]);
            printf(" %s_kb=%.0f-%.0f", names[i], low[2], high[2]);
        }
        printf("\n");
    }
    MPI_Finalize();
    return 0;
}
