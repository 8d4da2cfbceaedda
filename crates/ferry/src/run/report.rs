//! How ranks ended, in words: the first failure, then the other ranks, grouped.

use std::fmt;
use std::io;

use ferrywire_host::error_code::continued;
use ferrywire_host::{ErrorCode, Segment};
use serde::{Deserialize, Serialize};

use super::job::SIGNAL_GRACE;
use super::sys::{Ending, Pid};
use super::wire::Loss;

/// A rank as the output and reports name it: `3`, or `1.3` for rank 3 of the first world that was spawned.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(super) struct RankName {
    /// 0 for the world of the beginning.
    world: u32,
    rank: u32,
}

impl RankName {
    /// A rank of the beginning.
    pub(super) fn of(rank: u32) -> RankName {
        RankName { world: 0, rank }
    }

    /// A rank of a spawned world. Worlds are counted from 1 on.
    pub(super) fn spawned(world: u32, rank: u32) -> RankName {
        RankName { world, rank }
    }

    pub(super) fn world(self) -> u32 {
        self.world
    }

    fn is_before(self, next: RankName) -> bool {
        self.world == next.world && self.rank + 1 == next.rank
    }
}

impl fmt::Display for RankName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.world {
            0 => write!(f, "{}", self.rank),
            world => write!(f, "{world}.{}", self.rank),
        }
    }
}

/// How a rank ended; `None` if it could not be ended.
pub(super) type RankEnding = (RankName, Option<Ending>);

/// Why a job failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// A rank ended with an exit code other than 0, or by a signal.
    Ended { rank: RankName, pid: Pid, ending: Ending },
    /// A rank that had joined ended without a goodbye, and others still ran.
    Unfinished { rank: RankName, pid: Pid },
    /// The same of a rank that others had started, so that nobody knows how it ended.
    Vanished { rank: RankName, pid: Pid },
    /// A rank ended without joining, and another waits for it.
    Absent { rank: RankName, pid: Pid, waiting: RankName },
    /// A rank aborted the job.
    Abort { rank: RankName, pid: Pid, code: i32, text: String },
    /// The job exceeded its time limit.
    TimeOut { seconds: f64, running: Vec<RankName> },
    /// The shared memory of the job could not be created.
    NoSegment { size: u32, error: io::Error },
    /// A rank could not be sent its join reply.
    NoJoinReply { rank: RankName, pid: Pid, error: io::Error },
    /// The output of ranks cannot be written.
    NoOutput { error: io::Error },
    /// The user sent a second signal.
    Killed { signal: i32 },
    /// Ranks did not end after a signal that asked them to.
    Ignored { signal: i32, running: Vec<RankName> },
    /// Reapers are killed again and again.
    NoReaper { tried: u32 },
    /// All ranks wait for ever.
    Stuck { verdict: String, lines: Vec<String> },
    /// A failure that has another cause.
    Explained { verdict: String, lines: Vec<String>, failure: Box<Failure> },
    /// A rank ended after a call had returned an error.
    AfterError { rank: RankName, pid: Pid, ending: Ending, error: String },
    /// A rank ended by a panic of Rust.
    Panicked { rank: RankName, pid: Pid, ending: Ending, text: String, place: String },
    /// The launcher of this daemon is gone.
    NoHead,
}

impl Failure {
    /// The exit code of `ferry run`.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Failure::Ended { ending, .. }
            | Failure::AfterError { ending, .. }
            | Failure::Panicked { ending, .. } => code_of(*ending),
            Failure::Stuck { .. } => DEADLOCK,
            Failure::Explained { failure, .. } => failure.exit_code(),
            Failure::Abort { code, .. } => code_of_abort(*code),
            Failure::TimeOut { .. } => 124,
            Failure::Killed { signal } | Failure::Ignored { signal, .. } => {
                code_of(Ending::Signal(*signal))
            }
            Failure::Unfinished { .. }
            | Failure::Vanished { .. }
            | Failure::Absent { .. }
            | Failure::NoSegment { .. }
            | Failure::NoJoinReply { .. }
            | Failure::NoOutput { .. }
            | Failure::NoReaper { .. }
            | Failure::NoHead => 1,
        }
    }

    /// The rank that failed, if a rank did.
    pub(super) fn rank(&self) -> Option<RankName> {
        match self {
            Failure::Ended { rank, .. }
            | Failure::Unfinished { rank, .. }
            | Failure::Vanished { rank, .. }
            | Failure::Absent { rank, .. }
            | Failure::AfterError { rank, .. }
            | Failure::Panicked { rank, .. }
            | Failure::Abort { rank, .. } => Some(*rank),
            Failure::Explained { failure, .. } => failure.rank(),
            _ => None,
        }
    }

    /// Its code, unless what it repeats has one.
    fn code(&self) -> ErrorCode {
        match self {
            Failure::Ended { ending: Ending::Exit(_), .. } | Failure::AfterError { .. } => {
                ErrorCode::EXIT_CODE
            }
            Failure::Ended { ending: Ending::Signal(_), .. } => ErrorCode::DIED,
            Failure::Unfinished { .. } | Failure::Vanished { .. } => ErrorCode::NOT_FINALISED,
            Failure::Absent { .. } => ErrorCode::NOT_JOINED,
            Failure::Abort { .. } => ErrorCode::ABORTED,
            Failure::TimeOut { .. } => ErrorCode::TIME_LIMIT,
            Failure::NoSegment { .. } => ErrorCode::JOB_MEMORY,
            Failure::NoJoinReply { .. } => ErrorCode::SYSTEM,
            Failure::NoOutput { .. } => ErrorCode::OUTPUT,
            Failure::Killed { .. } => ErrorCode::SECOND_SIGNAL,
            Failure::Ignored { .. } => ErrorCode::SIGNAL_IGNORED,
            Failure::NoReaper { .. } => ErrorCode::REAPER,
            Failure::Panicked { .. } => ErrorCode::PANICKED,
            Failure::NoHead => ErrorCode::LAUNCHER_GONE,
            Failure::Stuck { .. } => ErrorCode::ALL_WAIT,
            Failure::Explained { failure, .. } => failure.code(),
        }
    }

    /// Whether it may follow from what other ranks did, which their facts tell.
    pub(super) fn may_be_explained(&self) -> bool {
        match self {
            Failure::Abort { .. } => true,
            Failure::Ended { ending, .. } => {
                matches!(ending, Ending::Exit(_) | Ending::Signal(libc::SIGABRT))
            }
            _ => false,
        }
    }

    /// How likely this is a cause rather than a consequence, among failures seen at the same moment.
    pub(super) fn weight(&self) -> u32 {
        match self {
            Failure::Abort { .. } => 4,
            Failure::Ended { ending: Ending::Signal(signal), .. } => match *signal {
                libc::SIGTERM | libc::SIGINT | libc::SIGHUP | libc::SIGPIPE => 1,
                _ => 3,
            },
            Failure::Ended { .. } | Failure::AfterError { .. } | Failure::Panicked { .. } => 2,
            Failure::Explained { failure, .. } => failure.weight(),
            _ => 0,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.code().ends(Uncoded(self)))
    }
}

/// A failure without its code.
struct Uncoded<'a>(&'a Failure);

impl fmt::Display for Uncoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Failure::Ended { rank, pid, ending } => {
                write!(f, "rank {rank} (pid {pid}) {}", Told(*ending))
            }
            Failure::Unfinished { rank, pid } => write!(
                f,
                "rank {rank} (pid {pid}) ended (exit code 0) without finalising, while others ran"
            ),
            Failure::Vanished { rank, pid } => {
                write!(f, "rank {rank} (pid {pid}) ended without finalising, while others ran")
            }
            Failure::Absent { rank, pid, waiting } => write!(
                f,
                "rank {rank} (pid {pid}) ended (exit code 0) without joining, and rank {waiting} \
                 waits for it"
            ),
            Failure::Abort { rank, pid, code, text } if text.is_empty() => {
                write!(f, "rank {rank} (pid {pid}) aborted the job with code {code}")
            }
            Failure::Abort { rank, pid, code, text } => {
                write!(f, "rank {rank} (pid {pid}) aborted the job with code {code}: {text}")
            }
            Failure::TimeOut { seconds, running } => write!(
                f,
                "the job ran longer than {seconds} s (--timeout or MPIEXEC_TIMEOUT); still running: {}",
                Ranks(running)
            ),
            // Shared memory is a file without a name, so the limit on file sizes applies.
            Failure::NoSegment { size, error } if error.raw_os_error() == Some(libc::EFBIG) => {
                write!(
                    f,
                    "cannot share {} bytes of memory among {size} ranks: the limit on the size of files is lower \
                 (ulimit -f)",
                    Segment::bytes(*size),
                )
            }
            Failure::NoSegment { size, error } => write!(
                f,
                "cannot reserve {} bytes of memory for {size} ranks: {error} ({} bytes of address \
                 space are needed, ulimit -v)",
                Segment::bytes(*size),
                Segment::address_bytes(*size)
            ),
            Failure::NoJoinReply { rank, pid, error } => {
                write!(f, "cannot give rank {rank} (pid {pid}) the memory of the job: {error}")
            }
            Failure::NoOutput { error } => {
                write!(f, "cannot write the output of the ranks: {error}")
            }
            Failure::Killed { signal } => {
                write!(f, "killed the job at a second signal, {}", name_of(*signal))
            }
            Failure::Ignored { signal, running } => write!(
                f,
                "killed {}, still running {} s after {}",
                Ranks(running),
                SIGNAL_GRACE.as_secs(),
                name_of(*signal)
            ),
            Failure::Stuck { verdict, .. } | Failure::Explained { verdict, .. } => {
                write!(f, "{verdict}")
            }
            Failure::AfterError { rank, pid, ending, error } => {
                let told = Told(*ending);
                write!(f, "rank {rank} (pid {pid}) {told} after an error of {error}")
            }
            Failure::Panicked { rank, pid, text, .. } => {
                write!(f, "rank {rank} (pid {pid}) panicked: {text}")
            }
            Failure::NoHead => write!(f, "the launcher is gone"),
            Failure::NoReaper { tried } => write!(
                f,
                "the reaper, the process that guards the job, was killed {tried} times: without it \
                 ranks could outlive the launcher"
            ),
        }
    }
}

/// The exit code of a job that has succeeded, and in which `--check` has found mistakes.
pub(super) const MISTAKEN: u8 = 36;

/// The exit code of a job whose ranks wait for each other for ever: the number of `EDEADLK`.
pub(super) const DEADLOCK: u8 = 35;

/// How the other ranks ended, if there are any.
pub(super) fn others(endings: &[RankEnding]) -> Option<String> {
    let mut kinds: Vec<(Option<Ending>, Vec<RankName>)> = Vec::new();
    for (rank, ending) in endings {
        match kinds.iter_mut().find(|(kind, _)| kind == ending) {
            Some((_, ranks)) => ranks.push(*rank),
            None => kinds.push((*ending, vec![*rank])),
        }
    }
    let parts: Vec<String> = kinds
        .iter()
        .map(|(ending, ranks)| match ending {
            Some(ending) => format!("{} {}", Ranks(ranks), Told(*ending)),
            None => format!("{} could not be ended", Ranks(ranks)),
        })
        .collect();
    (!parts.is_empty()).then(|| format!("then {}", parts.join("; ")))
}

/// One line for each rank without which the job went on.
pub(super) fn survived(losses: &[Loss]) -> Vec<String> {
    let line = |loss: &Loss| match loss.had_left {
        true => loss.why.clone(),
        false => continued(&loss.why, "; the job went on without it"),
    };
    losses.iter().map(line).collect()
}

/// The exit code of a job that went on without some of its ranks: that of a rank that failed after it had left the job,
/// since it survived; [`DEATHS_SURVIVED`] if another rank succeeded; else that of the first death.
pub(super) fn code_of_losses(losses: &[Loss], endings: &[RankEnding]) -> u8 {
    let Some(first) = losses.first() else { return 0 };
    let well = endings.iter().any(|(_, ending)| *ending == Some(Ending::Exit(0)));
    match losses.iter().find(|loss| loss.had_left && loss.code != 0) {
        Some(word) => word.code,
        None if well => DEATHS_SURVIVED,
        None => first.code,
    }
}

/// The exit code if ranks died and all others succeeded.
const DEATHS_SURVIVED: u8 = 3;

/// The exit code of a shell for the same ending.
fn code_of(ending: Ending) -> u8 {
    match ending {
        Ending::Exit(code) => code,
        Ending::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
    }
}

/// The low byte, as with any exit code; but an abort is never a success.
fn code_of_abort(code: i32) -> u8 {
    match code.to_le_bytes()[0] {
        0 => 1,
        low => low,
    }
}

/// An ending as the end of a sentence.
pub(super) struct Told(pub(super) Ending);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // A shell reports by such a code that a signal killed the program.
            Ending::Exit(code) if (129..=159).contains(&code) => {
                let signal = i32::from(code) - 128;
                write!(f, "ended with exit code {code}, a shell's code for {}", name_of(signal))
            }
            Ending::Exit(code) => write!(f, "ended with exit code {code}"),
            Ending::Signal(signal) => write!(f, "died of {}", name_of(signal)),
        }
    }
}

/// Ranks as `rank 3` or `ranks 0-2, 5, 1.0-1.2`.
pub(super) struct Ranks<'a>(pub(super) &'a [RankName]);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", if self.0.len() == 1 { "rank " } else { "ranks " })?;
        for (at, run) in self.0.chunk_by(|one, next| one.is_before(*next)).enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            match run {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [only] => write!(f, "{comma}{only}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

/// The name of a signal.
pub(super) fn name_of(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL (illegal instruction)",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT (abort)",
        libc::SIGBUS => "SIGBUS (bad memory access)",
        libc::SIGFPE => "SIGFPE (arithmetic error)",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV (bad memory access)",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE (broken pipe)",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU (CPU time limit)",
        libc::SIGXFSZ => "SIGXFSZ (file size limit)",
        libc::SIGSYS => "SIGSYS (forbidden system call)",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_told_in_few_words() {
        assert_eq!(Ranks(&[RankName::of(4)]).to_string(), "rank 4");
        let ranks = [0, 1, 2, 5, 7, 8].map(RankName::of);
        assert_eq!(Ranks(&ranks).to_string(), "ranks 0-2, 5, 7-8");
    }

    #[test]
    fn spawned_ranks_have_the_number_of_their_world() {
        let spawned = RankName::spawned;
        assert_eq!(Ranks(&[spawned(2, 7)]).to_string(), "rank 2.7");
        let ranks = [RankName::of(0), RankName::of(1), spawned(1, 2), spawned(1, 3), spawned(2, 4)];
        assert_eq!(Ranks(&ranks).to_string(), "ranks 0-1, 1.2-1.3, 2.4");
    }

    #[test]
    fn the_others_are_grouped_by_how_they_ended() {
        let term = Some(Ending::Signal(libc::SIGTERM));
        let endings = [(0, term), (1, term), (3, Some(Ending::Exit(0))), (4, term), (5, None)];
        let endings = endings.map(|(rank, ending)| (RankName::of(rank), ending));
        assert_eq!(
            others(&endings).expect("something"),
            "then ranks 0-1, 4 died of SIGTERM; rank 3 ended with exit code 0; rank 5 could not \
             be ended"
        );
        assert_eq!(others(&[]), None);
    }

    #[test]
    fn codes_are_those_of_a_shell() {
        let rank = RankName::of(0);
        let ended = |ending| Failure::Ended { rank, pid: 2, ending }.exit_code();
        assert_eq!(ended(Ending::Exit(7)), 7);
        assert_eq!(ended(Ending::Signal(libc::SIGSEGV)), 139);
        let abort = |code| Failure::Abort { rank, pid: 2, code, text: String::new() };
        assert_eq!(abort(5).exit_code(), 5);
        assert_eq!(abort(0).exit_code(), 1);
        assert_eq!(abort(256).exit_code(), 1);
        assert_eq!(abort(-1).exit_code(), 255);
    }

    #[test]
    fn a_job_that_went_on_says_so() {
        let loss = |code, had_left| Loss { why: "rank 1 died".into(), code, had_left };
        let (one, other) = (RankName::of(0), RankName::of(1));
        let killed = (other, Some(Ending::Signal(9)));
        let well = [(one, Some(Ending::Exit(0))), killed];
        assert_eq!(code_of_losses(&[], &well), 0);
        assert_eq!(code_of_losses(&[loss(137, false)], &well), DEATHS_SURVIVED);
        assert_eq!(code_of_losses(&[loss(137, false), loss(5, true)], &well), 5);
        assert_eq!(code_of_losses(&[loss(137, false)], &[killed]), 137);
        assert_eq!(survived(&[loss(137, false)]), ["rank 1 died; the job went on without it"]);
    }

    #[test]
    fn a_shells_word_for_a_signal_is_explained() {
        assert!(Told(Ending::Exit(139)).to_string().contains("SIGSEGV"));
        assert!(!Told(Ending::Exit(3)).to_string().contains("shell"));
    }
}
