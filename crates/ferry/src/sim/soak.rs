//! `ferry sim soak`: many seeds, on all cores, and what they have shown.

use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use clap::Args;
use ferrywire_sim::soak::{self, Coverage, Verdict};
use serde::Serialize;

use crate::out;

/// The options of a soak.
#[derive(Args)]
pub(crate) struct Soak {
    /// How many seeds to run.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    first: u64,
    /// Print what happened, event by event, for a seed that fails or for a single seed.
    #[arg(long)]
    trace: bool,
    /// Plant bugs on purpose, one after the other, and see that each is found.
    #[arg(long, conflicts_with_all = ["seeds", "first", "trace"])]
    canary: bool,
    /// Run with one planted bug until it is found.
    #[arg(long, value_name = "BUG", hide = true)]
    bug: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
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
        name_the_seed_of_a_panic();
        if self.canary {
            return super::canary::run(self.json);
        }
        if let Some(bug) = &self.bug {
            return super::canary::run_one(bug);
        }
        let report = self.soak();
        if self.json {
            out::json(&report);
        } else {
            print(&report);
        }
        ExitCode::from(u8::from(!report.violations.is_empty()))
    }

    fn soak(&self) -> Report {
        let start = Instant::now();
        let next = AtomicU64::new(self.first);
        let end = self.first.saturating_add(self.seeds);
        let (sender, verdicts) = mpsc::channel();
        let mut report = Report {
            seeds: self.seeds,
            first: self.first,
            seconds: 0.0,
            events: 0,
            virtual_seconds: 0.0,
            coverage: Coverage::default(),
            violations: Vec::new(),
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        announce(seed);
                        if seed >= end || sender.send(soak::run(seed, false)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            for verdict in verdicts {
                report.take(&verdict);
            }
        });
        // Threads finish in any order; the report does not show it.
        report.violations.sort_by_key(|violation| violation.seed);
        report.seconds = start.elapsed().as_secs_f64();
        if self.trace {
            self.print_trace(&report);
        }
        report
    }

    /// What happened in the first seed that failed, or in the only one.
    fn print_trace(&self, report: &Report) {
        let failed = report.violations.first().map(|violation| violation.seed);
        if let Some(seed) = failed.or((self.seeds == 1).then_some(self.first)) {
            for line in soak::run(seed, true).trace {
                out::line(format_args!("{line}"));
            }
        }
    }
}

impl Report {
    fn take(&mut self, verdict: &Verdict) {
        self.events += verdict.events;
        self.virtual_seconds += verdict.virtual_ns as f64 / 1e9;
        self.coverage.add(&verdict.coverage);
        if !verdict.violations.is_empty() {
            self.violations.push(Violation {
                seed: verdict.seed,
                scenario: verdict.scenario.clone(),
                what: verdict.violations.clone(),
                replay: format!("ferry sim soak --first {} --seeds 1 --trace", verdict.seed),
            });
        }
    }
}

fn print(report: &Report) {
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
         {} invited, {} withdrawn, {} killed, {} down, {} forgotten; modules: {} runs, {} sends, \
         {} traps, {} stalls",
        covered.messages,
        covered.collectives,
        covered.retries,
        covered.repeats,
        covered.unexpected,
        covered.refused,
        covered.invited,
        covered.withdrawn,
        covered.killed,
        covered.downs,
        covered.forgotten,
        covered.module_runs,
        covered.module_sends,
        covered.module_traps,
        covered.module_stalls,
    ));
}

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(0) };
}

/// Says which seed this thread runs, in case that an assertion fails.
pub(crate) fn announce(seed: u64) {
    SEED.set(seed);
}

/// An assertion that fails ends the process; its seed must not be lost with it.
fn name_the_seed_of_a_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let seed = SEED.get();
        let what = panic.to_string().replace('\n', " ");
        eprintln!("seed {seed}: {what}");
        eprintln!("replay: ferry sim soak --first {seed} --seeds 1 --trace");
    }));
}

/// Nobody reads more.
const SHOWN_MAX: usize = 10;
