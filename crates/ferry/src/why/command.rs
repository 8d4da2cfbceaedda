//! `ferry why`: where the ranks of a running job are, and who waits for whom.
//!
//! It needs no help of the launcher of one host, so it also works under other launchers, and if the launcher hangs itself.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::stacks::{self, RankStacks};
use super::{deadlock, groups, slow, waiting_for};
use crate::job_facts::{JobFacts, JobNotFound, Proof, Proved, document};
use crate::out;
use crate::run::is_this_host;

/// Says where the ranks of a running job are, and who waits for whom.
#[derive(Args)]
pub(crate) struct Why {
    /// The process id of the launcher or of a rank. Without it, there must be only one job of this user.
    process: Option<u32>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Print what each thread of each rank on this host is doing, as gdb sees it.
    #[arg(long)]
    stacks: bool,
}

/// What is printed.
#[derive(Serialize)]
struct Report {
    /// The number of the job.
    job: u32,
    /// Whether it is proved that the job will never go on.
    deadlock: bool,
    /// Whether all ranks of the job are seen. Those of other hosts are not if the launcher is on another host.
    whole: bool,
    verdict: String,
    ranks: Vec<String>,
    /// All that is known of each rank.
    facts: Vec<serde_json::Value>,
    /// The stacks of the ranks on this host, if they were wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    stacks: Option<Vec<RankStacks>>,
}

impl Why {
    pub(crate) fn run(&self) -> ExitCode {
        let (mut report, here) =
            match JobFacts::find(self.process).and_then(|mut job| report(&mut job)) {
                Ok(found) => found,
                Err(error) => {
                    eprintln!("ferry why: {error}");
                    return ExitCode::FAILURE;
                }
            };
        if self.stacks {
            report.stacks = stacks::of(&here);
        }
        if self.json {
            out::json(&report);
            return ExitCode::SUCCESS;
        }
        out::line(&report.verdict);
        report.ranks.iter().for_each(|line| out::line(format!("  {line}")));
        for RankStacks { rank, process, stacks } in report.stacks.iter().flatten() {
            out::line(format!("\nrank {rank} (pid {process}):\n{stacks}"));
        }
        if !report.whole {
            eprintln!(
                "ferry why: other ranks of the job are on other hosts; the host of the launcher shows them all"
            );
        }
        ExitCode::SUCCESS
    }
}

/// The report, and the ranks on this host with their processes.
fn report(job: &mut JobFacts) -> Result<(Report, Vec<(String, u32)>), JobNotFound> {
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
    let report = Report {
        job: job.job(),
        deadlock: deadlocked,
        whole,
        verdict: verdict.0,
        ranks: groups(&seen),
        facts: seen.iter().map(document).collect(),
        stacks: None,
    };
    let here = seen.iter().filter(|one| is_this_host(&one.host) && one.ending.is_none());
    let here = here.map(|one| (one.name.clone(), one.process)).collect();
    Ok((report, here))
}
