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

mod command;
mod deadlock;
mod disagreement;
mod found;
mod mismatch;
mod slow;
#[cfg(test)]
mod tests;
mod waits;
mod words;

use ferrywire_host::facts::{CallFact, CallKind, Facts, ObjectFact, Stage};
use ferrywire_host::nic::Peer;

pub(crate) use command::Why;
pub(crate) use deadlock::{deadlock, unfinished};
pub(crate) use disagreement::disagreement;
pub(crate) use found::found;
pub(crate) use mismatch::mismatches;
pub(crate) use slow::slow;
pub(crate) use words::groups;

/// A rank, as it was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Its number among all ranks.
    pub(crate) peer: u32,
    /// Its name in reports.
    pub(crate) name: String,
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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outside {
    /// It uses a processor.
    Computes,
    /// It sleeps.
    Sleeps,
}

/// What a rank is doing.
#[derive(Clone, Copy, Debug)]
enum Doing<'a> {
    /// It waits in a call.
    Waits(&'a CallFact),
    /// It has left the job.
    Left,
    /// It is not in a call that waits.
    Outside,
}

/// A verdict on a job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Verdict(pub(crate) String);

impl Seen {
    fn doing(&self) -> Doing<'_> {
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
        (is_regular && rank < object.size).then(|| object.first + rank * object.stride)
    }

    /// The number of the last collective call that it has made on an object.
    fn calls_on(&self, object: &ObjectFact) -> Option<u32> {
        let own = self.object(object.number)?;
        (own.group == object.group).then_some(own.calls)
    }
}

/// What a process does that is not in the library.
pub(crate) fn outside(process: u32) -> Option<Outside> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in brackets, may contain anything.
    let state = text.rsplit_once(") ")?.1.chars().next()?;
    Some(if state == 'R' { Outside::Computes } else { Outside::Sleeps })
}

/// All ranks of a job.
#[derive(Clone, Copy)]
struct AllRanks<'a>(&'a [Seen]);

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
