// Which ranks are on the same host, also after reordering, and which program they run, for tests/hosts: each host is a
// network namespace.
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

// Ranks in pairs that are far apart in MPI_COMM_WORLD, and alike on a host after reordering if hosts have an even number
// of ranks. Returns the number of ranks whose partner is on another host.
static int apart(int reorder, long here) {
    int rank, size, partner, far, all;
    long there;
    MPI_Comm pairs;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    partner = (rank + size / 2) % size;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &partner, MPI_UNWEIGHTED, 1, &partner, MPI_UNWEIGHTED, MPI_INFO_NULL,
                                   reorder, &pairs);
    MPI_Neighbor_allgather(&here, 1, MPI_LONG, &there, 1, MPI_LONG, pairs);
    far = here != there;
    MPI_Allreduce(&far, &all, 1, MPI_INT, MPI_SUM, pairs);
    MPI_Comm_free(&pairs);
    return all;
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
    int odd = expected % 2, any_odd, before = apart(0, here), after = apart(1, here);
    MPI_Allreduce(&odd, &any_odd, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (after > before || (!any_odd && after != 0)) {
        fprintf(stderr, "rank %d: %d partners are on other hosts, and %d after reordering\n", rank, before, after);
        return 1;
    }
    if (rank == 0)
        printf("%d partners are on other hosts, and %d after reordering\n", before, after);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &program, &known);
    if (!known || *program != atoi(argv[1])) {
        fprintf(stderr, "rank %d is told program %d\n", rank, known ? *program : -1);
        return 1;
    }
    free(all);
    MPI_Finalize();
    return 0;
}
