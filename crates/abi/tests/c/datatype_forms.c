/* Constructors of datatypes, their sizes, and packing, with int counts and with large ones. */
#include "check.h"

#include <string.h>

enum { ROOM = 64 };

typedef int number;
typedef MPI_Count number_c;
typedef MPI_Aint address;
typedef MPI_Count address_c;

/* memory[i] is i, so what a datatype selects is the list of the items that it packs. */
static int memory[ROOM];

static int swapped(int word) {
    unsigned char bytes[4];
    memcpy(bytes, &word, 4);
    return bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

/* Unpacked items are where they were, and nothing else is written. */
static void check_unpacked(const int *into, const int *items, int count) {
    for (int i = 0; i < ROOM; i++) {
        int is_item = 0;
        for (int j = 0; j < count; j++)
            is_item |= items[j] == i;
        CHECK(into[i] == (is_item ? i : -1));
    }
}

/* Checks a datatype of ints: its size, its extents, and which items it selects. Frees it. */
#define CHECKER(c)                                                                                           \
    static void check##c(MPI_Datatype datatype, const int *items, int count, long lb, long extent) {         \
        number##c bytes = -1, position = 0, room = -1;                                                       \
        address##c got_lb = -1, got_extent = -1, true_lb = -1, true_extent = -1, outer = 0, outer_room = -1; \
        int packed[ROOM], into[ROOM];                                                                        \
        OK(MPI_Type_commit(&datatype));                                                                      \
        OK(MPI_Type_size##c(datatype, &bytes));                                                              \
        CHECK(bytes == 4 * count);                                                                           \
        OK(MPI_Type_get_extent##c(datatype, &got_lb, &got_extent));                                          \
        CHECK(got_lb == lb && got_extent == extent);                                                         \
        OK(MPI_Type_get_true_extent##c(datatype, &true_lb, &true_extent));                                   \
        CHECK(true_lb == 4 * items[0] && true_extent == 4 * (items[count - 1] - items[0] + 1));              \
                                                                                                             \
        OK(MPI_Pack_size##c(1, datatype, MPI_COMM_WORLD, &room));                                            \
        CHECK(room >= bytes && room <= (int)sizeof packed);                                                  \
        OK(MPI_Pack##c(memory, 1, datatype, packed, room, &position, MPI_COMM_WORLD));                       \
        CHECK(position == bytes && memcmp(packed, items, bytes) == 0);                                       \
        memset(into, -1, sizeof into);                                                                       \
        position = 0;                                                                                        \
        OK(MPI_Unpack##c(packed, bytes, &position, into, 1, datatype, MPI_COMM_WORLD));                      \
        CHECK(position == bytes);                                                                            \
        check_unpacked(into, items, count);                                                                  \
                                                                                                             \
        OK(MPI_Pack_external_size##c("external32", 1, datatype, &outer_room));                               \
        CHECK(outer_room == bytes);                                                                          \
        OK(MPI_Pack_external##c("external32", memory, 1, datatype, packed, outer_room, &outer));             \
        CHECK(outer == bytes);                                                                               \
        for (int i = 0; i < count; i++)                                                                      \
            CHECK(packed[i] == swapped(items[i]));                                                           \
        memset(into, -1, sizeof into);                                                                       \
        outer = 0;                                                                                           \
        OK(MPI_Unpack_external##c("external32", packed, bytes, &outer, into, 1, datatype));                  \
        CHECK(outer == bytes);                                                                               \
        check_unpacked(into, items, count);                                                                  \
        OK(MPI_Type_free(&datatype));                                                                        \
    }
CHECKER()
CHECKER(_c)

#define ITEMS(...) (const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

#define VARIANT(c)                                                                                                \
    static void constructors##c(void) {                                                                           \
        MPI_Datatype made, pair;                                                                                  \
        const number##c lens[] = {2, 1}, starts[] = {1, 4};                                                       \
        const number##c sizes[] = {3, 4}, parts[] = {2, 2}, corner[] = {1, 1}, whole[] = {6};                     \
        const address##c offsets[] = {4, 16}, fields[] = {8, 0};                                                  \
        const MPI_Datatype types[] = {MPI_INT, MPI_INT};                                                          \
        const int distribution[] = {MPI_DISTRIBUTE_BLOCK}, argument[] = {MPI_DISTRIBUTE_DFLT_DARG}, grid[] = {2}; \
                                                                                                                  \
        OK(MPI_Type_contiguous##c(3, MPI_INT, &made));                                                            \
        check##c(made, ITEMS(0, 1, 2), 0, 12);                                                                    \
        OK(MPI_Type_vector##c(2, 2, 3, MPI_INT, &made));                                                          \
        check##c(made, ITEMS(0, 1, 3, 4), 0, 20);                                                                 \
        OK(MPI_Type_create_hvector##c(2, 1, 12, MPI_INT, &made));                                                 \
        check##c(made, ITEMS(0, 3), 0, 16);                                                                       \
        OK(MPI_Type_indexed##c(2, lens, starts, MPI_INT, &made));                                                 \
        check##c(made, ITEMS(1, 2, 4), 4, 16);                                                                    \
        OK(MPI_Type_create_hindexed##c(2, lens, offsets, MPI_INT, &made));                                        \
        check##c(made, ITEMS(1, 2, 4), 4, 16);                                                                    \
        OK(MPI_Type_create_indexed_block##c(2, 2, starts, MPI_INT, &made));                                       \
        check##c(made, ITEMS(1, 2, 4, 5), 4, 20);                                                                 \
        OK(MPI_Type_create_hindexed_block##c(2, 1, offsets, MPI_INT, &made));                                     \
        check##c(made, ITEMS(1, 4), 4, 16);                                                                       \
        OK(MPI_Type_create_struct##c(1, lens, fields, types, &made));                                             \
        check##c(made, ITEMS(2, 3), 8, 8);                                                                        \
        OK(MPI_Type_create_subarray##c(2, sizes, parts, corner, MPI_ORDER_C, MPI_INT, &made));                    \
        check##c(made, ITEMS(5, 6, 9, 10), 0, 48);                                                                \
        OK(MPI_Type_create_subarray##c(2, sizes, parts, corner, MPI_ORDER_FORTRAN, MPI_INT, &made));              \
        check##c(made, ITEMS(4, 5, 7, 8), 0, 48);                                                                 \
        OK(MPI_Type_create_darray##c(2, 1, 1, whole, distribution, argument, grid, MPI_ORDER_C, MPI_INT, &made)); \
        check##c(made, ITEMS(3, 4, 5), 0, 24);                                                                    \
        OK(MPI_Type_create_resized##c(MPI_INT, 0, 8, &pair));                                                     \
        OK(MPI_Type_contiguous##c(2, pair, &made));                                                               \
        OK(MPI_Type_free(&pair));                                                                                 \
        check##c(made, ITEMS(0, 2), 0, 16);                                                                       \
    }
VARIANT()
VARIANT(_c)

/* What an int does not hold is undefined in the old variant, and right in the other. */
static void large_types(void) {
    MPI_Datatype made;
    MPI_Count large = (MPI_Count)3 << 32, size_c = -1, lb = -1, extent = -1;
    int size = 0;
    OK(MPI_Type_contiguous_c(large, MPI_CHAR, &made));
    OK(MPI_Type_size_c(made, &size_c));
    OK(MPI_Type_size(made, &size));
    CHECK(size_c == large && size == MPI_UNDEFINED);
    OK(MPI_Type_get_extent_c(made, &lb, &extent));
    CHECK(lb == 0 && extent == large);
    OK(MPI_Type_free(&made));
}

/* The precision and range that Fortran programs ask for. */
static void fortran_types(void) {
    static const struct {
        int range, bytes;
    } integers[] = {{2, 1}, {4, 2}, {9, 4}, {18, 8}};
    static const struct {
        int precision, range;
    } reals[] = {{6, 30}, {6, 37}, {15, 300}};
    MPI_Datatype made, again;
    int size, numbers, addresses, types, combiner, contents[2];
    for (int i = 0; i < 4; i++) {
        OK(MPI_Type_create_f90_integer(integers[i].range, &made));
        OK(MPI_Type_size(made, &size));
        CHECK(size == integers[i].bytes);
        OK(MPI_Type_get_envelope(made, &numbers, &addresses, &types, &combiner));
        CHECK(combiner == MPI_COMBINER_F90_INTEGER && numbers == 1 && addresses == 0 && types == 0);
        OK(MPI_Type_get_contents(made, 1, 0, 0, contents, NULL, NULL));
        CHECK(contents[0] == integers[i].range);
    }
    for (int i = 0; i < 3; i++) {
        int bytes = reals[i].precision <= 6 ? 4 : 8;
        OK(MPI_Type_create_f90_real(reals[i].precision, reals[i].range, &made));
        OK(MPI_Type_size(made, &size));
        CHECK(size == bytes);
        OK(MPI_Type_create_f90_complex(reals[i].precision, reals[i].range, &made));
        OK(MPI_Type_size(made, &size));
        CHECK(size == 2 * bytes);
        OK(MPI_Type_get_envelope(made, &numbers, &addresses, &types, &combiner));
        CHECK(combiner == MPI_COMBINER_F90_COMPLEX && numbers == 2);
        OK(MPI_Type_get_contents(made, 2, 0, 0, contents, NULL, NULL));
        CHECK(contents[0] == reals[i].precision && contents[1] == reals[i].range);
        OK(MPI_Type_create_f90_complex(reals[i].precision, reals[i].range, &again));
        CHECK(made == again);
    }
    CHECK(MPI_Type_create_f90_integer(1000, &made) != MPI_SUCCESS);
    CHECK(MPI_Type_create_f90_complex(1000, 10, &made) != MPI_SUCCESS);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int i = 0; i < ROOM; i++)
        memory[i] = i;
    constructors();
    constructors_c();
    large_types();
    fortran_types();
    return MPI_Finalize();
}
