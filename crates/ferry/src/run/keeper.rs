//! The keeper: a small process that outlives a launcher that is killed, and ends its ranks.
//!
//! It is told each process group over a pipe. If the pipe closes without a word, the launcher has
//! vanished, and the keeper kills every group that it knows. See decision 0014.

use std::fs::File;
use std::io::{PipeWriter, Read, Result, Write};

use super::sys::{self, Pid};

/// What the keeper is told: a group to guard, a group to forget by its negative, or that all is
/// well.
const ALL_IS_WELL: i32 = 0;

/// The launcher's side.
pub(super) struct Keeper {
    pub(super) pid: Pid,
    pipe: PipeWriter,
}

impl Keeper {
    /// Starts it, and tells it the groups that there are already.
    pub(super) fn start(groups: impl Iterator<Item = Pid>) -> Result<Keeper> {
        let (theirs, pipe) = std::io::pipe()?;
        let pid = sys::fork_apart(&theirs, keep)?;
        let mut keeper = Keeper { pid, pipe };
        for group in groups {
            keeper.guard(group);
        }
        Ok(keeper)
    }

    /// From now on this group ends with the launcher.
    pub(super) fn guard(&mut self, group: Pid) {
        self.tell(group);
    }

    /// The group is empty; its number may soon be somebody else's.
    pub(super) fn forget(&mut self, group: Pid) {
        self.tell(-group);
    }

    /// The job is over and nothing is left. The keeper ends.
    pub(super) fn dismiss(mut self) {
        self.tell(ALL_IS_WELL);
    }

    /// There will be no job. The keeper ends what has been started, as if we had vanished.
    pub(super) fn end_all(self) {
        let pid = self.pid;
        drop(self);
        sys::wait_for(pid);
        while sys::reap().is_some() {}
    }

    /// A keeper that is gone cannot be told. That it is gone is seen elsewhere.
    fn tell(&mut self, word: i32) {
        let _ = self.pipe.write_all(&word.to_ne_bytes());
    }
}

/// The life of the keeper.
fn keep(mut pipe: File) {
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
}

#[derive(Default)]
struct Groups {
    guarded: Vec<Pid>,
}

impl Groups {
    /// Says whether to go on.
    fn on_word(&mut self, word: i32) -> bool {
        if word > 1 {
            self.guarded.push(word);
        } else if word < 0 {
            self.guarded.retain(|group| *group != -word);
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
    fn neither_everybody_nor_ourselves_can_be_guarded() {
        let mut groups = Groups::default();
        assert!(groups.on_word(1) && groups.on_word(i32::MIN + 1));
        assert!(groups.guarded.is_empty());
    }
}
