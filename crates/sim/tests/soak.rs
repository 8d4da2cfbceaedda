//! A short soak; `ferry sim soak` is the long one.

use ferrywire_sim::soak;

#[test]
fn random_programs_under_random_faults_keep_every_promise() {
    for seed in (0..100).chain(FAILED_ONCE) {
        let result = soak::run(seed, None);
        assert!(
            result.violations.is_empty(),
            "seed {seed} ({}): {:#?}\nreplay: ferry sim soak --first {seed} --seeds 1 --trace",
            result.scenario,
            result.violations
        );
    }
}

/// Seeds that have found mistakes: what waited behind the last frame of a message was dropped when that frame let a
/// module go on.
const FAILED_ONCE: [u64; 3] = [73_100_633, 73_100_771, 73_101_634];
