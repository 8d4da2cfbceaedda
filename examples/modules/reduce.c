/* Reduce: adds up vectors along a binary tree while they travel.
 *
 * Every application sends its vector once, to its own rank, with an even tag. The application of rank 0 receives
 * the sum from itself with the tag plus one. The others receive nothing.
 *
 *     all:       MPI_Send(ours, n, MPI_DOUBLE, rank, 2 * k, module_comm);
 *     rank 0:    MPI_Recv(sum, n, MPI_DOUBLE, 0, 2 * k + 1, module_comm, ...);
 *
 * Payload: 1 to 512 doubles, the same number at each rank. Any other length is a fault.
 *
 * The children of rank i are 2i + 1 and 2i + 2. A module that has the vectors of its children and of its own
 * application sends their sum to its parent, with the same tag; rank 0 sends it to itself, with the odd tag, and
 * delivers that. So an even tag from the own rank is an application's vector, and from a child its partial sum; an
 * even tag from any other rank is a fault.
 *
 * Reductions of different tags run side by side, and ranks may be ahead of each other. A tag may be used again
 * at once: messages of one sender stay in order, so the n-th from each belongs to the n-th reduction of that tag.
 *
 * Each unfinished reduction that a module knows of occupies a row of the table. Without a free row the message is a
 * fault, and that reduction never ends. So no rank may begin a reduction before rank 0 has the sum of the one 32
 * before it; a barrier after each 32 ensures that.
 *
 * The bits of the sum do not depend on the order of arrival: the two children are added to each other, which is
 * commutative, and the own vector is added last.
 */
#include <ferry_module.h>

enum {
    DOUBLES_MAX = 512,
    ROWS = 32,
};

/* Vectors that have arrived, as bits. */
enum {
    OWN = 1,
    LEFT = 2,
    RIGHT = 4,
};

struct row {
    int32_t in_use;
    int32_t tag;
    int32_t doubles;
    int32_t arrived;
    /* Rows with the same tag are filled in the order in which they began. */
    int64_t serial;
    double own[DOUBLES_MAX];
    /* The vector of the child that has arrived, or the sum of both. */
    double children[DOUBLES_MAX];
};

static struct row rows[ROWS];
static int64_t serials;
static double incoming[DOUBLES_MAX];

/* The bit of the sender. */
static int32_t place_of(int32_t sender, int32_t rank) {
    if (sender == rank) {
        return OWN;
    }
    if (sender == 2 * rank + 1) {
        return LEFT;
    }
    ferry_require(sender == 2 * rank + 2);
    return RIGHT;
}

/* The vectors that must arrive before the sum can be sent. */
static int32_t expected_at(int32_t rank, int32_t size) {
    int32_t expected = OWN;
    if (2 * rank + 1 < size) {
        expected |= LEFT;
    }
    if (2 * rank + 2 < size) {
        expected |= RIGHT;
    }
    return expected;
}

/* The oldest reduction of this tag that has nothing from this place, or a new one. */
static struct row *row_for(int32_t tag, int32_t place, int32_t doubles) {
    struct row *oldest = NULL;
    struct row *unused = NULL;
    for (int i = 0; i < ROWS; i++) {
        struct row *row = &rows[i];
        if (!row->in_use) {
            unused = row;
        } else if (row->tag == tag && !(row->arrived & place)) {
            if (oldest == NULL || row->serial < oldest->serial) {
                oldest = row;
            }
        }
    }
    if (oldest != NULL) {
        ferry_require(oldest->doubles == doubles);
        return oldest;
    }
    ferry_require(unused != NULL);
    unused->in_use = 1;
    unused->tag = tag;
    unused->doubles = doubles;
    unused->arrived = 0;
    unused->serial = serials++;
    return unused;
}

static void add(double *to, const double *what, int32_t doubles) {
    for (int32_t i = 0; i < doubles; i++) {
        to[i] += what[i];
    }
}

static void take(struct row *row, int32_t place, int32_t bytes) {
    if (place == OWN) {
        ferry_read(row->own, 0, bytes);
    } else if (row->arrived & (LEFT | RIGHT)) {
        ferry_read(incoming, 0, bytes);
        add(row->children, incoming, row->doubles);
    } else {
        ferry_read(row->children, 0, bytes);
    }
    row->arrived |= place;
}

FERRY_ON_MESSAGE {
    int32_t tag = ferry_tag();
    int is_sum = tag % 2 == 1;
    if (is_sum) {
        return FERRY_DELIVER;
    }
    int32_t rank = ferry_rank();
    int32_t bytes = ferry_length();
    int32_t doubles = bytes / (int32_t)sizeof(double);
    ferry_require(bytes % (int32_t)sizeof(double) == 0);
    ferry_require(doubles >= 1 && doubles <= DOUBLES_MAX);

    int32_t place = place_of(ferry_sender(), rank);
    struct row *row = row_for(tag, place, doubles);
    take(row, place, bytes);

    if (row->arrived == expected_at(rank, ferry_size())) {
        if (row->arrived & (LEFT | RIGHT)) {
            add(row->own, row->children, doubles);
        }
        row->in_use = 0;
        if (rank == 0) {
            ferry_send(rank, tag + 1, row->own, bytes);
        } else {
            ferry_send((rank - 1) / 2, tag, row->own, bytes);
        }
    }
    return FERRY_CONSUME;
}
