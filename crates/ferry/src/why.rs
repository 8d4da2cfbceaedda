//! Why a job does not go on, and which rule of MPI it has broken: from the facts of its ranks to one sentence, and then
//! a line for each group of ranks that are alike.
//!
//! Sentences are pure functions of facts. `run/job/hang.rs` collects these as the job runs, and knows whether it is stuck
//! for ever or may only be slow; `command.rs` does so once.
//!
//! | file | what it does |
//! |---|---|
//! | `command.rs` | `ferry why`, for a job that runs |
//! | `words.rs` | calls, ranks and numbers in words |
//! | `disagreement.rs` | collective calls in which members differ |
//! | `waits.rs` | who waits for whom |
//! | `found.rs` | mistakes that ranks have found themselves |
//! | `mismatch.rs` | messages that were received as something else than they were sent, or never |
//! | `deadlock.rs` | the sentence about ranks that wait for ever |
//! | `slow.rs` | the sentence about ranks that may only be slow |
//! | `stacks.rs` | the stacks of ranks, by gdb |

mod command;
mod deadlock;
mod disagreement;
mod found;
mod mismatch;
mod slow;
mod stacks;
#[cfg(test)]
mod tests;
mod waits;
mod words;

use std::fmt;
use std::time::Duration;

use ferrywire_host::ErrorCode;
use ferrywire_host::facts::{CallFact, CallKind, Facts, ObjectFact, Stage};
use ferrywire_host::monotonic_ns;
use ferrywire_host::nic::Peer;
use serde::{Deserialize, Serialize};

use crate::job_facts::ProcessTimes;

pub(crate) use command::Why;
pub(crate) use deadlock::deadlock;
use deadlock::unfinished;
pub(crate) use disagreement::disagreement;
use found::found;
use mismatch::mismatches;
pub(crate) use slow::slow;
pub(crate) use words::{groups, ordinal};

/// A rank, as it was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Its number among all ranks.
    pub(crate) peer: u32,
    /// Its name in reports.
    pub(crate) name: String,
    /// The name of its host, and its process id there.
    pub(crate) host: String,
    pub(crate) process: u32,
    /// What the system there says of the process, if it has not ended.
    pub(crate) times: Option<ProcessTimes>,
    /// It has left, or waits in `MPI_Finalize` for all others.
    pub(crate) leaves: bool,
    /// What it tells about itself.
    pub(crate) facts: Facts,
    /// A call of it has failed because a rank is gone: it would have waited for ever.
    pub(crate) failed: bool,
    /// How it has ended, in words, if its process has ended with an error.
    pub(crate) ending: Option<String>,
    /// What it does outside of the library, if it is there.
    pub(crate) outside: Option<Outside>,
    /// It asks again and again whether something is over.
    pub(crate) polls: bool,
}

/// What a rank does that is not in the library.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Outside {
    /// It uses a processor.
    Computes,
    /// It sleeps.
    Sleeps,
}

/// What a rank is doing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Doing<'a> {
    /// It waits in a call.
    Waits(&'a CallFact),
    /// It has left the job.
    Left,
    /// It is not in a call that waits.
    Outside,
}

/// A verdict on a job, which ends with its code.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Verdict(pub(crate) String);

impl Verdict {
    fn new(code: ErrorCode, sentence: impl fmt::Display) -> Verdict {
        Verdict(code.ends(sentence))
    }
}

impl Seen {
    pub(crate) fn doing(&self) -> Doing<'_> {
        let failed = self
            .facts
            .missing
            .filter(|_| self.failed)
            .and_then(|(_, made)| self.facts.calls.iter().find(|call| call.number + 1 == made));
        match failed.or(self.facts.last_call()) {
            Some(call) if self.facts.waiting > 0 || self.failed => Doing::Waits(call),
            _ if self.facts.stage != Stage::Running => Doing::Left,
            _ => Doing::Outside,
        }
    }

    fn object(&self, number: u16) -> Option<&ObjectFact> {
        self.facts.object(number)
    }

    /// The process of a member of one of its communicators, if that is known.
    fn peer_of(&self, number: u16, rank: u32) -> Option<u32> {
        let object = self.object(number)?;
        let is_regular = object.stride > 0 || object.size == 1;
        let peer = rank.checked_mul(object.stride)?.checked_add(object.first)?;
        (is_regular && rank < object.size).then_some(peer)
    }

    /// The number of the last collective call that it has made on an object.
    fn calls_on(&self, object: &ObjectFact) -> Option<u32> {
        let own = self.object(object.number)?;
        (own.group == object.group).then_some(own.calls)
    }
}

/// What facts say about the failure of a rank: the mistake that it follows from, or why its call would have waited for
/// ever. `misses` if a call of it failed because a rank is gone, `left` if it had left in order and then failed.
pub(crate) fn explanation(seen: &[Seen], misses: bool, left: bool) -> Option<Verdict> {
    // A rank that ended with an error has left in order, and others miss it.
    let misses = misses || left && seen.iter().any(|one| one.failed);
    disagreement(seen).or_else(|| misses.then(|| deadlock(seen)))
}

/// A host that others cannot reach, with the numbers of its ranks.
pub(crate) fn unreachable(
    seen: &[Seen],
    (host, ranks): (&str, impl Iterator<Item = u32>),
    reason: Option<&str>,
) -> Verdict {
    let job = AllRanks(seen);
    let known: Vec<usize> = ranks.filter_map(|rank| job.at(rank)).collect();
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    let there = match known.len() {
        0 => String::new(),
        1 => format!("; {} is there", job.ranks(&known)),
        _ => format!("; {} are there", job.ranks(&known)),
    };
    Verdict::new(ErrorCode::HOST_LOST, format_args!("{host} cannot be reached{reason}{there}"))
}

/// For how long the ranks that wait have waited, all of them.
pub(crate) fn waiting_for(seen: &[Seen]) -> Duration {
    let waiting = seen.iter().filter(|one| one.facts.waiting > 0);
    let since = waiting.map(|one| one.facts.waiting_since_ns).max();
    Duration::from_nanos(since.map_or(0, |since| monotonic_ns().saturating_sub(since)))
}

/// Mistakes of a program: all that were found if it is checked, else one that is certain. Those that follow from the order
/// of calls are only known if the job has not failed.
pub(crate) fn mistakes(seen: &[Seen], is_checked: bool, has_failed: bool) -> Vec<String> {
    if !is_checked {
        let certain = || {
            let first = disagreement(seen).or_else(|| found(seen).into_iter().next());
            first.or_else(|| unfinished(seen))
        };
        return if has_failed { None } else { certain() }.map(|it| it.0).into_iter().collect();
    }
    let mut mistakes = found(seen);
    if !has_failed {
        mistakes.splice(0..0, disagreement(seen));
        mistakes.extend(mismatches(seen));
    }
    let more = mistakes.len().saturating_sub(MISTAKES_MAX);
    let listed = mistakes.into_iter().take(MISTAKES_MAX).map(|mistake| mistake.0);
    let rest = (more > 0).then(|| format!("and {more} more mistakes"));
    listed.chain(rest).collect()
}

/// How many mistakes are listed.
const MISTAKES_MAX: usize = 20;

/// What a process does that is not in the library.
pub(crate) fn outside(process: u32) -> Option<Outside> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in brackets, may contain anything.
    let state = text.rsplit_once(") ")?.1.chars().next()?;
    Some(if state == 'R' { Outside::Computes } else { Outside::Sleeps })
}

/// All ranks of a job.
#[derive(Clone, Copy)]
pub(crate) struct AllRanks<'a>(pub(crate) &'a [Seen]);

impl<'a> AllRanks<'a> {
    fn at(self, peer: u32) -> Option<usize> {
        self.0.iter().position(|seen| seen.peer == peer)
    }

    fn index_of(self, peer: Option<Peer>) -> Option<usize> {
        self.at(peer?.0)
    }

    /// Ranks that have an object with the same members: all its members, if all have used it.
    fn members(self, object: &'a ObjectFact) -> impl Iterator<Item = usize> + 'a {
        let has = move |seen: &Seen| {
            seen.object(object.number).is_some_and(|other| other.group == object.group)
        };
        self.0.iter().enumerate().filter(move |(_, seen)| has(seen)).map(|(at, _)| at)
    }

    /// The only rank that can send what a receive of a rank wants, if that is known.
    fn source_of(self, at: usize, kind: CallKind) -> Option<usize> {
        let CallKind::Receive { word, any_source: false, .. } = kind else { return None };
        let number = ferrywire_mpi::comm::number_of(word);
        self.at(self.0[at].peer_of(number, word.source())?)
    }
}
