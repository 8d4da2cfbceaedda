/* Limits of the NIC, as the launcher, the environment and control variables set them.
 *
 *     limits EAGER CREDIT BUDGET         has these limits
 *     limits write NAME VALUE            writes a control variable before MPI_Init, and reads it afterwards
 *     limits refuse NAME VALUE           may not write it
 *     limits differ                      each rank writes another value, so that they cannot start
 */
#include <stdlib.h>

#include "check.h"

static MPI_T_cvar_handle handle_of(const char *name) {
    MPI_T_cvar_handle handle;
    int index, count;
    OK(MPI_T_cvar_get_index(name, &index));
    OK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count));
    return handle;
}

static unsigned long limit(const char *name) {
    unsigned long value = 0;
    MPI_T_cvar_handle handle = handle_of(name);
    OK(MPI_T_cvar_read(handle, &value));
    OK(MPI_T_cvar_handle_free(&handle));
    return value;
}

static int write_limit(const char *name, unsigned long value) {
    MPI_T_cvar_handle handle = handle_of(name);
    int error = MPI_T_cvar_write(handle, &value);
    OK(MPI_T_cvar_handle_free(&handle));
    return error;
}

/* Messages of every length near the limits, sent before they are received. */
static void messages(void) {
    static const int LENGTHS[] = {0, 1, 63, 64, 200, 1000, 4096, 8191, 8192, 8193, 20000, 32768, 32769, 100000};
    enum { COUNT = sizeof LENGTHS / sizeof *LENGTHS, ROUNDS = 20 };
    static char sent[100000], received[100000];
    MPI_Request requests[COUNT * ROUNDS];
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < (int)sizeof sent; i++) sent[i] = (char)(i * 7);
    for (int i = 0; i < COUNT * ROUNDS; i++)
        OK(MPI_Isend(sent, LENGTHS[i % COUNT], MPI_CHAR, (rank + 1) % size, i, MPI_COMM_WORLD, &requests[i]));
    for (int i = COUNT * ROUNDS - 1; i >= 0; i--) {
        MPI_Status status;
        int count;
        OK(MPI_Recv(received, sizeof received, MPI_CHAR, (rank + size - 1) % size, i, MPI_COMM_WORLD, &status));
        OK(MPI_Get_count(&status, MPI_CHAR, &count));
        CHECK(count == LENGTHS[i % COUNT]);
        for (int at = 0; at < count; at++) CHECK(received[at] == (char)(at * 7));
    }
    OK(MPI_Waitall(COUNT * ROUNDS, requests, MPI_STATUSES_IGNORE));
}

int main(int argc, char **argv) {
    int level, rank;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
    if (argc == 2) {
        const char *number = getenv("FERRY_TEST_RANK");
        OK(write_limit("ferrywire_eager_bytes_max", 1000 + (number ? strtoul(number, NULL, 10) : 0)));
        OK(MPI_Init(&argc, &argv));
        printf("started\n");
        return MPI_Finalize();
    }
    CHECK(argc == 4);
    unsigned long value = strtoul(argv[3], NULL, 10);
    if (argv[1][0] == 'r') {
        CHECK(write_limit(argv[2], value) == MPI_T_ERR_INVALID);
        return 0;
    }
    if (argv[1][0] == 'w') {
        OK(write_limit(argv[2], value));
        CHECK(limit(argv[2]) == value);
    }
    OK(MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argv[1][0] == 'w') {
        CHECK(limit(argv[2]) == value);
        CHECK(write_limit(argv[2], value) == MPI_T_ERR_CVAR_SET_NOT_NOW);
    } else {
        CHECK(limit("ferrywire_eager_bytes_max") == strtoul(argv[1], NULL, 10));
        CHECK(limit("ferrywire_credit_bytes") == strtoul(argv[2], NULL, 10));
        CHECK(limit("ferrywire_unexpected_bytes_max") == value);
    }
    messages();
    OK(MPI_Finalize());
    OK(MPI_T_finalize());
    return 0;
}
