/* MPI_Finalize completes sends that the program cannot wait for any more, however late the receiver is: buffered sends,
 * and sends and collectives whose request was freed. Arguments: what, bytes. */
#include <string.h>
#include <unistd.h>

#include "check.h"

static void send(const char *what, char *bytes, int count, int to) {
    MPI_Request request;
    MPI_Comm comm;
    if (!strcmp(what, "buffered")) {
        OK(MPI_Buffer_attach(malloc(count + MPI_BSEND_OVERHEAD), count + MPI_BSEND_OVERHEAD));
        OK(MPI_Bsend(bytes, count, MPI_BYTE, to, 0, MPI_COMM_WORLD));
    } else if (!strcmp(what, "attached")) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        OK(MPI_Comm_attach_buffer(comm, malloc(count + MPI_BSEND_OVERHEAD), count + MPI_BSEND_OVERHEAD));
        OK(MPI_Bsend(bytes, count, MPI_BYTE, to, 0, comm));
        OK(MPI_Comm_free(&comm));
    } else if (!strcmp(what, "freed")) {
        OK(MPI_Isend(bytes, count, MPI_BYTE, to, 0, MPI_COMM_WORLD, &request));
        OK(MPI_Request_free(&request));
    } else if (!strcmp(what, "many")) {
        /* More than a receiver keeps: most of them wait for credit. */
        for (int i = 0; i < 1000; i++) {
            OK(MPI_Isend(bytes, count, MPI_BYTE, to, 0, MPI_COMM_WORLD, &request));
            OK(MPI_Request_free(&request));
        }
    } else if (!strcmp(what, "collective")) {
        OK(MPI_Ibcast(bytes, count, MPI_BYTE, 0, MPI_COMM_WORLD, &request));
        OK(MPI_Request_free(&request));
    }
}

static void receive(const char *what, char *bytes, int count, int from) {
    MPI_Comm comm = MPI_COMM_WORLD;
    if (!strcmp(what, "attached"))
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    sleep(1);
    if (!strcmp(what, "collective")) {
        MPI_Request request;
        OK(MPI_Ibcast(bytes, count, MPI_BYTE, 0, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        return;
    }
    for (int i = strcmp(what, "many") ? 1 : 1000; i > 0; i--)
        OK(MPI_Recv(bytes, count, MPI_BYTE, from, 0, comm, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    const char *what = argv[1];
    int rank, count = atoi(argv[2]);
    char *bytes = malloc(count);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strcmp(what, "unmatched")) {
        /* A receive without a message does not delay MPI_Finalize. */
        MPI_Request request;
        OK(MPI_Irecv(bytes, count, MPI_BYTE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &request));
        OK(MPI_Request_free(&request));
    } else if (!strcmp(what, "dead")) {
        /* Nor does a receiver that died. */
        if (rank == 1)
            _exit(3);
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        memset(bytes, 7, count);
        send("buffered", bytes, count, 1);
        send("freed", bytes, count, 1);
    } else if (rank == 0) {
        memset(bytes, 7, count);
        send(what, bytes, count, 1);
    } else {
        receive(what, bytes, count, 0);
        for (int i = 0; i < count; i++)
            CHECK(bytes[i] == 7);
    }
    MPI_Finalize();
    return 0;
}
