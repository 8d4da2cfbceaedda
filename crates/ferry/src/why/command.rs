//! `ferry why`: where the ranks of a running job are, and who waits for whom.
//!
//! It needs no help of the launcher: the memory that ranks share is a file that each of their processes has open, and the
//! system lets their user open it, too. So this also works under other launchers, and if the launcher hangs itself.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ferrywire_host::facts::Stage;
use ferrywire_host::{Segment, monotonic_ns};
use serde::Serialize;

use super::{Seen, deadlock, groups, outside, slow};
use crate::out;

/// Says where the ranks of a running job on this host are, and who waits for whom.
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
    verdict: String,
    ranks: Vec<String>,
}

/// Why there is nothing to say.
pub(crate) enum JobNotFound {
    None,
    NoneOf(u32),
    Several(Vec<u32>),
}

impl fmt::Display for JobNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobNotFound::None => write!(f, "no job of this user runs on this host"),
            JobNotFound::NoneOf(process) => write!(
                f,
                "process {process} belongs to no job of this user; pass the process id of a launcher or a rank"
            ),
            JobNotFound::Several(processes) => {
                let list: Vec<String> = processes.iter().map(u32::to_string).collect();
                write!(
                    f,
                    "several jobs of this user run here; pass one of these process ids: {}",
                    list.join(", ")
                )
            }
        }
    }
}

impl Why {
    pub(crate) fn run(&self) -> ExitCode {
        let segment = match find(self.process) {
            Ok(segment) => segment,
            Err(error) => {
                eprintln!("ferry why: {error}");
                return ExitCode::FAILURE;
            }
        };
        let report = report(&segment);
        if self.json {
            out::json(&report);
        } else {
            out::line(&report.verdict);
            report.ranks.iter().for_each(|line| out::line(format!("  {line}")));
        }
        ExitCode::SUCCESS
    }
}

/// The memory of the job that a process belongs to, or of the only job.
pub(crate) fn find(process: Option<u32>) -> Result<Segment, JobNotFound> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let processes: Vec<u32> = process.map_or_else(|| all.collect(), |one| vec![one]);
    let own = fs::metadata("/proc/self").map(|own| own.uid()).ok();
    let mut jobs: BTreeMap<u32, (u32, Segment)> = BTreeMap::new();
    for process in processes {
        let owner = fs::metadata(format!("/proc/{process}")).map(|folder| folder.uid()).ok();
        if owner != own {
            continue;
        }
        for segment in segments_of(process) {
            jobs.entry(segment.job()).or_insert((process, segment));
        }
    }
    match (jobs.len(), process) {
        (1, _) => Ok(jobs.into_values().next().expect("there is one").1),
        (0, None) => Err(JobNotFound::None),
        (0, Some(process)) => Err(JobNotFound::NoneOf(process)),
        _ => Err(JobNotFound::Several(jobs.into_values().map(|(process, _)| process).collect())),
    }
}

/// The memory of jobs that a process has open.
fn segments_of(process: u32) -> Vec<Segment> {
    let list = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let is_ours = |path: &std::path::PathBuf| {
        fs::read_link(path).is_ok_and(|link| link.to_string_lossy().starts_with("/memfd:ferrywire"))
    };
    let paths = list.map(|entry| entry.path()).filter(is_ours);
    let files = paths.filter_map(|path| File::options().read(true).write(true).open(path).ok());
    files.filter_map(|file| Segment::open(file.into()).ok()).collect()
}

fn report(segment: &Segment) -> Report {
    // Above the numbers of the launcher.
    let question = 1 << 31 | std::process::id();
    let first = ask(segment, question);
    let second = ask(segment, question + 1);
    let activity =
        |seen: &[Seen]| -> Vec<u64> { seen.iter().map(|one| one.facts.answer.activity).collect() };
    let is_stuck = |one: &Seen, number: u32| {
        let answer = &one.facts.answer;
        let sleeps = answer.number == number
            && answer.waiter
            && !(answer.in_flight || answer.other_threads || answer.several_planes);
        sleeps || one.facts.stage == Stage::Finalized
    };
    let waits = |one: &Seen| one.facts.waiting > 0;
    let deadlocked = first.iter().all(|one| is_stuck(one, question))
        && second.iter().all(|one| is_stuck(one, question + 1))
        && second.iter().any(waits)
        && activity(&first) == activity(&second);
    let now = monotonic_ns();
    let since = second.iter().filter(|one| waits(one)).map(|one| one.facts.waiting_since_ns).max();
    let verdict = match deadlocked {
        true => deadlock(&second),
        false => {
            slow(&second, Duration::from_nanos(since.map_or(0, |since| now.saturating_sub(since))))
        }
    };
    Report { deadlock: deadlocked, verdict: verdict.0, ranks: groups(&second) }
}

/// Asks all ranks, waits a moment for their answers, and reads what they tell.
fn ask(segment: &Segment, question: u32) -> Vec<Seen> {
    let ranks = 0..segment.ranks_so_far();
    segment.ask(ranks.clone(), question);
    let until = Instant::now() + ANSWER_MAX;
    let has_answered = |rank: u32| {
        let glance = segment.glance(rank);
        glance.is_none_or(|glance| glance.waiting == 0 || glance.answered == question)
    };
    while Instant::now() < until && !ranks.clone().all(has_answered) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let seen = |rank: u32| {
        let facts = segment.facts(rank)?;
        let outside = (facts.waiting == 0).then(|| outside(segment.process(rank).pid_outside));
        let (peer, outside) = (facts.me, outside.flatten());
        Some(Seen { peer, name: peer.to_string(), facts, outside, ..Seen::default() })
    };
    ranks.filter_map(seen).collect()
}

/// How long answers are waited for: a rank that waits for a lock of a window looks ten times a second.
const ANSWER_MAX: Duration = Duration::from_millis(400);
