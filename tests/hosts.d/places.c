// Which ranks are on the same host, and which program they run, for tests/hosts: each host is a network namespace.
//
//     places P    this is program P of the job

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static int same(MPI_Comm comm, long here) {
    int size, good = 1;
    MPI_Comm_size(comm, &size);
    long *all = malloc(size * sizeof *all);
    MPI_Allgather(&here, 1, MPI_LONG, all, 1, MPI_LONG, comm);
    for (int i = 0; i < size; i++)
        good &= all[i] == here;
    free(all);
    return good;
}

int main(int argc, char **argv) {
    struct stat space;
    MPI_Init(&argc, &argv);
    if (argc != 2 || stat("/proc/self/ns/net", &space) != 0)
        return 1;
    long here = space.st_ino;
    int rank, size, near, *program, known, expected = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long *all = malloc(size * sizeof *all);
    MPI_Allgather(&here, 1, MPI_LONG, all, 1, MPI_LONG, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++)
        expected += all[i] == here;

    MPI_Comm comm;
    MPI_Info hint;
    MPI_Info_create(&hint);
    MPI_Info_set(hint, "mpi_hw_resource_type", "mpi_shared_memory");
    for (int guided = 0; guided < 2; guided++) {
        int type = guided ? MPI_COMM_TYPE_HW_GUIDED : MPI_COMM_TYPE_SHARED;
        MPI_Comm_split_type(MPI_COMM_WORLD, type, 0, guided ? hint : MPI_INFO_NULL, &comm);
        MPI_Comm_size(comm, &near);
        if (near != expected || !same(comm, here)) {
            fprintf(stderr, "rank %d shares memory with %d, of which %d are on its host\n", rank, near, expected);
            return 1;
        }
        MPI_Comm_free(&comm);
    }
    MPI_Info_free(&hint);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &program, &known);
    if (!known || *program != atoi(argv[1])) {
        fprintf(stderr, "rank %d is told program %d\n", rank, known ? *program : -1);
        return 1;
    }
    free(all);
    MPI_Finalize();
    return 0;
}
