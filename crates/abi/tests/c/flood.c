/* A rank that does not receive while another keeps sending to it: the memory of neither grows beyond its budget,
 * the sender waits, and in the end all messages arrive, in order.
 *
 * flood [messages]: the first rank sends that many messages of 1 KB to the second. Each prints how much
 * private memory it had before, at most, and after, and how long it took. */
#define _POSIX_C_SOURCE 200809L

#include <string.h>
#include <time.h>

#include "check.h"

#define BYTES 1024
#define WINDOW 512
#define FLOOD 0
#define LAST 1

/* Private dirty memory of this process, in KB. Memory that ranks share is not counted. */
static long memory(void) {
    static char line[256];
    long sum = 0, number;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Private_Dirty: %ld", &number) == 1) sum = number;
    fclose(file);
    return sum;
}

static void fill(unsigned *message, unsigned number) {
    for (unsigned at = 0; at < BYTES / sizeof *message; at++) message[at] = number * 31 + at;
    message[0] = number;
}

/* Sends all messages in windows, and then the last one. */
static long send_all(long messages) {
    static unsigned buffers[WINDOW][BYTES / sizeof(unsigned)];
    static MPI_Request requests[WINDOW];
    long most = 0;
    for (long first = 0; first < messages; first += WINDOW) {
        int count = messages - first < WINDOW ? (int)(messages - first) : WINDOW;
        for (int at = 0; at < count; at++) {
            fill(buffers[at], (unsigned)(first + at));
            OK(MPI_Isend(buffers[at], BYTES, MPI_BYTE, 1, FLOOD, MPI_COMM_WORLD, &requests[at]));
        }
        long now = memory();
        if (now > most) most = now;
        OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    }
    OK(MPI_Send(NULL, 0, MPI_BYTE, 1, LAST, MPI_COMM_WORLD));
    return most;
}

/* Waits for the last message only, so that those before it arrive until the sender cannot continue: for a while
 * without calls, then with calls. Then receives all. */
static long receive_all(long messages) {
    static unsigned expected[BYTES / sizeof(unsigned)], got[BYTES / sizeof(unsigned)];
    struct timespec nap = {0, 20000000};
    MPI_Request last;
    long most = 0;
    int flag;
    OK(MPI_Irecv(NULL, 0, MPI_BYTE, 0, LAST, MPI_COMM_WORLD, &last));
    for (int look = 0; look < 100; look++) {
        long now = memory();
        if (now > most) most = now;
        nanosleep(&nap, NULL);
        if (look < 50) continue;
        OK(MPI_Test(&last, &flag, MPI_STATUS_IGNORE));
        /* Unless all of them fit. */
        CHECK(!flag || messages < 10000);
    }
    for (long number = 0; number < messages; number++) {
        MPI_Status status;
        int count;
        OK(MPI_Recv(got, sizeof got, MPI_BYTE, 0, FLOOD, MPI_COMM_WORLD, &status));
        OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK(count == BYTES);
        fill(expected, (unsigned)number);
        CHECK(memcmp(expected, got, BYTES) == 0);
        if (number % 4096 == 0) {
            long now = memory();
            if (now > most) most = now;
        }
    }
    OK(MPI_Wait(&last, MPI_STATUS_IGNORE));
    return most;
}

int main(int argc, char **argv) {
    long messages = argc > 1 ? atol(argv[1]) : 100000, before, most;
    int rank, size;
    double start;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(size == 2);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    before = memory();
    start = MPI_Wtime();
    most = rank == 0 ? send_all(messages) : receive_all(messages);
    printf("rank %d: before %ld most %ld after %ld KB, %.2f s\n", rank, before, most, memory(),
           MPI_Wtime() - start);
    OK(MPI_Finalize());
    return 0;
}
