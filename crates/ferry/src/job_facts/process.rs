//! What the system says of the process of a rank.

use std::fs;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The process of a rank on its host.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct ProcessTimes {
    /// What its program is called.
    pub(crate) program: String,
    /// How long it has run.
    pub(crate) running: Duration,
    /// Time on processors so far, of all its threads, and of the one that turns its NIC while the program computes.
    pub(crate) used: Duration,
    pub(crate) agent: Duration,
}

impl ProcessTimes {
    /// `None` if the process has ended.
    pub(crate) fn of(process: u32) -> Option<ProcessTimes> {
        let stat = ProcessStat::read(&format!("/proc/{process}/stat"))?;
        if matches!(stat.state, 'Z' | 'X') {
            return None;
        }
        let agent = agent_of(process).and_then(|thread| {
            Some(ProcessStat::read(&format!("/proc/{process}/task/{thread}/stat"))?.used)
        });
        Some(ProcessTimes {
            program: program_of(process),
            running: of_ticks(ticks_since_boot().saturating_sub(stat.began)),
            used: stat.used,
            agent: agent.unwrap_or_default(),
        })
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

/// The name of the agent's thread.
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
