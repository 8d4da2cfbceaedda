//! Looks at the ranks of a job: their facts, and what the system says of their processes.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use ferrywire_host::facts::Stage;
use ferrywire_host::monotonic_ns;

use crate::job_facts::{JobFacts, JobNotFound};
use crate::run::own_name;
use crate::why::Seen;

/// Where the facts of ranks come from.
pub(super) struct Source {
    facts: JobFacts,
    host: String,
    /// What is known of the process of each rank of this host.
    processes: BTreeMap<u32, RankProcess>,
}

/// The process of a rank.
struct RankProcess {
    id: u32,
    /// When it began, in ticks since the system did: a later process may have the same number.
    began: u64,
    /// The thread that turns the NIC while the program computes, once it has been found.
    agent: Option<u32>,
}

/// All ranks of a job, as they were at some time.
#[derive(Clone, Default)]
pub(super) struct Sample {
    /// When that was, by the monotonic clock.
    pub(super) at_ns: u64,
    /// How long the oldest process has run.
    pub(super) running: Duration,
    /// What the program of the ranks is called.
    pub(super) program: String,
    /// The facts, for the functions of `why`.
    pub(super) seen: Vec<Seen>,
    /// What else is known, in the same order.
    pub(super) places: Vec<RankPlace>,
}

/// What is known of a rank besides its facts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RankPlace {
    /// Whether it is on this host.
    pub(super) is_here: bool,
    /// Time on processors so far, of a rank of this host whose process is there.
    pub(super) used: Option<ProcessorTime>,
    /// Whether the rank has brought its queues and counters up to date.
    pub(super) has_answered: bool,
}

/// Time on processors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProcessorTime {
    pub(super) all: Duration,
    pub(super) agent: Duration,
}

impl Source {
    /// The ranks of the job that a process belongs to, or of the only job.
    pub(super) fn of(process: Option<u32>) -> Result<Source, JobNotFound> {
        let facts = JobFacts::find(process)?;
        Ok(Source { facts, host: own_name(), processes: BTreeMap::new() })
    }

    /// The number of the job.
    pub(super) fn job(&self) -> u32 {
        self.facts.job()
    }

    /// Looks at all ranks.
    pub(super) fn look(&mut self) -> Result<Sample, JobNotFound> {
        let snapshot = self.facts.ask_for_counts()?;
        let ticks_now = ticks_since_boot();
        let mut sample = Sample { at_ns: monotonic_ns(), ..Sample::default() };
        for seen in snapshot.ranks {
            let mut place = RankPlace {
                is_here: seen.host == self.host,
                used: None,
                has_answered: seen.facts.answer.number == snapshot.question,
            };
            if place.is_here
                && let Some((stat, agent)) = self.process(&seen)
            {
                place.used = Some(ProcessorTime { all: stat.used, agent });
                let running = of_ticks(ticks_now.saturating_sub(stat.began));
                if running > sample.running || sample.program.is_empty() {
                    sample.running = running;
                    sample.program = program_of(seen.process);
                }
            }
            sample.seen.push(seen);
            sample.places.push(place);
        }
        Ok(sample)
    }

    /// What the system says of the process of a rank of this host, and how long its agent has run; `None` if it has ended.
    fn process(&mut self, seen: &Seen) -> Option<(ProcessStat, Duration)> {
        let id = seen.process;
        let stat = ProcessStat::read(&format!("/proc/{id}/stat"))?;
        let known = self.processes.entry(seen.peer).or_insert(RankProcess {
            id,
            began: stat.began,
            agent: None,
        });
        if (known.id, known.began) != (id, stat.began) || matches!(stat.state, 'Z' | 'X') {
            return None;
        }
        known.agent = known.agent.or_else(|| agent_of(id));
        let agent = known.agent.and_then(|thread| {
            Some(ProcessStat::read(&format!("/proc/{id}/task/{thread}/stat"))?.used)
        });
        Some((stat, agent.unwrap_or_default()))
    }
}

impl Sample {
    /// Whether any rank is still in the job.
    pub(super) fn is_alive(&self) -> bool {
        let is_in = |(seen, place): (&Seen, &RankPlace)| {
            let exists = !place.is_here || place.used.is_some();
            exists && seen.ending.is_none() && seen.facts.stage != Stage::Finalized
        };
        self.seen.iter().zip(&self.places).any(is_in)
    }
}

/// What the system says of a process or a thread.
struct ProcessStat {
    state: char,
    used: Duration,
    began: u64,
}

impl ProcessStat {
    fn read(path: &str) -> Option<ProcessStat> {
        ProcessStat::parse(&fs::read_to_string(path).ok()?)
    }

    fn parse(text: &str) -> Option<ProcessStat> {
        // The name, in brackets, may contain anything.
        let mut words = text.rsplit_once(") ")?.1.split_whitespace();
        let state = words.next()?.chars().next()?;
        // Fields 14, 15 and 22 of proc(5); this was field 3.
        let mut number = |skipped: usize| words.nth(skipped)?.parse::<u64>().ok();
        let used = number(10)? + number(0)?;
        Some(ProcessStat { state, used: of_ticks(used), began: number(6)? })
    }
}

/// Ticks in which Linux tells times to programs.
const TICKS_PER_SECOND: u64 = 100;

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * (1000 / TICKS_PER_SECOND))
}

fn ticks_since_boot() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = text.split_whitespace().next().unwrap_or_default();
    let (whole, part) = seconds.split_once('.').unwrap_or((seconds, "0"));
    whole.parse::<u64>().unwrap_or(0) * TICKS_PER_SECOND + part.parse::<u64>().unwrap_or(0)
}

/// The thread of a process that turns its NIC while the program computes.
fn agent_of(process: u32) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
    let mut threads = threads.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    threads.find(|thread| {
        let name = fs::read_to_string(format!("/proc/{process}/task/{thread}/comm"));
        name.is_ok_and(|name| name.trim_end() == AGENT)
    })
}

/// What a program is called: for an interpreter, its script.
fn program_of(process: u32) -> String {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words: Vec<String> = line
        .split(|&byte| byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let file = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let program = words.first().map(|word| file(word)).unwrap_or_default();
    let script = words.iter().skip(1).find(|word| !word.starts_with('-') && !word.is_empty());
    match script {
        Some(script) if program.starts_with("python") => file(script),
        _ => program,
    }
}

/// The name of the thread of [`ProcessorTime::agent`].
const AGENT: &str = "ferry-agent";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_contain_anything() {
        let line = "4711 (a) R (b) S 1 2 3 0 -1 4194304 9 0 0 0 250 50 0 0 20 0 2 0 8000 9 9";
        let stat = ProcessStat::parse(line).expect("a line");
        assert_eq!((stat.state, stat.used, stat.began), ('S', Duration::from_secs(3), 8000));
        assert!(ProcessStat::parse("4711 (a) S 1").is_none());
    }

    #[test]
    fn this_program_is_called_by_its_file() {
        let own = std::env::current_exe().expect("a path");
        let own = own.file_name().expect("a name").to_string_lossy().into_owned();
        assert_eq!(program_of(std::process::id()), own);
    }
}
