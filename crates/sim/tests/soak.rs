//! A short soak; `ferry sim soak` is the long one.

use ferrywire_sim::soak;

#[test]
fn random_programs_under_random_faults_keep_every_promise() {
    for seed in 0..100 {
        let result = soak::run(seed, None);
        assert!(
            result.violations.is_empty(),
            "seed {seed} ({}): {:#?}\nreplay: ferry sim soak --first {seed} --seeds 1 --trace",
            result.scenario,
            result.violations
        );
    }
}
