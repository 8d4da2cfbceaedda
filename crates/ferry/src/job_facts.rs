//! The facts of all ranks of a running job, for commands that look at it from outside: they ask, and get a list.
//!
//! On one host, the memory that ranks share is a file that each of their processes has open, and the system lets their
//! user open it, too: no launcher is needed. Of a job on several hosts, the launcher collects the facts, and answers at a
//! socket.
//!
//! | file | what it does |
//! |---|---|
//! | `report.rs` | facts of ranks as they go from host to host |
//! | `process.rs` | what the system says of the process of a rank |
//! | `proof.rs` | decides from the answers of all ranks whether the job is stuck for ever |
//! | `socket.rs` | where the launcher of several hosts answers |
//! | `document.rs` | all facts as JSON |

mod document;
mod process;
mod proof;
mod report;
mod socket;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use ferrywire_host::Segment;
use ferrywire_host::facts::{COUNTS_ONLY, Stage};

use crate::run::own_name;
use crate::why::{Seen, outside};
pub(crate) use document::{document, write_file};
pub(crate) use process::ProcessTimes;
pub(crate) use proof::{Proof, Proved, RankAnswer};
pub(crate) use report::{FactsReport, RankRecord};
use socket::Asking;
pub(crate) use socket::{Answering, AnsweringSource};

/// A running job whose facts can be read.
pub(crate) struct JobFacts {
    job: u32,
    source: FactsSource,
    /// The number of the last question.
    question: u32,
}

enum FactsSource {
    /// The memory that the ranks of this host share.
    Here(Segment),
    /// The launcher of a job on several hosts, which is on this one.
    Launcher(Asking),
}

/// What ranks told, ordered by their numbers.
pub(crate) struct Snapshot {
    /// The number of the question that they were asked. An answer with another number is from before.
    pub(crate) question: u32,
    /// Whether all ranks of the job are seen. Those of other hosts are not if the launcher is on another host.
    pub(crate) is_whole: bool,
    /// The ranks, with the names of their hosts and their process ids there.
    pub(crate) ranks: Vec<Seen>,
}

/// Why there is no job to read.
#[derive(Debug)]
pub(crate) enum JobNotFound {
    None,
    NoneOf(u32),
    Several(Vec<u32>),
    /// It has ended since.
    Over,
    /// Its launcher does not answer.
    NoAnswer(io::Error),
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
            JobNotFound::Over => write!(f, "the job has ended"),
            JobNotFound::NoAnswer(error) => {
                write!(f, "the launcher of the job does not answer: {error}")
            }
        }
    }
}

impl Snapshot {
    /// What the ranks have answered, as far as a proof needs it; nothing if some are missing.
    pub(crate) fn answers(&self) -> BTreeMap<u32, RankAnswer> {
        if !self.is_whole || world_size(&self.ranks) > self.ranks.len() {
            return BTreeMap::new();
        }
        // Ranks that have left or ended answer nothing any more.
        let remain = |one: &&Seen| one.facts.stage != Stage::Finalized && one.ending.is_none();
        let answer = |one: &Seen| RankAnswer::of(&one.facts, self.question, one.leaves);
        let remaining = self.ranks.iter().filter(remain);
        remaining.map(|one| (one.peer, answer(one))).collect()
    }
}

impl JobFacts {
    /// The job that a process belongs to, which is its launcher or a rank, or the only job of this user on this host.
    pub(crate) fn find(process: Option<u32>) -> Result<JobFacts, JobNotFound> {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let processes: Vec<u32> = process.map_or_else(|| all.collect(), |one| vec![one]);
        let own = fs::metadata("/proc/self").map(|own| own.uid()).ok();
        let mut jobs: BTreeMap<u32, (u32, FactsSource)> = BTreeMap::new();
        for process in processes {
            let owner = fs::metadata(format!("/proc/{process}")).map(|folder| folder.uid()).ok();
            if owner != own {
                continue;
            }
            for segment in segments_of(process) {
                jobs.entry(segment.job()).or_insert((process, FactsSource::Here(segment)));
            }
        }
        // A launcher knows all ranks of its job, also those of other hosts.
        for (job, launcher) in socket::launchers() {
            let is_meant = process.is_none_or(|one| one == launcher || jobs.contains_key(&job));
            if is_meant && let Ok(asking) = Asking::connect(job, launcher) {
                jobs.insert(job, (launcher, FactsSource::Launcher(asking)));
            }
        }
        match (jobs.len(), process) {
            (1, _) => {
                let (job, (_, source)) = jobs.pop_first().expect("there is one");
                // Above the numbers of the launcher.
                Ok(JobFacts { job, source, question: 1 << 31 | std::process::id() })
            }
            (0, None) => Err(JobNotFound::None),
            (0, Some(process)) => Err(JobNotFound::NoneOf(process)),
            _ => {
                Err(JobNotFound::Several(jobs.into_values().map(|(process, _)| process).collect()))
            }
        }
    }

    /// The number of the job.
    pub(crate) fn job(&self) -> u32 {
        self.job
    }

    /// Asks all ranks to bring their facts up to date, waits a moment for those that are in the library, and reads them.
    pub(crate) fn ask(&mut self) -> Result<Snapshot, JobNotFound> {
        self.question = self.question.wrapping_add(1) & !COUNTS_ONLY;
        self.ask_and_read()
    }

    /// Asks all ranks for their queues and counters only. This disturbs them less, and the answers prove nothing.
    pub(crate) fn ask_for_counts(&mut self) -> Result<Snapshot, JobNotFound> {
        self.question = self.question.wrapping_add(1) | COUNTS_ONLY;
        self.ask_and_read()
    }

    fn ask_and_read(&mut self) -> Result<Snapshot, JobNotFound> {
        match &mut self.source {
            FactsSource::Launcher(asking) => asking.ask(),
            FactsSource::Here(segment) => {
                ask(segment, self.question);
                seen_here(segment, self.question)
            }
        }
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

/// Asks the ranks of this host, and waits a moment for their answers.
fn ask(segment: &Segment, question: u32) {
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
}

fn seen_here(segment: &Segment, question: u32) -> Result<Snapshot, JobNotFound> {
    let host = own_name();
    let mut runs = false;
    let mut seen = |rank: u32| {
        let process = segment.process(rank).pid_outside;
        let exists = fs::exists(format!("/proc/{process}")).unwrap_or(true);
        runs |= exists;
        let facts = segment.facts(rank)?;
        let outside = (facts.waiting == 0).then(|| outside(process)).flatten();
        let (peer, host) = (facts.me, host.clone());
        let (name, times) = (peer.to_string(), ProcessTimes::of(process));
        Some(Seen { peer, name, host, process, times, facts, outside, ..Seen::default() })
    };
    let here = segment.ranks_so_far();
    let ranks: Vec<Seen> = (0..here).filter_map(&mut seen).collect();
    let is_whole = world_size(&ranks) <= here as usize;
    runs.then_some(Snapshot { question, is_whole, ranks }).ok_or(JobNotFound::Over)
}

/// How many ranks the job has, as far as its ranks have said.
fn world_size(ranks: &[Seen]) -> usize {
    let sizes = ranks.iter().filter_map(|one| Some(one.facts.object(0)?.size as usize));
    sizes.max().unwrap_or(0)
}

/// How long answers are waited for: a rank that waits for a lock of a window looks ten times a second.
pub(crate) const ANSWER_MAX: Duration = Duration::from_millis(400);
