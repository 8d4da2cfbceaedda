/* Two ranks have all windows locked, and each accesses the window of the other for the first time while somebody else
   waits to have it alone. Neither waits for those that wait for it. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <sched.h>

enum { ROUNDS = 5 };

int main(int argc, char **argv) {
    int rank, size;
    long *base, one = 1;
    MPI_Win win;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Win_allocate(sizeof one, sizeof one, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    *base = 0;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 0; round < ROUNDS && size >= 4; round++) {
        if (rank < 2) {
            OK(MPI_Win_lock_all(0, win));
            OK(MPI_Accumulate(&one, 1, MPI_LONG, rank, 0, 1, MPI_LONG, MPI_SUM, win));
            OK(MPI_Win_flush(rank, win));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (rank < 2) {
            /* By now the others sleep. */
            for (double end = MPI_Wtime() + 0.02; MPI_Wtime() < end;)
                sched_yield();
            OK(MPI_Accumulate(&one, 1, MPI_LONG, 1 - rank, 0, 1, MPI_LONG, MPI_SUM, win));
            OK(MPI_Win_unlock_all(win));
        } else if (rank < 4) {
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank - 2, 0, win));
            OK(MPI_Accumulate(&one, 1, MPI_LONG, rank - 2, 0, 1, MPI_LONG, MPI_SUM, win));
            OK(MPI_Win_unlock(rank - 2, win));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        CHECK(*base == (rank < 2 ? 3 * (round + 1) : 0));
    }
    OK(MPI_Win_free(&win));
    OK(MPI_Finalize());
    return 0;
}
