/* lossy SECONDS [PAUSE [FILE]]: a ring of messages of many lengths, both ways, each checked byte by byte; prints the
 * goodput.
 *
 * Whatever the network does, no byte may be wrong, and messages keep their order. All ranks are connected when it
 * prints that it begins; then they pause for PAUSE seconds, in which the network can be made worse. It ends after
 * SECONDS, or as soon as FILE exists. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTHS = 7, ROUNDS_MAX = 1 << 20, AHEAD = 4 };
static const int lengths[LENGTHS] = { 0, 1, 200, 1300, 5000, 40000, 200000 };

static void fill(unsigned char *bytes, int length, unsigned seed) {
    for (int i = 0; i < length; i++) bytes[i] = (unsigned char)(seed * 31 + (unsigned)i * 7 + ((unsigned)i >> 8));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double seconds = argc > 1 ? atof(argv[1]) : 1, pause = argc > 2 ? atof(argv[2]) : 0, bytes = 0;
    int next = (rank + 1) % size, last = (rank + size - 1) % size, over = 0;
    static unsigned char out[AHEAD][200000], in[AHEAD][200000], wanted[200000];
    long messages = 0;
    MPI_Sendrecv(out[0], sizeof out[0], MPI_BYTE, next, 0, in[0], sizeof in[0], MPI_BYTE, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int none;
    MPI_Allreduce(&over, &none, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("lossy begins\n");
        fflush(stdout);
    }
    usleep((useconds_t)(pause * 1e6));
    double begun = MPI_Wtime();
    for (int round = 0; round < ROUNDS_MAX && !over; round++) {
        MPI_Request requests[2 * AHEAD];
        for (int i = 0; i < AHEAD; i++) {
            int length = lengths[(round + i) % LENGTHS];
            fill(out[i], length, (unsigned)(rank * 1000 + round + i));
            MPI_Irecv(in[i], sizeof in[i], MPI_BYTE, last, 1, MPI_COMM_WORLD, &requests[i]);
            MPI_Isend(out[i], length, MPI_BYTE, next, 1, MPI_COMM_WORLD, &requests[AHEAD + i]);
        }
        MPI_Status statuses[2 * AHEAD];
        MPI_Waitall(2 * AHEAD, requests, statuses);
        for (int i = 0; i < AHEAD; i++) {
            int length = lengths[(round + i) % LENGTHS], found;
            MPI_Get_count(&statuses[i], MPI_BYTE, &found);
            fill(wanted, length, (unsigned)(last * 1000 + round + i));
            if (found != length || memcmp(wanted, in[i], (size_t)length) != 0) {
                printf("rank %d, round %d: message %d is wrong\n", rank, round, i);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
            bytes += length;
            messages++;
        }
        /* All stop in the same round, when one finds that time is up. */
        int mine = MPI_Wtime() - begun > seconds || (argc > 3 && access(argv[3], F_OK) == 0);
        MPI_Allreduce(&mine, &over, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    double took = MPI_Wtime() - begun;
    if (rank == 0) printf("lossy ranks=%d messages=%ld MB_per_s=%.2f\n", size, messages * size, bytes * size / took / 1e6);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
