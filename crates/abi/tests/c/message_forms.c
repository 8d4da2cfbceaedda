/* Every form of sending and receiving, with int counts and with large ones: each rank sends to the next one. */
#include "check.h"

#include <string.h>

enum { ITEMS = 7, TAG = 5, SPACE = 1 << 12 };

typedef int number;
typedef MPI_Count number_c;

static int rank, size, left, right, round_of = 0;
static int data[ITEMS], got[ITEMS + 1];
static char space[SPACE];
static MPI_Datatype pair;

/* New data for the next message, and nothing in the receive buffer. */
static void prepare(void) {
    round_of++;
    for (int i = 0; i < ITEMS; i++)
        data[i] = rank * 1000 + round_of * 10 + i;
    for (int i = 0; i <= ITEMS; i++)
        got[i] = -1;
}

static void check_items(const int *items) {
    for (int i = 0; i < ITEMS; i++)
        CHECK(items[i] == left * 1000 + round_of * 10 + i);
}

/* Checks what has arrived; all functions that count say the same. */
static void check_message(MPI_Status *status) {
    int count = -1, elements = -1;
    MPI_Count count_c = -1, elements_c = -1;
    check_items(got);
    CHECK(got[ITEMS] == -1);
    CHECK(status->MPI_SOURCE == left && status->MPI_TAG == TAG);
    OK(MPI_Get_count(status, MPI_INT, &count));
    OK(MPI_Get_count_c(status, MPI_INT, &count_c));
    OK(MPI_Get_elements(status, pair, &elements));
    OK(MPI_Get_elements_c(status, pair, &elements_c));
    CHECK(count == ITEMS && count_c == ITEMS && elements == ITEMS && elements_c == ITEMS);
    OK(MPI_Get_count_c(status, pair, &count_c));
    CHECK(count_c == MPI_UNDEFINED);
}

#define TO data, ITEMS, MPI_INT, right, TAG, MPI_COMM_WORLD
#define FROM got, ITEMS + 1, MPI_INT, left, TAG, MPI_COMM_WORLD

/* Runs a call that sends, when the receive is posted everywhere, as ready mode demands. */
#define SENDS(c, call)                     \
    do {                                   \
        prepare();                         \
        OK(MPI_Irecv##c(FROM, &received)); \
        OK(MPI_Barrier(MPI_COMM_WORLD));   \
        OK(call);                          \
        OK(MPI_Wait(&received, &status));  \
        check_message(&status);            \
    } while (0)
/* The same for a call that makes a request. */
#define STARTS(c, call)                         \
    do {                                        \
        SENDS(c, call);                         \
        OK(MPI_Wait(&sent, MPI_STATUS_IGNORE)); \
        CHECK(sent == MPI_REQUEST_NULL);        \
    } while (0)
/* The same for one that makes a persistent request, which is started twice. */
#define REPEATS(c, call)                            \
    do {                                            \
        OK(call);                                   \
        OK(MPI_Recv_init##c(FROM, &received));      \
        for (int again = 0; again < 2; again++) {   \
            prepare();                              \
            OK(MPI_Start(&received));               \
            OK(MPI_Barrier(MPI_COMM_WORLD));        \
            OK(MPI_Start(&sent));                   \
            OK(MPI_Wait(&received, &status));       \
            OK(MPI_Wait(&sent, MPI_STATUS_IGNORE)); \
            check_message(&status);                 \
        }                                           \
        OK(MPI_Request_free(&received));            \
        OK(MPI_Request_free(&sent));                \
    } while (0)

/* Runs a call that receives what has been sent meanwhile. */
#define RECEIVES(c, call)                       \
    do {                                        \
        prepare();                              \
        OK(MPI_Isend##c(TO, &sent));            \
        call;                                   \
        check_message(&status);                 \
        OK(MPI_Wait(&sent, MPI_STATUS_IGNORE)); \
    } while (0)
#define PROBED(message) OK(MPI_Mprobe(left, TAG, MPI_COMM_WORLD, &message, &status))

#define DETACHED                                   \
    do {                                           \
        CHECK(address == space && bytes == SPACE); \
        address = NULL;                            \
        bytes = -1;                                \
    } while (0)

#define VARIANT(c)                                                                                            \
    static void messages##c(void) {                                                                           \
        MPI_Request sent, received;                                                                           \
        MPI_Status status;                                                                                    \
        MPI_Message message;                                                                                  \
        MPI_Session session;                                                                                  \
        void *address = NULL;                                                                                 \
        number##c bytes = -1;                                                                                 \
                                                                                                              \
        OK(MPI_Buffer_attach##c(space, SPACE));                                                               \
        SENDS(c, MPI_Send##c(TO));                                                                            \
        SENDS(c, MPI_Ssend##c(TO));                                                                           \
        SENDS(c, MPI_Rsend##c(TO));                                                                           \
        SENDS(c, MPI_Bsend##c(TO));                                                                           \
        STARTS(c, MPI_Isend##c(TO, &sent));                                                                   \
        STARTS(c, MPI_Issend##c(TO, &sent));                                                                  \
        STARTS(c, MPI_Irsend##c(TO, &sent));                                                                  \
        STARTS(c, MPI_Ibsend##c(TO, &sent));                                                                  \
        REPEATS(c, MPI_Send_init##c(TO, &sent));                                                              \
        REPEATS(c, MPI_Ssend_init##c(TO, &sent));                                                             \
        REPEATS(c, MPI_Rsend_init##c(TO, &sent));                                                             \
        REPEATS(c, MPI_Bsend_init##c(TO, &sent));                                                             \
        OK(MPI_Buffer_detach##c(&address, &bytes));                                                           \
        DETACHED;                                                                                             \
                                                                                                              \
        RECEIVES(c, OK(MPI_Recv##c(FROM, &status)));                                                          \
        RECEIVES(c, PROBED(message); OK(MPI_Mrecv##c(got, ITEMS + 1, MPI_INT, &message, &status)));           \
        CHECK(message == MPI_MESSAGE_NULL);                                                                   \
        RECEIVES(c, PROBED(message); OK(MPI_Imrecv##c(got, ITEMS + 1, MPI_INT, &message, &received));         \
                 OK(MPI_Wait(&received, &status)));                                                           \
                                                                                                              \
        prepare();                                                                                            \
        OK(MPI_Sendrecv##c(data, ITEMS, MPI_INT, right, TAG, FROM, &status));                                 \
        check_message(&status);                                                                               \
        prepare();                                                                                            \
        OK(MPI_Isendrecv##c(data, ITEMS, MPI_INT, right, TAG, FROM, &received));                              \
        OK(MPI_Wait(&received, &status));                                                                     \
        check_message(&status);                                                                               \
        prepare();                                                                                            \
        OK(MPI_Sendrecv_replace##c(data, ITEMS, MPI_INT, right, TAG, left, TAG, MPI_COMM_WORLD, &status));    \
        check_items(data);                                                                                    \
        CHECK(status.MPI_SOURCE == left && status.MPI_TAG == TAG);                                            \
        prepare();                                                                                            \
        OK(MPI_Isendrecv_replace##c(data, ITEMS, MPI_INT, right, TAG, left, TAG, MPI_COMM_WORLD, &received)); \
        OK(MPI_Wait(&received, &status));                                                                     \
        check_items(data);                                                                                    \
                                                                                                              \
        OK(MPI_Comm_attach_buffer##c(MPI_COMM_WORLD, space, SPACE));                                          \
        SENDS(c, MPI_Bsend##c(TO));                                                                           \
        OK(MPI_Comm_detach_buffer##c(MPI_COMM_WORLD, &address, &bytes));                                      \
        DETACHED;                                                                                             \
        OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));                                  \
        OK(MPI_Session_attach_buffer##c(session, space, SPACE));                                              \
        OK(MPI_Session_detach_buffer##c(session, &address, &bytes));                                          \
        DETACHED;                                                                                             \
        OK(MPI_Session_finalize(&session));                                                                   \
                                                                                                              \
        number##c elements = -1, count = -1;                                                                  \
        OK(MPI_Status_set_elements##c(&status, pair, 6));                                                     \
        OK(MPI_Get_elements##c(&status, pair, &elements));                                                    \
        OK(MPI_Get_count##c(&status, pair, &count));                                                          \
        CHECK(elements == 6 && count == 3);                                                                   \
    }
VARIANT()
VARIANT(_c)

/* A count that an int does not hold is undefined in the old variant, and right in the other. */
static void large_status(void) {
    MPI_Status status;
    MPI_Count large = (MPI_Count)3 << 32, count_c = -1;
    int count = -1;
    memset(&status, 0, sizeof status);
    OK(MPI_Status_set_elements_c(&status, MPI_BYTE, large));
    OK(MPI_Get_count_c(&status, MPI_BYTE, &count_c));
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK(count_c == large && count == MPI_UNDEFINED);
    OK(MPI_Get_elements_c(&status, MPI_BYTE, &count_c));
    OK(MPI_Get_elements(&status, MPI_BYTE, &count));
    CHECK(count_c == large && count == MPI_UNDEFINED);
    OK(MPI_Get_count(&status, MPI_INT64_T, &count));
    CHECK(count == large / 8);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    messages();
    messages_c();
    large_status();
    OK(MPI_Type_free(&pair));
    return MPI_Finalize();
}
