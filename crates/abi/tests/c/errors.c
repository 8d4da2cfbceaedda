/* Prints the text of every error that a program may get, one per line, to be compared with errors.txt. */
#include <string.h>

#include "check.h"

#include <mpi-ext.h>

#define WRONG(call) report(#call, call)

/* The text of an error. */
static void report(const char *call, int code) {
    char text[MPI_MAX_ERROR_STRING];
    int len, class;
    (void)call;
    CHECK(code != MPI_SUCCESS);
    OK(MPI_Error_string(code, text, &len));
    OK(MPI_Error_class(code, &class));
    CHECK(len == (int)strlen(text) && class != MPI_ERR_UNKNOWN);
    printf("%s\n", text);
}

static int numbers[100], other[100];
static MPI_Comm world = MPI_COMM_WORLD;

static void arguments(void) {
    MPI_Comm freed, copy;
    MPI_Request request;
    MPI_Status status;
    MPI_Datatype raw;
    int flag;
    printf("\n# Arguments of messages\n");
    WRONG(MPI_Send(numbers, 10, MPI_INT, 2, 5, world));
    WRONG(MPI_Send(numbers, 10, MPI_INT, -7, 5, world));
    WRONG(MPI_Isend(numbers, 10, MPI_INT, 9, 5, world, &request));
    WRONG(MPI_Recv(numbers, 10, MPI_INT, 2, 5, world, &status));
    WRONG(MPI_Irecv(numbers, 10, MPI_INT, -9, 5, world, &request));
    WRONG(MPI_Send(numbers, 10, MPI_INT, 1, -3, world));
    WRONG(MPI_Send(numbers, 10, MPI_INT, 1, MPI_ANY_TAG, world));
    WRONG(MPI_Send(numbers, 10, MPI_INT, 1, 1 << 24, world));
    WRONG(MPI_Recv(numbers, 10, MPI_INT, 1, -3, world, &status));
    WRONG(MPI_Send(numbers, -1, MPI_INT, 1, 5, world));
    WRONG(MPI_Recv(numbers, -5, MPI_INT, 1, 5, world, &status));
    WRONG(MPI_Send(NULL, 10, MPI_INT, 1, 5, world));
    WRONG(MPI_Irecv(NULL, 10, MPI_INT, 1, 5, world, &request));
    WRONG(MPI_Send(numbers, 10, MPI_DATATYPE_NULL, 1, 5, world));
    OK(MPI_Type_contiguous(3, MPI_INT, &raw));
    WRONG(MPI_Send(numbers, 10, raw, 1, 5, world));
    OK(MPI_Type_set_name(raw, "triple"));
    WRONG(MPI_Irecv(numbers, 10, raw, 1, 5, world, &request));
    OK(MPI_Type_free(&raw));
    WRONG(MPI_Send(numbers, 10, MPI_INT, 1, 5, MPI_COMM_NULL));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &copy));
    freed = copy;
    OK(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
    WRONG(MPI_Send(numbers, 10, MPI_INT, 1, 5, copy));
    OK(MPI_Comm_set_name(copy, "grid"));
    WRONG(MPI_Send(numbers, 10, MPI_INT, 1, 5, copy));
    /* A freed communicator stays alive while a request uses it, but its handle is invalid. */
    OK(MPI_Irecv(numbers, 1, MPI_INT, 0, 5, copy, &request));
    OK(MPI_Comm_free(&copy));
    WRONG(MPI_Send(numbers, 10, MPI_INT, 0, 5, freed));
    WRONG(MPI_Barrier(freed));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    WRONG(MPI_Send(numbers, 10, MPI_INT, 1, 5, (MPI_Comm)MPI_INT));
    WRONG(MPI_Iprobe(5, 0, world, &flag, &status));
    WRONG(MPI_Probe(0, -8, world, &status));
    WRONG(MPI_Irecv(numbers, 10, MPI_INT, 1, 5, world, NULL));
    WRONG(MPI_Comm_rank(world, NULL));
    WRONG(MPI_Sendrecv(numbers, 1, MPI_INT, 3, 1, other, 1, MPI_INT, 0, 1, world, &status));
    WRONG(MPI_Sendrecv(numbers, 1, MPI_INT, 0, 1, other, 1, MPI_INT, 3, 1, world, &status));
}

static void truncation(void) {
    MPI_Request requests[3];
    MPI_Status statuses[3];
    MPI_Message message;
    printf("\n# Messages that are longer than the room for them\n");
    OK(MPI_Isend(numbers, 100, MPI_INT, 0, 7, world, &requests[0]));
    WRONG(MPI_Recv(other, 10, MPI_INT, 0, 7, world, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    OK(MPI_Isend(numbers, 100, MPI_INT, 0, 7, world, &requests[0]));
    WRONG(MPI_Recv(other, 10, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    OK(MPI_Irecv(other, 1, MPI_INT, 0, 7, world, &requests[0]));
    OK(MPI_Send(numbers, 2, MPI_INT, 0, 7, world));
    WRONG(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    OK(MPI_Isend(numbers, 100, MPI_INT, 0, 7, world, &requests[0]));
    OK(MPI_Mprobe(0, 7, world, &message, MPI_STATUS_IGNORE));
    WRONG(MPI_Mrecv(other, 99, MPI_INT, &message, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    WRONG(MPI_Sendrecv(numbers, 2, MPI_INT, 0, 7, other, 1, MPI_INT, 0, 7, world, MPI_STATUS_IGNORE));

    /* One of three requests fails. */
    OK(MPI_Irecv(other, 1, MPI_INT, 0, 8, world, &requests[0]));
    OK(MPI_Irecv(other + 1, 1, MPI_INT, 0, 9, world, &requests[1]));
    OK(MPI_Irecv(other + 2, 1, MPI_INT, 0, 10, world, &requests[2]));
    for (int tag = 8; tag <= 10; tag++) OK(MPI_Send(numbers, tag == 9 ? 2 : 1, MPI_INT, 0, tag, world));
    WRONG(MPI_Waitall(3, requests, statuses));
    CHECK(statuses[0].MPI_ERROR == MPI_SUCCESS && statuses[2].MPI_ERROR == MPI_SUCCESS);
    WRONG(statuses[1].MPI_ERROR);
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)in;
    (void)inout;
    (void)count;
    (void)type;
}

static void collectives(void) {
    MPI_Op freed;
    MPI_Request request;
    MPI_Datatype pair;
    printf("\n# Collectives\n");
    WRONG(MPI_Bcast(numbers, 1, MPI_INT, 2, world));
    WRONG(MPI_Bcast(numbers, 1, MPI_INT, -1, world));
    WRONG(MPI_Reduce(numbers, other, 1, MPI_INT, MPI_SUM, 17, world));
    WRONG(MPI_Gather(numbers, 1, MPI_INT, other, 1, MPI_INT, 2, world));
    WRONG(MPI_Ibcast(numbers, 1, MPI_INT, 2, world, &request));
    WRONG(MPI_Bcast(numbers, -2, MPI_INT, 0, world));
    WRONG(MPI_Bcast(NULL, 2, MPI_INT, 0, world));
    WRONG(MPI_Allreduce(numbers, other, 1, MPI_FLOAT, MPI_BAND, MPI_COMM_SELF));
    WRONG(MPI_Allreduce(numbers, other, 1, MPI_BYTE, MPI_SUM, MPI_COMM_SELF));
    WRONG(MPI_Allreduce(numbers, other, 1, MPI_INT, MPI_MAXLOC, MPI_COMM_SELF));
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    WRONG(MPI_Allreduce(numbers, other, 1, pair, MPI_SUM, MPI_COMM_SELF));
    OK(MPI_Type_free(&pair));
    WRONG(MPI_Allreduce(numbers, other, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_SELF));
    WRONG(MPI_Reduce_local(numbers, other, 1, MPI_DOUBLE, MPI_LXOR));
    OK(MPI_Op_create(add, 1, &freed));
    OK(MPI_Op_free(&freed));
    WRONG(MPI_Op_free(&freed));
    freed = MPI_SUM;
    WRONG(MPI_Op_free(&freed));
    WRONG(MPI_Allreduce(numbers, numbers, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF));
    WRONG(MPI_Alltoall(MPI_IN_PLACE, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, MPI_COMM_SELF));
    WRONG(MPI_Gather(numbers, 2, MPI_INT, other, 1, MPI_INT, 0, MPI_COMM_SELF));
    WRONG(MPI_Scatter(numbers, 2, MPI_INT, other, 1, MPI_INT, 0, MPI_COMM_SELF));
    WRONG(MPI_Allgather(numbers, 2, MPI_INT, other, 1, MPI_INT, MPI_COMM_SELF));
    WRONG(MPI_Alltoall(numbers, 2, MPI_INT, other, 1, MPI_INT, MPI_COMM_SELF));
    WRONG(MPI_Allgatherv(numbers, 2, MPI_INT, other, (int[]){1}, (int[]){0}, MPI_INT, MPI_COMM_SELF));
    WRONG(MPI_Gatherv(numbers, 2, MPI_INT, other, (int[]){1}, (int[]){0}, MPI_INT, 0, MPI_COMM_SELF));
}

static void requests(void) {
    MPI_Request request, unknown = (MPI_Request)MPI_COMM_WORLD;
    int flag;
    printf("\n# Requests\n");
    OK(MPI_Recv_init(numbers, 1, MPI_INT, 0, 11, world, &request));
    OK(MPI_Start(&request));
    WRONG(MPI_Start(&request));
    OK(MPI_Send(numbers, 1, MPI_INT, 0, 11, world));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&request));
    WRONG(MPI_Start(&request));
    WRONG(MPI_Request_free(&request));
    WRONG(MPI_Cancel(&request));
    OK(MPI_Irecv(numbers, 1, MPI_INT, 0, 11, world, &request));
    WRONG(MPI_Start(&request));
    WRONG(MPI_Grequest_complete(request));
    OK(MPI_Send(numbers, 1, MPI_INT, 0, 11, world));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    WRONG(MPI_Wait(&unknown, MPI_STATUS_IGNORE));
    WRONG(MPI_Wait(NULL, MPI_STATUS_IGNORE));
    WRONG(MPI_Testall(-1, &request, &flag, MPI_STATUSES_IGNORE));
}

static void buffers(void) {
    static char room[701];
    MPI_Request request;
    void *address;
    int bytes;
    printf("\n# Buffered sends\n");
    WRONG(MPI_Bsend(numbers, 10, MPI_INT, 0, 12, world));
    WRONG(MPI_Buffer_detach(&address, &bytes));
    WRONG(MPI_Buffer_attach(room, -1));
    WRONG(MPI_Buffer_attach(NULL, 100));
    OK(MPI_Buffer_attach(room, sizeof room - 1));
    WRONG(MPI_Buffer_attach(room, sizeof room));
    WRONG(MPI_Ibsend(room, sizeof room, MPI_CHAR, 0, 12, world, &request));
    WRONG(MPI_Bsend(numbers, 100, MPI_INT, 7, 12, world));
    OK(MPI_Buffer_detach(&address, &bytes));
}

static void others(void) {
    MPI_Comm comm;
    MPI_Group group;
    MPI_Info info;
    MPI_Datatype type;
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    int value, flag, position = 90, ranks[2] = {0, 5};
    void *attribute;
    printf("\n# Everything else\n");
    comm = MPI_COMM_WORLD;
    WRONG(MPI_Comm_free(&comm));
    WRONG(MPI_Comm_split(world, -2, 0, &comm));
    WRONG(MPI_Comm_get_attr(world, 4095, &attribute, &flag));
    WRONG(MPI_Comm_set_attr(world, MPI_TAG_UB, &value));
    WRONG(MPI_Comm_remote_size(world, &value));
    OK(MPI_Comm_group(world, &group));
    WRONG(MPI_Group_incl(group, 2, ranks, &group));
    WRONG(MPI_Group_size(MPI_GROUP_NULL, &value));
    OK(MPI_Group_free(&group));
    OK(MPI_Info_create(&info));
    WRONG(MPI_Info_delete(info, "nothing"));
    WRONG(MPI_Info_set(info, "", "value"));
    OK(MPI_Info_free(&info));
    type = MPI_INT;
    WRONG(MPI_Type_free(&type));
    WRONG(MPI_Type_vector(-1, 1, 1, MPI_INT, &type));
    WRONG(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &type));
    WRONG(MPI_Pack(numbers, 10, MPI_INT, other, 100, &position, world));
    WRONG(MPI_Unpack(other, 100, &position, numbers, 10, MPI_INT, world));
    WRONG(MPI_Comm_set_errhandler(world, handler));
    WRONG(MPI_Dims_create(7, 1, (int[]){2}));
    WRONG(MPI_Init(NULL, NULL));
    WRONG(MPI_Close_port("nothing"));
}

static void windows(void) {
    MPI_Win win, dynamic;
    int *base;
    printf("\n# Windows\n");
    OK(MPI_Win_allocate(16, 4, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    WRONG(MPI_Put(numbers, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    WRONG(MPI_Win_unlock(0, win));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    WRONG(MPI_Put(numbers, 1, MPI_INT, 0, 4, 1, MPI_INT, win));
    WRONG(MPI_Put(numbers, 1, MPI_INT, 3, 0, 1, MPI_INT, win));
    OK(MPI_Win_unlock(0, win));
    WRONG(MPI_Win_lock(77, 0, 0, win));
    WRONG(MPI_Win_fence(1 << 20, win));
    WRONG(MPI_Win_attach(win, numbers, 4));
    OK(MPI_Win_free(&win));
    WRONG(MPI_Win_free(&win));
    WRONG(MPI_Win_create(numbers, 4, 0, MPI_INFO_NULL, MPI_COMM_SELF, &win));
    WRONG(MPI_Win_allocate(-4, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &win));
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, &dynamic));
    OK(MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN));
    WRONG(MPI_Win_detach(dynamic, numbers));
    OK(MPI_Win_free(&dynamic));
}

static void files(void) {
    const char *name = "errors.data";
    const int temporary = MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
    MPI_File file, other_file;
    char longest[700] = {0};
    printf("\n# Files\n");
    WRONG(MPI_File_open(MPI_COMM_SELF, "/no/such/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    WRONG(MPI_File_open(MPI_COMM_SELF, "/dev/null/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    WRONG(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    WRONG(MPI_File_delete("/no/such/file", MPI_INFO_NULL));
    /* A text that is too long ends with its code nevertheless. */
    memset(longest, 'x', sizeof longest - 1);
    WRONG(MPI_File_open(MPI_COMM_SELF, longest, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_open(MPI_COMM_SELF, name, temporary | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    WRONG(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &other_file));
    WRONG(MPI_File_read(file, numbers, 1, MPI_INT, MPI_STATUS_IGNORE));
    WRONG(MPI_File_write_at(file, -1, numbers, 1, MPI_INT, MPI_STATUS_IGNORE));
    WRONG(MPI_File_seek(file, -1, MPI_SEEK_SET));
    WRONG(MPI_File_seek(file, 0, 12345));
    WRONG(MPI_File_set_view(file, -1, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    WRONG(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "odd", MPI_INFO_NULL));
    WRONG(MPI_File_write_all_end(file, numbers, MPI_STATUS_IGNORE));
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &other_file));
    WRONG(MPI_File_write(other_file, numbers, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&other_file));
    OK(MPI_File_close(&file));
    WRONG(MPI_File_close(&file));
    OK(MPI_File_open(MPI_COMM_SELF, name, temporary | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file));
    WRONG(MPI_File_write_at(file, 0, numbers, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
}

static void environment(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Info info;
    MPI_Comm comm;
    MPI_Request request;
    MPI_Datatype type;
    int value, coordinates[2];
    printf("\n# Sessions, topologies and the environment\n");
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    WRONG(MPI_Group_from_session_pset(session, "mpi://nothing", &group));
    OK(MPI_Session_finalize(&session));
    WRONG(MPI_Session_finalize(&session));
    WRONG(MPI_Add_error_code(999, &value));
    WRONG(MPI_Info_set(MPI_INFO_NULL, "key", "value"));
    OK(MPI_Info_create(&info));
    WRONG(MPI_Info_set(info, "key", NULL));
    OK(MPI_Info_free(&info));
    WRONG(MPIX_Comm_shrink(MPI_COMM_SELF, &comm));
    WRONG(MPI_Cart_coords(world, 0, 2, coordinates));
    WRONG(MPI_Cart_create(MPI_COMM_SELF, 2, (int[]){2, 2}, (int[]){0, 0}, 0, &comm));
    WRONG(MPI_Psend_init(numbers, -1, 1, MPI_INT, 0, 5, world, MPI_INFO_NULL, &request));
    WRONG(MPI_Type_create_subarray(1, (int[]){4}, (int[]){4}, (int[]){2}, MPI_ORDER_C, MPI_INT, &type));
}

/* The texts of classes, for programs that ask for these alone. */
static void classes(void) {
    char text[MPI_MAX_ERROR_STRING];
    int len;
    printf("\n# Classes\n");
    for (int class = 0; class <= 1018; class++) {
        if (class == 63) class = 1001;
        OK(MPI_Error_string(class, text, &len));
        printf("%s\n", text);
    }
    OK(MPI_Error_string(123456, text, &len));
    printf("%s\n", text);
}

int main(int argc, char **argv) {
    int rank;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(world, &rank));
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    if (rank == 0) {
        arguments();
        truncation();
        collectives();
        requests();
        buffers();
        others();
        windows();
        files();
        environment();
        classes();
    }
    OK(MPI_Finalize());
    return 0;
}
