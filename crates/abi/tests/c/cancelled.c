/* Cancelling synchronous sends: each is cancelled or received, and its sender learns which. */
#include "check.h"

enum { SHORT = 1, LONG = 100000, TAG = 5, LAST = 6, ROUNDS = 50 };

static int numbers[LONG];

/* No rank receives it. */
static void cancel_in_vain(int to, int count)
{
    MPI_Request request;
    MPI_Status status;
    int cancelled = 0;
    OK(MPI_Issend(numbers, count, MPI_INT, to, TAG, MPI_COMM_WORLD, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(cancelled);
}

/* The next rank may receive it in time, and is told how many to expect. */
static void race(int rank, int size, int count)
{
    static int into[LONG];
    int to = (rank + 1) % size, from = (rank + size - 1) % size, sent = 0, expected, got = 0;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request send, receive;
        MPI_Status status;
        int cancelled = 0;
        OK(MPI_Irecv(into, count, MPI_INT, from, TAG, MPI_COMM_WORLD, &receive));
        OK(MPI_Issend(numbers, count, MPI_INT, to, TAG, MPI_COMM_WORLD, &send));
        OK(MPI_Cancel(&send));
        OK(MPI_Wait(&send, &status));
        OK(MPI_Test_cancelled(&status, &cancelled));
        sent += !cancelled;
        OK(MPI_Sendrecv(&sent, 1, MPI_INT, to, LAST, &expected, 1, MPI_INT, from, LAST, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
        if (got < expected) {
            OK(MPI_Wait(&receive, &status));
            got++;
        } else {
            OK(MPI_Cancel(&receive));
            OK(MPI_Wait(&receive, &status));
            OK(MPI_Test_cancelled(&status, &cancelled));
            CHECK(cancelled);
        }
        CHECK(got == expected);
        /* A message of the next round must not match a receive of this one. */
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
}

int main(int argc, char **argv)
{
    int rank, size, waiting;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    for (int to = 0; to < size; to++) {
        cancel_in_vain(to, SHORT);
        cancel_in_vain(to, LONG);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &waiting, MPI_STATUS_IGNORE));
    CHECK(!waiting);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    race(rank, size, SHORT);
    race(rank, size, LONG);
    OK(MPI_Finalize());
    return 0;
}
