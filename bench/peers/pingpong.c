/* Two ranks: latency, rate of small messages, bandwidth.
 *
 *   latency bytes=B ns=            half of a round trip
 *   rate bytes=8 window=64 ns=     per message, 64 in flight, then one answer
 *   stream bytes=B mb_per_s=       the same with large messages, 32 in flight */
#include "peer.h"

enum { BYTES_MAX = 4 << 20, WINDOW_MAX = 64, TAG = 1, ANSWER = 2 };

static char *data;
static int window;

static void round_trips(int bytes, int count)
{
    int other = 1 - self.rank;
    for (int i = 0; i < 2 * count; i++) {
        int is_sender = i % 2 == self.rank;
        if (is_sender)
            MPI_Send(data, bytes, MPI_BYTE, other, TAG, EVERYONE);
        else
            MPI_Recv(data, bytes, MPI_BYTE, other, TAG, EVERYONE, MPI_STATUS_IGNORE);
    }
}

static void send_windows(int bytes, int windows)
{
    MPI_Request open[WINDOW_MAX];
    while (windows-- > 0) {
        for (int i = 0; i < window; i++)
            MPI_Isend(data, bytes, MPI_BYTE, 1, TAG, EVERYONE, &open[i]);
        MPI_Waitall(window, open, MPI_STATUSES_IGNORE);
        MPI_Recv(NULL, 0, MPI_BYTE, 1, ANSWER, EVERYONE, MPI_STATUS_IGNORE);
    }
}

static void receive_windows(int bytes, int windows)
{
    MPI_Request open[WINDOW_MAX];
    while (windows-- > 0) {
        for (int i = 0; i < window; i++)
            MPI_Irecv(data, bytes, MPI_BYTE, 0, TAG, EVERYONE, &open[i]);
        MPI_Waitall(window, open, MPI_STATUSES_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, 0, ANSWER, EVERYONE);
    }
}

static double message_ns(int bytes, int messages)
{
    int windows = messages < window ? 1 : messages / window;
    return typical_ns(self.rank == 0 ? send_windows : receive_windows, bytes, windows) / window;
}

/* Enough for a few milliseconds at any size. */
static int repetitions(int bytes)
{
    int full = bytes <= 8192 ? 2000 : bytes <= 65536 ? 500 : bytes <= 262144 ? 100 : 20;
    return self.quick ? full / 4 : full;
}

int main(int argc, char **argv)
{
    static const int small[] = { 0, 8, 64, 512 };
    static const int large[] = { 4 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, BYTES_MAX };
    const int smalls = sizeof small / sizeof *small, larges = sizeof large / sizeof *large;

    begin(argc, argv, 2);
    data = malloc(BYTES_MAX);
    memset(data, 1 + self.rank, BYTES_MAX);
    if (self.rank < 2) {
        for (int i = 0; i < smalls + larges; i++) {
            int bytes = i < smalls ? small[i] : large[i - smalls];
            double ns = typical_ns(round_trips, bytes, repetitions(bytes)) / 2;
            figure("latency bytes=%d ns=%.1f", bytes, ns);
        }
        window = 64;
        figure("rate bytes=8 window=64 ns=%.2f", message_ns(8, self.quick ? 8000 : 32000));
        window = 32;
        for (int i = 0; i < larges; i++) {
            double ns = message_ns(large[i], repetitions(large[i]));
            figure("stream bytes=%d mb_per_s=%.1f", large[i], large[i] * 1e3 / ns);
        }
    }
    MPI_Finalize();
}
