/* C's types are as long, as signed and as exact in the library as they are for the compiler of this program. */
#include "check.h"

#include <complex.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#define ROUNDS 20000

static uint64_t state = 88172645463325252u;

/* The same numbers in every process. */
static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Two to the power of `exponent`, which may be a subnormal number or infinity. */
static long double power(int exponent) {
    long double base = exponent < 0 ? 0.5L : 2.0L, result = 1.0L;
    for (int bits = abs(exponent); bits; bits >>= 1, base *= base)
        if (bits & 1) result *= base;
    return result;
}

/* Any sign, any digits, and an exponent from around one or from either end of the range. */
static long double random_float(void) {
    static const int middles[] = {0, 0, 60, 8190, 16370, -8190, -16440};
    long double digits = (long double)next_random() * power(-64) + (long double)next_random() * power(-128);
    int middle = middles[next_random() % 7], spread = (int)(next_random() % 140) - 70;
    if (next_random() % 50 == 0) digits = 1;
    return (next_random() & 1 ? digits : -digits) * power(middle) * power(spread);
}

/* Padding says nothing, so values are compared, and the sign of zero by what it makes infinite. */
static int is_same(long double a, long double b) {
    if (a != a || b != b) return a != a && b != b;
    return a == b && (a != 0 || 1 / a == 1 / b);
}

static long double reduced(long double a, long double b, MPI_Op op) {
    OK(MPI_Reduce_local(&a, &b, 1, MPI_LONG_DOUBLE, op));
    return b;
}

static void long_doubles(void) {
    for (int round = 0; round < ROUNDS; round++) {
        long double a = random_float(), b = random_float();
        struct { long double value; int place; } first, second;
        long double complex c, d;
        /* Neighbours, where digits cancel. */
        if (round % 8 == 0) b = -a * (1 + power(-(int)(next_random() % 120)));
        CHECK(is_same(reduced(a, b, MPI_SUM), a + b));
        CHECK(is_same(reduced(a, b, MPI_PROD), a * b));
        CHECK(reduced(a, b, MPI_MIN) == (a < b ? a : b));
        CHECK(reduced(a, b, MPI_MAX) == (a > b ? a : b));
        first.value = a, first.place = 3, second.value = b, second.place = 5;
        OK(MPI_Reduce_local(&first, &second, 1, MPI_LONG_DOUBLE_INT, MPI_MINLOC));
        CHECK(is_same(second.value, a <= b ? a : b) && second.place == (a <= b ? 3 : 5));
        /* Small whole numbers, so that the order of additions does not matter. */
        c = (long double)(int)(next_random() % 2001) - 1000 + ((long double)(next_random() % 2001) - 1000) * I;
        d = (long double)(int)(next_random() % 2001) - 1000 + ((long double)(next_random() % 2001) - 1000) * I;
        a = creall(c) * creall(d) - cimagl(c) * cimagl(d);
        b = creall(c) * cimagl(d) + cimagl(c) * creall(d);
        OK(MPI_Reduce_local(&c, &d, 1, MPI_C_LONG_DOUBLE_COMPLEX, MPI_PROD));
        CHECK(creall(d) == a && cimagl(d) == b);
    }
    CHECK(is_same(reduced(1.0L / 0.0L, -1.0L / 0.0L, MPI_SUM), 0.0L / 0.0L));
    CHECK(is_same(reduced(1.0L / 0.0L, 0.0L, MPI_PROD), 0.0L / 0.0L));
    CHECK(is_same(reduced(-0.0L, -0.0L, MPI_SUM), -0.0L));
}

/* A third has more digits than any other type of C holds. */
static void long_doubles_of_all(int rank, int size) {
    long double mine = (rank + 1) / 3.0L, sum = 0, most = 0;
    long double expected = 0;
    for (int at = 0; at < size; at++) expected += (at + 1) / 3.0L;
    OK(MPI_Allreduce(&mine, &most, 1, MPI_LONG_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    CHECK(most == size / 3.0L);
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    /* Additions in another order differ by a few of the last digits. */
    CHECK(sum - expected < expected * power(-60) && expected - sum < expected * power(-60));
}

static void check_size(MPI_Datatype type, size_t bytes, size_t extent) {
    MPI_Aint low, found_extent;
    int found;
    OK(MPI_Type_size(type, &found));
    OK(MPI_Type_get_extent(type, &low, &found_extent));
    CHECK((size_t)found == bytes && low == 0 && (size_t)found_extent == extent);
}

#define SIZE(type, ctype) check_size(type, sizeof(ctype), sizeof(ctype))
#define PAIR(type, first)                                                                \
    do {                                                                                 \
        struct pair { first value; int place; };                                         \
        check_size(type, sizeof(first) + sizeof(int), sizeof(struct pair));              \
    } while (0)

static void sizes(void) {
    SIZE(MPI_CHAR, char);
    SIZE(MPI_SIGNED_CHAR, signed char);
    SIZE(MPI_UNSIGNED_CHAR, unsigned char);
    SIZE(MPI_SHORT, short);
    SIZE(MPI_INT, int);
    SIZE(MPI_LONG, long);
    SIZE(MPI_LONG_LONG, long long);
    SIZE(MPI_FLOAT, float);
    SIZE(MPI_DOUBLE, double);
    SIZE(MPI_LONG_DOUBLE, long double);
    SIZE(MPI_WCHAR, wchar_t);
    SIZE(MPI_C_BOOL, _Bool);
    SIZE(MPI_C_FLOAT_COMPLEX, float complex);
    SIZE(MPI_C_DOUBLE_COMPLEX, double complex);
    SIZE(MPI_C_LONG_DOUBLE_COMPLEX, long double complex);
    SIZE(MPI_AINT, MPI_Aint);
    SIZE(MPI_COUNT, MPI_Count);
    SIZE(MPI_OFFSET, MPI_Offset);
    PAIR(MPI_FLOAT_INT, float);
    PAIR(MPI_DOUBLE_INT, double);
    PAIR(MPI_LONG_INT, long);
    PAIR(MPI_SHORT_INT, short);
    PAIR(MPI_LONG_DOUBLE_INT, long double);
}

/* MPI_SIGNED_CHAR has a sign and MPI_UNSIGNED_CHAR has none, whatever `char` has here. */
static void characters(int rank, int size) {
    signed char with = rank % 2 ? -100 : 100, least = 0;
    unsigned char without = (unsigned char)with, most = 0;
    char sent[256], received[256];
    OK(MPI_Allreduce(&with, &least, 1, MPI_SIGNED_CHAR, MPI_MIN, MPI_COMM_WORLD));
    CHECK(least == (size > 1 ? -100 : 100));
    OK(MPI_Allreduce(&without, &most, 1, MPI_UNSIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD));
    CHECK(most == (size > 1 ? 156 : 100));
    for (int at = 0; at < 256; at++) sent[at] = (char)at;
    OK(MPI_Sendrecv(sent, 256, MPI_CHAR, (rank + 1) % size, 1, received, 256, MPI_CHAR, (rank + size - 1) % size, 1,
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(memcmp(sent, received, 256) == 0);
}

/* Bytes above 127 in texts: `char` shows them as negative numbers on some machines. */
static void texts(void) {
    const char *name = "b\303\244r", *value = "\303\237";
    char found[MPI_MAX_OBJECT_NAME], text[8] = "";
    int len = 0, flag = 0;
    MPI_Info info;
    OK(MPI_Comm_set_name(MPI_COMM_SELF, name));
    OK(MPI_Comm_get_name(MPI_COMM_SELF, found, &len));
    CHECK(len == 4 && strcmp(found, name) == 0);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "key", value));
    len = (int)sizeof text;
    OK(MPI_Info_get_string(info, "key", &len, text, &flag));
    CHECK(flag && strcmp(text, value) == 0);
    OK(MPI_Info_free(&info));
}

int main(int argc, char **argv) {
    int rank, size;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    sizes();
    characters(rank, size);
    texts();
    long_doubles();
    long_doubles_of_all(rank, size);
    return MPI_Finalize();
}
