/* files: how long ranks take to write and read a file.
 *
 *   files PATH CASE BLOCK MEGABYTES SYNC [HINT=VALUE...]
 *
 * CASE: collective_write, collective_read    blocks of BLOCK bytes that interleave with those of other ranks, all of a
 *                                            rank's in one call of MPI_File_write_all or MPI_File_read_all
 *       strided_write, strided_read          the same blocks by MPI_File_write and MPI_File_read, each rank by itself
 *       contiguous_write, contiguous_read    each rank's part of the file in one piece, in calls of BLOCK bytes
 *       close                                what MPI_File_close takes after a write by MPI_File_write_all
 *
 * All ranks together access MEGABYTES. A write goes to a file that does not exist yet, and with SYNC it ends with
 * MPI_File_sync; a read gets what is in the cache of the system. Prints seconds from the first rank's begin to the last
 * rank's end, without opening and closing. */
#include "bench.h"

#define CALL(call)                                                                                     \
    do {                                                                                               \
        int code_ = (call);                                                                            \
        if (code_ != MPI_SUCCESS) {                                                                    \
            char text_[MPI_MAX_ERROR_STRING];                                                          \
            int len_;                                                                                  \
            MPI_Error_string(code_, text_, &len_);                                                     \
            fprintf(stderr, "%s: %s\n", #call, text_);                                                 \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                              \
        }                                                                                              \
    } while (0)

static void fill(unsigned *words, size_t bytes) {
    unsigned x = 2463534242u + (unsigned)rank_;
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        words[i] = x;
    }
}

/* A rank that closes the file may write to the device, and one that waits may take a core: both would hold up those that
 * are still at work. */
static void wait_for_all(void) {
    const struct timespec pause = {0, 1000000};
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (;;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done) return;
        nanosleep(&pause, NULL);
    }
}

int main(int argc, char **argv) {
    bench_init(&argc, &argv);
    if (argc < 6) return 2;
    const char *path = argv[1], *what = argv[2];
    long block = atol(argv[3]), sync = atol(argv[5]);
    long each = atol(argv[4]) * 1000000 / size_ / block * block;
    int collective = !strncmp(what, "collective", 10) || !strcmp(what, "close"), contiguous = !strncmp(what, "contiguous", 10);
    int writes = strstr(what, "_read") == NULL;
    MPI_File file;
    MPI_Datatype piece, view;
    char *bytes = malloc((size_t)each), *wanted = malloc((size_t)each);
    fill((unsigned *)wanted, (size_t)each);
    if (writes) memcpy(bytes, wanted, (size_t)each);
    else memset(bytes, 0, (size_t)each);
    MPI_Info hints;
    MPI_Info_create(&hints);
    for (int i = 6; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (!equals) return 2;
        *equals = 0;
        MPI_Info_set(hints, argv[i], equals + 1);
    }
    CALL(MPI_File_open(MPI_COMM_WORLD, path, writes ? MPI_MODE_CREATE | MPI_MODE_RDWR : MPI_MODE_RDONLY, hints, &file));
    MPI_Info_free(&hints);
    MPI_Type_contiguous((int)block, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, contiguous ? block : block * size_, &view);
    MPI_Type_commit(&view);
    CALL(MPI_File_set_view(file, contiguous ? each * rank_ : block * rank_, MPI_BYTE, view, "native", MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now_ns();
    long step = contiguous ? block : each;
    for (long at = 0; at < each; at += step) {
        MPI_Status status;
        char *place = bytes + at;
        int count = (int)step, got;
        if (collective && writes) CALL(MPI_File_write_all(file, place, count, MPI_BYTE, &status));
        else if (collective) CALL(MPI_File_read_all(file, place, count, MPI_BYTE, &status));
        else if (writes) CALL(MPI_File_write(file, place, count, MPI_BYTE, &status));
        else CALL(MPI_File_read(file, place, count, MPI_BYTE, &status));
        MPI_Get_count(&status, MPI_BYTE, &got);
        if (got != count) MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (sync) CALL(MPI_File_sync(file));
    double end = now_ns();
    if (!strcmp(what, "close")) {
        MPI_Barrier(MPI_COMM_WORLD);
        start = now_ns();
        CALL(MPI_File_close(&file));
        end = now_ns();
    } else {
        wait_for_all();
        CALL(MPI_File_close(&file));
    }
    if (!writes && memcmp(bytes, wanted, (size_t)each)) {
        fprintf(stderr, "rank %d has read other bytes than were written\n", rank_);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    /* Clocks of processes of one machine are the same. */
    double first, last;
    MPI_Reduce(&start, &first, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (!rank_) printf("files case=%s seconds=%.6f\n", what, (last - first) / 1e9);
    free(bytes);
    free(wanted);
    return MPI_Finalize();
}
