//! `ferry sim soak`: runs many seeds on all cores, and reports violations and coverage.

use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use clap::Args;
use ferrywire_sim::soak::{self, Coverage, SeedResult};
use ferrywire_sim::world::Trace;
use serde::Serialize;

use crate::out;

/// The options of a soak.
#[derive(Args)]
pub(crate) struct Soak {
    /// How many seeds to run.
    #[arg(long, value_name = "N", default_value_t = SEEDS)]
    seeds: u64,
    /// The first seed [default: 0].
    #[arg(long, value_name = "SEED")]
    first: Option<u64>,
    /// Derive the first seed from a word, such as a commit hash: each word gives another range.
    #[arg(long, value_name = "WORD", conflicts_with = "first")]
    first_from: Option<String>,
    /// Print what happened, event by event, for a seed that fails or for a single seed.
    #[arg(long)]
    trace: bool,
    /// Plant known bugs, one after the other, and check that each is found.
    #[arg(long, conflicts_with_all = ["seeds", "first", "first_from", "trace", "bug"])]
    canary: bool,
    /// Run with one planted bug until it is found.
    #[arg(long, value_name = "BUG", hide = true)]
    bug: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct SoakReport {
    seeds: u64,
    first: u64,
    seconds: f64,
    events: u64,
    virtual_seconds: f64,
    coverage: Coverage,
    violations: Vec<Violation>,
}

#[derive(Serialize)]
struct Violation {
    seed: u64,
    scenario: String,
    what: Vec<String>,
    replay: String,
}

impl Soak {
    /// Runs the seeds; fails if one of them does.
    pub(crate) fn run(self) -> ExitCode {
        name_the_world_of_a_panic();
        if self.canary {
            return super::canary::run(self.json);
        }
        if let Some(bug) = &self.bug {
            return super::canary::run_one(bug, self.first(), self.seeds, self.trace);
        }
        let report = self.soak();
        if self.json {
            out::json(&report);
        } else {
            print(&report);
        }
        ExitCode::from(u8::from(!report.violations.is_empty()))
    }

    /// The first seed, if one was asked for.
    fn first(&self) -> Option<u64> {
        self.first.or_else(|| self.first_from.as_deref().map(seed_of))
    }

    fn soak(&self) -> SoakReport {
        let start = Instant::now();
        let first = self.first().unwrap_or(0);
        let next = AtomicU64::new(first);
        let end = first.saturating_add(self.seeds);
        let (sender, results) = mpsc::channel();
        let mut report = SoakReport {
            seeds: self.seeds,
            first,
            seconds: 0.0,
            events: 0,
            virtual_seconds: 0.0,
            coverage: Coverage::default(),
            violations: Vec::new(),
        };
        // The trace of a single world is printed while it runs, since it may end in a panic.
        let alone = self.trace && self.seeds == 1;
        let threads =
            if alone { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end {
                            break;
                        }
                        announce(seed, None);
                        if sender.send(soak::run(seed, alone.then(printed))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            for result in results {
                report.take(&result);
            }
        });
        // Threads finish in any order; the report is in the order of seeds.
        report.violations.sort_by_key(|violation| violation.seed);
        report.seconds = start.elapsed().as_secs_f64();
        if let Some(first) = report.violations.first()
            && self.trace
            && !alone
        {
            announce(first.seed, None);
            soak::run(first.seed, Some(printed()));
        }
        report
    }
}

impl SoakReport {
    fn take(&mut self, result: &SeedResult) {
        self.events += result.events;
        self.virtual_seconds += result.virtual_ns as f64 / 1e9;
        self.coverage.add(&result.coverage);
        if !result.violations.is_empty() {
            self.violations.push(Violation {
                seed: result.seed,
                scenario: result.scenario.clone(),
                what: result.violations.clone(),
                replay: replay(result.seed, None),
            });
        }
    }
}

fn print(report: &SoakReport) {
    for violation in report.violations.iter().take(SHOWN_MAX) {
        out::line(format_args!("seed {}: {}", violation.seed, violation.scenario));
        for what in violation.what.iter().take(SHOWN_MAX) {
            out::line(format_args!("    {what}"));
        }
        out::line(format_args!("    replay: {}", violation.replay));
    }
    let covered = &report.coverage;
    out::line(format_args!(
        "{} seeds from {}: {} violations in {:.1} s ({} events, {:.0} s of virtual time)",
        report.seeds,
        report.first,
        report.violations.len(),
        report.seconds,
        report.events,
        report.virtual_seconds,
    ));
    out::line(format_args!(
        "covered: {} messages, {} collectives, {} retries, {} repeats, {} unexpected, {} refused, \
         {} invited, {} withdrawn, {} killed, {} fell silent, {} down, {} forgotten; windows: {} accesses, {} locks, \
         {} lock retries; modules: {} runs, {} sends, {} traps, {} stalls",
        covered.messages,
        covered.collectives,
        covered.retries,
        covered.repeats,
        covered.unexpected,
        covered.refused,
        covered.invited,
        covered.withdrawn,
        covered.killed,
        covered.vanished,
        covered.downs,
        covered.forgotten,
        covered.accesses,
        covered.locks,
        covered.retried_locks,
        covered.module_runs,
        covered.module_sends,
        covered.module_traps,
        covered.module_stalls,
    ));
}

thread_local! {
    static WORLD: Cell<Option<(u64, Option<&'static str>)>> = const { Cell::new(None) };
}

/// Records which world this thread runs, a planted bug included, in case an assertion fails.
pub(crate) fn announce(seed: u64, bug: Option<&'static str>) {
    WORLD.set(Some((seed, bug)));
}

/// Makes a panic print the seed of its world: an assertion that fails ends the process.
fn name_the_world_of_a_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let what = panic.to_string().replace('\n', " ");
        match WORLD.get() {
            Some((seed, bug)) => {
                eprintln!("seed {seed}: {what}");
                eprintln!("replay: {}", replay(seed, bug));
            }
            None => eprintln!("ferry: {what}"),
        }
    }));
}

/// The command that runs a world again and prints it event by event.
fn replay(seed: u64, bug: Option<&str>) -> String {
    let bug = bug.map_or(String::new(), |bug| format!(" --bug {bug}"));
    format!("ferry sim soak{bug} --first {seed} --seeds 1 --trace")
}

/// A trace that prints each event as it happens.
pub(crate) fn printed() -> Trace {
    Box::new(|line| out::line(line))
}

/// The seed that a word gives, above those that people type: FNV-1a, cut to 48 bits.
fn seed_of(word: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    (1 << 32) + (hash >> 16)
}

/// How many seeds a soak runs by default, and within how many a planted bug has to be found.
pub(crate) const SEEDS: u64 = 1000;

/// How many violations are printed, and how many lines of each.
const SHOWN_MAX: usize = 10;
