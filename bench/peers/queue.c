/* Two ranks: what an 8-byte message costs when queues are long.
 *
 *   posted source=exact|any depth=D ns=   half a round trip, with D receives posted before the one that
 *                                         matches, from the same rank or from any
 *   unexpected depth=D ns=                half a round trip, with D messages in the unexpected queue
 *   arrived depth=D ns=                   MPI_Recv alone of a message that is queued behind those D */
#include "peer.h"

enum { BYTES = 8, DEPTH_MAX = 16384, WANTED = DEPTH_MAX + 1, BATCH = 100 };

static char here[BYTES], there[BYTES];
static MPI_Request waiting[DEPTH_MAX], leaving[DEPTH_MAX], batch[BATCH];

/* Each receive is posted before its message is requested. */
static void posted_trips(int other, int count)
{
    MPI_Request next;
    MPI_Irecv(there, BYTES, MPI_BYTE, other, WANTED, EVERYONE, &next);
    for (int i = 1; i <= count; i++) {
        if (self.rank == 0)
            MPI_Send(here, BYTES, MPI_BYTE, other, WANTED, EVERYONE);
        MPI_Wait(&next, MPI_STATUS_IGNORE);
        if (i < count)
            MPI_Irecv(there, BYTES, MPI_BYTE, other, WANTED, EVERYONE, &next);
        if (self.rank == 1)
            MPI_Send(here, BYTES, MPI_BYTE, other, WANTED, EVERYONE);
    }
}

static void plain_trips(int other, int count)
{
    for (int i = 0; i < 2 * count; i++) {
        if (i % 2 == self.rank)
            MPI_Send(here, BYTES, MPI_BYTE, other, WANTED, EVERYONE);
        else
            MPI_Recv(there, BYTES, MPI_BYTE, other, WANTED, EVERYONE, MPI_STATUS_IGNORE);
    }
}

static int trips(int depth)
{
    int full = depth < DEPTH_MAX ? 1000 : BATCH;
    return self.quick ? full / 4 : full;
}

static void posted(int other, int depth, int any)
{
    int source = any ? MPI_ANY_SOURCE : other;
    for (int tag = 0; tag < depth; tag++)
        MPI_Irecv(there, 0, MPI_BYTE, source, tag, EVERYONE, &waiting[tag]);
    meet(other);
    double ns = typical_ns(posted_trips, other, trips(depth)) / 2;
    figure("posted source=%s depth=%d ns=%.1f", any ? "any" : "exact", depth, ns);

    for (int tag = 0; tag < depth; tag++)
        MPI_Isend(here, 0, MPI_BYTE, other, tag, EVERYONE, &leaving[tag]);
    MPI_Waitall(depth, waiting, MPI_STATUSES_IGNORE);
    MPI_Waitall(depth, leaving, MPI_STATUSES_IGNORE);
    meet(other);
}

static double arrived_ns(int other)
{
    double took[16];
    for (int round = 0; round < self.rounds; round++) {
        for (int i = 0; i < BATCH; i++)
            MPI_Isend(here, BYTES, MPI_BYTE, other, WANTED, EVERYONE, &batch[i]);
        meet(other);
        meet(other); /* Now the other rank has stopped, too. */
        double from = wall_ns();
        for (int i = 0; i < BATCH; i++)
            MPI_Recv(there, BYTES, MPI_BYTE, other, WANTED, EVERYONE, MPI_STATUS_IGNORE);
        took[round] = (wall_ns() - from) / BATCH;
        MPI_Waitall(BATCH, batch, MPI_STATUSES_IGNORE);
        meet(other);
    }
    return median(took, self.rounds);
}

static void unexpected(int other, int depth)
{
    for (int tag = 0; tag < depth; tag++)
        MPI_Isend(here, BYTES, MPI_BYTE, other, tag, EVERYONE, &leaving[tag]);
    meet(other);
    double ns = typical_ns(plain_trips, other, trips(depth)) / 2;
    figure("unexpected depth=%d ns=%.1f", depth, ns);
    figure("arrived depth=%d ns=%.1f", depth, arrived_ns(other));

    for (int tag = 0; tag < depth; tag++)
        MPI_Recv(there, BYTES, MPI_BYTE, other, tag, EVERYONE, MPI_STATUS_IGNORE);
    MPI_Waitall(depth, leaving, MPI_STATUSES_IGNORE);
    meet(other);
}

int main(int argc, char **argv)
{
    static const int depths[] = { 0, 1024, DEPTH_MAX };

    begin(argc, argv, 2);
    if (self.rank < 2) {
        int other = 1 - self.rank;
        for (int any = 0; any < 2; any++)
            for (int i = 0; i < 3; i++)
                posted(other, depths[i], any);
        for (int i = 0; i < 3; i++)
            unexpected(other, depths[i]);
    }
    MPI_Finalize();
}
