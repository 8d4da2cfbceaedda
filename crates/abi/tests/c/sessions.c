/* Sessions before, during and after MPI_Init and MPI_Finalize, several at a time, and what is made from them. With the
   argument "alone", without MPI_Init; with "open", a session is left open at the end; with "late", the first session is
   opened after MPI_Finalize. */
#include "check.h"

#include <string.h>
#include <unistd.h>

static int rank, size;

static MPI_Session opened(void) {
    MPI_Session session;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    CHECK(session != MPI_SESSION_NULL);
    return session;
}

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

static MPI_Group members(MPI_Session session, const char *set) {
    MPI_Group group;
    OK(MPI_Group_from_session_pset(session, set, &group));
    return group;
}

static MPI_Comm made(MPI_Group group, const char *tag) {
    MPI_Comm comm;
    OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    return comm;
}

/* Whether the ranks of a communicator add up. */
static void add_up(MPI_Comm comm) {
    int me, count, sum;
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &count));
    OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK(sum == count * (count - 1) / 2);
}

/* The process sets, and a communicator of each. */
static void process_sets(MPI_Session session) {
    int sets, hosts = 0;
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets));
    CHECK(sets == 3);
    for (int n = 0; n < sets; n++) {
        char name[MPI_MAX_PSET_NAME_LEN], part[4], value[16];
        int len = 0, short_len = 4, flag, value_len = sizeof value, count, me;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &len, NULL));
        int room = len;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &len, name));
        CHECK(len == room && len == (int)strlen(name) + 1);
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &short_len, part));
        CHECK(short_len == len && strlen(part) == 3 && strncmp(part, name, 3) == 0);
        MPI_Info info;
        OK(MPI_Session_get_pset_info(session, name, &info));
        OK(MPI_Info_get_string(info, "mpi_size", &value_len, value, &flag));
        OK(MPI_Info_free(&info));
        MPI_Group group = members(session, name);
        OK(MPI_Group_size(group, &count));
        OK(MPI_Group_rank(group, &me));
        CHECK(flag && atoi(value) == count && me != MPI_UNDEFINED);
        if (strcmp(name, "mpi://WORLD") == 0) {
            rank = me;
            size = count;
        }
        if (strcmp(name, "mpi://SELF") == 0)
            CHECK(count == 1 && me == 0);
        hosts += strncmp(name, "ferry://host/", 13) == 0;
        MPI_Comm comm = made(group, name);
        add_up(comm);
        OK(MPI_Comm_free(&comm));
        OK(MPI_Group_free(&group));
    }
    CHECK(hosts == 1);
    char name[8];
    int len = sizeof name;
    MPI_Group group;
    MPI_Info info;
    CHECK(class_of(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, sets, &len, name)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, -1, &len, name)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Session_get_pset_info(session, "mpi://NOBODY", &info)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Group_from_session_pset(session, "mpi://NOBODY", &group)) == MPI_ERR_ARG);
}

/* The thread level is at least what the program asks for, and what it has got before. */
static void thread_levels(void) {
    static int highest = 0;
    const char *levels[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
    for (int n = -1; n < 4; n++) {
        MPI_Info info = MPI_INFO_NULL, used;
        MPI_Session session;
        if (n >= 0) {
            OK(MPI_Info_create(&info));
            OK(MPI_Info_set(info, "thread_level", levels[n]));
        }
        OK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session));
        char value[32];
        int len = sizeof value, flag;
        OK(MPI_Session_get_info(session, &used));
        OK(MPI_Info_get_string(used, "thread_level", &len, value, &flag));
        int level = 0;
        while (level < 4 && strcmp(value, levels[level]) != 0)
            level++;
        CHECK(flag && level < 4 && level >= n && level >= highest);
        highest = level;
        OK(MPI_Info_free(&used));
        if (n >= 0) OK(MPI_Info_free(&info));
        OK(MPI_Session_finalize(&session));
    }
    MPI_Info info;
    MPI_Session session = MPI_SESSION_NULL;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "thread_level", "many"));
    CHECK(class_of(MPI_Session_init(info, MPI_ERRORS_RETURN, &session)) == MPI_ERR_INFO_VALUE);
    OK(MPI_Info_free(&info));
}

/* Communicators of overlapping groups, created at the same time with different tags, beside messages that wait. */
static void communicators(MPI_Session session) {
    MPI_Group world = members(session, "mpi://world"), pair, rest;
    MPI_Comm all = made(world, "all"), halves, comm;
    int next = (rank + 1) % size, last = (rank + size - 1) % size, got = -1, me, count;
    MPI_Request receive;
    OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, all, &receive));
    OK(MPI_Barrier(all));
    int range[3] = {rank / 2 * 2, rank / 2 * 2 + 1 < size ? rank / 2 * 2 + 1 : rank, 1};
    OK(MPI_Group_range_incl(world, 1, &range, &pair));
    comm = made(pair, "pairs");
    add_up(comm);
    OK(MPI_Comm_size(comm, &count));
    CHECK(count == range[1] - range[0] + 1);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Send(&rank, 1, MPI_INT, next, 7, all));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    CHECK(got == last);
    OK(MPI_Comm_dup(all, &halves));
    OK(MPI_Comm_free(&halves));
    OK(MPI_Group_difference(world, world, &rest));
    comm = made(rest, "nobody");
    CHECK(comm == MPI_COMM_NULL);
    /* Two groups, of even and of odd ranks. */
    if (size > 1) {
        int first[3] = {0, (size - 1) / 2 * 2, 2}, second[3] = {1, size / 2 * 2 - 1, 2};
        MPI_Group even, odd;
        MPI_Comm inter;
        OK(MPI_Group_range_incl(world, 1, &first, &even));
        OK(MPI_Group_range_incl(world, 1, &second, &odd));
        OK(MPI_Intercomm_create_from_groups(rank % 2 ? odd : even, 0, rank % 2 ? even : odd, 0, "across",
                                            MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter));
        int remote, sum, expected = 0;
        OK(MPI_Comm_remote_size(inter, &remote));
        CHECK(remote == (rank % 2 ? (size + 1) / 2 : size / 2));
        OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter));
        for (int other = !(rank % 2); other < size; other += 2)
            expected += other;
        CHECK(sum == expected);
        OK(MPI_Comm_free(&inter));
        OK(MPI_Group_free(&even));
        OK(MPI_Group_free(&odd));
    }
    /* Errors go to the handler of the new communicator. */
    CHECK(class_of(MPI_Comm_create_from_group(MPI_GROUP_NULL, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm)) ==
          MPI_ERR_GROUP);
    CHECK(class_of(MPI_Send(&me, 1, MPI_INT, size, 0, all)) == MPI_ERR_RANK);
    OK(MPI_Group_free(&pair));
    OK(MPI_Group_free(&world));
    OK(MPI_Comm_disconnect(&all));
}

/* Buffered sends from the buffer of a session. */
static void buffers(MPI_Session session) {
    static char buffer[1000 + 2 * MPI_BSEND_OVERHEAD];
    MPI_Group world = members(session, "mpi://WORLD"), again;
    MPI_Comm direct = made(world, "buffers"), comm;
    OK(MPI_Comm_group(direct, &again));
    comm = made(again, "again");
    int next = (rank + 1) % size, got, len;
    static char large[sizeof buffer + 1];
    CHECK(class_of(MPI_Bsend(&rank, 1, MPI_INT, next, 0, comm)) == MPI_ERR_BUFFER);
    OK(MPI_Session_attach_buffer(session, buffer, sizeof buffer));
    CHECK(class_of(MPI_Session_attach_buffer(session, buffer, sizeof buffer)) == MPI_ERR_BUFFER);
    OK(MPI_Bsend(&rank, 1, MPI_INT, next, 0, comm));
    CHECK(class_of(MPI_Bsend(large, sizeof large, MPI_CHAR, next, 0, comm)) == MPI_ERR_BUFFER);
    OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm, MPI_STATUS_IGNORE));
    CHECK(got == (rank + size - 1) % size);
    OK(MPI_Session_flush_buffer(session));
    MPI_Request request;
    OK(MPI_Session_iflush_buffer(session, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    void *address;
    OK(MPI_Session_detach_buffer(session, &address, &len));
    CHECK(address == buffer && len == sizeof buffer);
    OK(MPI_Group_free(&again));
    OK(MPI_Group_free(&world));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_free(&direct));
}

static int told, told_code;
static MPI_Session told_session;

static void tell(MPI_Session *session, int *code, ...) {
    told++;
    told_session = *session;
    told_code = *code;
}

static void handlers(void) {
    MPI_Errhandler handler, got;
    MPI_Session session;
    int sets;
    told = 0;
    OK(MPI_Session_create_errhandler(tell, &handler));
    OK(MPI_Session_init(MPI_INFO_NULL, handler, &session));
    OK(MPI_Session_get_errhandler(session, &got));
    CHECK(got == handler);
    OK(MPI_Errhandler_free(&got));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
    CHECK(told == 1 && told_session == session && told_code == MPI_ERR_OTHER);
    MPI_Info info;
    CHECK(class_of(MPI_Session_get_pset_info(session, "none", &info)) == MPI_ERR_ARG);
    CHECK(told == 2 && class_of(told_code) == MPI_ERR_ARG);
    OK(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN));
    CHECK(class_of(MPI_Session_get_pset_info(session, "none", &info)) == MPI_ERR_ARG);
    CHECK(told == 2);
    CHECK(MPI_Session_fromint(MPI_Session_toint(session)) == session);
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets));
    OK(MPI_Session_finalize(&session));
    CHECK(session == MPI_SESSION_NULL);
}

/* Everything, in two sessions that are open at the same time and closed in the order in which they were opened. */
static void both(void) {
    MPI_Session first = opened(), second = opened();
    CHECK(first != second);
    process_sets(first);
    communicators(first);
    process_sets(second);
    buffers(second);
    handlers();
    OK(MPI_Session_finalize(&first));
    communicators(second);
    thread_levels();
    OK(MPI_Session_finalize(&second));
    CHECK(first == MPI_SESSION_NULL && second == MPI_SESSION_NULL);
}

static int is_initialized(void) {
    int flag;
    OK(MPI_Initialized(&flag));
    return flag;
}

static int is_finalized(void) {
    int flag;
    OK(MPI_Finalized(&flag));
    return flag;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "late") == 0) {
        MPI_Session session;
        OK(MPI_Init(&argc, &argv));
        OK(MPI_Finalize());
        CHECK(class_of(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session)) == MPI_ERR_OTHER);
        return 0;
    }
    both();
    both();
    if (strcmp(how, "open") == 0) {
        opened();
        /* If all ended at the same time, nobody could miss the first. */
        if (rank) sleep(5);
        return 0;
    }
    CHECK(!is_initialized() && !is_finalized());
    if (strcmp(how, "alone") == 0)
        return 0;
    MPI_Session around = opened();
    OK(MPI_Init(&argc, &argv));
    CHECK(is_initialized() && !is_finalized());
    add_up(MPI_COMM_WORLD);
    both();
    /* Groups of the World Model need no parent either. */
    MPI_Group group;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    MPI_Comm comm = made(group, "world");
    add_up(comm);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Finalize());
    CHECK(is_finalized());
    process_sets(around);
    communicators(around);
    OK(MPI_Session_finalize(&around));
    both();
    return 0;
}
