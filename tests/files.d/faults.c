/* faults: ranks write a file together, among faults, and each notes what it was told; then the notes are compared with
 * the file.
 *
 *   faults PATH NOTES FORM BLOCK BLOCKS CALLS SEED [KEY=VALUE...]     all ranks
 *   faults check PATH NOTES FORM BLOCK BLOCKS CALLS SEED RANKS        one process, without MPI
 *
 * FORM: at_all, all, ordered, iat_all, iall, split, split_at, split_ordered, at, iat, shared, ishared. In each of CALLS
 * calls a rank writes BLOCKS blocks of BLOCK bytes, which interleave with those of other ranks. Keys:
 *
 *   cb_nodes, cb_buffer_size      hints
 *   handler=fatal                 errors end the job
 *   sync=1                        MPI_File_sync before the file is closed
 *   after=1                       survivors of a death write by themselves afterwards
 *   die=RANK moment=call:K:US     RANK kills itself US microseconds after it has begun call K
 *   die=RANK moment=before:N      before, in the middle of, or after its system call N that writes; or before it syncs
 *   limit=BYTES                   the process may write no file beyond this
 *   short=1                       system calls write less than they were asked to, or are interrupted
 *   lose=1                        system calls write nothing and say that they did: the check has to find it
 *
 * A note is a line in NOTES/RANK: `write K`, `sync` or `close`, then `ok` or the class and text of the error. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi-ext.h>
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

static struct {
    const char *path, *notes, *form, *moment;
    long block, blocks, calls, seed, die, sync, after, is_short, lose, fatal, limit;
} o = {.die = -1, .moment = ""};
static int rank, size, notes;

/* Faults in system calls, in the place of those of the C library. */

static void die(void) { kill(getpid(), SIGKILL); }
static long number(const char *name) {
    size_t len = strlen(name);
    return !strncmp(o.moment, name, len) && o.moment[len] == ':' ? atol(o.moment + len + 1) : 0;
}
static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t offset) {
    static long calls;
    int dies = rank == o.die;
    calls++;
    if (dies && number("before") == calls) die();
    if (o.lose) {
        ssize_t bytes = 0;
        for (int i = 0; i < count; i++) bytes += (ssize_t)pieces[i].iov_len;
        return bytes;
    }
    if ((dies && number("half") == calls) || o.is_short) {
        uint64_t draw = mixed((uint64_t)(o.seed + calls * 977 + rank));
        struct iovec first = pieces[0];
        if (first.iov_len > 1) first.iov_len = o.is_short ? 1 + draw % first.iov_len : first.iov_len / 2;
        if (o.is_short && draw >> 62 == 0) {
            errno = EINTR;
            return -1;
        }
        long written = syscall(SYS_pwritev, fd, &first, 1, (long)offset, 0L);
        if (!o.is_short) die();
        return written;
    }
    long written = syscall(SYS_pwritev, fd, pieces, (long)count, (long)offset, 0L);
    if (dies && number("after") == calls) die();
    return written;
}
ssize_t pwritev64(int fd, const struct iovec *pieces, int count, off64_t offset) {
    return pwritev(fd, pieces, count, offset);
}
int fdatasync(int fd) {
    if (rank == o.die && !strcmp(o.moment, "sync")) die();
    return (int)syscall(SYS_fdatasync, fd);
}

/* The bytes. At the shared pointer, the place of a record is not known: it begins with who wrote it. */

static int is(const char *form) { return !strcmp(o.form, form); }
static int is_shared(void) { return is("shared") || is("ishared"); }
static int is_ordered(void) { return is("ordered") || is("split_ordered"); }
static int is_alone(void) { return is("at") || is("iat") || is_shared(); }
static long record(void) { return o.block * o.blocks; }
static unsigned char byte_at(uint64_t stream, long at) {
    uint64_t word = mixed((uint64_t)o.seed * 0x9e3779b97f4a7c15u + stream + (uint64_t)at / 8);
    return (unsigned char)(word >> at % 8 * 8);
}
/* Where in the file byte `at` of a call is. */
static long place(int of, long call, long at) {
    if (is_ordered()) return (call * size + of) * record() + at;
    return ((call * o.blocks + at / o.block) * size + of) * o.block + at % o.block;
}
static void fill(unsigned char *bytes, int of, long call) {
    for (long at = 0; at < record(); at++)
        bytes[at] = is_shared() ? byte_at((uint64_t)(of * 1000 + call + 1) << 32, at) : byte_at(0, place(of, call, at));
}

static void note(const char *what, int code) {
    char line[MPI_MAX_ERROR_STRING + 100], text[MPI_MAX_ERROR_STRING];
    int class, len;
    if (code == MPI_SUCCESS) {
        snprintf(line, sizeof line, "%s ok\n", what);
    } else {
        MPI_Error_class(code, &class);
        MPI_Error_string(code, text, &len);
        for (char *c = text; *c; c++) if (*c == '\n') *c = ' ';
        const char *name = class == MPI_ERR_NO_SPACE       ? "NO_SPACE"
                         : class == MPI_ERR_QUOTA          ? "QUOTA"
                         : class == MPI_ERR_IO             ? "IO"
                         : class == MPIX_ERR_PROC_FAILED   ? "PROC_FAILED"
                         : class == MPIX_ERR_REVOKED       ? "REVOKED"
                                                           : "OTHER";
        snprintf(line, sizeof line, "%s %s %s\n", what, name, text);
    }
    if (write(notes, line, strlen(line)) < 0) abort();
}

static int write_form(MPI_File file, long call, unsigned char *bytes, MPI_Status *status) {
    MPI_Offset at = call * record();
    int count = (int)record(), code;
    MPI_Request request = MPI_REQUEST_NULL;
    if (is("at_all")) return MPI_File_write_at_all(file, at, bytes, count, MPI_BYTE, status);
    if (is("all")) return MPI_File_write_all(file, bytes, count, MPI_BYTE, status);
    if (is("ordered")) return MPI_File_write_ordered(file, bytes, count, MPI_BYTE, status);
    if (is("at")) return MPI_File_write_at(file, at, bytes, count, MPI_BYTE, status);
    if (is("shared")) return MPI_File_write_shared(file, bytes, count, MPI_BYTE, status);
    if (is("split")) {
        code = MPI_File_write_all_begin(file, bytes, count, MPI_BYTE);
        return code ? code : MPI_File_write_all_end(file, bytes, status);
    }
    if (is("split_at")) {
        code = MPI_File_write_at_all_begin(file, at, bytes, count, MPI_BYTE);
        return code ? code : MPI_File_write_at_all_end(file, bytes, status);
    }
    if (is("split_ordered")) {
        code = MPI_File_write_ordered_begin(file, bytes, count, MPI_BYTE);
        return code ? code : MPI_File_write_ordered_end(file, bytes, status);
    }
    if (is("iat_all")) code = MPI_File_iwrite_at_all(file, at, bytes, count, MPI_BYTE, &request);
    else if (is("iall")) code = MPI_File_iwrite_all(file, bytes, count, MPI_BYTE, &request);
    else if (is("iat")) code = MPI_File_iwrite_at(file, at, bytes, count, MPI_BYTE, &request);
    else if (is("ishared")) code = MPI_File_iwrite_shared(file, bytes, count, MPI_BYTE, &request);
    else abort();
    return code ? code : MPI_Wait(&request, status);
}

static void set(const char *word, MPI_Info info) {
    char key[64], *equals = strchr(word, '=');
    if (!equals || equals - word >= (long)sizeof key) abort();
    snprintf(key, sizeof key, "%.*s", (int)(equals - word), word);
    const char *value = equals + 1;
    if (!strncmp(key, "cb_", 3)) MPI_Info_set(info, key, value);
    else if (!strcmp(key, "handler")) o.fatal = !strcmp(value, "fatal");
    else if (!strcmp(key, "sync")) o.sync = atol(value);
    else if (!strcmp(key, "after")) o.after = atol(value);
    else if (!strcmp(key, "die")) o.die = atol(value);
    else if (!strcmp(key, "moment")) o.moment = value;
    else if (!strcmp(key, "short")) o.is_short = atol(value);
    else if (!strcmp(key, "limit")) o.limit = atol(value);
    else if (!strcmp(key, "lose")) o.lose = atol(value);
    else abort();
}
static void on_alarm(int signal) {
    (void)signal;
    die();
}

static int run(int argc, char **argv) {
    char name[4096], what[32];
    MPI_Info info;
    MPI_File file;
    MPI_Datatype view;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Info_create(&info);
    for (int i = 8; i < argc; i++) set(argv[i], info);
    /* Without this, a write beyond the limit of the process is its end. */
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGALRM, on_alarm);
    if (o.limit) setrlimit(RLIMIT_FSIZE, &(struct rlimit){(rlim_t)o.limit, (rlim_t)o.limit});
    snprintf(name, sizeof name, "%s/%d", o.notes, rank);
    notes = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (notes < 0) abort();
    if (MPI_File_open(MPI_COMM_WORLD, o.path, MPI_MODE_CREATE | MPI_MODE_WRONLY, info, &file)) MPI_Abort(MPI_COMM_WORLD, 9);
    MPI_File_set_errhandler(file, o.fatal ? MPI_ERRORS_ARE_FATAL : MPI_ERRORS_RETURN);
    if (!is_shared() && !is_ordered()) {
        MPI_Type_vector(1, (int)o.block, (int)o.block, MPI_BYTE, &view);
        MPI_Type_create_resized(view, 0, o.block * size, &view);
        MPI_Type_commit(&view);
        if (MPI_File_set_view(file, o.block * rank, MPI_BYTE, view, "native", MPI_INFO_NULL)) MPI_Abort(MPI_COMM_WORLD, 9);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    unsigned char *bytes = malloc((size_t)record());
    int code = MPI_SUCCESS;
    for (long call = 0; call < o.calls && code == MPI_SUCCESS; call++) {
        fill(bytes, rank, call);
        if (rank == o.die && number("call") == call + 1) {
            long delay = atol(strrchr(o.moment, ':') + 1);
            struct itimerval soon = {.it_value = {delay / 1000000, delay % 1000000 + 1}};
            setitimer(ITIMER_REAL, &soon, NULL);
        }
        snprintf(what, sizeof what, "write %ld", call);
        code = write_form(file, call, bytes, &status);
        int count = -1;
        if (!code) MPI_Get_count(&status, MPI_BYTE, &count);
        if (!code && count != record()) MPI_Abort(MPI_COMM_WORLD, 8);
        note(what, code);
        /* Others may still have room. */
        if (is_alone()) code = MPI_SUCCESS;
    }
    if (code && o.after && !is_ordered()) {
        /* Behind all others, so that it disturbs nobody. */
        fill(bytes, rank, o.calls);
        note("after", MPI_File_write_at(file, o.calls * record(), bytes, (int)record(), MPI_BYTE, &status));
    }
    if (o.sync) note("sync", MPI_File_sync(file));
    note("close", MPI_File_close(&file));
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    MPI_Info_free(&info);
    free(bytes);
    note("end", MPI_SUCCESS);
    return MPI_Finalize();
}

/* Compares the file with what ranks were told. */

static int has_record(FILE *file, long bytes, const unsigned char *wanted, unsigned char *found) {
    for (long at = 0; at + record() <= bytes; at += record()) {
        fseek(file, at, SEEK_SET);
        if (fread(found, 1, (size_t)record(), file) == (size_t)record() && !memcmp(found, wanted, (size_t)record())) return 1;
    }
    return 0;
}
static int check(int ranks) {
    FILE *file = fopen(o.path, "rb");
    unsigned char *wanted = malloc((size_t)record()), *found = malloc((size_t)record());
    int wrong = 0;
    size = ranks;
    long bytes = 0;
    if (file) {
        fseek(file, 0, SEEK_END);
        bytes = ftell(file);
    }
    for (int of = 0; of < ranks; of++) {
        char name[4096], line[4096];
        snprintf(name, sizeof name, "%s/%d", o.notes, of);
        FILE *told = fopen(name, "r");
        while (told && fgets(line, sizeof line, told)) {
            long call, bad = -1;
            char how[16];
            if (!strncmp(line, "after ok", 8)) call = o.calls;
            else if (sscanf(line, "write %ld %15s", &call, how) != 2 || strcmp(how, "ok")) continue;
            fill(wanted, of, call);
            if (is_shared()) {
                bad = file && has_record(file, bytes, wanted, found) ? -1 : 0;
            } else {
                for (long at = 0; at < record() && bad < 0; at += is_ordered() ? record() : o.block) {
                    size_t piece = (size_t)(is_ordered() ? record() : o.block);
                    if (!file || fseek(file, place(of, call, at), SEEK_SET) || fread(found, 1, piece, file) != piece ||
                        memcmp(found, wanted + at, piece))
                        bad = at;
                }
            }
            if (bad >= 0) {
                printf("rank %d was told that its call %ld succeeded, and byte %ld of it is not in the file\n", of, call, bad);
                wrong = 1;
            }
        }
        if (told) fclose(told);
    }
    return wrong;
}

int main(int argc, char **argv) {
    int checks = argc > 1 && !strcmp(argv[1], "check");
    char **word = argv + 1 + checks;
    if (argc < 8 + 2 * checks) return 2;
    o.path = word[0], o.notes = word[1], o.form = word[2];
    o.block = atol(word[3]), o.blocks = atol(word[4]), o.calls = atol(word[5]), o.seed = atol(word[6]);
    return checks ? check(atoi(word[7])) : run(argc, argv);
}
