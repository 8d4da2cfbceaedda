/* Datatypes: by each constructor, with both widths of counts; sent, received, packed, and decoded. */
#include <string.h>

#include "check.h"

#define ROWS 6
#define COLUMNS 5

static int rank, size, before, after;
static int matrix[ROWS][COLUMNS];

static void fill(void) {
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) matrix[row][column] = 100 * row + column;
}

/* Sends one element round the ring, and packs it: both give the numbers in this order. Frees the type. */
static void gives(MPI_Datatype type, const int *numbers, int count) {
    int in[ROWS * COLUMNS], packed[ROWS * COLUMNS], back[ROWS][COLUMNS], bytes, position = 0;
    MPI_Request request;
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_size(type, &bytes));
    CHECK(bytes == count * (int)sizeof(int));
    OK(MPI_Pack_size(1, type, MPI_COMM_WORLD, &bytes));
    CHECK(bytes >= count * (int)sizeof(int));
    OK(MPI_Pack(matrix, 1, type, packed, sizeof packed, &position, MPI_COMM_WORLD));
    CHECK(memcmp(packed, numbers, count * sizeof(int)) == 0);
    /* An active operation does not need the handle any more. */
    memset(back, 0, sizeof back);
    OK(MPI_Irecv(back, 1, type, before, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Send(matrix, 1, type, after, 1, MPI_COMM_WORLD));
    OK(MPI_Type_free(&type));
    CHECK(type == MPI_DATATYPE_NULL);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++) {
            int number = 100 * row + column, sent = 0;
            for (int at = 0; at < count; at++) sent |= numbers[at] == number;
            CHECK(back[row][column] == (sent ? number : 0));
        }
    }
    memset(in, 0, sizeof in);
    position = 0;
    OK(MPI_Unpack(packed, sizeof packed, &position, in, count, MPI_INT, MPI_COMM_WORLD));
    CHECK(memcmp(in, numbers, count * sizeof(int)) == 0);
}

static void constructors(void) {
    MPI_Datatype type, column, other;
    OK(MPI_Type_contiguous(3, MPI_INT, &type));
    gives(type, (int[]){0, 1, 2}, 3);
    OK(MPI_Type_vector(3, 2, COLUMNS, MPI_INT, &type));
    gives(type, (int[]){0, 1, 100, 101, 200, 201}, 6);
    OK(MPI_Type_vector_c(2, 1, 2 * COLUMNS, MPI_INT, &type));
    gives(type, (int[]){0, 200}, 2);
    OK(MPI_Type_create_hvector(2, 1, 12, MPI_INT, &type));
    gives(type, (int[]){0, 3}, 2);
    OK(MPI_Type_indexed(2, (int[]){1, 2}, (int[]){7, 2}, MPI_INT, &type));
    gives(type, (int[]){102, 2, 3}, 3);
    OK(MPI_Type_indexed_c(1, (MPI_Count[]){2}, (MPI_Count[]){5}, MPI_INT, &type));
    gives(type, (int[]){100, 101}, 2);
    OK(MPI_Type_create_hindexed(2, (int[]){1, 1}, (MPI_Aint[]){16, 4}, MPI_INT, &type));
    gives(type, (int[]){4, 1}, 2);
    OK(MPI_Type_create_indexed_block(2, 2, (int[]){10, 0}, MPI_INT, &type));
    gives(type, (int[]){200, 201, 0, 1}, 4);
    OK(MPI_Type_create_hindexed_block_c(2, 1, (MPI_Count[]){8, 20}, MPI_INT, &type));
    gives(type, (int[]){2, 100}, 2);
    OK(MPI_Type_create_subarray(2, (int[]){ROWS, COLUMNS}, (int[]){2, 2}, (int[]){1, 3},
        MPI_ORDER_C, MPI_INT, &type));
    gives(type, (int[]){103, 104, 203, 204}, 4);
    OK(MPI_Type_create_darray(2, 1, 1, (int[]){4}, (int[]){MPI_DISTRIBUTE_CYCLIC},
        (int[]){MPI_DISTRIBUTE_DFLT_DARG}, (int[]){2}, MPI_ORDER_C, MPI_INT, &type));
    gives(type, (int[]){1, 3}, 2);
    /* Columns one number apart, of a type that is never committed itself. */
    OK(MPI_Type_vector(2, 1, COLUMNS, MPI_INT, &column));
    OK(MPI_Type_create_resized(column, 0, sizeof(int), &other));
    OK(MPI_Type_contiguous(2, other, &type));
    OK(MPI_Type_free(&column));
    OK(MPI_Type_free(&other));
    gives(type, (int[]){0, 100, 1, 101}, 4);
    /* A contiguous block with an offset is lent from its first byte. */
    OK(MPI_Type_create_struct(1, (int[]){2}, (MPI_Aint[]){24}, (MPI_Datatype[]){MPI_INT}, &type));
    gives(type, (int[]){101, 102}, 2);
}

/* Addresses instead of a buffer, and no buffer for an empty message. */
static void bottom(void) {
    int one = rank, two = 10 * rank, in[2];
    MPI_Aint places[2];
    MPI_Datatype type;
    MPI_Request request;
    OK(MPI_Get_address(&one, &places[0]));
    OK(MPI_Get_address(&two, &places[1]));
    OK(MPI_Type_create_hindexed_block(2, 1, places, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Irecv(in, 2, MPI_INT, before, 2, MPI_COMM_WORLD, &request));
    OK(MPI_Send(MPI_BOTTOM, 1, type, after, 2, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(in[0] == before && in[1] == 10 * before);
    OK(MPI_Irecv(NULL, 0, type, before, 3, MPI_COMM_WORLD, &request));
    OK(MPI_Send(NULL, 0, type, after, 3, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Type_free(&type));
}

static void taken_apart(void) {
    MPI_Datatype inner, type, parts[2];
    MPI_Aint addresses[2], lower, extent;
    MPI_Count counts[8], integers_c, addresses_c, counts_c, types_c;
    int integers[8], of_integers, of_addresses, of_types, combiner;
    OK(MPI_Type_contiguous(2, MPI_DOUBLE, &inner));
    OK(MPI_Type_create_struct(2, (int[]){1, 3}, (MPI_Aint[]){-8, 40},
                              (MPI_Datatype[]){MPI_CHAR, inner}, &type));
    OK(MPI_Type_free(&inner));
    OK(MPI_Type_get_extent(type, &lower, &extent));
    CHECK(lower == -8 && extent == 96);
    OK(MPI_Type_get_envelope(type, &of_integers, &of_addresses, &of_types, &combiner));
    CHECK(of_integers == 3 && of_addresses == 2 && of_types == 2);
    CHECK(combiner == MPI_COMBINER_STRUCT);
    OK(MPI_Type_get_contents(type, 3, 2, 2, integers, addresses, parts));
    CHECK(integers[0] == 2 && integers[1] == 1 && integers[2] == 3);
    CHECK(addresses[0] == -8 && addresses[1] == 40 && parts[0] == MPI_CHAR);
    OK(MPI_Type_get_extent(parts[1], &lower, &extent));
    CHECK(lower == 0 && extent == 16);
    OK(MPI_Type_free(&parts[1]));
    CHECK(MPI_Type_get_contents(type, 2, 2, 2, integers, addresses, parts) != MPI_SUCCESS);
    OK(MPI_Type_free(&type));
    /* More than an int can count. */
    OK(MPI_Type_vector_c(2, 1, (MPI_Count)1 << 40, MPI_BYTE, &type));
    OK(MPI_Type_get_envelope_c(type, &integers_c, &addresses_c, &counts_c, &types_c, &combiner));
    CHECK(integers_c == 0 && addresses_c == 0 && counts_c == 3 && types_c == 1);
    OK(MPI_Type_get_contents_c(type, 0, 0, 3, 1, integers, addresses, counts, parts));
    CHECK(counts[2] == (MPI_Count)1 << 40 && parts[0] == MPI_BYTE);
    CHECK(MPI_Type_get_envelope(type, &of_integers, &of_addresses, &of_types, &combiner) !=
          MPI_SUCCESS);
    OK(MPI_Type_free(&type));
}

static void predefined(void) {
    MPI_Datatype one, other;
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    OK(MPI_Type_create_f90_real(15, 300, &one));
    OK(MPI_Type_create_f90_real(15, 300, &other));
    CHECK(one == other);
    CHECK(MPI_Type_free(&other) != MPI_SUCCESS);
    OK(MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 8, &one));
    CHECK(one == MPI_INTEGER8);
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &one));
    CHECK(one == MPI_DOUBLE_INT);
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_FLOAT, &one));
    CHECK(one == MPI_DATATYPE_NULL);
    OK(MPI_Type_get_name(MPI_UNSIGNED_LONG, name, &length));
    CHECK(strcmp(name, "MPI_UNSIGNED_LONG") == 0 && length == 17);
    OK(MPI_Type_get_name(MPI_DATATYPE_NULL, name, &length));
    CHECK(strcmp(name, "MPI_DATATYPE_NULL") == 0);
}

static void external(void) {
    static const unsigned char expected[] = {0, 0, 0, 1, 0, 2, 0xff, 0xff, 0xff, 0xfd};
    struct { int number; short small; long large; } in = {1, 2, -3}, out = {0, 0, 0};
    unsigned char packed[10];
    MPI_Aint position = 0, bytes;
    MPI_Datatype type;
    OK(MPI_Type_create_struct(3, (int[]){1, 1, 1}, (MPI_Aint[]){0, 4, 8},
                              (MPI_Datatype[]){MPI_INT, MPI_SHORT, MPI_LONG}, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Pack_external_size("external32", 1, type, &bytes));
    CHECK(bytes == sizeof packed);
    OK(MPI_Pack_external("external32", &in, 1, type, packed, bytes, &position));
    CHECK(position == bytes && memcmp(packed, expected, sizeof packed) == 0);
    position = 0;
    OK(MPI_Unpack_external("external32", packed, bytes, &position, &out, 1, type));
    CHECK(out.number == 1 && out.small == 2 && out.large == -3);
    in.large = 1L << 40;
    position = 0;
    CHECK(MPI_Pack_external("external32", &in, 1, type, packed, bytes, &position) != MPI_SUCCESS);
    OK(MPI_Type_free(&type));
}

static void refused(int code, int class) {
    int found;
    OK(MPI_Error_class(code, &found));
    CHECK(found == class);
}

static void errors(void) {
    MPI_Datatype type, null = MPI_DATATYPE_NULL, named = MPI_INT;
    int number = 0, position = 4, sides[2] = {4, 0};
    refused(MPI_Type_size(MPI_DATATYPE_NULL, &number), MPI_ERR_TYPE);
    refused(MPI_Type_free(&null), MPI_ERR_TYPE);
    refused(MPI_Type_free(&named), MPI_ERR_TYPE);
    refused(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT);
    OK(MPI_Type_contiguous(1, MPI_INT, &type));
    refused(MPI_Send(&number, 1, type, rank, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    OK(MPI_Type_free(&type));
    refused(MPI_Pack(&number, 1, MPI_INT, sides, 7, &position, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
    CHECK(position == 4);
    refused(MPI_Dims_create(6, 2, sides), MPI_ERR_DIMS);
    sides[0] = 0;
    OK(MPI_Dims_create(12, 2, sides));
    CHECK(sides[0] == 4 && sides[1] == 3);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    before = (rank + size - 1) % size;
    after = (rank + 1) % size;
    fill();
    constructors();
    bottom();
    taken_apart();
    predefined();
    external();
    errors();
    OK(MPI_Finalize());
    return 0;
}
