/* Handles that the program frees while operations still use their objects. */
#include <string.h>

#include "check.h"

static MPI_Datatype pair;
static int combined;

static void add(void *in, void *both, int *count, MPI_Datatype *type) {
    MPI_Aint lower, extent;
    int size;
    CHECK(*type == pair);
    OK(MPI_Type_get_extent(*type, &lower, &extent));
    OK(MPI_Type_size(*type, &size));
    CHECK(lower == 0 && extent == 2 * (MPI_Aint)sizeof(int) && size == (int)extent);
    for (int i = 0; i < 2 * *count; i++)
        ((int *)both)[i] += ((int *)in)[i];
    combined++;
}

/* An operator gets the datatype that the reduction was called with, although it has been freed. */
static void operators(int rank, int ranks) {
    MPI_Op op;
    MPI_Datatype type, others[8];
    MPI_Request request[2];
    int mine[2] = {rank, 1}, sum[2], all[2];
    OK(MPI_Op_create(add, 1, &op));
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    pair = type;
    OK(MPI_Iallreduce(mine, sum, 1, type, op, MPI_COMM_WORLD, &request[0]));
    OK(MPI_Allreduce_init(mine, all, 1, type, op, MPI_COMM_WORLD, MPI_INFO_NULL, &request[1]));
    OK(MPI_Type_free(&type));
    OK(MPI_Op_free(&op));
    for (int i = 0; i < 8; i++) {
        OK(MPI_Type_contiguous(3 + i, MPI_INT, &others[i]));
        CHECK(others[i] != pair);
    }
    OK(MPI_Wait(&request[0], MPI_STATUS_IGNORE));
    CHECK(sum[0] == ranks * (ranks - 1) / 2 && sum[1] == ranks);
    for (int i = 0; i < 2; i++) {
        OK(MPI_Start(&request[1]));
        OK(MPI_Wait(&request[1], MPI_STATUS_IGNORE));
        CHECK(all[0] == ranks * (ranks - 1) / 2 && all[1] == ranks);
    }
    OK(MPI_Request_free(&request[1]));
    /* Some rank has combined something, but not every rank. */
    OK(MPI_Allreduce(MPI_IN_PLACE, &combined, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(ranks == 1 || combined > 0);
    for (int i = 0; i < 8; i++)
        OK(MPI_Type_free(&others[i]));
}

static int handled;

static void handle(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    OK(MPI_Error_class(*code, &handled));
}

/* Errors of a request go to the error handler of its freed communicator. */
static void freed_communicator(MPI_Errhandler handler, int expected) {
    MPI_Comm comm;
    MPI_Request request;
    MPI_Status status;
    int room, message[2] = {1, 2}, class;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_set_errhandler(comm, handler));
    OK(MPI_Irecv(&room, 1, MPI_INT, 0, 3, comm, &request));
    OK(MPI_Send(message, 2, MPI_INT, 0, 3, comm));
    OK(MPI_Comm_free(&comm));
    handled = MPI_SUCCESS;
    OK(MPI_Error_class(MPI_Wait(&request, &status), &class));
    CHECK(class == MPI_ERR_TRUNCATE && request == MPI_REQUEST_NULL);
    CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == 3);
    CHECK(handled == expected);
}

static int completed, freed;

static int query(void *extra, MPI_Status *status) {
    completed += *(int *)extra;
    OK(MPI_Status_set_elements(status, MPI_INT, 0));
    return MPI_Status_set_cancelled(status, 0);
}

static int release(void *extra) {
    freed += *(int *)extra;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete) {
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

/* A freed generalised request, and its handle, remain until the program completes it. */
static void general(void) {
    MPI_Request one, kept, two;
    int first = 1, second = 10, flag;
    OK(MPI_Grequest_start(query, release, cancel, &first, &one));
    kept = one;
    OK(MPI_Request_free(&one));
    CHECK(one == MPI_REQUEST_NULL && freed == 0);
    OK(MPI_Grequest_start(query, release, cancel, &second, &two));
    CHECK(two != kept);
    OK(MPI_Grequest_complete(kept));
    CHECK(freed == 1 && completed == 0);
    OK(MPI_Test(&two, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag && freed == 1);
    OK(MPI_Grequest_complete(two));
    OK(MPI_Wait(&two, MPI_STATUS_IGNORE));
    CHECK(freed == 11 && completed == 10);
}

int main(int argc, char **argv) {
    MPI_Errhandler handler;
    int rank, ranks;
    OK(MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    operators(rank, ranks);
    OK(MPI_Comm_create_errhandler(handle, &handler));
    freed_communicator(MPI_ERRORS_RETURN, MPI_SUCCESS);
    freed_communicator(handler, MPI_ERR_TRUNCATE);
    OK(MPI_Errhandler_free(&handler));
    general();
    return MPI_Finalize();
}
