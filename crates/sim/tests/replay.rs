//! The same seed gives the same history, line by line.

use ferrywire_sim::soak;

#[test]
fn a_seed_replays() {
    for seed in [0, 1, 6, 7, 10, 47, 68, 119] {
        let first = soak::run(seed, true).trace;
        let second = soak::run(seed, true).trace;
        assert!(first.len() > 10, "seed {seed}: nothing happened");
        let differ = first.iter().zip(&second).position(|(one, other)| one != other);
        assert_eq!(differ, None, "seed {seed}: the histories part");
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}
