//! Random MPI programs - all kinds of communicators, datatypes, wildcards, probes, cancels, collectives - against a
//! model of plain lists, in two worlds.
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

use std::panic::{RefUnwindSafe, catch_unwind};

use ferrywire_nic::Standard;
use ferrywire_nic::canary::Bug;
use ferrywire_sim::canary;
use model::Coverage;
use plan::Plan;

#[test]
fn programs_run_as_the_model_says_in_threads() {
    run_seeds("threads", threads::run);
}

#[test]
fn programs_run_as_the_model_says_in_the_simulator() {
    run_seeds("the_simulator", simulator::run::<Standard>);
}

/// A model that finds nothing wrong proves something only if it finds planted bugs.
#[test]
fn planted_bugs_are_found() {
    type Run = Box<dyn Fn(u64) -> (Vec<String>, Coverage) + RefUnwindSafe>;
    let planted = |bug| -> Run {
        Box::new(move |seed| {
            canary::plant(bug);
            simulator::run::<canary::Planted>(seed)
        })
    };
    let bugs: [(&str, Run); 7] = [
        ("a message prefers an exact receive", Box::new(simulator::run::<canary::WildcardOrder>)),
        ("what is younger than a refused message matches", planted(Bug::FloorIgnored)),
        ("an ack acks a missing frame", planted(Bug::AckForgets)),
        ("a frame is taken twice", planted(Bug::RepeatAccepted)),
        ("collectives are not told apart", planted(Bug::StaleInstance)),
        ("a cancelled receive leaves its ticket", planted(Bug::TicketLeak)),
        ("groups that overlap name senders alike", Box::new(simulator::run_with_ranks_as_sources)),
    ];
    for (what, run) in bugs {
        // A panic of the NIC counts as found, too.
        let is_missed = |seed: &u64| catch_unwind(|| run(*seed)).is_ok_and(|(w, _)| w.is_empty());
        let seed = (0..RUNS).find(|seed| !is_missed(seed));
        println!("{what}: found by seed {seed:?}");
        assert!(seed.is_some(), "not found: {what}");
    }
}

fn run_seeds(world: &str, run: impl Fn(u64) -> (Vec<String>, Coverage)) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let runs = number("RUNS").unwrap_or(RUNS);
    let seeds = number("SEED").map_or(0..runs, |seed| seed..seed + 1);
    let mut coverage = Coverage::default();
    for seed in seeds.clone() {
        println!("SEED={seed} cargo test -p ferrywire-tests --test matching {world}");
        let (wrong, covered) = run(seed);
        let about = || Plan::new(seed).describe();
        assert!(wrong.is_empty(), "seed {seed}, {}:\n  {}", about(), wrong.join("\n  "));
        coverage.add(covered);
    }
    println!("{} programs in {world}: {coverage:?}", seeds.end - seeds.start);
}

/// Number of programs in each world by default.
const RUNS: u64 = 300;
