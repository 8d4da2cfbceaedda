/* A program that waits for ever. Its communicators are in different planes, if the machine has cores to spare. In one of them
   is a message that nobody receives, and no thread is there. The argument says in which way it waits. */
#include <mpi.h>
#include <string.h>

enum { COMMS = 3 };

int main(int argc, char **argv) {
    int level, rank, size, number = 0, at;
    MPI_Comm comms[COMMS];
    MPI_Request requests[COMMS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < COMMS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    MPI_Send(&number, 1, MPI_INT, (rank + 1) % size, 1, comms[0]);
    if (argc == 2 && strcmp(argv[1], "receive") == 0) {
        MPI_Recv(&number, 1, MPI_INT, rank, 2, comms[1], MPI_STATUS_IGNORE);
    } else {
        for (int i = 0; i < COMMS; i++) MPI_Irecv(&number, 1, MPI_INT, rank, 2, comms[i], &requests[i]);
        MPI_Waitany(COMMS, requests, &at, MPI_STATUS_IGNORE);
    }
    return MPI_Finalize();
}
