/* A rank dies while it holds the lock of a window. Whoever waits for the lock, or wants it later, gets an error instead
 * of waiting for ever. Needs three ranks, and --on-death continue. */
#include <mpi-ext.h>
#include <unistd.h>

#include "check.h"

enum { HOLDER = 1 };

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

int main(int argc, char **argv) {
    int rank, held = 1, *base;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == HOLDER) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        OK(MPI_Send(&held, 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
        OK(MPI_Send(&held, 1, MPI_INT, 2, 0, MPI_COMM_WORLD));
        sleep(1); /* They wait for it meanwhile. */
        _exit(3);
    }
    OK(MPI_Recv(&held, 1, MPI_INT, HOLDER, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int kind = 0; kind < 2; kind++) {
        int locked = MPI_Win_lock(kind ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, win);
        CHECK(class_of(locked) == MPIX_ERR_PROC_FAILED);
    }
    OK(MPI_Win_lock_all(0, win));
    CHECK(class_of(MPI_Put(&held, 1, MPI_INT, 0, 0, 1, MPI_INT, win)) == MPIX_ERR_PROC_FAILED);
    /* Locks that nobody holds can be had. */
    OK(MPI_Put(&held, 1, MPI_INT, 2, 0, 1, MPI_INT, win));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, win));
    OK(MPI_Win_unlock(2, win));
    MPI_Finalize();
    return 0;
}
