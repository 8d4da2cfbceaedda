/* ferry_module.h: the interface of a module in C to the NIC that it runs on.
 *
 * A module is a small program that runs where messages arrive, once for each message of its communicator:
 *
 *     #include <ferry_module.h>
 *
 *     FERRY_ON_MESSAGE {
 *         return FERRY_DELIVER;
 *     }
 *
 * `ferry module cc x.c -o x.wasm` compiles it. docs/book/src/modules.md is the tutorial. A module has no C library,
 * no files, no clock except ferry_now, and no memory except its own.
 *
 * Ranks are those of the module's communicator. Functions report no errors: an invalid argument (a rank or tag out of
 * range, bytes outside the payload or outside memory) stops the module and ends its message with a fault; the receive
 * that would have got the message fails. Variables keep their values from one message to the next, also after a fault,
 * and messages sent before a fault stay sent: so check a message before acting on it.
 */
#ifndef FERRY_MODULE_H
#define FERRY_MODULE_H

#ifndef __wasm__
#error "modules are compiled to WebAssembly: ferry module cc x.c -o x.wasm"
#endif

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Hooks: functions that the NIC calls. A module has the first; the others are optional. ---- */

/* Called for each message. Returns FERRY_DELIVER or FERRY_CONSUME; any other value is a fault. */
#define FERRY_ON_MESSAGE                                                                                  \
    int32_t on_message(void);                                                                             \
    __attribute__((export_name("on_message"))) int32_t on_message(void)

/* Called while the module is loaded, for example to fill tables. There is no message yet, and no import may be
 * called: a call makes loading fail. */
#define FERRY_ON_LOAD                                                                                     \
    void on_load(void);                                                                                   \
    __attribute__((export_name("on_load"))) void on_load(void)

/* Called when a counter reaches the value it was armed for. There is no message: length is 0, sender is this rank. */
#define FERRY_ON_COUNTER(counter)                                                                         \
    void on_counter(int32_t);                                                                             \
    __attribute__((export_name("on_counter"))) void on_counter(int32_t counter)

/* An operator of reductions, for Ferry_Op_create: code of its own, with this hook and at most FERRY_ON_LOAD, and without
 * imports. It combines count elements at from into those at into, as MPI_User_function does: the contribution of the
 * lower rank is at from. */
#define FERRY_COMBINE(from, into, count)                                                                  \
    void combine(const void *, void *, int32_t);                                                          \
    __attribute__((export_name("combine"))) void combine(const void *from, void *into, int32_t count)

/* What happens to the message. */
enum {
    FERRY_DELIVER = 0, /* It goes to the application here and is matched like any other. */
    FERRY_CONSUME = 1, /* It ends here. */
};

/* ---- Limits. For those that are settings, this is the default. ---- */

enum {
    FERRY_MESSAGE_BYTES_MAX = 65536, /* Longest message that a module takes. */
    FERRY_SENDS_MAX = 64,            /* Sends, replies and forwards for one message. */
    FERRY_COUNTERS = 8,
};

/* ---- Imports: functions that the module may call. ---- */

#define FERRY_IMPORT(name) __attribute__((import_module("ferry"), import_name(#name)))

/* The rank that the module runs at, and the number of ranks. */
FERRY_IMPORT(rank) int32_t ferry_rank(void);
FERRY_IMPORT(size) int32_t ferry_size(void);

/* The message: its source rank, its tag, its length in bytes. */
FERRY_IMPORT(sender) int32_t ferry_sender(void);
FERRY_IMPORT(tag) int32_t ferry_tag(void);
FERRY_IMPORT(length) int32_t ferry_length(void);

/* Nanoseconds since a fixed moment of the job. */
FERRY_IMPORT(now) int64_t ferry_now(void);

/* Copies bytes of the payload into the module's memory. */
FERRY_IMPORT(read) void ferry_read(void *into, int32_t offset, int32_t bytes);

/* Changes bytes of the payload, for later delivery and forwarding. */
FERRY_IMPORT(write) void ferry_write(int32_t offset, const void *from, int32_t bytes);

/* Sends the message, with the changes made so far, to the module at a rank. It keeps its sender and its tag. */
FERRY_IMPORT(forward) void ferry_forward(int32_t to);

/* Sends bytes to the module at a rank, with this rank as sender. They are copied before the call returns. */
FERRY_IMPORT(send) void ferry_send(int32_t to, int32_t tag, const void *from, int32_t bytes);

/* Like ferry_send, to the sender of the message and with its tag. */
FERRY_IMPORT(reply) void ferry_reply(const void *from, int32_t bytes);

/* Adds to a counter, which the application can wait for. */
FERRY_IMPORT(raise) void ferry_raise(int32_t counter, int64_t by);

/* Requests one call of on_counter when the counter reaches at_least. */
FERRY_IMPORT(arm) void ferry_arm(int32_t counter, int64_t at_least);

/* ---- Helpers ---- */

/* Stops the module: the message ends with a fault. */
__attribute__((noreturn)) static inline void ferry_fail(void) {
    __builtin_trap();
}

/* Stops the module unless the condition holds. */
static inline void ferry_require(int condition) {
    if (!condition) {
        ferry_fail();
    }
}

/* Reads or writes one number of the payload, at an offset in bytes. Numbers are little-endian, as in WebAssembly. */
static inline int32_t ferry_read_i32(int32_t offset) {
    int32_t value;
    ferry_read(&value, offset, sizeof value);
    return value;
}

static inline int64_t ferry_read_i64(int32_t offset) {
    int64_t value;
    ferry_read(&value, offset, sizeof value);
    return value;
}

static inline double ferry_read_f64(int32_t offset) {
    double value;
    ferry_read(&value, offset, sizeof value);
    return value;
}

static inline void ferry_write_i32(int32_t offset, int32_t value) {
    ferry_write(offset, &value, sizeof value);
}

static inline void ferry_write_i64(int32_t offset, int64_t value) {
    ferry_write(offset, &value, sizeof value);
}

static inline void ferry_write_f64(int32_t offset, double value) {
    ferry_write(offset, &value, sizeof value);
}

static inline void ferry_send_i64(int32_t to, int32_t tag, int64_t value) {
    ferry_send(to, tag, &value, sizeof value);
}

static inline void ferry_reply_i64(int64_t value) {
    ferry_reply(&value, sizeof value);
}

/* ---- Functions that compilers call to copy, clear or compare memory. ----
 *
 * They are weak, so that a module of several files has one of each, or brings its own. Unused ones are not linked. They
 * work on eight bytes at a time, because each step costs fuel.
 */

#define FERRY_COMPILER_CALLS __attribute__((weak, visibility("hidden")))

typedef uint64_t ferry_word __attribute__((may_alias, aligned(1)));

void *memcpy(void *into, const void *from, size_t bytes);
void *memmove(void *into, const void *from, size_t bytes);
void *memset(void *into, int value, size_t bytes);
int memcmp(const void *one, const void *other, size_t bytes);

FERRY_COMPILER_CALLS void *memcpy(void *into, const void *from, size_t bytes) {
    unsigned char *target = (unsigned char *)into;
    const unsigned char *source = (const unsigned char *)from;
    for (; bytes >= 8; bytes -= 8, target += 8, source += 8) {
        *(ferry_word *)target = *(const ferry_word *)source;
    }
    for (; bytes > 0; bytes--) {
        *target++ = *source++;
    }
    return into;
}

FERRY_COMPILER_CALLS void *memmove(void *into, const void *from, size_t bytes) {
    unsigned char *target = (unsigned char *)into;
    const unsigned char *source = (const unsigned char *)from;
    if ((uintptr_t)target - (uintptr_t)source >= bytes) {
        /* Copying upwards reads each byte before it is overwritten. */
        for (; bytes >= 8; bytes -= 8, target += 8, source += 8) {
            *(ferry_word *)target = *(const ferry_word *)source;
        }
        for (; bytes > 0; bytes--) {
            *target++ = *source++;
        }
    } else {
        for (; bytes >= 8; bytes -= 8) {
            *(ferry_word *)(target + bytes - 8) = *(const ferry_word *)(source + bytes - 8);
        }
        for (; bytes > 0; bytes--) {
            target[bytes - 1] = source[bytes - 1];
        }
    }
    return into;
}

FERRY_COMPILER_CALLS void *memset(void *into, int value, size_t bytes) {
    unsigned char *target = (unsigned char *)into;
    uint64_t word = (unsigned char)value * UINT64_C(0x0101010101010101);
    for (; bytes >= 8; bytes -= 8, target += 8) {
        *(ferry_word *)target = word;
    }
    for (; bytes > 0; bytes--) {
        *target++ = (unsigned char)value;
    }
    return into;
}

FERRY_COMPILER_CALLS int memcmp(const void *one, const void *other, size_t bytes) {
    const unsigned char *left = (const unsigned char *)one;
    const unsigned char *right = (const unsigned char *)other;
    for (; bytes > 0; bytes--, left++, right++) {
        if (*left != *right) {
            return *left - *right;
        }
    }
    return 0;
}

#ifdef __cplusplus
}
#endif

#endif
