/* ferry_module.h: what a module in C may ask of the NIC that it runs on.
 *
 * A module is a small program that runs where messages arrive, once for each message of its communicator:
 *
 *     #include <ferry_module.h>
 *
 *     FERRY_ON_MESSAGE {
 *         return FERRY_DELIVER;
 *     }
 *
 * `ferry module cc x.c -o x.wasm` compiles it. docs/book/src/modules.md is the tutorial. There is no C library here, and
 * no file, no clock but ferry_now, no memory but the module's own.
 *
 * Ranks are as the module's communicator counts. What cannot be done (a rank that is not there, a tag that is
 * none, bytes beyond the payload or beyond memory) does not come back as a number: the module stops, its message
 * ends with a fault, and the owner is told. Variables keep their values from one message to the next, also
 * after a fault, and what was sent before a fault is sent: so check a message before you do anything.
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

/* ---- Hooks: what the NIC calls. A module has the first, and the others if it wants them. ---- */

/* A message has come. Returns FERRY_DELIVER or FERRY_CONSUME; anything else is a fault. */
#define FERRY_ON_MESSAGE                                                                                  \
    int32_t on_message(void);                                                                             \
    __attribute__((export_name("on_message"))) int32_t on_message(void)

/* The module is being loaded: the time to fill tables. There is no message yet, and nobody to ask: a call of an
 * import here makes loading fail. */
#define FERRY_ON_LOAD                                                                                     \
    void on_load(void);                                                                                   \
    __attribute__((export_name("on_load"))) void on_load(void)

/* A counter has reached what it was armed for. There is no message: its length is 0, its sender this rank. */
#define FERRY_ON_COUNTER(counter)                                                                         \
    void on_counter(int32_t);                                                                             \
    __attribute__((export_name("on_counter"))) void on_counter(int32_t counter)

/* What becomes of the message. */
enum {
    FERRY_DELIVER = 0, /* It goes to the application here, matched as any other. */
    FERRY_CONSUME = 1, /* It ends here. */
};

/* ---- Bounds. Those that can be set have their default here. ---- */

enum {
    FERRY_MESSAGE_BYTES_MAX = 65536, /* Longer messages do not come to a module. */
    FERRY_SENDS_MAX = 64,            /* Sends, replies and forwards for one message. */
    FERRY_COUNTERS = 8,
};

/* ---- Imports: what the module may call. ---- */

#define FERRY_IMPORT(name) __attribute__((import_module("ferry"), import_name(#name)))

/* The rank that the module runs at, and how many ranks there are. */
FERRY_IMPORT(rank) int32_t ferry_rank(void);
FERRY_IMPORT(size) int32_t ferry_size(void);

/* The message: the rank it is from, its tag, its length in bytes. */
FERRY_IMPORT(sender) int32_t ferry_sender(void);
FERRY_IMPORT(tag) int32_t ferry_tag(void);
FERRY_IMPORT(length) int32_t ferry_length(void);

/* Nanoseconds since some moment that does not change while the job runs. */
FERRY_IMPORT(now) int64_t ferry_now(void);

/* Copies bytes of the payload into the module's memory. */
FERRY_IMPORT(read) void ferry_read(void *into, int32_t offset, int32_t bytes);

/* Changes bytes of the payload: this is what is delivered or forwarded from now on. */
FERRY_IMPORT(write) void ferry_write(int32_t offset, const void *from, int32_t bytes);

/* Sends the message, as it is now, to the module at a rank. It keeps its sender and its tag. */
FERRY_IMPORT(forward) void ferry_forward(int32_t to);

/* Sends bytes to the module at a rank, in the name of this rank. They are copied before it returns. */
FERRY_IMPORT(send) void ferry_send(int32_t to, int32_t tag, const void *from, int32_t bytes);

/* The same, to the sender of the message, with its tag. */
FERRY_IMPORT(reply) void ferry_reply(const void *from, int32_t bytes);

/* Raises one of the counters, which the application can wait for. */
FERRY_IMPORT(raise) void ferry_raise(int32_t counter, int64_t by);

/* Asks for one on_counter when the counter is at least this. */
FERRY_IMPORT(arm) void ferry_arm(int32_t counter, int64_t at_least);

/* ---- Helpers ---- */

/* Gives up: the message ends with a fault. */
__attribute__((noreturn)) static inline void ferry_fail(void) {
    __builtin_trap();
}

/* Gives up unless the condition holds. */
static inline void ferry_require(int condition) {
    if (!condition) {
        ferry_fail();
    }
}

/* One number of the payload, at an offset in bytes. Numbers are little-endian, as WebAssembly has them. */
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

/* ---- What a compiler calls by itself, when it copies or clears a structure. ----
 *
 * Weak, so that a module of several files has one of each, and one of its own if it likes. What is not called is
 * not linked. Eight bytes at a time, since each step costs fuel.
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
        /* Going up reads each byte before it is written over. */
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
