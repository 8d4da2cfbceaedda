//! Random programs of MPI - communicators of all sorts, datatypes, wildcards, probes, cancels,
//! collectives - against a model that knows nothing but lists, in two worlds.
//!
//!     cargo test -p ferrywire-tests --test matching
//!     RUNS=5000 cargo test -p ferrywire-tests --test matching -- --nocapture
//!     SEED=7 cargo test -p ferrywire-tests --test matching

mod layout;
mod model;
mod plan;
mod player;
mod simulator;
mod threads;

use model::Coverage;
use plan::Plan;

#[test]
fn programs_run_as_the_model_says_in_threads() {
    run_seeds("threads", threads::run);
}

#[test]
fn programs_run_as_the_model_says_in_the_simulator() {
    run_seeds("the_simulator", simulator::run);
}

fn run_seeds(world: &str, run: impl Fn(u64) -> (Vec<String>, Coverage)) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let runs = number("RUNS").unwrap_or(RUNS);
    let seeds = number("SEED").map_or(0..runs, |seed| seed..seed + 1);
    let mut coverage = Coverage::default();
    for seed in seeds.clone() {
        println!("SEED={seed} cargo test -p ferrywire-tests --test matching {world}");
        let (wrong, covered) = run(seed);
        let about = Plan::new(seed).describe();
        assert!(wrong.is_empty(), "seed {seed}, {about}:\n  {}", wrong.join("\n  "));
        coverage.add(covered);
    }
    println!("{} programs in {world}: {coverage:?}", seeds.end - seeds.start);
}

/// Programs in each world, if nobody says how many.
const RUNS: u64 = 300;
