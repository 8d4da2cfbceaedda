/* Variance: an operator of reductions, which merges what is known of two sets of numbers into what is known of both.
 *
 * An element is three doubles: how many numbers there are, their mean, and the sum of the squares of their distances from
 * it. Merging sets in this way loses no digits where sums of squares would.
 *
 *     Ferry_Op_create(code, bytes, 1, &merge);
 *     MPI_Iallreduce(mine, all, n, three_doubles, merge, comm, &request);
 *
 * A set without numbers changes nothing.
 */
#include <ferry_module.h>

struct set {
    double count;
    double mean;
    double squares;
};

FERRY_COMBINE(from, into, count) {
    const struct set *others = (const struct set *)from;
    struct set *sets = (struct set *)into;
    for (int32_t i = 0; i < count; i++) {
        struct set one = sets[i];
        struct set other = others[i];
        double both = one.count + other.count;
        if (other.count > 0) {
            double apart = other.mean - one.mean;
            sets[i].count = both;
            sets[i].mean = one.mean + apart * (other.count / both);
            sets[i].squares = one.squares + other.squares + apart * apart * (one.count * other.count / both);
        }
    }
}
