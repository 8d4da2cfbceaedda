/* Every form of accessing a file, with int counts and with large ones, and what is attached to files. */
#include "check.h"

#include <string.h>
#include <unistd.h>

enum { ITEMS = 5, RANKS_MAX = 16 };

typedef MPI_Aint address;
typedef MPI_Count address_c;

static int rank, size, step = 0;
static MPI_File file;
static int data[ITEMS], got[ITEMS];
static MPI_Status status;
static MPI_Request request;

static int item(int of, int at) { return of * 10000 + step * 10 + at; }

static void check_count(void) {
    int count = -1;
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == ITEMS);
}

/* Sets all pointers to the beginning. */
static void rewind_all(void) {
    OK(MPI_File_sync(file));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_sync(file));
    OK(MPI_File_seek(file, (MPI_Offset)rank * ITEMS, MPI_SEEK_SET));
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
}

/* Runs a call that writes, and checks the file by a plain read. Each rank writes to its place; at the shared pointer it
 * is not known which place is whose, unless the call is ordered. */
#define WRITES(anywhere, call)          \
    do {                                \
        step++;                         \
        for (int i = 0; i < ITEMS; i++) \
            data[i] = item(rank, i);    \
        rewind_all();                   \
        OK(call);                       \
        check_count();                  \
        check_file(anywhere);           \
    } while (0)
static void check_file(int anywhere) {
    int all[RANKS_MAX * ITEMS], seen[RANKS_MAX] = {0};
    rewind_all();
    OK(MPI_File_read_at(file, 0, all, size * ITEMS, MPI_INT, MPI_STATUS_IGNORE));
    for (int place = 0; place < size; place++) {
        int of = all[place * ITEMS] / 10000;
        CHECK(of >= 0 && of < size && seen[of]++ == 0);
        CHECK(anywhere || of == place);
        for (int i = 0; i < ITEMS; i++)
            CHECK(all[place * ITEMS + i] == item(of, i));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Runs a call that reads what the ranks have written, each to its place. */
#define READS(anywhere, call)                                           \
    do {                                                                \
        memset(got, -1, sizeof got);                                    \
        rewind_all();                                                   \
        OK(call);                                                       \
        check_count();                                                  \
        CHECK(got[0] % 10000 == step * 10);                             \
        for (int i = 0; i < ITEMS; i++)                                 \
            CHECK(got[i] == item(anywhere ? got[0] / 10000 : rank, i)); \
        check_shares();                                                 \
    } while (0)
/* Each place has been read by one rank. */
static void check_shares(void) {
    int seen[RANKS_MAX], mine = got[0] / 10000, sum = 0;
    OK(MPI_Allgather(&mine, 1, MPI_INT, seen, 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < size; i++)
        sum += 1 << seen[i];
    CHECK(sum == (1 << size) - 1);
}

#define OFFSET ((MPI_Offset)rank * ITEMS)
#define OUT data, ITEMS, MPI_INT
#define IN got, ITEMS, MPI_INT
/* A call that begins, and what ends it. */
#define WAITED(call) ((call) || MPI_Wait(&request, &status))
#define SPLIT(begin, end) ((begin) || (end))

#define VARIANT(c)                                                                                                     \
    static void accesses##c(void) {                                                                                    \
        WRITES(0, MPI_File_write_at##c(file, OFFSET, OUT, &status));                                                   \
        WRITES(0, MPI_File_write_at_all##c(file, OFFSET, OUT, &status));                                               \
        WRITES(0, MPI_File_write##c(file, OUT, &status));                                                              \
        WRITES(0, MPI_File_write_all##c(file, OUT, &status));                                                          \
        WRITES(1, MPI_File_write_shared##c(file, OUT, &status));                                                       \
        WRITES(0, MPI_File_write_ordered##c(file, OUT, &status));                                                      \
        WRITES(0, WAITED(MPI_File_iwrite_at##c(file, OFFSET, OUT, &request)));                                         \
        WRITES(0, WAITED(MPI_File_iwrite_at_all##c(file, OFFSET, OUT, &request)));                                     \
        WRITES(0, WAITED(MPI_File_iwrite##c(file, OUT, &request)));                                                    \
        WRITES(0, WAITED(MPI_File_iwrite_all##c(file, OUT, &request)));                                                \
        WRITES(1, WAITED(MPI_File_iwrite_shared##c(file, OUT, &request)));                                             \
        WRITES(0, SPLIT(MPI_File_write_at_all_begin##c(file, OFFSET, OUT),                                             \
                        MPI_File_write_at_all_end(file, data, &status)));                                              \
        WRITES(0, SPLIT(MPI_File_write_all_begin##c(file, OUT), MPI_File_write_all_end(file, data, &status)));         \
        WRITES(0, SPLIT(MPI_File_write_ordered_begin##c(file, OUT), MPI_File_write_ordered_end(file, data, &status))); \
        READS(0, MPI_File_read_at##c(file, OFFSET, IN, &status));                                                      \
        READS(0, MPI_File_read_at_all##c(file, OFFSET, IN, &status));                                                  \
        READS(0, MPI_File_read##c(file, IN, &status));                                                                 \
        READS(0, MPI_File_read_all##c(file, IN, &status));                                                             \
        READS(1, MPI_File_read_shared##c(file, IN, &status));                                                          \
        READS(0, MPI_File_read_ordered##c(file, IN, &status));                                                         \
        READS(0, WAITED(MPI_File_iread_at##c(file, OFFSET, IN, &request)));                                            \
        READS(0, WAITED(MPI_File_iread_at_all##c(file, OFFSET, IN, &request)));                                        \
        READS(0, WAITED(MPI_File_iread##c(file, IN, &request)));                                                       \
        READS(0, WAITED(MPI_File_iread_all##c(file, IN, &request)));                                                   \
        READS(1, WAITED(MPI_File_iread_shared##c(file, IN, &request)));                                                \
        READS(0, SPLIT(MPI_File_read_at_all_begin##c(file, OFFSET, IN),                                                \
                       MPI_File_read_at_all_end(file, got, &status)));                                                 \
        READS(0, SPLIT(MPI_File_read_all_begin##c(file, IN), MPI_File_read_all_end(file, got, &status)));              \
        READS(0, SPLIT(MPI_File_read_ordered_begin##c(file, IN), MPI_File_read_ordered_end(file, got, &status)));      \
        address##c extent = -1;                                                                                        \
        OK(MPI_File_get_type_extent##c(file, MPI_INT, &extent));                                                       \
        CHECK(extent == 4);                                                                                            \
    }
VARIANT()
VARIANT(_c)

/* A representation with the bytes in the opposite order. */
static int extent_of(MPI_Datatype datatype, MPI_Aint *extent, void *extra) {
    (void)extra;
    int bytes;
    OK(MPI_Type_size(datatype, &bytes));
    *extent = bytes;
    return MPI_SUCCESS;
}
static void swap(const unsigned char *from, unsigned char *to, long count) {
    for (long i = 0; i < count; i++)
        for (int byte = 0; byte < 4; byte++)
            to[4 * i + byte] = from[4 * i + 3 - byte];
}
#define CONVERSIONS(c, count_type)                                                                \
    static int from_file##c(void *memory, MPI_Datatype datatype, count_type count, void *in_file, \
                            MPI_Offset position, void *extra) {                                   \
        CHECK(datatype == MPI_INT && extra == data);                                              \
        swap(in_file, (unsigned char *)memory + 4 * position, count);                             \
        return MPI_SUCCESS;                                                                       \
    }                                                                                             \
    static int to_file##c(void *memory, MPI_Datatype datatype, count_type count, void *in_file,   \
                          MPI_Offset position, void *extra) {                                     \
        CHECK(datatype == MPI_INT && extra == data);                                              \
        swap((unsigned char *)memory + 4 * position, in_file, count);                             \
        return MPI_SUCCESS;                                                                       \
    }                                                                                             \
    static void representation##c(void) {                                                         \
        unsigned char raw[4];                                                                     \
        int value = 0x01020304 + rank, back = -1;                                                 \
        OK(MPI_Register_datarep##c("swapped" #c, from_file##c, to_file##c, extent_of, data));     \
        OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "swapped" #c, MPI_INFO_NULL));            \
        OK(MPI_File_write_at##c(file, rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE));              \
        OK(MPI_File_read_at##c(file, rank, &back, 1, MPI_INT, MPI_STATUS_IGNORE));                \
        CHECK(back == value);                                                                     \
        OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));              \
        OK(MPI_File_read_at##c(file, 4 * rank, raw, 4, MPI_BYTE, MPI_STATUS_IGNORE));             \
        swap(raw, (unsigned char *)&back, 1);                                                     \
        CHECK(back == value);                                                                     \
        OK(MPI_Barrier(MPI_COMM_WORLD));                                                          \
    }
CONVERSIONS(, int)
CONVERSIONS(_c, MPI_Count)

static int handled = 0;
static void handle(MPI_File *of, int *code, ...) {
    CHECK(*of == file);
    OK(MPI_Error_class(*code, &handled));
}

static void attached(int amode) {
    MPI_Group group, world;
    MPI_Info info, used;
    MPI_Errhandler handler, found;
    int same = -1, mode = -1, flag = 0, len;
    char text[16] = "";
    OK(MPI_File_get_amode(file, &mode));
    CHECK(mode == amode);
    OK(MPI_File_get_group(file, &group));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_compare(group, world, &same));
    CHECK(same == MPI_IDENT);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));

    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "cb_nodes", "2"));
    OK(MPI_File_set_info(file, info));
    OK(MPI_Info_free(&info));
    OK(MPI_File_get_info(file, &used));
    len = sizeof text;
    OK(MPI_Info_get_string(used, "cb_nodes", &len, text, &flag));
    CHECK(flag && strcmp(text, "2") == 0);
    OK(MPI_Info_free(&used));

    OK(MPI_File_get_errhandler(file, &found));
    CHECK(found == MPI_ERRORS_RETURN);
    OK(MPI_File_create_errhandler(handle, &handler));
    OK(MPI_File_set_errhandler(file, handler));
    OK(MPI_File_get_errhandler(file, &found));
    CHECK(found == handler);
    OK(MPI_File_call_errhandler(file, MPI_ERR_NO_SPACE));
    CHECK(handled == MPI_ERR_NO_SPACE);
    CHECK(MPI_File_seek(file, -1, MPI_SEEK_SET) != MPI_SUCCESS && handled == MPI_ERR_ARG);
    OK(MPI_Errhandler_free(&found));
    OK(MPI_Errhandler_free(&handler));
}

int main(int argc, char **argv) {
    int amode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    long name = getpid();
    char path[64];
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(size <= RANKS_MAX);
    OK(MPI_Bcast(&name, 1, MPI_LONG, 0, MPI_COMM_WORLD));
    snprintf(path, sizeof path, "/tmp/ferrywire-forms-%ld", name);
    OK(MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    accesses();
    accesses_c();
    representation();
    representation_c();
    attached(amode);
    OK(MPI_File_close(&file));
    return MPI_Finalize();
}
