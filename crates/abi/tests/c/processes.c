/* Processes that come later: spawning, ports, names, sockets. The program starts itself again. */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static const MPI_Comm world = MPI_COMM_WORLD;
static int rank, size;

static int class_of(int error) {
    int class;
    OK(MPI_Error_class(error, &class));
    return class;
}

/* A socket at the loopback address; `port` is 0 for one that nobody uses. */
static int socket_at(int port, struct sockaddr_in *address) {
    int made = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(made >= 0);
    memset(address, 0, sizeof *address);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address->sin_port = htons((unsigned short)port);
    return made;
}

/* What both sides of an intercommunicator do: everything works in it as in any other. */
static void use(MPI_Comm inter, int high, int ours, int theirs) {
    enum { MANY = 200000 };
    static int numbers[MANY], got[MANY];
    int local, remote, me, all, at, is_inter, sum, *base;
    MPI_Comm merged, here;
    MPI_Request request;
    MPI_Win win;
    OK(MPI_Comm_test_inter(inter, &is_inter));
    OK(MPI_Comm_size(inter, &local));
    OK(MPI_Comm_remote_size(inter, &remote));
    CHECK(is_inter && local == ours && remote == theirs);
    OK(MPI_Comm_rank(inter, &me));
    /* Short and long messages, with the same rank of the other side. */
    if (me < theirs) {
        for (at = 0; at < MANY; ++at) numbers[at] = me + at;
        OK(MPI_Irecv(got, MANY, MPI_INT, me, 3, inter, &request));
        OK(MPI_Send(numbers, MANY, MPI_INT, me, 3, inter));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (at = 0; at < MANY; ++at) CHECK(got[at] == me + at);
        OK(MPI_Sendrecv(&me, 1, MPI_INT, me, 4, &at, 1, MPI_INT, me, 4, inter, MPI_STATUS_IGNORE));
        CHECK(at == me);
    }
    OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, inter));
    CHECK(sum == theirs * (theirs - 1) / 2);
    OK(MPI_Intercomm_merge(inter, high, &merged));
    OK(MPI_Comm_rank(merged, &me));
    OK(MPI_Comm_size(merged, &all));
    CHECK(all == ours + theirs && (high ? me >= theirs : me < ours));
    OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, merged));
    CHECK(sum == all * (all - 1) / 2);
    /* Memory of each other, by accesses and as shared memory. */
    OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, merged, &base, &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&me, 1, MPI_INT, (me + 1) % all, 0, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    CHECK(*base == (me + all - 1) % all);
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_split_type(merged, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here));
    OK(MPI_Barrier(here));
    OK(MPI_Comm_free(&here));
    OK(MPI_Comm_free(&merged));
}

/* A rank that was spawned. Its arguments: how many parents it has, how many ranks its world has, and how often it
 * spawns a rank itself. */
static int child(int argc, char **argv, MPI_Comm parent) {
    char name[MPI_MAX_OBJECT_NAME];
    int length, parents, number, sum;
    CHECK(argc == 5 && strcmp(argv[1], "two words") == 0);
    parents = atoi(argv[2]);
    CHECK(size == atoi(argv[3]));
    OK(MPI_Comm_get_name(parent, name, &length));
    CHECK(strcmp(name, "MPI_COMM_PARENT") == 0);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, world));
    CHECK(sum == size * (size - 1) / 2);
    use(parent, 1, size, parents);
    if (atoi(argv[4]) > 0) {
        char below[12], *arguments[] = {"two words", "1", "1", below, NULL};
        MPI_Comm own;
        snprintf(below, sizeof below, "%d", atoi(argv[4]) - 1);
        OK(MPI_Comm_spawn(argv[0], arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &own, MPI_ERRCODES_IGNORE));
        use(own, 0, 1, 1);
        OK(MPI_Recv(&number, 1, MPI_INT, 0, 5, own, MPI_STATUS_IGNORE));
        OK(MPI_Comm_disconnect(&own));
    }
    /* A message that the parents receive after this process has ended. */
    number = 42;
    if (rank == 0) OK(MPI_Send(&number, 1, MPI_INT, 0, 5, parent));
    OK(MPI_Comm_disconnect(&parent));
    OK(MPI_Comm_get_parent(&parent));
    CHECK(parent == MPI_COMM_NULL);
    OK(MPI_Finalize());
    return 0;
}

static void spawn(char *self, int ranks, int below) {
    char parents[12], worlds[12], levels[12], *arguments[] = {"two words", parents, worlds, levels, NULL};
    int codes[8] = {-1, -1, -1, -1, -1, -1, -1, -1}, at, number = 0;
    MPI_Comm children;
    snprintf(parents, sizeof parents, "%d", size);
    snprintf(worlds, sizeof worlds, "%d", ranks);
    snprintf(levels, sizeof levels, "%d", below);
    OK(MPI_Comm_spawn(self, arguments, ranks, MPI_INFO_NULL, size - 1, world, &children, codes));
    for (at = 0; at < 8; ++at) CHECK(codes[at] == (at < ranks ? MPI_SUCCESS : -1));
    use(children, 0, size, ranks);
    if (rank == 0) {
        OK(MPI_Recv(&number, 1, MPI_INT, 0, 5, children, MPI_STATUS_IGNORE));
        CHECK(number == 42);
    }
    OK(MPI_Comm_disconnect(&children));
}

/* Two programs in one world, told apart by their numbers. */
static void spawn_several(char *self) {
    char parents[12], *first[] = {"two words", parents, "3", "0", NULL}, *second[] = {"two words", parents, "3", "0", NULL};
    char *programs[] = {self, self}, **arguments[] = {first, second};
    int ranks[] = {1, 2}, codes[3], number;
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm children;
    snprintf(parents, sizeof parents, "%d", size);
    OK(MPI_Comm_spawn_multiple(2, programs, arguments, ranks, infos, 0, world, &children, codes));
    CHECK(codes[0] == MPI_SUCCESS && codes[2] == MPI_SUCCESS);
    use(children, 0, size, 3);
    if (rank == 0) OK(MPI_Recv(&number, 1, MPI_INT, 0, 5, children, MPI_STATUS_IGNORE));
    OK(MPI_Comm_disconnect(&children));
}

/* What cannot be spawned is an error at all ranks, and leaves nothing behind. */
static void spawn_in_vain(char *self) {
    int codes[2] = {0, 0};
    MPI_Comm children = world;
    MPI_Info info;
    CHECK(class_of(MPI_Comm_spawn("./not-there", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, world, &children, codes)) ==
          MPI_ERR_SPAWN);
    CHECK(children == MPI_COMM_NULL);
    if (rank == 0) CHECK(codes[0] == MPI_ERR_SPAWN && codes[1] == MPI_ERR_SPAWN);
    /* It ends before it joins. */
    CHECK(class_of(MPI_Comm_spawn("true", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, world, &children, codes)) ==
          MPI_ERR_SPAWN);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "wdir", "/not/there"));
    CHECK(class_of(MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, info, 0, world, &children, codes)) == MPI_ERR_SPAWN);
    OK(MPI_Info_free(&info));
    CHECK(class_of(MPI_Comm_spawn(self, MPI_ARGV_NULL, -1, MPI_INFO_NULL, 0, world, &children, codes)) ==
          (rank == 0 ? MPI_ERR_ARG : MPI_ERR_SPAWN));
    OK(MPI_Barrier(world));
}

/* Rank 0 accepts all others, one after the other, at a port that has a name. */
static void ports(void) {
    char port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME];
    int other, number;
    MPI_Comm both;
    CHECK(class_of(MPI_Lookup_name("ferry test", MPI_INFO_NULL, found)) == MPI_ERR_NAME);
    CHECK(class_of(MPI_Unpublish_name("ferry test", MPI_INFO_NULL, "")) == MPI_ERR_SERVICE);
    OK(MPI_Barrier(world));
    if (rank == 0) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        OK(MPI_Publish_name("ferry test", MPI_INFO_NULL, port));
        CHECK(class_of(MPI_Publish_name("ferry test", MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
    }
    OK(MPI_Barrier(world));
    if (rank == 0) {
        for (other = 1; other < size; ++other) {
            OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &both));
            OK(MPI_Recv(&number, 1, MPI_INT, 0, 1, both, MPI_STATUS_IGNORE));
            use(both, 0, 1, 1);
            OK(MPI_Comm_disconnect(&both));
        }
    } else {
        OK(MPI_Lookup_name("ferry test", MPI_INFO_NULL, found));
        OK(MPI_Comm_connect(found, MPI_INFO_NULL, 0, MPI_COMM_SELF, &both));
        OK(MPI_Send(&rank, 1, MPI_INT, 0, 1, both));
        use(both, 1, 1, 1);
        OK(MPI_Comm_disconnect(&both));
        /* Only its owner accepts there. */
        CHECK(class_of(MPI_Comm_accept(found, MPI_INFO_NULL, 0, MPI_COMM_SELF, &both)) == MPI_ERR_PORT);
    }
    OK(MPI_Barrier(world));
    /* Those who wait at a port that is closed are told. */
    if (rank == size - 1 && size > 1)
        CHECK(class_of(MPI_Comm_connect(found, MPI_INFO_NULL, 0, MPI_COMM_SELF, &both)) == MPI_ERR_PORT);
    if (rank == 0) {
        struct timespec while_it_calls = {0, 200000000};
        nanosleep(&while_it_calls, NULL);
        OK(MPI_Close_port(port));
        OK(MPI_Unpublish_name("ferry test", MPI_INFO_NULL, port));
    }
    CHECK(class_of(MPI_Comm_connect("nothing", MPI_INFO_NULL, 0, world, &both)) == MPI_ERR_PORT);
    CHECK(both == MPI_COMM_NULL);
}

/* All but rank 0 call at its port before it accepts, wait too briefly, and call again: the accept that comes then is not
 * paired with a call that was withdrawn. The key is MPICH's. */
static void calls_that_are_withdrawn(void) {
    char port[MPI_MAX_PORT_NAME] = "";
    int at, number;
    MPI_Comm group, both;
    MPI_Info info;
    OK(MPI_Comm_split(world, rank == 0, rank, &group));
    OK(MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "timeout", "0.05"));
    if (rank == 0) OK(MPI_Open_port(MPI_INFO_NULL, port));
    OK(MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, world));
    for (at = 0; at < 3; ++at) {
        /* If there is nobody else, rank 0 calls itself. */
        if (rank > 0 || size == 1) {
            CHECK(class_of(MPI_Comm_connect(port, info, 0, group, &both)) == MPI_ERR_PORT);
            CHECK(both == MPI_COMM_NULL);
        }
    }
    OK(MPI_Barrier(world));
    if (rank == 0 && size > 1) {
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, group, &both));
        OK(MPI_Recv(&number, 1, MPI_INT, size - 2, 7, both, MPI_STATUS_IGNORE));
        CHECK(number == size - 1);
        OK(MPI_Comm_disconnect(&both));
    }
    if (rank > 0) {
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, group, &both));
        if (rank == size - 1) OK(MPI_Send(&rank, 1, MPI_INT, 0, 7, both));
        OK(MPI_Comm_disconnect(&both));
    }
    /* A time that is none is an error at the root, and the others learn of it. */
    OK(MPI_Info_set(info, "timeout", "soon"));
    if (rank > 0)
        CHECK(class_of(MPI_Comm_connect(port, info, 0, group, &both)) ==
              (rank == 1 ? MPI_ERR_INFO_VALUE : MPI_ERR_PORT));
    OK(MPI_Barrier(world));
    if (rank == 0) OK(MPI_Close_port(port));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&group));
}

/* The first two ranks of each host meet at a socket. */
static void meet_at_socket(void) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int made, talk, port, me, all;
    MPI_Comm both, here;
    OK(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here));
    OK(MPI_Comm_rank(here, &me));
    OK(MPI_Comm_size(here, &all));
    if (me > 1 || all < 2) {
        OK(MPI_Comm_free(&here));
        return;
    }
    if (me == 0) {
        made = socket_at(0, &address);
        CHECK(bind(made, (struct sockaddr *)&address, length) == 0 && listen(made, 1) == 0);
        CHECK(getsockname(made, (struct sockaddr *)&address, &length) == 0);
        port = ntohs(address.sin_port);
        OK(MPI_Send(&port, 1, MPI_INT, 1, 0, here));
        talk = accept(made, NULL, NULL);
        CHECK(talk >= 0);
    } else {
        OK(MPI_Recv(&port, 1, MPI_INT, 0, 0, here, MPI_STATUS_IGNORE));
        made = talk = socket_at(port, &address);
        CHECK(connect(talk, (struct sockaddr *)&address, length) == 0);
    }
    OK(MPI_Comm_join(talk, &both));
    use(both, me, 1, 1);
    OK(MPI_Comm_disconnect(&both));
    OK(MPI_Comm_free(&here));
    close(talk);
    if (made != talk) close(made);
}

int main(int argc, char **argv) {
    MPI_Comm parent;
    int times, at;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(world, &rank));
    OK(MPI_Comm_size(world, &size));
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) return child(argc, argv, parent);
    times = argc > 1 ? atoi(argv[1]) : 2;
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    for (at = 0; at < times; ++at) spawn(argv[0], 1 + at % 3, at % 3);
    spawn_several(argv[0]);
    spawn_in_vain(argv[0]);
    ports();
    calls_that_are_withdrawn();
    meet_at_socket();
    OK(MPI_Finalize());
    return 0;
}
