/* Files: random accesses against an array of bytes, and calls that must fail. */
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static int rank, size;
static char path[256];

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}
#define FAILS(call, class) CHECK(class_of(call) == (class))

static uint64_t state;
static unsigned draw(unsigned below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

static MPI_File opened(int amode, MPI_Info info) {
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, path, amode, info, &file));
    return file;
}

/* The file as it should be. */
enum { ROOM = 1 << 20, PATTERN_MAX = 64 };
static unsigned char model[ROOM], got[ROOM], memory[2 * ROOM];
static long length;

/* A view: the offsets of the bytes of each rank in a tile, in which every rank has a slot. */
static struct {
    long base, slot;
    int bytes, etype, offsets[PATTERN_MAX];
} view;

static long offset_of(int of, long position) {
    long tile = position / view.bytes;
    return view.base + of * view.slot + tile * view.slot * size + view.offsets[position % view.bytes];
}

static unsigned char byte_of(int step, int of, long at) {
    return (unsigned char)(step * 31 + of * 57 + at * 7 + at / 251 + 1);
}

static void draw_view(MPI_File file) {
    int lens[PATTERN_MAX], starts[PATTERN_MAX], blocks = 0, end = 0, unit = draw(2) ? 4 : 1;
    MPI_Datatype etype = unit == 4 ? MPI_INT : MPI_BYTE, pattern, filetype;
    view.etype = unit;
    view.bytes = 0;
    view.base = draw(3) * 16 + draw(2) * 3;
    do {
        int gap = draw(3), len = 1 + draw(4);
        if ((end + gap + len) * unit > PATTERN_MAX || blocks == 8) break;
        starts[blocks] = end + gap;
        lens[blocks] = len;
        for (int i = 0; i < len * unit; i++)
            view.offsets[view.bytes++] = (end + gap) * unit + i;
        end += gap + len;
        blocks++;
    } while (draw(3) > 0);
    view.slot = (end + draw(2)) * unit;
    OK(MPI_Type_indexed(blocks, lens, starts, etype, &pattern));
    OK(MPI_Type_create_resized(pattern, 0, view.slot * size, &filetype));
    OK(MPI_Type_commit(&filetype));
    OK(MPI_File_set_view(file, view.base + rank * view.slot, etype, filetype, "native", MPI_INFO_NULL));
    OK(MPI_Type_free(&pattern));
    OK(MPI_Type_free(&filetype));
}

/* Where a rank accesses, in etypes of its view. All ranks draw the same for all. */
static struct {
    long start, count;
} place[64];

static void draw_places(int together) {
    for (int of = 0; of < size; of++) {
        long most = ROOM / 8 / (view.slot * size) * (view.bytes / view.etype);
        place[of].start = draw(4) ? draw(20) : 0;
        place[of].count = draw(5) ? draw((unsigned)(draw(3) ? 50 : most + 1)) : 0;
        if (together) place[of] = place[0];
    }
}

/* The elements of this rank in memory: bytes, or groups of bytes with gaps between them. */
static MPI_Datatype draw_memory(long bytes, int *count, long *stride) {
    MPI_Datatype type;
    *stride = 1;
    if (bytes % 4 || draw(2)) {
        *count = (int)bytes;
        return MPI_BYTE;
    }
    *stride = 3;
    OK(MPI_Type_vector((int)bytes / 4, 4, 12, MPI_BYTE, &type));
    OK(MPI_Type_commit(&type));
    *count = bytes ? 1 : 0;
    return type;
}

static long place_in_memory(long at, long stride) { return stride == 1 ? at : at / 4 * 12 + at % 4; }

enum { AT, AT_ALL, POINTER, ALL, I_AT, I_ALL, SPLIT_AT, SPLIT, KINDS };

static void access_file(MPI_File file, int writes, int kind, void *at, int count, MPI_Datatype type,
                        long bytes) {
    MPI_Status status;
    MPI_Request request;
    MPI_Offset start = place[rank].start, now;
    int elements;
    if (kind == POINTER || kind == ALL || kind == I_ALL || kind == SPLIT)
        OK(MPI_File_seek(file, start, MPI_SEEK_SET));
#define EITHER(read, write) OK(writes ? (write) : (read))
    switch (kind) {
    case AT:
        EITHER(MPI_File_read_at(file, start, at, count, type, &status),
               MPI_File_write_at(file, start, at, count, type, &status));
        break;
    case AT_ALL:
        EITHER(MPI_File_read_at_all(file, start, at, count, type, &status),
               MPI_File_write_at_all(file, start, at, count, type, &status));
        break;
    case POINTER:
        EITHER(MPI_File_read(file, at, count, type, &status), MPI_File_write(file, at, count, type, &status));
        break;
    case ALL:
        EITHER(MPI_File_read_all(file, at, count, type, &status),
               MPI_File_write_all(file, at, count, type, &status));
        break;
    case I_AT:
        EITHER(MPI_File_iread_at(file, start, at, count, type, &request),
               MPI_File_iwrite_at(file, start, at, count, type, &request));
        OK(MPI_Wait(&request, &status));
        break;
    case I_ALL:
        EITHER(MPI_File_iread_all(file, at, count, type, &request),
               MPI_File_iwrite_all(file, at, count, type, &request));
        OK(MPI_Wait(&request, &status));
        break;
    case SPLIT_AT:
        EITHER(MPI_File_read_at_all_begin(file, start, at, count, type),
               MPI_File_write_at_all_begin(file, start, at, count, type));
        EITHER(MPI_File_read_at_all_end(file, at, &status), MPI_File_write_at_all_end(file, at, &status));
        break;
    case SPLIT:
        EITHER(MPI_File_read_all_begin(file, at, count, type), MPI_File_write_all_begin(file, at, count, type));
        EITHER(MPI_File_read_all_end(file, at, &status), MPI_File_write_all_end(file, at, &status));
        break;
    }
    if (kind == POINTER || kind == ALL || kind == I_ALL || kind == SPLIT) {
        OK(MPI_File_get_position(file, &now));
        CHECK(now == start + place[rank].count);
    }
    OK(MPI_Get_elements(&status, MPI_BYTE, &elements));
    CHECK(elements == bytes);
}

/* Ranks write to places of their own and read anywhere; then the whole file is compared. */
static void random_accesses(uint64_t seed) {
    MPI_Info info;
    MPI_File file;
    char text[32];
    state = seed;
    OK(MPI_Info_create(&info));
    if (draw(2)) OK(MPI_Info_set(info, "cb_buffer_size", draw(2) ? "4096" : "20000"));
    snprintf(text, sizeof text, "%u", 1 + draw((unsigned)size));
    if (draw(2)) OK(MPI_Info_set(info, "cb_nodes", text));
    if (draw(2)) OK(MPI_Info_set(info, "collective_buffering", draw(4) ? "true" : "false"));
    file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info);
    OK(MPI_Info_free(&info));
    OK(MPI_File_set_atomicity(file, draw(3) == 0));
    memset(model, 0, sizeof model);
    length = 0;
    for (int step = 0; step < 12; step++) {
        int writes = step % 2 == 0, kind = draw(KINDS), count;
        long bytes, want, stride;
        MPI_Datatype type;
        if (step % 4 == 0) draw_view(file);
        draw_places(!writes && draw(2));
        bytes = place[rank].count * view.etype;
        /* All ranks draw as often, whatever they access. */
        uint64_t before = state;
        type = draw_memory(bytes, &count, &stride);
        state = before;
        draw(2);
        memset(memory, 0xee, sizeof memory);
        if (writes)
            for (long at = 0; at < bytes; at++)
                memory[place_in_memory(at, stride)] = byte_of(step, rank, at);
        for (int of = 0; writes && of < size; of++)
            for (long at = 0; at < place[of].count * view.etype; at++) {
                long offset = offset_of(of, place[of].start * view.etype + at);
                CHECK(offset < ROOM);
                model[offset] = byte_of(step, of, at);
                if (offset >= length) length = offset + 1;
            }
        for (want = 0; want < bytes; want++)
            if (!writes && offset_of(rank, place[rank].start * view.etype + want) >= length) break;
        access_file(file, writes, kind, memory, count, type, want);
        for (long at = 0; !writes && at < bytes; at++) {
            unsigned char expected = 0xee;
            if (at < want) expected = model[offset_of(rank, place[rank].start * view.etype + at)];
            CHECK(memory[place_in_memory(at, stride)] == expected);
        }
        if (stride > 1) {
            for (long at = 4; at + 8 < bytes * 3; at += 12) CHECK(memory[at] == 0xee && memory[at + 7] == 0xee);
            OK(MPI_Type_free(&type));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        FILE *raw = fopen(path, "rb");
        CHECK(raw != NULL);
        CHECK((long)fread(got, 1, sizeof got, raw) == length);
        CHECK(memcmp(got, model, (size_t)length) == 0);
        fclose(raw);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL && (rank > 0 || access(path, F_OK) != 0));
}

static void pointers(void) {
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL);
    MPI_Offset offset;
    MPI_Status status;
    int value, count, seen = 0, number[2], all[2 * 64];
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_set_view(file, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    /* Each pair is written together, in any order of ranks. */
    for (int i = 0; i < 2; i++) number[i] = rank * 2 + i;
    OK(MPI_File_write_shared(file, number, 2, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_get_position_shared(file, &offset));
    CHECK(offset == 2 * size);
    OK(MPI_File_read_at_all(file, 0, all, 2 * size + 1, MPI_INT, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == 2 * size);
    for (int i = 0; i < size; i++) {
        CHECK(all[2 * i] % 2 == 0 && all[2 * i + 1] == all[2 * i] + 1);
        seen += all[2 * i] / 2;
    }
    CHECK(seen == size * (size - 1) / 2);
    /* In the order of ranks, each with as many as its rank. */
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    for (int i = 0; i < rank; i++) all[i] = rank;
    OK(MPI_File_write_ordered(file, all, rank, MPI_INT, &status));
    OK(MPI_File_get_position_shared(file, &offset));
    CHECK(offset == size * (size - 1) / 2);
    OK(MPI_File_seek_shared(file, -offset, MPI_SEEK_CUR));
    memset(all, 0xff, sizeof all);
    OK(MPI_File_read_ordered_begin(file, all, rank, MPI_INT));
    OK(MPI_File_read_ordered_end(file, all, &status));
    for (int i = 0; i < rank; i++) CHECK(all[i] == rank);
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == rank);
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    OK(MPI_File_read_shared(file, &value, 1, MPI_INT, &status));
    FAILS(MPI_File_seek_shared(file, rank == 0 ? 1 : 2, MPI_SEEK_SET), size > 1 ? MPI_ERR_NOT_SAME : MPI_SUCCESS);
    FAILS(MPI_File_seek_shared(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    /* The pointer of this rank. */
    OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &offset));
    OK(MPI_File_get_byte_offset(file, offset, &offset));
    MPI_Offset bytes;
    OK(MPI_File_get_size(file, &bytes));
    CHECK(offset == bytes);
    OK(MPI_File_seek(file, -1, MPI_SEEK_CUR));
    OK(MPI_File_read(file, &value, 1, MPI_INT, &status));
    FAILS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    FAILS(MPI_File_seek(file, 0, 77), MPI_ERR_ARG);
    OK(MPI_File_close(&file));
    /* All pointers begin at the end. */
    file = opened(MPI_MODE_APPEND | MPI_MODE_WRONLY, MPI_INFO_NULL);
    OK(MPI_File_get_position(file, &offset));
    CHECK(offset == bytes);
    OK(MPI_File_get_position_shared(file, &offset));
    CHECK(offset == bytes);
    OK(MPI_File_close(&file));
    file = opened(MPI_MODE_SEQUENTIAL | MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL);
    FAILS(MPI_File_read(file, &value, 1, MPI_INT, &status), MPI_ERR_UNSUPPORTED_OPERATION);
    OK(MPI_File_read_shared(file, &value, 1, MPI_INT, &status));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    char representation[MPI_MAX_DATAREP_STRING];
    MPI_Datatype etype, filetype;
    OK(MPI_File_get_view(file, &offset, &etype, &filetype, representation));
    CHECK(offset == 4 * size && etype == MPI_INT && filetype == MPI_INT && !strcmp(representation, "native"));
    OK(MPI_File_close(&file));
}

/* What overlaps is written as if by one rank after the other. */
static void atomic_mode(void) {
    enum { BYTES = 100000 };
    static char mine[BYTES], all[BYTES];
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL);
    int atomic;
    OK(MPI_File_set_atomicity(file, 1));
    OK(MPI_File_get_atomicity(file, &atomic));
    CHECK(atomic);
    memset(mine, 'a' + rank, BYTES);
    for (int round = 0; round < 20; round++) {
        if (round % 2)
            OK(MPI_File_write_at_all(file, 5, mine, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        else
            OK(MPI_File_write_at(file, 5, mine, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        OK(MPI_File_read_at(file, 5, all, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        for (int i = 1; i < BYTES; i++) CHECK(all[i] == all[0]);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_File_close(&file));
}

static int doubled_extent(MPI_Datatype type, MPI_Aint *extent, void *extra) {
    int bytes;
    CHECK(extra == &size);
    OK(MPI_Type_size(type, &bytes));
    *extent = 2 * bytes;
    return MPI_SUCCESS;
}

/* Each int is there twice, the second time negated. */
static int to_file(void *mine, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra) {
    CHECK(type == MPI_INT && position == 0 && extra == &size);
    for (int i = 0; i < count; i++) {
        ((int *)file)[2 * i] = ((int *)mine)[i];
        ((int *)file)[2 * i + 1] = -((int *)mine)[i];
    }
    return MPI_SUCCESS;
}

static int from_file(void *mine, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra) {
    CHECK(type == MPI_INT && position == 0 && extra == &size);
    for (int i = 0; i < count; i++) {
        if (((int *)file)[2 * i] != -((int *)file)[2 * i + 1]) return MPI_ERR_OTHER;
        ((int *)mine)[i] = ((int *)file)[2 * i];
    }
    return MPI_SUCCESS;
}

static void representations(void) {
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL);
    MPI_Datatype every_other;
    MPI_Status status;
    MPI_Aint extent;
    unsigned char bytes[64];
    long longs[3] = {1, -2, 258}, back[3];
    int ints[3] = {rank, 7, -9}, raw[6], count;
    OK(MPI_Type_vector(2, 1, 2, MPI_LONG, &every_other));
    OK(MPI_Type_commit(&every_other));
    OK(MPI_File_set_view(file, 0, MPI_LONG, every_other, "external32", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(file, MPI_LONG, &extent));
    CHECK(extent == 4);
    OK(MPI_File_get_type_extent(file, every_other, &extent));
    CHECK(extent == 12);
    if (rank == 0) OK(MPI_File_write_at(file, 0, longs, 3, MPI_LONG, &status));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_read_at_all(file, 0, back, 3, MPI_LONG, &status));
    CHECK(memcmp(longs, back, sizeof longs) == 0);
    OK(MPI_Get_count(&status, MPI_LONG, &count));
    CHECK(count == 3);
    longs[1] = 1L << 40;
    FAILS(MPI_File_write_at(file, 0, longs, 3, MPI_LONG, &status), MPI_ERR_CONVERSION);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 0, bytes, 64, MPI_BYTE, &status));
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK(count == 16);
    CHECK(memcmp(bytes, "\0\0\0\1\0\0\0\0\377\377\377\376\0\0\1\2", 16) == 0);
    OK(MPI_Type_free(&every_other));

    OK(MPI_Register_datarep("doubled", from_file, to_file, doubled_extent, &size));
    FAILS(MPI_Register_datarep("doubled", from_file, to_file, doubled_extent, &size), MPI_ERR_DUP_DATAREP);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "unknown", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "doubled", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(file, MPI_INT, &extent));
    CHECK(extent == 8);
    OK(MPI_File_write_at_all(file, 3 * rank, ints, 3, MPI_INT, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == 3);
    memset(ints, 0, sizeof ints);
    OK(MPI_File_read_at_all(file, 3 * rank, ints, 3, MPI_INT, &status));
    CHECK(ints[0] == rank && ints[1] == 7 && ints[2] == -9);
    OK(MPI_File_set_view(file, 24 * rank, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_read_all(file, raw, 6, MPI_INT, &status));
    for (int i = 0; i < 6; i++) CHECK(raw[i] == (i % 2 ? -ints[i / 2] : ints[i / 2]));
    OK(MPI_File_close(&file));
}

static int handled;
static void handle(MPI_File *file, int *code, ...) {
    (void)file;
    CHECK(*code != MPI_SUCCESS);
    handled++;
}

static void failures(void) {
    MPI_File file = MPI_FILE_NULL, full;
    MPI_Errhandler handler;
    MPI_Request request;
    MPI_Info info;
    MPI_Offset bytes;
    char byte = 1, value[8];
    int amode = MPI_MODE_CREATE | MPI_MODE_RDWR, flag;
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    CHECK(file == MPI_FILE_NULL);
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, "/", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_BAD_FILE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, "/", amode, MPI_INFO_NULL, &file), MPI_ERR_BAD_FILE);
    if (size > 1) {
        int mine = rank == 1 ? MPI_MODE_WRONLY | MPI_MODE_CREATE : amode;
        FAILS(MPI_File_open(MPI_COMM_WORLD, path, mine, MPI_INFO_NULL, &file), MPI_ERR_NOT_SAME);
        /* The arguments of one rank are wrong, and all ranks fail alike. */
        mine = rank == 1 ? 0 : amode;
        FAILS(MPI_File_open(MPI_COMM_WORLD, path, mine, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    }
    FAILS(MPI_File_delete(path, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    FAILS(MPI_File_get_size(MPI_FILE_NULL, &bytes), MPI_ERR_FILE);

    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "cb_nodes", "1"));
    OK(MPI_Info_set(info, "some_hint", "some value"));
    file = opened(amode | MPI_MODE_EXCL, info);
    OK(MPI_Info_free(&info));
    OK(MPI_File_get_info(file, &info));
    OK(MPI_Info_get_nkeys(info, &flag));
    CHECK(flag == 2);
    OK(MPI_Info_get(info, "cb_nodes", 7, value, &flag));
    CHECK(flag && strcmp(value, "1") == 0);
    OK(MPI_Info_free(&info));
    CHECK(MPI_File_fromint(MPI_File_toint(file)) == file);
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, amode | MPI_MODE_EXCL, MPI_INFO_NULL, &full), MPI_ERR_FILE_EXISTS);
    FAILS(MPI_File_set_size(file, rank == 0 ? -1 : 5), MPI_ERR_SIZE);
    FAILS(MPI_File_set_size(file, size - rank), size > 1 ? MPI_ERR_NOT_SAME : MPI_SUCCESS);
    OK(MPI_File_set_size(file, 10));
    OK(MPI_File_preallocate(file, 100));
    OK(MPI_File_get_size(file, &bytes));
    CHECK(bytes == 100);
    FAILS(MPI_File_write_at(file, -1, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    FAILS(MPI_File_write_at_all(file, rank ? 0 : -1, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    FAILS(MPI_File_read_at_all(file, 0, &byte, rank ? 1 : -1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    FAILS(MPI_File_write_at_all_end(file, &byte, MPI_STATUS_IGNORE), MPI_ERR_OTHER);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    FAILS(MPI_File_write(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    OK(MPI_File_create_errhandler(handle, &handler));
    OK(MPI_File_set_errhandler(file, handler));
    FAILS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    CHECK(handled == 1);
    OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_File_sync(file));
    OK(MPI_File_close(&file));

    file = opened(MPI_MODE_RDONLY, MPI_INFO_NULL);
    FAILS(MPI_File_write(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_write_all(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_set_size(file, 1), MPI_ERR_READ_ONLY);
    OK(MPI_File_close(&file));
    file = opened(MPI_MODE_WRONLY, MPI_INFO_NULL);
    FAILS(MPI_File_read(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);

    /* No space, on a device and by a limit; the error of a non-blocking access comes with its request. */
    OK(MPI_File_open(MPI_COMM_WORLD, "/dev/full", MPI_MODE_RDWR, MPI_INFO_NULL, &full));
    FAILS(MPI_File_write(full, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
    FAILS(MPI_File_write_at_all(full, rank, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
    OK(MPI_File_iwrite_at(full, 0, &byte, 1, MPI_BYTE, &request));
    FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
    OK(MPI_File_write_all_begin(full, &byte, 1, MPI_BYTE));
    FAILS(MPI_File_write_all_end(full, &byte, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
    OK(MPI_File_close(&full));
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    OK(getrlimit(RLIMIT_FSIZE, &limit));
    limit.rlim_cur = 1000;
    OK(setrlimit(RLIMIT_FSIZE, &limit));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    FAILS(MPI_File_write_at(file, 1000, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_IO);
    FAILS(MPI_File_write_at_all(file, 10000 * rank, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE),
          size > 1 ? MPI_ERR_IO : MPI_SUCCESS);
    limit.rlim_cur = limit.rlim_max;
    OK(setrlimit(RLIMIT_FSIZE, &limit));
    OK(MPI_File_close(&file));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) OK(MPI_File_delete(path, MPI_INFO_NULL));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Collective accesses do not wait for ranks that have not begun theirs. */
static void overlapped(void) {
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL);
    MPI_Request requests[3];
    int value[3] = {rank, rank + 100, rank + 200}, back[3], token = 0;
    if (rank > 0) OK(MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    for (int i = 0; i < 3; i++)
        OK(MPI_File_iwrite_at_all(file, (i * size + rank) * 4, &value[i], 1, MPI_INT, &requests[i]));
    if (rank + 1 < size) OK(MPI_Send(&token, 1, MPI_INT, rank + 1, 0, MPI_COMM_WORLD));
    OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 3; i++)
        OK(MPI_File_iread_at(file, (i * size + rank) * 4, &back[i], 1, MPI_INT, &requests[i]));
    OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    CHECK(memcmp(value, back, sizeof value) == 0);
    OK(MPI_File_close(&file));
}

/* Blocks that interleave, of lengths that take different ways: written together and read alone and together, until after
 * the end of the file. */
static void blocks(long block, const char *gathers) {
    enum { TOTAL = 3000017 };
    MPI_Info info;
    MPI_Datatype piece, filetype;
    MPI_Status status;
    OK(MPI_Info_create(&info));
    if (gathers) OK(MPI_Info_set(info, "collective_buffering", gathers));
    OK(MPI_Info_set(info, "ferrywire_sync_on_close", "false"));
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info);
    OK(MPI_Type_contiguous((int)block, MPI_BYTE, &piece));
    OK(MPI_Type_create_resized(piece, 0, block * size, &filetype));
    OK(MPI_Type_commit(&filetype));
    OK(MPI_File_set_view(file, block * rank, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
    /* Our bytes of TOTAL, and room for more. */
    long turn = block * size, rest = TOTAL % turn - block * rank;
    long mine = TOTAL / turn * block + (rest < 0 ? 0 : rest > block ? block : rest), room = mine + 2 * block;
    unsigned char *bytes = malloc((size_t)room), *back = malloc((size_t)room);
    for (long at = 0; at < room; at++) bytes[at] = byte_of(0, 0, at / block * turn + rank * block + at % block);
    OK(MPI_File_write_at_all(file, 0, bytes, (int)mine, MPI_BYTE, &status));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_Offset length;
    OK(MPI_File_get_size(file, &length));
    CHECK(length == TOTAL);
    for (int together = 0; together < 2; together++) {
        for (long start = 0; start < mine; start += mine / 3 + 1) {
            int count;
            memset(back, 0, (size_t)room);
            if (together) OK(MPI_File_read_at_all(file, start, back, (int)(room - start), MPI_BYTE, &status));
            else OK(MPI_File_read_at(file, start, back, (int)(room - start), MPI_BYTE, &status));
            OK(MPI_Get_count(&status, MPI_BYTE, &count));
            CHECK(count == mine - start);
            CHECK(memcmp(back, bytes + start, (size_t)count) == 0);
        }
    }
    free(bytes);
    free(back);
    OK(MPI_Type_free(&piece));
    OK(MPI_Type_free(&filetype));
    OK(MPI_Info_free(&info));
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    long name = getpid();
    int seeds = argc > 1 ? atoi(argv[1]) : 15;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Bcast(&name, 1, MPI_LONG, 0, MPI_COMM_WORLD));
    snprintf(path, sizeof path, "/tmp/ferrywire-files-%ld", name);
    failures();
    pointers();
    atomic_mode();
    representations();
    overlapped();
    static const long LENGTHS[] = {100, 1000, 5000, 40000, 600001};
    for (int i = 0; i < 5; i++) {
        blocks(LENGTHS[i], NULL);
        blocks(LENGTHS[i], i % 2 ? "true" : "false");
    }
    for (int seed = 1; seed <= seeds; seed++) random_accesses((uint64_t)seed);
    return MPI_Finalize();
}
