/* Splits by type and process sets, on several hosts: the ranks of a host are consecutive, as many on each as the
   argument says at most. */
#include "../../crates/abi/tests/c/check.h"

#include <string.h>

static int rank, size, hosts, here, first;

/* A communicator of consecutive ranks of MPI_COMM_WORLD from `from`, in reverse order; or none, if there are none. */
static void is(MPI_Comm comm, int from, int count) {
    if (count == 0) {
        CHECK(comm == MPI_COMM_NULL);
        return;
    }
    int got, me, sum;
    OK(MPI_Comm_size(comm, &got));
    OK(MPI_Comm_rank(comm, &me));
    CHECK(got == count && me == from + count - 1 - rank);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK(sum == count * from + count * (count - 1) / 2);
    OK(MPI_Comm_free(&comm));
}

static MPI_Comm split(int type, const char *key, const char *value) {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Comm comm;
    if (key) {
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, key, value));
    }
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, type, -rank, info, &comm));
    if (key)
        OK(MPI_Info_free(&info));
    return comm;
}

int main(int argc, char **argv) {
    char name[64], text[64];
    OK(MPI_Init(&argc, &argv));
    CHECK(argc == 2);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    int each = atoi(argv[1]);
    hosts = (size + each - 1) / each;
    first = rank / each * each;
    here = size - first < each ? size - first : each;
    const char *hardware = "mpi_hw_resource_type", *set = "mpi_pset_name", *memory = "mpi_shared_memory";
    is(split(MPI_COMM_TYPE_SHARED, NULL, NULL), first, here);
    is(split(MPI_COMM_TYPE_HW_GUIDED, hardware, memory), first, here);
    is(split(MPI_COMM_TYPE_HW_GUIDED, hardware, "moon"), 0, 0);
    is(split(MPI_COMM_TYPE_HW_GUIDED, NULL, NULL), 0, 0);
    is(split(MPI_COMM_TYPE_RESOURCE_GUIDED, hardware, memory), first, here);
    is(split(MPI_COMM_TYPE_RESOURCE_GUIDED, NULL, NULL), 0, 0);
    is(split(MPI_COMM_TYPE_RESOURCE_GUIDED, set, "mpi://WORLD"), 0, size);
    is(split(MPI_COMM_TYPE_RESOURCE_GUIDED, set, "mpi://SELF"), rank, 1);
    is(split(MPI_COMM_TYPE_RESOURCE_GUIDED, set, "mpi://MOON"), 0, 0);
    snprintf(name, sizeof name, "ferry://host/%d", first);
    is(split(MPI_COMM_TYPE_RESOURCE_GUIDED, set, name), first, here);
    is(split(rank ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED, NULL, NULL), first + !first, rank ? here - !first : 0);
    /* Without a guide: the hosts, if there are several. Their ranks cannot be split further. */
    MPI_Info info;
    MPI_Comm comm, further;
    int len = sizeof text, flag;
    OK(MPI_Info_create(&info));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, -rank, info, &comm));
    OK(MPI_Info_get_string(info, hardware, &len, text, &flag));
    CHECK(flag == (hosts > 1) && (!flag || strcmp(text, memory) == 0));
    OK(MPI_Info_free(&info));
    if (comm != MPI_COMM_NULL) {
        OK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_HW_UNGUIDED, 0, MPI_INFO_NULL, &further));
        CHECK(further == MPI_COMM_NULL);
    }
    is(comm, first, hosts > 1 ? here : 0);
    OK(MPI_Finalize());
    return 0;
}
