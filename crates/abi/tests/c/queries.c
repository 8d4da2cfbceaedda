/* Calls that compare and describe: groups, communicators, handles as numbers, and the ABI. */
#include "check.h"

#include <string.h>

static int rank, size;

static int compared(MPI_Group one, MPI_Group other) {
    int result = -1;
    OK(MPI_Group_compare(one, other, &result));
    return result;
}

static int members(MPI_Group group) {
    int count = -1;
    OK(MPI_Group_size(group, &count));
    return count;
}

static void groups(void) {
    MPI_Group world, even, odd, made, turned;
    int evens = (size + 1) / 2, all[64], to[64];
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    int every_second[1][3] = {{0, size - 1, 2}};
    OK(MPI_Group_range_incl(world, 1, every_second, &even));
    OK(MPI_Group_range_excl(world, 1, every_second, &odd));
    CHECK(members(even) == evens && members(odd) == size - evens);
    CHECK(compared(even, odd) == MPI_UNEQUAL && compared(even, even) == MPI_IDENT);

    /* Those of the first come first. */
    OK(MPI_Group_union(odd, even, &made));
    CHECK(members(made) == size && compared(made, world) == (size == 1 ? MPI_IDENT : MPI_SIMILAR));
    for (int i = 0; i < size; i++)
        all[i] = i;
    OK(MPI_Group_translate_ranks(made, size, all, world, to));
    for (int i = 0; i < size; i++)
        CHECK(to[i] == (i < size - evens ? 2 * i + 1 : 2 * (i - (size - evens))));
    OK(MPI_Group_free(&made));

    int backwards[1][3] = {{size - 1, 0, -1}};
    OK(MPI_Group_range_incl(world, 1, backwards, &turned));
    OK(MPI_Group_intersection(turned, even, &made));
    CHECK(members(made) == evens);
    CHECK(compared(made, even) == (evens == 1 ? MPI_IDENT : MPI_SIMILAR));
    OK(MPI_Group_translate_ranks(made, 1, all, world, to));
    CHECK(to[0] == 2 * (evens - 1));
    OK(MPI_Group_free(&made));
    OK(MPI_Group_intersection(even, odd, &made));
    CHECK(made == MPI_GROUP_EMPTY || members(made) == 0);
    if (made != MPI_GROUP_EMPTY) OK(MPI_Group_free(&made));

    CHECK(MPI_Group_fromint(MPI_Group_toint(even)) == even);
    CHECK(MPI_Group_fromint(MPI_Group_toint(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);
    OK(MPI_Group_free(&turned));
    OK(MPI_Group_free(&even));
    OK(MPI_Group_free(&odd));
    OK(MPI_Group_free(&world));
}

static int relation(MPI_Comm one, MPI_Comm other) {
    int result = -1;
    OK(MPI_Comm_compare(one, other, &result));
    return result;
}

static const char *value_of(MPI_Info info, const char *key) {
    static char text[64];
    int flag = 0, len = sizeof text;
    OK(MPI_Info_get_string(info, key, &len, text, &flag));
    return flag ? text : "";
}

static void check_hint(MPI_Comm comm, const char *value) {
    MPI_Info used;
    OK(MPI_Comm_get_info(comm, &used));
    CHECK(strcmp(value_of(used, "mpi_assert_no_any_tag"), value) == 0);
    OK(MPI_Info_free(&used));
}

static void communicators(void) {
    MPI_Comm twin, later, turned, inter, half, parent;
    MPI_Info info;
    MPI_Request request;
    int flag = -1, sum = 0, one = 1;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &twin));
    OK(MPI_Comm_idup_with_info(MPI_COMM_WORLD, info, &later, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    check_hint(twin, "true");
    check_hint(later, "true");
    OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "false"));
    OK(MPI_Comm_set_info(later, info));
    check_hint(later, "false");
    check_hint(twin, "true");
    OK(MPI_Info_free(&info));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, later));
    CHECK(sum == size);

    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned));
    CHECK(relation(twin, twin) == MPI_IDENT && relation(twin, later) == MPI_CONGRUENT);
    CHECK(relation(twin, turned) == (size == 1 ? MPI_CONGRUENT : MPI_SIMILAR));
    CHECK(relation(twin, MPI_COMM_SELF) == (size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL));
    OK(MPI_Comm_get_parent(&parent));
    CHECK(parent == MPI_COMM_NULL);

    OK(MPI_Comm_test_inter(twin, &flag));
    CHECK(!flag);
    if (size > 1) {
        MPI_Group theirs, world;
        int first = 0, at = -1;
        OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
        OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 3, &inter));
        OK(MPI_Comm_test_inter(inter, &flag));
        CHECK(flag);
        OK(MPI_Comm_remote_group(inter, &theirs));
        CHECK(members(theirs) == (rank % 2 ? (size + 1) / 2 : size / 2));
        OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
        OK(MPI_Group_translate_ranks(theirs, 1, &first, world, &at));
        CHECK(at == 1 - rank % 2);
        OK(MPI_Group_free(&world));
        OK(MPI_Group_free(&theirs));
        OK(MPI_Comm_free(&inter));
        OK(MPI_Comm_free(&half));
    }
    OK(MPI_Comm_free(&turned));
    OK(MPI_Comm_free(&later));
    OK(MPI_Comm_free(&twin));
}

/* The rank that a grid would give this process: one of the grid for as many as it has places, none for the others. */
static void mapped(void) {
    int dims[1] = {size > 1 ? size - 1 : 1}, periods[1] = {0}, mine = -2, inside, all[64], seen[64] = {0};
    OK(MPI_Cart_map(MPI_COMM_WORLD, 1, dims, periods, &mine));
    inside = mine != MPI_UNDEFINED;
    CHECK(!inside || (mine >= 0 && mine < dims[0]));
    OK(MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < size; i++)
        if (all[i] != MPI_UNDEFINED) CHECK(seen[all[i]]++ == 0);
    for (int i = 0; i < dims[0]; i++)
        CHECK(seen[i] == 1);
}

static void add(void *in, void *inout, int *len, MPI_Datatype *datatype) {
    CHECK(*datatype == MPI_INT);
    for (int i = 0; i < *len; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

/* A handle that went through a number is as good as before. */
static void numbers_of_handles(void) {
    MPI_Op op, same;
    MPI_Request request;
    MPI_Message message;
    int one = 1, two = 2, value = rank, got = -1;
    OK(MPI_Op_create(add, 1, &op));
    same = MPI_Op_fromint(MPI_Op_toint(op));
    CHECK(same == op && MPI_Op_fromint(MPI_Op_toint(MPI_SUM)) == MPI_SUM);
    OK(MPI_Reduce_local(&one, &two, 1, MPI_INT, same));
    CHECK(two == 3);
    OK(MPI_Op_free(&op));

    OK(MPI_Isend(&value, 1, MPI_INT, rank, 4, MPI_COMM_WORLD, &request));
    request = MPI_Request_fromint(MPI_Request_toint(request));
    OK(MPI_Mprobe(rank, 4, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    message = MPI_Message_fromint(MPI_Message_toint(message));
    OK(MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(got == rank && request == MPI_REQUEST_NULL && message == MPI_MESSAGE_NULL);
    CHECK(MPI_Request_fromint(MPI_Request_toint(MPI_REQUEST_NULL)) == MPI_REQUEST_NULL);
    CHECK(MPI_Message_fromint(MPI_Message_toint(MPI_MESSAGE_NO_PROC)) == MPI_MESSAGE_NO_PROC);
}

static void abi(void) {
    MPI_Info info;
    char text[16];
    unsigned char yes[16], no[16];
    int is_set = -1, keys = -1;
    OK(MPI_Abi_get_info(&info));
    snprintf(text, sizeof text, "%d", (int)sizeof(MPI_Aint));
    CHECK(strcmp(value_of(info, "mpi_aint_size"), text) == 0);
    snprintf(text, sizeof text, "%d", (int)sizeof(MPI_Count));
    CHECK(strcmp(value_of(info, "mpi_count_size"), text) == 0);
    snprintf(text, sizeof text, "%d", (int)sizeof(MPI_Offset));
    CHECK(strcmp(value_of(info, "mpi_offset_size"), text) == 0);
    OK(MPI_Info_free(&info));

    OK(MPI_Abi_get_fortran_info(&info));
    CHECK(strcmp(value_of(info, "mpi_integer_size"), "4") == 0);
    CHECK(strcmp(value_of(info, "mpi_double_precision_size"), "8") == 0);
    OK(MPI_Abi_set_fortran_info(info));
    OK(MPI_Info_set(info, "mpi_integer_size", "3"));
    CHECK(MPI_Abi_set_fortran_info(info) != MPI_SUCCESS);
    OK(MPI_Info_free(&info));

    for (int bytes = 1; bytes <= 16; bytes *= 2) {
        memset(yes, 7, sizeof yes);
        memset(no, 7, sizeof no);
        OK(MPI_Abi_get_fortran_booleans(bytes, yes, no, &is_set));
        CHECK(is_set && memcmp(yes, no, bytes) != 0);
        for (int i = bytes; i < 16; i++)
            CHECK(yes[i] == 7 && no[i] == 7);
        OK(MPI_Abi_set_fortran_booleans(bytes, yes, no));
        CHECK(MPI_Abi_set_fortran_booleans(bytes, no, yes) != MPI_SUCCESS);
    }
    CHECK(MPI_Abi_get_fortran_booleans(3, yes, no, &is_set) != MPI_SUCCESS);

    /* Resources of a host can be split by: each key is one. */
    OK(MPI_Get_hw_resource_info(&info));
    OK(MPI_Info_get_nkeys(info, &keys));
    for (int i = 0; i < keys; i++) {
        char key[MPI_MAX_INFO_KEY];
        OK(MPI_Info_get_nthkey(info, i, key));
        CHECK(strcmp(value_of(info, key), "true") == 0 || strcmp(value_of(info, key), "false") == 0);
    }
    OK(MPI_Info_free(&info));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(size <= 64);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    groups();
    communicators();
    mapped();
    numbers_of_handles();
    abi();
    return MPI_Finalize();
}
