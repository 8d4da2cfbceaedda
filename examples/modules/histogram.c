/* Histogram: counts the messages of one tag as they arrive, and leaves them unchanged.
 *
 * The application sends and receives as it would without the module. Four tags belong to the module:
 *
 *     tag      message                              answer
 *     1000000  watch: two 32-bit numbers            1000001: one 32-bit status
 *     1000002  query: empty                         1000003: 66 64-bit counts
 *
 *     watch:   the tag to watch; 0 to count lengths, 1 to count values
 *     status:  0 if counting has started, from zero; 1 if the watch message was malformed
 *
 * Any rank may send both, to the rank whose messages are of interest. Every message of the watched tag that
 * arrives there is counted, by its length in bytes or by its value, which is its first eight bytes as an unsigned
 * number. Count 0 is of zeros; count i, up to 64, of those from 2^(i-1) to 2^i - 1; count 65 of the messages that
 * are too short to have a value. Numbers are little-endian.
 *
 * The module raises counter 0 by one for each message counted, so the application can wait for a number of them.
 *
 * All messages except watch and query are delivered unchanged, including the two answers. Nothing is counted before
 * the first watch.
 */
#include <ferry_module.h>

enum {
    WATCH = 1000000,
    WATCH_ANSWER,
    QUERY,
    QUERY_ANSWER,
};

enum {
    LENGTHS = 0,
    VALUES = 1,
};

enum {
    WITHOUT_VALUE = 65,
    COUNTS = 66,
};

/* -1 watches no message, because tags are not negative. */
static int32_t watched = -1;
static int32_t what;
static uint64_t counts[COUNTS];

/* 1 + the position of the highest bit. */
static int count_of(uint64_t value) {
    return value == 0 ? 0 : 64 - __builtin_clzll(value);
}

static int begin(void) {
    if (ferry_length() != 8) {
        return 1;
    }
    int32_t tag = ferry_read_i32(0);
    int32_t kind = ferry_read_i32(4);
    int is_ours = tag >= WATCH && tag <= QUERY_ANSWER;
    if (tag < 0 || is_ours || (kind != LENGTHS && kind != VALUES)) {
        return 1;
    }
    watched = tag;
    what = kind;
    for (int i = 0; i < COUNTS; i++) {
        counts[i] = 0;
    }
    return 0;
}

static void count(void) {
    int32_t length = ferry_length();
    if (what == LENGTHS) {
        counts[count_of((uint64_t)length)]++;
    } else if (length >= 8) {
        counts[count_of((uint64_t)ferry_read_i64(0))]++;
    } else {
        counts[WITHOUT_VALUE]++;
    }
    ferry_raise(0, 1);
}

FERRY_ON_MESSAGE {
    int32_t tag = ferry_tag();
    if (tag == WATCH) {
        int32_t status = begin();
        ferry_send(ferry_sender(), WATCH_ANSWER, &status, sizeof status);
        return FERRY_CONSUME;
    }
    if (tag == QUERY) {
        ferry_send(ferry_sender(), QUERY_ANSWER, counts, sizeof counts);
        return FERRY_CONSUME;
    }
    if (tag == watched) {
        count();
    }
    return FERRY_DELIVER;
}
