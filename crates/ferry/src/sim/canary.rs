//! `ferry sim soak --canary`: checks that the soak finds every planted bug.
//!
//! Each planted bug runs in a process of its own, because an assertion may find it, and an assertion that
//! fails ends the process.

use std::process::{Command, ExitCode};

use ferrywire_sim::canary::{CANARIES, Canary};
use serde::Serialize;

use super::soak::{SEEDS, announce, printed};
use crate::out;

#[derive(Serialize)]
struct Finding {
    bug: &'static str,
    what: &'static str,
    seed: Option<u64>,
    by: String,
    tested: bool,
}

/// Runs all planted bugs; fails if one is not found.
pub(crate) fn run(json: bool) -> ExitCode {
    let findings: Vec<Finding> = CANARIES.iter().map(look_for).collect();
    if json {
        out::json(&findings);
    } else {
        for finding in &findings {
            let missing = if finding.tested { "NOT FOUND" } else { "not tested" };
            let seed = finding.seed.map_or(missing.into(), |seed| format!("seed {seed}"));
            out::line(format_args!("{:<16} {:<9}  {}", finding.bug, seed, finding.what));
            out::line(format_args!("{:<16} {:<9}  by: {}", "", "", finding.by));
        }
        let found = findings.iter().filter(|finding| finding.seed.is_some()).count();
        out::line(format_args!(
            "{found} of {} planted bugs found within {SEEDS} seeds",
            findings.len()
        ));
    }
    let missed = |finding: &Finding| finding.tested && finding.seed.is_none();
    ExitCode::from(u8::from(findings.iter().any(missed)))
}

fn look_for(canary: &Canary) -> Finding {
    let missing =
        |by: String| Finding { bug: canary.name, what: canary.what, seed: None, by, tested: true };
    if canary.asserted && !cfg!(debug_assertions) {
        let by = "an assertion, and this build has none: not tested".into();
        return Finding { tested: false, ..missing(by) };
    }
    let exe = match std::env::current_exe() {
        Ok(exe) => exe,
        Err(error) => return missing(format!("nothing: cannot start the soak: {error}")),
    };
    let output = Command::new(exe).args(["sim", "soak", "--bug", canary.name]).output();
    match output {
        Ok(output) => {
            // An oracle reports on the standard output, an assertion on the standard error.
            let text = [output.stdout, output.stderr].concat();
            parse(&String::from_utf8_lossy(&text), canary)
        }
        Err(error) => missing(format!("nothing: cannot start the soak: {error}")),
    }
}

/// Runs one planted bug until it is found, and prints the seed and what found it.
pub(crate) fn run_one(name: &str, first: Option<u64>, seeds: u64, trace: bool) -> ExitCode {
    let Some(canary) = CANARIES.iter().find(|canary| canary.name == name) else {
        let names: Vec<&str> = CANARIES.iter().map(|canary| canary.name).collect();
        eprintln!("ferry: --bug {name}: no such planted bug; there are {}", names.join(", "));
        return ExitCode::from(2);
    };
    let first = first.unwrap_or(canary.first);
    for seed in first..first.saturating_add(seeds) {
        announce(seed, Some(canary.name));
        if let Some(violation) = canary.run(seed, trace.then(printed)).violations.first() {
            out::line(format_args!("seed {seed}: {violation}"));
            return ExitCode::FAILURE;
        }
    }
    out::line(format_args!("not found in {seeds} seeds from {first}"));
    ExitCode::SUCCESS
}

fn parse(text: &str, canary: &Canary) -> Finding {
    let line = text.lines().find(|line| line.starts_with("seed ")).unwrap_or_default();
    let found = line.strip_prefix("seed ").and_then(|rest| rest.split_once(": "));
    let seed = found.and_then(|(seed, _)| seed.parse().ok());
    let by = found.map_or("nothing".into(), |(_, by)| by.chars().take(160).collect());
    Finding { bug: canary.name, what: canary.what, seed, by, tested: true }
}
