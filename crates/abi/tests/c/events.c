/* The events of the tool interface: overflows of the budget for unexpected messages, and accesses that the NIC refuses.
 * Callbacks hear of them with the right data; freed registrations, and those without a callback, do not.
 *
 * events [refusals]: with the argument, windows are reached through the NIC of their target only. */
#include <stddef.h>
#include <string.h>

#include "check.h"

#define BYTES 1024
/* More than the budget of 16 MB. */
#define MESSAGES 24000
#define FLOOD 7
#define LAST 8
#define NEVER 9
/* More than wait for a thread. */
#define REFUSALS 100

struct overflow {
    int source, tag;
    unsigned long bytes;
};

struct refusal {
    int origin;
    unsigned long bytes;
    MPI_Aint address;
};

/* What a callback has heard. */
struct heard {
    MPI_T_event_registration registration;
    int calls, frees;
    MPI_Count dropped, when;
    struct overflow overflow;
    struct refusal refusal;
};

/* Whether the second rank calls MPI, as memory tells that it shares with the first. */
enum { PRESENT, AWAY, BACK };

static int rank, size, depth;

static MPI_Count now(void) {
    MPI_Count when;
    OK(MPI_T_source_get_timestamp(0, &when));
    return when;
}

/* Calls MPI so that events are delivered. */
static void progress(void) {
    int flag;
    OK(MPI_Iprobe(MPI_ANY_SOURCE, NEVER, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
}

static void on_event(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety,
                     struct heard *heard) {
    MPI_Count when;
    int source = 77;
    CHECK(registration == heard->registration && safety == MPI_T_CB_REQUIRE_NONE && heard->frees == 0);
    OK(MPI_T_event_get_source(event, &source));
    OK(MPI_T_event_get_timestamp(event, &when));
    CHECK(source == 0 && when >= heard->when && when <= now());
    heard->when = when;
    heard->calls++;
    /* It may call MPI, and is not called again inside. */
    CHECK(depth++ == 0);
    progress();
    depth--;
}

static void on_overflow(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety,
                        void *data) {
    struct heard *heard = data;
    struct overflow whole, parts;
    OK(MPI_T_event_copy(event, &whole));
    OK(MPI_T_event_read(event, 0, &parts.source));
    OK(MPI_T_event_read(event, 1, &parts.tag));
    OK(MPI_T_event_read(event, 2, &parts.bytes));
    CHECK(MPI_T_event_read(event, 3, &parts) == MPI_T_ERR_INVALID_INDEX);
    CHECK(whole.source == parts.source && whole.tag == parts.tag && whole.bytes == parts.bytes);
    heard->overflow = whole;
    on_event(event, registration, safety, heard);
}

static void on_refusal(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety,
                       void *data) {
    struct heard *heard = data;
    OK(MPI_T_event_copy(event, &heard->refusal));
    on_event(event, registration, safety, heard);
}

static void on_dropped(MPI_Count count, MPI_T_event_registration registration, int source, MPI_T_cb_safety safety,
                       void *data) {
    struct heard *heard = data;
    CHECK(registration == heard->registration && source == 0 && safety == MPI_T_CB_REQUIRE_NONE);
    heard->dropped += count;
}

static void on_free(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data) {
    struct heard *heard = data;
    CHECK(registration == heard->registration && safety == MPI_T_CB_REQUIRE_NONE);
    heard->frees++;
}

static void never(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety,
                  void *data) {
    (void)event, (void)registration, (void)safety, (void)data;
    CHECK(!"called");
}

static struct heard registered(const char *name) {
    struct heard heard;
    int index;
    memset(&heard, 0, sizeof heard);
    OK(MPI_T_event_get_index(name, &index));
    OK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &heard.registration));
    return heard;
}

static void hear(struct heard *heard, MPI_T_cb_safety safety, MPI_T_event_cb_function *callback) {
    heard->when = now();
    OK(MPI_T_event_register_callback(heard->registration, safety, MPI_INFO_NULL, heard, callback));
}

/* After it, the callback is not called any more. */
static void release(struct heard *heard) {
    OK(MPI_T_event_handle_free(heard->registration, heard, on_free));
    CHECK(heard->frees == 1);
}

static void descriptions(void) {
    int number, refusals, overflows;
    OK(MPI_T_event_get_num(&number));
    OK(MPI_T_event_get_index("ferrywire_overflow", &overflows));
    OK(MPI_T_event_get_index("ferrywire_refusal", &refusals));
    CHECK(number >= 2 && overflows != refusals);
    for (int at = 0; at < number; at++) {
        char name[100], text[400];
        int name_len = sizeof name, text_len = sizeof text, verbosity, bind, index, elements = 10, count;
        MPI_Datatype types[10];
        MPI_Aint displacements[10];
        MPI_T_enum names;
        MPI_Info info;
        OK(MPI_T_event_get_info(at, name, &name_len, &verbosity, types, displacements, &elements, &names, &info, text,
                                &text_len, &bind));
        CHECK(name_len == (int)strlen(name) + 1 && text_len == (int)strlen(text) + 1);
        CHECK(elements == 3 && bind == MPI_T_BIND_NO_OBJECT && displacements[0] == 0);
        CHECK(types[0] == MPI_INT);
        OK(MPI_Info_free(&info));
        OK(MPI_T_event_get_index(name, &index));
        CHECK(index == at);
        OK(MPI_T_enum_get_info(names, &count, name, &name_len));
        CHECK(count == elements);
        for (int element = 0; element < count; element++) {
            int value;
            name_len = sizeof name;
            OK(MPI_T_enum_get_item(names, element, &value, name, &name_len));
            CHECK(value == element && name_len == (int)strlen(name) + 1);
        }
        CHECK(!strcmp(name, at == overflows ? "bytes" : "address"));
        CHECK(MPI_T_enum_get_item(names, count, &index, NULL, NULL) == MPI_T_ERR_INVALID_ITEM);
        CHECK(displacements[2] == (at == overflows ? (MPI_Aint)offsetof(struct overflow, bytes)
                                                   : (MPI_Aint)offsetof(struct refusal, address)));
        CHECK(types[2] == (at == overflows ? MPI_UNSIGNED_LONG : MPI_AINT));
        /* One element wanted, or none. */
        elements = 1;
        types[1] = MPI_CHAR;
        OK(MPI_T_event_get_info(at, NULL, NULL, NULL, types, NULL, &elements, NULL, NULL, NULL, NULL, NULL));
        CHECK(elements == 3 && types[1] == MPI_CHAR);
        OK(MPI_T_event_get_info(at, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    }
}

static void sources(void) {
    char name[100];
    int number, name_len = sizeof name;
    MPI_T_source_order order;
    MPI_Count ticks, most, before = now();
    MPI_Info info;
    OK(MPI_T_source_get_num(&number));
    CHECK(number == 1);
    OK(MPI_T_source_get_info(0, name, &name_len, NULL, NULL, &order, &ticks, &most, &info));
    CHECK(order == MPI_T_SOURCE_UNORDERED && ticks == 1000000000 && most > now() && now() >= before);
    OK(MPI_Info_free(&info));
}

static void infos(void) {
    struct heard heard = registered("ferrywire_overflow");
    MPI_T_event_registration registration = heard.registration;
    MPI_Info info, used;
    int keys;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "anything", "at all"));
    OK(MPI_T_event_handle_set_info(registration, info));
    OK(MPI_T_event_handle_get_info(registration, &used));
    OK(MPI_Info_get_nkeys(used, &keys));
    CHECK(keys == 0);
    OK(MPI_Info_free(&used));
    OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, info, NULL, never));
    OK(MPI_T_event_callback_set_info(registration, MPI_T_CB_REQUIRE_NONE, info));
    OK(MPI_T_event_callback_get_info(registration, MPI_T_CB_REQUIRE_NONE, &used));
    OK(MPI_Info_free(&used));
    OK(MPI_Info_free(&info));
    CHECK(MPI_T_event_register_callback(registration, (MPI_T_cb_safety)1, MPI_INFO_NULL, NULL, never)
          == MPI_T_ERR_INVALID);
    release(&heard);
    CHECK(MPI_T_event_handle_free(registration, NULL, NULL) == MPI_T_ERR_INVALID_HANDLE);
    /* Nobody has to hear that a registration is gone. */
    heard = registered("ferrywire_overflow");
    OK(MPI_T_event_handle_free(heard.registration, NULL, NULL));
}

static unsigned long refused(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
    unsigned long value;
    OK(MPI_T_pvar_read(session, handle, &value));
    return value;
}

/* The first rank sends more to the second than it has room for. */
static void flood(void) {
    static char buffer[BYTES], other[BYTES];
    static MPI_Request requests[MESSAGES];
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        for (int at = 0; at < MESSAGES; at++)
            OK(MPI_Isend(buffer, BYTES, MPI_CHAR, 1, FLOOD, MPI_COMM_WORLD, &requests[at]));
        OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    } else if (rank == 1) {
        MPI_T_pvar_session session;
        MPI_T_pvar_handle handle;
        MPI_Request last;
        int index, count, flag;
        OK(MPI_T_pvar_session_create(&session));
        OK(MPI_T_pvar_get_index("ferrywire_refused_messages", MPI_T_PVAR_CLASS_COUNTER, &index));
        OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
        OK(MPI_T_pvar_start(session, handle));
        OK(MPI_Irecv(other, BYTES, MPI_CHAR, 0, LAST, MPI_COMM_WORLD, &last));
        do {
            OK(MPI_Test(&last, &flag, MPI_STATUS_IGNORE));
            CHECK(!flag);
        } while (refused(session, handle) == 0);
        /* What the agent has seen just now is delivered by now. */
        OK(MPI_Test(&last, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        for (int at = 0; at < MESSAGES; at++)
            OK(MPI_Recv(buffer, BYTES, MPI_CHAR, 0, FLOOD, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_T_pvar_session_free(&session));
        OK(MPI_Cancel(&last));
        OK(MPI_Wait(&last, MPI_STATUS_IGNORE));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* `early` was registered before MPI_Init. */
static void overflows(struct heard *early) {
    struct heard safe = registered("ferrywire_overflow"), mute = registered("ferrywire_overflow");
    hear(&safe, MPI_T_CB_REQUIRE_THREAD_SAFE, on_overflow);
    flood();
    CHECK(rank == 1 ? early->calls >= 1 : early->calls == 0);
    if (rank == 1) {
        struct overflow *seen = &early->overflow;
        CHECK(seen->source == 0 && seen->tag == FLOOD && seen->bytes == BYTES);
        CHECK(safe.calls == early->calls && safe.overflow.tag == FLOOD && mute.calls == 0);
    }
    /* Neither one that is freed, nor one that has no callback any more, is called again. */
    release(early);
    hear(&safe, MPI_T_CB_REQUIRE_THREAD_SAFE, NULL);
    memset(&safe.overflow, 0, sizeof safe.overflow);
    early->calls = safe.calls = 0;
    flood();
    CHECK(early->calls == 0 && early->frees == 1 && safe.calls == 0);
    release(&safe);
    release(&mute);
}

/* The first rank wants to write outside of what the second has attached. */
static void trespass(MPI_Win window, MPI_Aint address) {
    int value = 1, put, flushed, class;
    put = MPI_Put(&value, 1, MPI_INT, 1, address, 1, MPI_INT, window);
    flushed = MPI_Win_flush(1, window);
    OK(MPI_Error_class(put != MPI_SUCCESS ? put : flushed, &class));
    CHECK(class == MPI_ERR_RMA_RANGE);
}

static void refusals(void) {
    static int memory[4] = {0};
    struct heard heard = registered("ferrywire_refusal");
    volatile int *flag;
    MPI_Aint address = 0, bytes;
    MPI_Win window, shared;
    int unit;
    hear(&heard, MPI_T_CB_REQUIRE_NONE, on_refusal);
    /* That which requires more is not called. */
    OK(MPI_T_event_register_callback(heard.registration, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, NULL, never));
    OK(MPI_T_event_set_dropped_handler(heard.registration, on_dropped));
    OK(MPI_Win_allocate_shared(sizeof *flag, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &flag, &shared));
    OK(MPI_Win_shared_query(shared, 1, &bytes, &unit, (void *)&flag));
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    OK(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
    if (rank == 1) {
        *flag = PRESENT;
        OK(MPI_Win_attach(window, memory, 2 * sizeof *memory));
        OK(MPI_Get_address(&memory[2], &address));
    }
    OK(MPI_Bcast(&address, 1, MPI_AINT, 1, MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, window));

    /* While the target is in calls. */
    if (rank == 0) trespass(window, address);
    while (rank == 1 && heard.calls == 0) progress();
    CHECK(heard.calls == (rank == 1) && heard.dropped == 0);
    if (rank == 1) {
        struct refusal *seen = &heard.refusal;
        CHECK(seen->origin == 0 && seen->bytes == sizeof *memory && seen->address == address);
    }

    /* While it is away, which its agent sees: more than can wait for it. */
    if (rank == 0) {
        while (*flag != AWAY) continue;
        for (int at = 0; at < REFUSALS; at++) trespass(window, address);
        *flag = BACK;
    } else if (rank == 1) {
        *flag = AWAY;
        while (*flag != BACK) continue;
        CHECK(heard.calls == 1);
        progress();
        CHECK(heard.dropped > 0 && heard.calls > 1 && heard.calls + heard.dropped == 1 + REFUSALS);
    }
    release(&heard);
    heard.calls = 0;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) trespass(window, address);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    progress();
    CHECK(heard.calls == 0 && memory[2] == 0);
    OK(MPI_Win_unlock_all(window));
    if (rank == 1) OK(MPI_Win_detach(window, memory));
    OK(MPI_Win_free(&window));
    OK(MPI_Win_free(&shared));
}

int main(int argc, char **argv) {
    struct heard early;
    int provided;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    descriptions();
    sources();
    infos();
    early = registered("ferrywire_overflow");
    hear(&early, MPI_T_CB_REQUIRE_NONE, on_overflow);
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    if (size == 1)
        release(&early);
    else if (argc > 1 && !strcmp(argv[1], "refusals")) {
        refusals();
        release(&early);
    } else
        overflows(&early);
    OK(MPI_Finalize());
    OK(MPI_T_finalize());
    return 0;
}
