/* Which error handler is called, and the status of an error. */
#include <string.h>

#include "check.h"

static MPI_Comm told;
static int times;

static void tell(MPI_Comm *comm, int *code, ...) {
    (void)code;
    told = *comm;
    times++;
}

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

/* Calls without a communicator: MPI_COMM_WORLD's handler, until MPI_COMM_SELF has one. */
static void without_communicator(void) {
    MPI_Errhandler handler, got;
    int size;
    OK(MPI_Comm_create_errhandler(tell, &handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    CHECK(class_of(MPI_Type_size(MPI_DATATYPE_NULL, &size)) == MPI_ERR_TYPE);
    CHECK(told == MPI_COMM_WORLD && times == 1);
    CHECK(class_of(MPI_Comm_size(MPI_COMM_NULL, &size)) == MPI_ERR_COMM);
    CHECK(told == MPI_COMM_WORLD && times == 2);
    OK(MPI_Comm_get_errhandler(MPI_COMM_SELF, &got));
    CHECK(got == MPI_ERRORS_ARE_FATAL);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK(class_of(MPI_Type_size(MPI_DATATYPE_NULL, &size)) == MPI_ERR_TYPE);
    CHECK(times == 2);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    CHECK(class_of(MPI_Type_size(MPI_DATATYPE_NULL, &size)) == MPI_ERR_TYPE);
    CHECK(told == MPI_COMM_SELF && times == 3);
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
}

static void is_truncated(int code, const MPI_Status *status, int tag) {
    CHECK(class_of(code) == MPI_ERR_TRUNCATE);
    CHECK(status->MPI_SOURCE == 0 && status->MPI_TAG == tag);
}

/* The status of a message that was too long names its source, whichever call reports it. */
static void truncated(void) {
    int message[4] = {1, 2, 3, 4}, room, index, flag = 0, count, indices[2], code;
    MPI_Request request, requests[2];
    MPI_Status status, statuses[2];
    MPI_Message matched;
    MPI_Comm comm = MPI_COMM_SELF;
#define BEGIN(tag)                                                                       \
    memset(&status, 0x55, sizeof status);                                                \
    OK(MPI_Irecv(&room, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request));       \
    OK(MPI_Send(message, 4, MPI_INT, 0, tag, comm));

    BEGIN(1)
    is_truncated(MPI_Wait(&request, &status), &status, 1);
    BEGIN(2)
    code = MPI_SUCCESS;
    while (code == MPI_SUCCESS && !flag)
        code = MPI_Test(&request, &flag, &status);
    CHECK(flag && request == MPI_REQUEST_NULL);
    is_truncated(code, &status, 2);
    BEGIN(3)
    is_truncated(MPI_Waitany(1, &request, &index, &status), &status, 3);
    CHECK(index == 0);
    BEGIN(4)
    requests[0] = MPI_REQUEST_NULL;
    requests[1] = request;
    CHECK(class_of(MPI_Waitall(2, requests, statuses)) == MPI_ERR_IN_STATUS);
    is_truncated(statuses[1].MPI_ERROR, &statuses[1], 4);
    BEGIN(5)
    requests[1] = request;
    CHECK(class_of(MPI_Waitsome(2, requests, &count, indices, statuses)) == MPI_ERR_IN_STATUS);
    CHECK(count == 1 && indices[0] == 1);
    is_truncated(statuses[0].MPI_ERROR, &statuses[0], 5);
    OK(MPI_Isend(message, 4, MPI_INT, 0, 6, comm, &request));
    is_truncated(MPI_Recv(&room, 1, MPI_INT, 0, 6, comm, &status), &status, 6);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    is_truncated(MPI_Sendrecv(message, 4, MPI_INT, 0, 7, &room, 1, MPI_INT, 0, 7, comm, &status),
                 &status, 7);
    OK(MPI_Isend(message, 4, MPI_INT, 0, 8, comm, &request));
    OK(MPI_Mprobe(0, 8, comm, &matched, MPI_STATUS_IGNORE));
    is_truncated(MPI_Mrecv(&room, 1, MPI_INT, &matched, &status), &status, 8);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(room == 1);
}

/* A key can be freed again while an attribute uses it, but not afterwards. */
static void keys(void) {
    int key, again, value = 7, flag;
    void *got;
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_set_attr(comm, key, &value));
    again = key;
    OK(MPI_Comm_free_keyval(&again));
    CHECK(again == MPI_KEYVAL_INVALID);
    again = key;
    OK(MPI_Comm_free_keyval(&again));
    OK(MPI_Comm_get_attr(comm, key, &got, &flag));
    CHECK(flag && got == &value);
    CHECK(class_of(MPI_Comm_set_attr(MPI_COMM_SELF, key, &value)) == MPI_ERR_KEYVAL);
    OK(MPI_Comm_free(&comm));
    CHECK(class_of(MPI_Comm_free_keyval(&key)) == MPI_ERR_KEYVAL);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    without_communicator();
    truncated();
    keys();
    return MPI_Finalize();
}
