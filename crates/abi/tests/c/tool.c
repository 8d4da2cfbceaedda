/* The tool interface: variables are found, described and read, before, during and after MPI, and have the
 * right values while messages are outstanding. */
#include <string.h>

#include "check.h"

#define MESSAGES 10
#define BYTES 500

static MPI_T_pvar_session session;

static MPI_T_pvar_handle handle_of(const char *name, int class) {
    MPI_T_pvar_handle handle;
    int index, count;
    OK(MPI_T_pvar_get_index(name, class, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    CHECK(count == 1);
    return handle;
}

static unsigned long value(MPI_T_pvar_handle handle) {
    unsigned long value = 77;
    OK(MPI_T_pvar_read(session, handle, &value));
    return value;
}

static unsigned long level(const char *name) {
    MPI_T_pvar_handle handle = handle_of(name, MPI_T_PVAR_CLASS_LEVEL);
    unsigned long now = value(handle);
    OK(MPI_T_pvar_handle_free(session, &handle));
    CHECK(handle == MPI_T_PVAR_HANDLE_NULL);
    return now;
}

/* Every variable has a name by which it is found, a text, and a class that matches its type. */
static void descriptions(void) {
    int number, index;
    OK(MPI_T_pvar_get_num(&number));
    CHECK(number > 0);
    for (int at = 0; at < number; at++) {
        char name[100], text[300], two[2];
        int name_len = sizeof name, text_len = sizeof text, two_len = sizeof two, zero = 0;
        int verbosity, class, bind, readonly, continuous, atomic;
        MPI_Datatype type;
        MPI_T_enum meaning;
        OK(MPI_T_pvar_get_info(at, name, &name_len, &verbosity, &class, &type, &meaning, text, &text_len,
                               &bind, &readonly, &continuous, &atomic));
        CHECK(name_len == (int)strlen(name) + 1 && text_len == (int)strlen(text) + 1);
        CHECK(meaning == MPI_T_ENUM_NULL && bind == MPI_T_BIND_NO_OBJECT);
        CHECK(type == (class == MPI_T_PVAR_CLASS_PERCENTAGE ? MPI_DOUBLE : MPI_UNSIGNED_LONG));
        CHECK(readonly == continuous && atomic == !continuous);
        OK(MPI_T_pvar_get_index(name, class, &index));
        CHECK(index == at);
        /* A string that is too long is cut; the length returned is that of the whole. */
        OK(MPI_T_pvar_get_info(at, two, &two_len, NULL, NULL, NULL, NULL, NULL, &zero, NULL, NULL, NULL,
                               NULL));
        CHECK(two[0] == name[0] && two[1] == 0 && two_len == name_len && zero == text_len);
    }
    CHECK(MPI_T_pvar_get_info(number, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                              NULL) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_pvar_get_index("nobody", MPI_T_PVAR_CLASS_LEVEL, &index) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_pvar_get_index("ferrywire_frames_sent", MPI_T_PVAR_CLASS_LEVEL, &index)
          == MPI_T_ERR_INVALID_NAME);
    OK(MPI_T_cvar_get_num(&number));
    for (int at = 0; at < number; at++) {
        char name[100];
        int name_len = sizeof name, verbosity, bind, scope;
        MPI_Datatype type;
        OK(MPI_T_cvar_get_info(at, name, &name_len, &verbosity, &type, NULL, NULL, NULL, &bind, &scope));
        CHECK(type == MPI_UNSIGNED_LONG && (scope == MPI_T_SCOPE_CONSTANT || scope == MPI_T_SCOPE_ALL_EQ));
        OK(MPI_T_cvar_get_index(name, &index));
        CHECK(index == at);
    }
    CHECK(MPI_T_cvar_get_index("nobody", &index) == MPI_T_ERR_INVALID_NAME);
}

/* Every variable and event is in one category, and every category but the first is in the first. */
static void categories(void) {
    int number, variables, controls, types, seen[100] = {0}, found = 0, found_events = 0, changed;
    OK(MPI_T_category_get_num(&number));
    OK(MPI_T_pvar_get_num(&variables));
    OK(MPI_T_cvar_get_num(&controls));
    OK(MPI_T_event_get_num(&types));
    for (int at = 0; at < number; at++) {
        char name[100];
        int name_len = sizeof name, own_controls, own_variables, below, events, index, indices[100];
        OK(MPI_T_category_get_info(at, name, &name_len, NULL, NULL, &own_controls, &own_variables,
                                   &below));
        OK(MPI_T_category_get_index(name, &index));
        OK(MPI_T_category_get_num_events(at, &events));
        CHECK(index == at && below == (at == 0 ? number - 1 : 0));
        OK(MPI_T_category_get_pvars(at, 100, indices));
        for (int i = 0; i < own_variables; i++) seen[indices[i]]++;
        OK(MPI_T_category_get_cvars(at, own_controls, indices));
        found += own_controls;
        OK(MPI_T_category_get_categories(at, 100, indices));
        CHECK(at > 0 || indices[0] == 1);
        OK(MPI_T_category_get_events(at, 100, indices));
        for (int i = 0; i < events; i++) CHECK(indices[i] >= 0 && indices[i] < types);
        found_events += events;
    }
    for (int at = 0; at < variables; at++) CHECK(seen[at] == 1);
    CHECK(found == controls && found_events == types);
    OK(MPI_T_category_changed(&changed));
}

static unsigned long control(const char *name) {
    MPI_T_cvar_handle handle;
    unsigned long value = 0;
    int index, count;
    OK(MPI_T_cvar_get_index(name, &index));
    OK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count));
    OK(MPI_T_cvar_read(handle, &value));
    int error = MPI_T_cvar_write(handle, &value);
    CHECK(count == 1 && (error == MPI_T_ERR_CVAR_SET_NEVER || error == MPI_T_ERR_CVAR_SET_NOT_NOW));
    OK(MPI_T_cvar_handle_free(&handle));
    CHECK(handle == MPI_T_CVAR_HANDLE_NULL);
    return value;
}

/* Null handles are invalid, and so are indices beyond the last. */
static void wrong_events(void) {
    MPI_T_event_registration none = NULL;
    MPI_T_event_instance nothing = NULL;
    MPI_Info info;
    MPI_Count when;
    int events, sources, number, index;
    OK(MPI_T_event_get_num(&events));
    OK(MPI_T_source_get_num(&sources));
    CHECK(MPI_T_event_get_index("anything", &index) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_source_get_timestamp(sources, &when) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_event_handle_alloc(events, NULL, MPI_INFO_NULL, NULL) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_event_handle_alloc(-1, NULL, MPI_INFO_NULL, NULL) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_event_get_info(events, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
          == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_source_get_info(sources, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
          == MPI_T_ERR_INVALID_INDEX);
    int codes[] = {
        MPI_T_enum_get_info(MPI_T_ENUM_NULL, &number, NULL, NULL),
        MPI_T_enum_get_item(MPI_T_ENUM_NULL, 0, &number, NULL, NULL),
        MPI_T_event_handle_set_info(none, MPI_INFO_NULL),
        MPI_T_event_handle_get_info(none, &info),
        MPI_T_event_handle_free(none, NULL, NULL),
        MPI_T_event_register_callback(none, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, NULL),
        MPI_T_event_callback_set_info(none, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL),
        MPI_T_event_callback_get_info(none, MPI_T_CB_REQUIRE_NONE, &info),
        MPI_T_event_set_dropped_handler(none, NULL),
        MPI_T_event_read(nothing, 0, &number),
        MPI_T_event_copy(nothing, &number),
        MPI_T_event_get_timestamp(nothing, &when),
        MPI_T_event_get_source(nothing, &index),
    };
    for (unsigned at = 0; at < sizeof codes / sizeof *codes; at++)
        CHECK(codes[at] == MPI_T_ERR_INVALID_HANDLE);
}

int main(int argc, char **argv) {
    static char bytes[BYTES], received[MESSAGES][BYTES];
    int rank, size, provided, number, next, before;
    unsigned long sent;
    double share = -1;
    MPI_T_pvar_handle frames, posted, arrivals, agent, other;
    MPI_T_pvar_session second;
    MPI_Request requests[MESSAGES];

    CHECK(MPI_T_pvar_get_num(&number) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_finalize());
    descriptions();
    categories();
    wrong_events();
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_session_create(&second));
    frames = handle_of("ferrywire_frames_sent", MPI_T_PVAR_CLASS_COUNTER);
    arrivals = handle_of("ferrywire_unexpected_arrivals", MPI_T_PVAR_CLASS_COUNTER);
    CHECK(value(frames) == 0 && level("ferrywire_posted_receives") == 0);
    OK(MPI_T_pvar_get_index("ferrywire_turns_by_callers", MPI_T_PVAR_CLASS_COUNTER, &number));
    OK(MPI_T_pvar_handle_alloc(second, number, NULL, &other, &number));
    OK(MPI_T_pvar_start(second, other));

    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    CHECK(control("ferrywire_eager_bytes_max") >= 1024);
    CHECK(control("ferrywire_unexpected_bytes_max") == 16 << 20);
    OK(MPI_Barrier(MPI_COMM_WORLD));

    /* Posted receives. */
    posted = handle_of("ferrywire_posted_receives", MPI_T_PVAR_CLASS_LEVEL);
    CHECK(value(posted) == 0);
    for (int at = 0; at < MESSAGES; at++)
        OK(MPI_Irecv(received[at], BYTES, MPI_CHAR, before, at, MPI_COMM_WORLD,
                     &requests[at]));
    CHECK(value(posted) == MESSAGES && level("ferrywire_operations") >= MESSAGES);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(value(frames) == 0);
    CHECK(MPI_T_pvar_start(session, posted) == MPI_T_ERR_PVAR_NO_STARTSTOP);
    CHECK(MPI_T_pvar_reset(session, posted) == MPI_T_ERR_PVAR_NO_WRITE);
    OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    for (int at = 0; at < MESSAGES; at++)
        OK(MPI_Send(bytes, BYTES, MPI_CHAR, next, at, MPI_COMM_WORLD));
    OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(value(posted) == 0);
    OK(MPI_T_pvar_stop(session, frames));
    sent = value(frames);
    /* Messages to the rank itself do not go through a rail. */
    CHECK(size == 1 || sent >= MESSAGES);

    /* Unexpected messages. */
    for (int at = 0; at < MESSAGES; at++)
        OK(MPI_Isend(bytes, BYTES, MPI_CHAR, next, at, MPI_COMM_WORLD, &requests[at]));
    OK(MPI_Probe(before, MESSAGES - 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(level("ferrywire_unexpected_messages") >= MESSAGES);
    CHECK(level("ferrywire_unexpected_bytes") >= MESSAGES * BYTES);
    CHECK(value(arrivals) >= MESSAGES);
    posted = handle_of("ferrywire_unexpected_budget", MPI_T_PVAR_CLASS_SIZE);
    CHECK(value(posted) >= 16 << 20 && level("ferrywire_reserved_bytes") <= value(posted));
    CHECK(value(handle_of("ferrywire_refused_messages", MPI_T_PVAR_CLASS_COUNTER)) == 0);
    for (int at = 0; at < MESSAGES; at++)
        OK(MPI_Recv(received[at], BYTES, MPI_CHAR, before, at, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    CHECK(level("ferrywire_unexpected_messages") < MESSAGES);
    CHECK(level("ferrywire_unexpected_bytes") < MESSAGES * BYTES);

    /* A stopped counter keeps its value, a written one counts from there, and other sessions are not affected. */
    CHECK(value(frames) == sent);
    sent = 1000;
    OK(MPI_T_pvar_write(session, frames, &sent));
    CHECK(value(frames) == 1000);
    OK(MPI_T_pvar_readreset(session, frames, &sent));
    CHECK(sent == 1000 && value(frames) == 0);
    CHECK(MPI_T_pvar_read(second, frames, &sent) == MPI_T_ERR_INVALID_HANDLE);
    OK(MPI_T_pvar_read(second, other, &sent));
    CHECK(size == 1 || sent > 0);
    agent = handle_of("ferrywire_share_of_agent", MPI_T_PVAR_CLASS_PERCENTAGE);
    OK(MPI_T_pvar_read(session, agent, &share));
    CHECK(share >= 0 && share <= 1);
    OK(MPI_T_pvar_session_free(&second));
    CHECK(second == MPI_T_PVAR_SESSION_NULL);
    OK(MPI_T_pvar_handle_free(session, &frames));
    OK(MPI_Finalize());

    CHECK(level("ferrywire_posted_receives") == 0);
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
    CHECK(MPI_T_pvar_get_num(&number) == MPI_T_ERR_NOT_INITIALIZED);
    return 0;
}
