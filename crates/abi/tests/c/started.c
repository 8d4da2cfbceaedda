/* How this process was started. The command line says the number of its program. */
#include <string.h>

#include "check.h"

static void same(MPI_Info one, MPI_Info two) {
    const char *keys[] = {"command", "argv", "maxprocs", "soft",         "host",
                          "arch",    "wdir", "file",     "thread_level", "mpi_initial_errhandler"};
    for (int i = 0; i < (int)(sizeof keys / sizeof *keys); i++) {
        char first[MPI_MAX_INFO_VAL] = "", second[MPI_MAX_INFO_VAL] = "";
        int room = MPI_MAX_INFO_VAL, more = MPI_MAX_INFO_VAL, has, also;
        OK(MPI_Info_get_string(one, keys[i], &room, first, &has));
        OK(MPI_Info_get_string(two, keys[i], &more, second, &also));
        CHECK(has == also && !strcmp(first, second));
    }
}

int main(int argc, char **argv) {
    MPI_Info before, within, after;
    MPI_Comm shared, guided;
    MPI_Info hint;
    int *program, flag, ranks, size;
    CHECK(argc == 2);
    OK(MPI_Info_create_env(argc, argv, &before));
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Info_create_env(argc, argv, &within));
    same(before, within);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &program, &flag));
    CHECK(flag && *program == atoi(argv[1]));
    /* All ranks are on this host. */
    OK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared));
    OK(MPI_Comm_size(shared, &size));
    CHECK(size == ranks);
    OK(MPI_Info_create(&hint));
    OK(MPI_Info_set(hint, "mpi_hw_resource_type", "mpi_shared_memory"));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, hint, &guided));
    OK(MPI_Comm_size(guided, &size));
    CHECK(size == ranks);
    OK(MPI_Info_free(&hint));
    OK(MPI_Comm_free(&shared));
    OK(MPI_Comm_free(&guided));
    OK(MPI_Finalize());
    OK(MPI_Info_create_env(argc, argv, &after));
    same(before, after);
    return 0;
}
