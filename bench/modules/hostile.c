/* What a hostile module does to others: run by `hostile`, on four ranks.
 *
 *     hostile CALM.wat HOSTILE.wat ECHO.wasm [-t SECONDS]
 *
 * Rank 2 sends to the bad module of another rank as fast as it can, first CALM and then HOSTILE. Meanwhile others
 * work, and count:
 *   apart     ranks 0 and 1 exchange ordinary messages, and the bad module is at rank 3
 *   together  rank 0 asks the echo module of rank 1, which has the bad one, too
 * Prints the rate of each, the statistics of the hostile module, and the memory of its rank. */
#include "load.h"

enum { ASK = 4, OVER = 9 };

static double resident_kb(void) {
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL && fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    if (file != NULL) fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* Number of exchanges with rank 1 until the time is over. Rank 1 answers, or its module does. */
static long ask(MPI_Comm comm, int answer, double until) {
    long count = 0;
    double number = 0;
    while (now_ns() < until) {
        MPI_Send(&number, 1, MPI_DOUBLE, 1, ASK, comm);
        MPI_Recv(&number, 1, MPI_DOUBLE, 1, answer, comm, MPI_STATUS_IGNORE);
        count++;
    }
    MPI_Send(NULL, 0, MPI_BYTE, 1, OVER, MPI_COMM_WORLD);
    return count;
}

static void answer(void) {
    for (;;) {
        double number;
        MPI_Status status;
        MPI_Recv(&number, 1, MPI_DOUBLE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == OVER) return;
        MPI_Send(&number, 1, MPI_DOUBLE, 0, ASK + 1, MPI_COMM_WORLD);
    }
}

/* The rate of the others, per second, while rank 2 sends to `bad` at `target`. */
static double rate(MPI_Comm bad, int target, MPI_Comm echo, double seconds) {
    double result = 0, number = 0, until;
    MPI_Barrier(MPI_COMM_WORLD);
    until = now_ns() + 1e9 * seconds;
    if (rank_ == 0) result = (double)ask(target == 1 ? echo : MPI_COMM_WORLD, ASK + 1, until) / seconds;
    if (rank_ == 1 && target != 1) answer();
    if (rank_ == 1 && target == 1) MPI_Recv(NULL, 0, MPI_BYTE, 0, OVER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; rank_ == 2 && now_ns() < until; i++) {
        /* No faster than a busy program, or no processor would be left to measure with. */
        MPI_Send(&number, 1, MPI_DOUBLE, target, 2, bad);
        if (i % 16 == 15) sleep_until(now_ns() + 1e6);
    }
    if (rank_ == 3) sleep_until(until);
    MPI_Barrier(MPI_COMM_WORLD);
    return result;
}

int main(int argc, char **argv) {
    bench_init(&argc, &argv);
    need_ranks(4);
    double seconds = opt_num(argc, argv, "-t", 1);
    MPI_Comm calm = load("calm", argv[1]), hostile = load("hostile", argv[2]), echo = load("echo", argv[3]);
    for (int target = 3; target >= 1; target -= 2) {
        enum { ROUNDS = 31 };
        double before = resident_kb(), calm_rates[ROUNDS], attacked_rates[ROUNDS];
        /* They alternate, since the machine changes by the minute; a module that traps soon stops running, so it is
         * loaded again in each round. */
        for (int round = 0; round < ROUNDS; round++) {
            calm_rates[round] = rate(calm, target, echo, seconds);
            MPI_Comm hostile_anew = round == 0 ? hostile : load("hostile", argv[2]);
            attacked_rates[round] = rate(hostile_anew, target, echo, seconds);
            if (round > 0) Ferry_Module_unload(&hostile_anew);
        }
        double attacked = median(attacked_rates, ROUNDS), calm_rate = median(calm_rates, ROUNDS);
        Ferry_Module_stats stats;
        Ferry_Module_get_stats(hostile, &stats);
        double own[2] = { (double)stats.messages, resident_kb() - before }, all[8];
        MPI_Gather(own, 2, MPI_DOUBLE, all, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (rank_ == 0) {
            printf("hostile case=%s calm=%.0f attacked=%.0f ratio=%.3f ran=%.0f grown_kB=%.0f\n",
                   target == 3 ? "apart" : "together", calm_rate, attacked, attacked / calm_rate, all[2 * target], all[2 * target + 1]);
        }
        if (rank_ == target) fprintf(stderr, "%s\n", stats.faults ? stats.last_fault : "no fault");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
