//! `ferry why`: where the ranks of a running job are, and who waits for whom.
//!
//! It needs no help of the launcher of one host, so it also works under other launchers, and if the launcher hangs itself.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::{deadlock, groups, slow, waiting_for};
use crate::job_facts::{JobFacts, JobNotFound, Proof, Proved};
use crate::out;

/// Says where the ranks of a running job are, and who waits for whom.
#[derive(Args)]
pub(crate) struct Why {
    /// The process id of the launcher or of a rank. Without it, there must be only one job of this user.
    process: Option<u32>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// What is printed.
#[derive(Serialize)]
struct Report {
    /// Whether it is proved that the job will never go on.
    deadlock: bool,
    /// Whether all ranks of the job are seen. Those of other hosts are not if the launcher is on another host.
    whole: bool,
    verdict: String,
    ranks: Vec<String>,
}

impl Why {
    pub(crate) fn run(&self) -> ExitCode {
        let report = match JobFacts::find(self.process).and_then(|mut job| report(&mut job)) {
            Ok(report) => report,
            Err(error) => {
                eprintln!("ferry why: {error}");
                return ExitCode::FAILURE;
            }
        };
        if self.json {
            out::json(&report);
            return ExitCode::SUCCESS;
        }
        out::line(&report.verdict);
        report.ranks.iter().for_each(|line| out::line(format!("  {line}")));
        if !report.whole {
            eprintln!(
                "ferry why: other ranks of the job are on other hosts; the host of the launcher shows them all"
            );
        }
        ExitCode::SUCCESS
    }
}

fn report(job: &mut JobFacts) -> Result<Report, JobNotFound> {
    let mut proof = Proof::default();
    let first = job.ask()?;
    let mut proved = proof.on_answers(&first.answers());
    let snapshot = job.ask()?;
    if proved == Proved::AskAgain {
        proved = proof.on_answers(&snapshot.answers());
    }
    let (whole, seen) = (snapshot.is_whole, snapshot.ranks);
    let deadlocked = proved == Proved::Stuck && seen.iter().any(|one| one.facts.waiting > 0);
    let verdict = match deadlocked {
        true => deadlock(&seen),
        false => slow(&seen, waiting_for(&seen)),
    };
    Ok(Report { deadlock: deadlocked, whole, verdict: verdict.0, ranks: groups(&seen) })
}
