/* Half a round trip between ranks 0 and 1: half BYTES ROUNDS. Prints "half MICROSECONDS", the mean, as fi_pingpong counts. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void bounce(int me, char *bytes, int len, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        if (me == 0) {
            MPI_Send(bytes, len, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(bytes, len, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (me == 1) {
            MPI_Recv(bytes, len, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(bytes, len, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int me, len = argc > 1 ? atoi(argv[1]) : 8, rounds = argc > 2 ? atoi(argv[2]) : 20000;
    char *bytes = calloc(1, len + 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    bounce(me, bytes, len, 100);
    double begun = MPI_Wtime();
    bounce(me, bytes, len, rounds);
    double took = MPI_Wtime() - begun;
    if (me == 0)
        printf("half %.3f\n", took / rounds / 2 * 1e6);
    free(bytes);
    MPI_Finalize();
    return 0;
}
