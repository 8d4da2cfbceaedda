/* A profiling tool that is loaded before the library: counts calls, and prints the counts at the end. */
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>

static int sends, receives, reductions, level;

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
    sends++;
    return PMPI_Send(buf, count, datatype, dest, tag, comm);
}

int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
             MPI_Status *status) {
    receives++;
    return PMPI_Recv(buf, count, datatype, source, tag, comm, status);
}

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm) {
    reductions++;
    return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}

/* The call by which programs talk to tools: here, a level and a word. */
int MPI_Pcontrol(const int asked, ...) {
    va_list rest;
    va_start(rest, asked);
    level = asked;
    if (asked == 2) printf("the program says %s\n", va_arg(rest, const char *));
    va_end(rest);
    return PMPI_Pcontrol(asked);
}

int MPI_Finalize(void) {
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("rank %d: %d sends, %d receives, %d reductions, level %d\n", rank, sends, receives, reductions,
           level);
    fflush(stdout);
    return PMPI_Finalize();
}
