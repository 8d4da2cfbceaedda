/* Table: keys and values kept by the NIC of a rank, for all ranks.
 *
 * Any rank, including its own, sends requests to the rank that has the table. Each request has one answer, with the
 * tag plus one, which the module of the asking rank delivers. Numbers are little-endian.
 *
 *     tag  request                                      answer, tag + 1
 *     0    put: key, then the value, 0 to 48 bytes      OK; FULL
 *     2    get: key                                     OK and the value; NONE
 *     4    add: key, then a 64-bit number               OK and the sum; FULL; SIZE: the value is not 8 bytes long
 *     6    delete: key                                  OK; NONE
 *
 *     key:     64 bits
 *     answer:  a 32-bit status, the 32-bit length of the value, then the value
 *
 * Put replaces an existing value. Add takes a missing value as 0, and wraps around. A rank handles requests one after
 * the other, so add is atomic.
 *
 * A malformed request is answered BAD instead of ending in a fault, because its sender waits for an answer.
 *
 * Keys are hashed into slots with linear probing: a key whose slot is taken goes to the next free one. No slot between
 * the one that a key hashes to and the one that it is in is free, so a search can stop at the first free slot. A
 * quarter of the slots is kept free, which also bounds the search.
 */
#include <ferry_module.h>

enum {
    PUT = 0,
    GET = 2,
    ADD = 4,
    DELETE = 6,
};

enum {
    OK = 0,
    NONE = 1,
    FULL = 2,
    SIZE = 3,
    BAD = 4,
};

enum {
    KEY_BYTES = 8,
    VALUE_BYTES_MAX = 48,
    SLOT_BITS = 11,
    SLOTS = 1 << SLOT_BITS,
    KEYS_MAX = SLOTS / 4 * 3,
};

struct slot {
    uint64_t key;
    int32_t in_use;
    int32_t bytes;
    uint64_t value[VALUE_BYTES_MAX / 8];
};

struct answer {
    int32_t status;
    int32_t bytes;
    uint64_t value[VALUE_BYTES_MAX / 8];
};

enum {
    ANSWER_WITHOUT_VALUE = 8,
};

static struct slot slots[SLOTS];
static int32_t keys;

/* The high bits of a product are the best mixed ones. */
static uint32_t home_of(uint64_t key) {
    key ^= key >> 32;
    return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - SLOT_BITS));
}

/* The number of steps from one slot to another. */
static uint32_t steps(uint32_t from, uint32_t to) {
    return (to - from) % SLOTS;
}

/* The slot that holds the key, or the free one where it would go. At least one slot is always free. */
static uint32_t find(uint64_t key) {
    uint32_t at = home_of(key);
    while (slots[at].in_use && slots[at].key != key) {
        at = (at + 1) % SLOTS;
    }
    return at;
}

static void answer(int32_t status) {
    struct answer answer = {.status = status, .bytes = 0};
    ferry_send(ferry_sender(), ferry_tag() + 1, &answer, ANSWER_WITHOUT_VALUE);
}

static void answer_with(const struct slot *slot) {
    struct answer answer = {.status = OK, .bytes = slot->bytes};
    for (int i = 0; i < VALUE_BYTES_MAX / 8; i++) {
        answer.value[i] = slot->value[i];
    }
    ferry_send(ferry_sender(), ferry_tag() + 1, &answer, ANSWER_WITHOUT_VALUE + slot->bytes);
}

/* Assigns a free slot to the key. Returns 0 if the table is full. */
static int claim(struct slot *slot, uint64_t key) {
    if (keys == KEYS_MAX) {
        return 0;
    }
    keys++;
    slot->in_use = 1;
    slot->key = key;
    return 1;
}

static void put(uint64_t key, int32_t bytes) {
    struct slot *slot = &slots[find(key)];
    if (!slot->in_use && !claim(slot, key)) {
        answer(FULL);
        return;
    }
    slot->bytes = bytes;
    ferry_read(slot->value, KEY_BYTES, bytes);
    answer(OK);
}

static void get(uint64_t key) {
    struct slot *slot = &slots[find(key)];
    if (slot->in_use) {
        answer_with(slot);
    } else {
        answer(NONE);
    }
}

static void add(uint64_t key, uint64_t number) {
    struct slot *slot = &slots[find(key)];
    if (!slot->in_use) {
        if (!claim(slot, key)) {
            answer(FULL);
            return;
        }
        slot->bytes = 8;
        slot->value[0] = 0;
    }
    if (slot->bytes != 8) {
        answer(SIZE);
        return;
    }
    slot->value[0] += number;
    answer_with(slot);
}

static void delete(uint64_t key) {
    uint32_t hole = find(key);
    if (!slots[hole].in_use) {
        answer(NONE);
        return;
    }
    keys--;
    /* The hole must not lie between another key and its home slot, so the keys behind it move up. */
    for (uint32_t at = (hole + 1) % SLOTS; slots[at].in_use; at = (at + 1) % SLOTS) {
        int is_beyond_home = steps(home_of(slots[at].key), at) >= steps(hole, at);
        if (is_beyond_home) {
            slots[hole] = slots[at];
            hole = at;
        }
    }
    slots[hole].in_use = 0;
    answer(OK);
}

FERRY_ON_MESSAGE {
    int32_t tag = ferry_tag();
    int is_answer = tag % 2 == 1;
    if (is_answer) {
        return FERRY_DELIVER;
    }
    int32_t length = ferry_length();
    if (length < KEY_BYTES) {
        answer(BAD);
        return FERRY_CONSUME;
    }
    uint64_t key = (uint64_t)ferry_read_i64(0);
    if (tag == PUT && length <= KEY_BYTES + VALUE_BYTES_MAX) {
        put(key, length - KEY_BYTES);
    } else if (tag == GET && length == KEY_BYTES) {
        get(key);
    } else if (tag == ADD && length == KEY_BYTES + 8) {
        add(key, (uint64_t)ferry_read_i64(KEY_BYTES));
    } else if (tag == DELETE && length == KEY_BYTES) {
        delete(key);
    } else {
        answer(BAD);
    }
    return FERRY_CONSUME;
}
