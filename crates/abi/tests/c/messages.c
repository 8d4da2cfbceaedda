/* Messages with 32-bit counts: every way to send and to receive one, between neighbours in a ring. */
#include <string.h>

#include "check.h"

#define COUNT 40
#define LARGE 200000

static int rank, size, before, after;
static int out[COUNT], in[COUNT];

/* The contents of the message from rank `from` in round `seed`. */
static int number(int from, int seed, int at) {
    return 1000000 * seed + 1000 * from + at;
}

static void fill(int seed) {
    for (int at = 0; at < COUNT; at++) {
        out[at] = number(rank, seed, at);
        in[at] = -1;
    }
}

static void came(int seed, int count, const MPI_Status *status) {
    int counted, elements, flag;
    MPI_Count large;
    for (int at = 0; at < COUNT; at++) CHECK(in[at] == (at < count ? number(before, seed, at) : -1));
    if (status == NULL) return;
    CHECK(status->MPI_SOURCE == before && status->MPI_TAG == seed);
    OK(MPI_Get_count(status, MPI_INT, &counted));
    OK(MPI_Get_elements(status, MPI_INT, &elements));
    OK(MPI_Get_elements_x(status, MPI_INT, &large));
    CHECK(counted == count && elements == count && large == count);
    OK(MPI_Test_cancelled(status, &flag));
    CHECK(!flag);
}

typedef int Blocking(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int Beginning(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static void blocking(void) {
    Blocking *sends[] = {MPI_Send, MPI_Rsend, MPI_Ssend, MPI_Bsend};
    for (int sort = 0; sort < 4; sort++) {
        MPI_Request request;
        MPI_Status status;
        fill(sort);
        OK(MPI_Irecv(in, COUNT, MPI_INT, before, sort, MPI_COMM_WORLD, &request));
        /* A send in ready mode requires that the receive is posted. */
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(sends[sort](out, COUNT - sort, MPI_INT, after, sort, MPI_COMM_WORLD));
        OK(MPI_Wait(&request, &status));
        CHECK(request == MPI_REQUEST_NULL);
        came(sort, COUNT - sort, &status);
    }
    /* A blocking receive from any source with any tag. */
    MPI_Request request;
    MPI_Status status;
    fill(9);
    OK(MPI_Isend(out, COUNT, MPI_INT, after, 9, MPI_COMM_WORLD, &request));
    OK(MPI_Recv(in, COUNT, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    came(9, COUNT, &status);
}

static void beginning(void) {
    Beginning *sends[] = {MPI_Isend, MPI_Irsend, MPI_Issend, MPI_Ibsend};
    for (int sort = 0; sort < 4; sort++) {
        MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        MPI_Status statuses[3];
        int flag, index, done, indices[3];
        fill(20 + sort);
        OK(MPI_Irecv(in, COUNT, MPI_INT, MPI_ANY_SOURCE, 20 + sort, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(sends[sort](out, COUNT, MPI_INT, after, 20 + sort, MPI_COMM_WORLD, &requests[2]));
        switch (sort) {
        case 0:
            OK(MPI_Waitall(3, requests, statuses));
            came(20, COUNT, &statuses[0]);
            break;
        case 1:
            for (done = 0; done < 2; done++) {
                OK(MPI_Waitany(3, requests, &index, statuses));
                CHECK(index == 0 || index == 2);
                if (index == 0) came(21, COUNT, statuses);
            }
            OK(MPI_Waitany(3, requests, &index, statuses));
            CHECK(index == MPI_UNDEFINED);
            break;
        case 2:
            do OK(MPI_Testall(3, requests, &flag, statuses));
            while (!flag);
            came(22, COUNT, &statuses[0]);
            OK(MPI_Testany(3, requests, &index, &flag, statuses));
            CHECK(flag && index == MPI_UNDEFINED);
            break;
        default:
            for (done = 0; done < 2;) {
                int some;
                OK(MPI_Waitsome(3, requests, &some, indices, statuses));
                for (int at = 0; at < some; at++)
                    if (indices[at] == 0) came(23, COUNT, &statuses[at]);
                done += some;
            }
            OK(MPI_Testsome(3, requests, &done, indices, statuses));
            CHECK(done == MPI_UNDEFINED);
        }
        for (int at = 0; at < 3; at++) CHECK(requests[at] == MPI_REQUEST_NULL);
    }
}

static void persistent(void) {
    Beginning *inits[] = {MPI_Send_init, MPI_Rsend_init, MPI_Ssend_init, MPI_Bsend_init};
    for (int sort = 0; sort < 4; sort++) {
        MPI_Request requests[2];
        MPI_Status statuses[2];
        OK(MPI_Recv_init(in, COUNT, MPI_INT, before, 40 + sort, MPI_COMM_WORLD, &requests[0]));
        OK(inits[sort](out, COUNT, MPI_INT, after, 40 + sort, MPI_COMM_WORLD, &requests[1]));
        for (int round = 0; round < 3; round++) {
            int flag;
            fill(40 + sort);
            out[0] += round;
            if (sort == 0) {
                OK(MPI_Startall(2, requests));
            } else {
                OK(MPI_Start(&requests[0]));
                OK(MPI_Barrier(MPI_COMM_WORLD));
                OK(MPI_Start(&requests[1]));
            }
            do OK(MPI_Request_get_status(requests[0], &flag, &statuses[0]));
            while (!flag);
            OK(MPI_Waitall(2, requests, statuses));
            CHECK(in[0] == number(before, 40 + sort, 0) + round);
            in[0] -= round;
            came(40 + sort, COUNT, &statuses[0]);
            CHECK(requests[0] != MPI_REQUEST_NULL);
        }
        /* An inactive request is complete. */
        OK(MPI_Wait(&requests[0], &statuses[0]));
        CHECK(statuses[0].MPI_SOURCE == MPI_ANY_SOURCE && statuses[0].MPI_TAG == MPI_ANY_TAG);
        OK(MPI_Request_free(&requests[0]));
        OK(MPI_Request_free(&requests[1]));
        CHECK(requests[0] == MPI_REQUEST_NULL);
    }
}

static void both_ways(void) {
    MPI_Status status;
    MPI_Request request;
    fill(50);
    OK(MPI_Sendrecv(out, COUNT, MPI_INT, after, 50, in, COUNT, MPI_INT, before, 50, MPI_COMM_WORLD,
                    &status));
    came(50, COUNT, &status);
    fill(51);
    OK(MPI_Isendrecv(out, COUNT, MPI_INT, after, 51, in, COUNT, MPI_INT, before, 51, MPI_COMM_WORLD,
                     &request));
    OK(MPI_Wait(&request, &status));
    came(51, COUNT, &status);
    fill(52);
    memcpy(in, out, sizeof in);
    OK(MPI_Sendrecv_replace(in, COUNT, MPI_INT, after, 52, before, 52, MPI_COMM_WORLD, &status));
    came(52, COUNT, &status);
    fill(53);
    memcpy(in, out, sizeof in);
    OK(MPI_Isendrecv_replace(in, COUNT, MPI_INT, after, 53, before, 53, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, &status));
    came(53, COUNT, &status);
}

static void probes(void) {
    MPI_Status status;
    MPI_Request requests[4], request;
    MPI_Message message;
    int flag, count;
    for (int at = 0; at < 4; at++) {
        fill(60);
        OK(MPI_Isend(out, COUNT, MPI_INT, after, 60 + at, MPI_COMM_WORLD, &requests[at]));
    }
    OK(MPI_Probe(before, 60, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(status.MPI_SOURCE == before && status.MPI_TAG == 60 && count == COUNT);
    OK(MPI_Recv(in, COUNT, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status));
    came(60, COUNT, &status);
    do OK(MPI_Iprobe(MPI_ANY_SOURCE, 61, MPI_COMM_WORLD, &flag, &status));
    while (!flag);
    CHECK(status.MPI_SOURCE == before && status.MPI_TAG == 61);
    fill(60);
    OK(MPI_Recv(in, COUNT, MPI_INT, before, 61, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    came(60, COUNT, NULL);
    OK(MPI_Mprobe(before, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status));
    CHECK(status.MPI_TAG == 62);
    fill(60);
    OK(MPI_Mrecv(in, COUNT, MPI_INT, &message, MPI_STATUS_IGNORE));
    CHECK(message == MPI_MESSAGE_NULL);
    came(60, COUNT, NULL);
    do OK(MPI_Improbe(before, 63, MPI_COMM_WORLD, &flag, &message, &status));
    while (!flag);
    /* A matched message is not found by another probe. */
    OK(MPI_Iprobe(before, 63, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
    fill(60);
    OK(MPI_Imrecv(in, COUNT, MPI_INT, &message, &request));
    OK(MPI_Wait(&request, &status));
    came(60, COUNT, NULL);
    OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
}

/* Messages to and from MPI_PROC_NULL are empty and complete at once. */
static void nobody(void) {
    MPI_Status status;
    MPI_Request requests[3];
    MPI_Message message;
    int count, flag;
    fill(70);
    OK(MPI_Send(out, COUNT, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
    OK(MPI_Ssend(out, COUNT, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
    OK(MPI_Bsend(out, COUNT, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
    OK(MPI_Recv(in, COUNT, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG && count == 0);
    OK(MPI_Isend(out, COUNT, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Irecv(in, COUNT, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Recv_init(in, COUNT, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[2]));
    OK(MPI_Start(&requests[2]));
    OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Request_free(&requests[2]));
    OK(MPI_Sendrecv(out, 1, MPI_INT, MPI_PROC_NULL, 1, in, 1, MPI_INT, MPI_PROC_NULL, 1,
                    MPI_COMM_WORLD, &status));
    OK(MPI_Probe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    OK(MPI_Iprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &flag, &status));
    CHECK(flag);
    OK(MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC);
    OK(MPI_Mrecv(in, COUNT, MPI_INT, &message, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && message == MPI_MESSAGE_NULL);
    for (int at = 0; at < COUNT; at++) CHECK(in[at] == -1);
}

/* Empty messages. */
static void nothing(void) {
    MPI_Status status;
    int count;
    OK(MPI_Sendrecv(NULL, 0, MPI_INT, after, 80, NULL, 0, MPI_INT, before, 80, MPI_COMM_WORLD,
                    &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(status.MPI_SOURCE == before && count == 0);
    /* A part of an element has no count. */
    OK(MPI_Sendrecv(out, 3, MPI_BYTE, after, 80, in, 4, MPI_BYTE, before, 80, MPI_COMM_WORLD,
                    &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == MPI_UNDEFINED);
}

/* Every second number of a long array, and fields of a structure by their addresses. */
static void derived(void) {
    static double sparse[LARGE], dense[LARGE / 2];
    struct {
        char letter;
        double value;
        int numbers[3];
    } here = {'a', 0.5 + rank, {rank, 2, 3}}, there = {0, 0, {0, 0, 0}};
    MPI_Datatype every_second, fields[2];
    MPI_Aint places[3];
    MPI_Request requests[2];
    for (int at = 0; at < LARGE; at++) sparse[at] = rank + at;
    OK(MPI_Type_vector(LARGE / 2, 1, 2, MPI_DOUBLE, &every_second));
    OK(MPI_Type_commit(&every_second));
    OK(MPI_Irecv(dense, LARGE / 2, MPI_DOUBLE, before, 90, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(sparse, 1, every_second, after, 90, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int at = 0; at < LARGE / 2; at++) CHECK(dense[at] == before + 2 * at);
    for (int at = 0; at < LARGE / 2; at++) dense[at] = -1 - rank;
    OK(MPI_Sendrecv(dense, LARGE / 2, MPI_DOUBLE, after, 91, sparse, 1, every_second, before, 91,
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int at = 0; at < LARGE; at++) CHECK(sparse[at] == (at % 2 ? rank + at : -1 - before));
    OK(MPI_Type_free(&every_second));
    for (int side = 0; side < 2; side++) {
        int lengths[] = {1, 1, 3};
        MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
        OK(MPI_Get_address(side ? &there.letter : &here.letter, &places[0]));
        OK(MPI_Get_address(side ? &there.value : &here.value, &places[1]));
        OK(MPI_Get_address(side ? there.numbers : here.numbers, &places[2]));
        OK(MPI_Type_create_struct(3, lengths, places, types, &fields[side]));
        OK(MPI_Type_commit(&fields[side]));
    }
    OK(MPI_Sendrecv(MPI_BOTTOM, 1, fields[0], after, 92, MPI_BOTTOM, 1, fields[1], before, 92,
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(there.letter == 'a' && there.value == 0.5 + before);
    CHECK(there.numbers[0] == before && there.numbers[2] == 3);
    OK(MPI_Type_free(&fields[0]));
    OK(MPI_Type_free(&fields[1]));
}

/* Buffers for buffered sends: attached to the process, and to a communicator. */
static void buffers(void) {
    static char room[8 * (COUNT * sizeof(int) + MPI_BSEND_OVERHEAD)];
    MPI_Comm copy;
    MPI_Request request;
    void *address;
    int bytes;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_attach_buffer(copy, room, sizeof room));
    fill(95);
    for (int at = 0; at < 8; at++) OK(MPI_Bsend(out, COUNT, MPI_INT, after, 95, copy));
    OK(MPI_Comm_iflush_buffer(copy, &request));
    memset(out, 0, sizeof out);
    for (int at = 0; at < 8; at++) {
        MPI_Status status;
        memset(in, 0xff, sizeof in);
        OK(MPI_Recv(in, COUNT, MPI_INT, before, 95, copy, &status));
        came(95, COUNT, &status);
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_flush_buffer(copy));
    OK(MPI_Comm_detach_buffer(copy, &address, &bytes));
    CHECK(address == (void *)room && bytes == (int)sizeof room);
    OK(MPI_Comm_free(&copy));
}

/* A receive without a message, cancelled after a while. */
static void cancelled(double seconds) {
    MPI_Request request;
    MPI_Status status;
    int flag;
    OK(MPI_Irecv(in, COUNT, MPI_INT, before, 99, MPI_COMM_WORLD, &request));
    for (double end = MPI_Wtime() + seconds; MPI_Wtime() < end;) continue;
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag);
    OK(MPI_Test(&request, &flag, &status));
    CHECK(flag);
}

static void packed(void) {
    char bytes[200];
    int position = 0, room, numbers[3] = {rank, 5, 6}, got[3];
    double value = rank / 4.0, back;
    MPI_Aint external, external_position = 0;
    MPI_Status status;
    OK(MPI_Pack(numbers, 3, MPI_INT, bytes, sizeof bytes, &position, MPI_COMM_WORLD));
    OK(MPI_Pack(&value, 1, MPI_DOUBLE, bytes, sizeof bytes, &position, MPI_COMM_WORLD));
    OK(MPI_Sendrecv_replace(bytes, sizeof bytes, MPI_PACKED, after, 97, before, 97, MPI_COMM_WORLD,
                            &status));
    OK(MPI_Get_count(&status, MPI_PACKED, &room));
    CHECK(room == (int)sizeof bytes);
    position = 0;
    OK(MPI_Unpack(bytes, sizeof bytes, &position, got, 3, MPI_INT, MPI_COMM_WORLD));
    OK(MPI_Unpack(bytes, sizeof bytes, &position, &back, 1, MPI_DOUBLE, MPI_COMM_WORLD));
    CHECK(got[0] == before && got[1] == 5 && got[2] == 6 && back == before / 4.0);
    OK(MPI_Pack_external_size("external32", 3, MPI_INT, &external));
    CHECK(external == 12);
    OK(MPI_Pack_external("external32", numbers, 3, MPI_INT, bytes, sizeof bytes, &external_position));
    CHECK(external_position == 12 && bytes[4] == 0 && bytes[7] == 5);
    external_position = 0;
    OK(MPI_Unpack_external("external32", bytes, 12, &external_position, got, 3, MPI_INT));
    CHECK(got[0] == rank && got[2] == 6);
}

int main(int argc, char **argv) {
    static char room[100000];
    void *address;
    int bytes;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    before = (rank + size - 1) % size;
    after = (rank + 1) % size;
    OK(MPI_Buffer_attach(room, sizeof room));
    blocking();
    beginning();
    persistent();
    both_ways();
    probes();
    nobody();
    nothing();
    derived();
    buffers();
    cancelled(0);
    packed();
    OK(MPI_Buffer_flush());
    OK(MPI_Buffer_detach(&address, &bytes));
    CHECK(address == (void *)room && bytes == (int)sizeof room);
    /* All other ranks have left by then. */
    if (rank == 0) cancelled(0.2);
    OK(MPI_Finalize());
    return 0;
}
