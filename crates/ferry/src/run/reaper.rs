//! The reaper: a small process that outlives a launcher that is killed, and ends its ranks.
//!
//! The launcher sends it each process group over a pipe. If the pipe closes without a last word, the launcher has
//! vanished: the reaper kills every group that it knows, then every process that has left its group but still has the
//! mark of the job in its environment, and removes what the ranks have recorded. See decision 0014.

use std::fs::{self, File};
use std::io::{PipeWriter, Read, Result, Write};

use super::sys::{self, Pid};
use crate::trace;

/// The last word to the reaper. The others are a group to guard, or the negative of a group to forget.
const ALL_IS_WELL: i32 = 0;

/// The environment variable with the mark of the job.
pub(super) const VARIABLE: &str = "FERRY_JOB";

/// How often to search for processes with the mark, since each may start another meanwhile.
const SEARCHES_MAX: usize = 20;

/// The launcher's side of the reaper.
pub(super) struct Reaper {
    pub(super) pid: Pid,
    pipe: PipeWriter,
}

impl Reaper {
    /// Starts a reaper that guards `groups`.
    pub(super) fn start(mark: &str, groups: impl Iterator<Item = Pid>) -> Result<Reaper> {
        let (theirs, pipe) = std::io::pipe()?;
        let pid = sys::fork_apart(&theirs, |pipe| keep(pipe, mark))?;
        let mut reaper = Reaper { pid, pipe };
        for group in groups {
            reaper.guard(group);
        }
        Ok(reaper)
    }

    /// Makes this group end with the launcher.
    pub(super) fn guard(&mut self, group: Pid) {
        self.tell(group);
    }

    /// The group is empty; the kernel may soon reuse its number.
    pub(super) fn forget(&mut self, group: Pid) {
        self.tell(-group);
    }

    /// The job is over and no process is left: the reaper ends.
    pub(super) fn dismiss(mut self) {
        self.tell(ALL_IS_WELL);
    }

    /// The job did not start: the reaper ends what has been started, as if the launcher had vanished.
    pub(super) fn end_all(self) {
        let pid = self.pid;
        drop(self);
        sys::wait_for(pid);
        while sys::reap().is_some() {}
    }

    /// Sends a word. If the reaper is gone, the loop of the job notices it elsewhere.
    fn tell(&mut self, word: i32) {
        let _ = self.pipe.write_all(&word.to_ne_bytes());
    }
}

/// What the reaper runs.
fn keep(mut pipe: File, mark: &str) {
    let mut groups = Groups::default();
    let mut word = [0; 4];
    while pipe.read_exact(&mut word).is_ok() {
        if !groups.on_word(i32::from_ne_bytes(word)) {
            return;
        }
    }
    for group in groups.guarded {
        sys::signal_group(group, libc::SIGKILL);
    }
    for _ in 0..SEARCHES_MAX {
        let found = marked(mark);
        if found.is_empty() {
            break;
        }
        found.into_iter().for_each(|pid| sys::signal(pid, libc::SIGKILL));
    }
    trace::remove_folder(mark);
}

/// Processes that have the mark of the job. Those of other users cannot be read, and are not ours.
fn marked(mark: &str) -> Vec<Pid> {
    let wanted = format!("{VARIABLE}={mark}").into_bytes();
    let has_mark = |pid: &Pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
    };
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid > 1).filter(has_mark).collect()
}

#[derive(Default)]
struct Groups {
    guarded: Vec<Pid>,
}

impl Groups {
    /// Takes a word from the launcher. Returns whether to continue.
    fn on_word(&mut self, word: i32) -> bool {
        if word > 1 {
            self.guarded.push(word);
        } else if word < 0 {
            self.guarded.retain(|group| -*group != word);
        }
        word != ALL_IS_WELL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_guarded_until_forgotten() {
        let mut groups = Groups::default();
        assert!(groups.on_word(10) && groups.on_word(20) && groups.on_word(-10));
        assert_eq!(groups.guarded, [20]);
        assert!(!groups.on_word(0));
    }

    #[test]
    fn processes_are_found_by_their_mark() {
        let mark = format!("test-{}", sys::own_pid());
        let mut child = std::process::Command::new("cat")
            .env(VARIABLE, &mark)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat starts");
        assert_eq!(marked(&mark), [Pid::try_from(child.id()).expect("small")]);
        drop(child.stdin.take());
        child.wait().expect("cat ends");
        assert!(marked(&mark).is_empty());
    }

    #[test]
    fn neither_everybody_nor_ourselves_can_be_guarded() {
        let mut groups = Groups::default();
        assert!(groups.on_word(1) && groups.on_word(i32::MIN));
        assert!(groups.guarded.is_empty());
    }
}
