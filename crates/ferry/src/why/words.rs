//! Calls, ranks and numbers in words.

use std::fmt::Write as _;

use ferrywire_host::facts::{CallFact, CallKind, PendingFact};
use ferrywire_host::nic::{Mask, PendingKind};
use ferrywire_mpi::comm::{number_of, user_tag};
use ferrywire_runtime::call_name::name_of;
use ferrywire_runtime::words::bytes;

use super::{AllRanks, Doing, Outside, Seen};

/// Which one it is: `1st`, `2nd`.
pub(crate) fn ordinal(nth: u32) -> String {
    let ending = match (nth % 100, nth % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{nth}{ending}")
}

/// Things in a row: `a, b and c`.
pub(super) fn list(things: &[String]) -> String {
    match things {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

impl AllRanks<'_> {
    /// Ranks without the word: `0-4 and 6-15`.
    pub(super) fn numbers(self, ranks: &[usize]) -> String {
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        let runs = sorted.chunk_by(|&one, &next| one + 1 == next);
        let name = |at: usize| self.0[at].name.clone();
        let mut parts = Vec::new();
        for run in runs {
            match run {
                [first, _, .., last] => {
                    parts.push(format!("{}-{}", name(*first), name(*last)));
                }
                _ => parts.extend(run.iter().map(|&at| name(at))),
            }
        }
        list(&parts)
    }

    /// `rank 3`, `ranks 0-4 and 6-15`.
    pub(crate) fn ranks(self, ranks: &[usize]) -> String {
        format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, self.numbers(ranks))
    }

    /// What an object of a rank is called.
    pub(super) fn object(self, at: usize, number: u16) -> String {
        match self.0[at].object(number) {
            Some(object) if !object.name.is_empty() => object.name.clone(),
            Some(object) => format!("a communicator of {} ranks", object.size),
            None => format!("communicator {number}"),
        }
    }

    /// The end of the description of a message: `(tag 3, communicator ocean)`. The first communicator is not named.
    fn in_brackets(self, at: usize, tag: Option<u32>, number: u16) -> String {
        let mut parts: Vec<String> = tag.map(|tag| format!("tag {tag}")).into_iter().collect();
        if number != 0 {
            let name = self.object(at, number);
            let title = if name.contains(' ') { name } else { format!("communicator {name}") };
            parts.push(title);
        }
        match parts.as_slice() {
            [] => String::new(),
            _ => format!(" ({})", parts.join(", ")),
        }
    }

    /// The other side of a message.
    fn other(self, at: usize, number: u16, rank: u32) -> String {
        let known = self.0[at].peer_of(number, rank).and_then(|peer| self.at(peer));
        match known {
            Some(other) => format!("rank {}", self.0[other].name),
            None => format!("its rank {rank}"),
        }
    }

    /// A call of a rank.
    pub(crate) fn call(self, at: usize, call: &CallFact) -> String {
        let name = name_of(call.name);
        match call.kind {
            CallKind::Send { to, word, bytes: length } => {
                let to =
                    self.index_of(Some(to)).map_or_else(String::new, |to| self.0[to].name.clone());
                let brackets = self.in_brackets(at, Some(word.tag()), number_of(word));
                format!("{name} of {} to rank {to}{brackets}", bytes(length))
            }
            CallKind::Receive { word, any_source, any_tag, .. } => {
                let number = number_of(word);
                let from = match any_source {
                    true => "any rank".into(),
                    false => self.other(at, number, word.source()),
                };
                let tag = (!any_tag).then(|| word.tag());
                format!("{name} from {from}{}", self.in_brackets(at, tag, number))
            }
            CallKind::Collective { object, nth, .. } => {
                let title = self.object(at, object);
                // Windows and files have few calls, and their names say which object it is.
                match title.starts_with("window") || title.starts_with("file") {
                    true => format!("{} of {title}", signature(call)),
                    false => {
                        let nth = ordinal(nth);
                        format!("{} of {title} (its {nth} collective call)", signature(call))
                    }
                }
            }
            CallKind::Other { object, peer, .. } => {
                let of = self.index_of(peer).map(|of| format!(" of rank {}", self.0[of].name));
                let brackets = match object {
                    0 => String::new(),
                    object => format!(" ({})", self.object(at, object)),
                };
                format!("{name}{}{brackets}", of.unwrap_or_default())
            }
        }
    }

    /// What a rank does, as the end of a sentence about it: `is in MPI_Barrier of MPI_COMM_WORLD`.
    pub(super) fn doing(self, at: usize) -> String {
        let seen = &self.0[at];
        match seen.doing() {
            Doing::Waits(call) => format!("is in {}", self.call(at, call)),
            Doing::Left => {
                let finalize =
                    seen.facts.calls.iter().rev().any(|call| name_of(call.name) == "MPI_Finalize");
                let left = if finalize { "has called MPI_Finalize" } else { "has left the job" };
                match &seen.ending {
                    Some(ending) => format!("{left} and {ending}"),
                    None => left.into(),
                }
            }
            Doing::Outside => match (&seen.ending, seen.outside) {
                (Some(ending), _) => format!("has {ending}"),
                (None, Some(Outside::Sleeps)) => {
                    format!("sleeps outside of MPI, and has not called it{}", self.since(at))
                }
                (None, _) => format!("computes, and has not called MPI{}", self.since(at)),
            },
        }
    }

    /// A message that has arrived, or an operation that is not over.
    pub(crate) fn pending_words(self, at: usize, one: &PendingFact) -> String {
        let other = |word| match self.index_of(one.peer) {
            Some(other) => format!(" {word} rank {}", self.0[other].name),
            None => String::new(),
        };
        let any = |open: Mask| one.mask.bits() & !open.bits() == 0;
        let tag = user_tag(one.word).filter(|_| !any(Mask::ANY_TAG));
        let number = number_of(one.word);
        let brackets = self.in_brackets(at, tag, number);
        let length = bytes(one.bytes);
        let whose = if user_tag(one.word).is_none() { "internal " } else { "" };
        match one.kind {
            PendingKind::Arrived => {
                format!("{whose}message of {length}{}{brackets}", other("from"))
            }
            PendingKind::Send => format!("{whose}send of {length}{}{brackets}", other("to")),
            PendingKind::Step => {
                format!("step of a collective call, {length}{}{brackets}", other("with"))
            }
            PendingKind::Receive => {
                let from = match any(Mask::ANY_SOURCE) {
                    true => "any rank".into(),
                    false => self.other(at, number, one.word.source()),
                };
                format!("{whose}receive of at most {length} from {from}{brackets}")
            }
        }
    }

    fn since(self, at: usize) -> String {
        let facts = &self.0[at].facts;
        let last = facts.plain.or_else(|| facts.last_call().map(|call| call.name));
        last.map_or_else(String::new, |name| format!(" since {}", name_of(name)))
    }
}

/// The name of a collective call and its root.
pub(super) fn signature(call: &CallFact) -> String {
    let mut text = name_of(call.name).to_owned();
    if let CallKind::Collective { root: Some(root), .. } = call.kind {
        let preposition = match text.contains("cast") || text.contains("catter") {
            true => "from",
            false => "to",
        };
        let _ = write!(text, " {preposition} root {root}");
    }
    text
}

/// A line for each group of ranks that do the same, the largest group first.
pub(crate) fn groups(seen: &[Seen]) -> Vec<String> {
    let job = AllRanks(seen);
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for at in 0..seen.len() {
        let doing = job.doing(at);
        match groups.iter_mut().find(|(known, _)| *known == doing) {
            Some((_, ranks)) => ranks.push(at),
            None => groups.push((doing, vec![at])),
        }
    }
    groups.sort_by_key(|(_, ranks)| std::cmp::Reverse(ranks.len()));
    let line = |(doing, ranks): &(String, Vec<usize>)| {
        let plural = ranks.len() > 1;
        let doing = match plural {
            true => plural_of(doing),
            false => doing.clone(),
        };
        format!("{} {doing}", job.ranks(ranks))
    };
    groups.iter().map(line).collect()
}

/// A sentence about one rank, about several.
pub(super) fn plural_of(doing: &str) -> String {
    for (one, several) in [
        ("is in ", "are in "),
        ("has ", "have "),
        ("sleeps outside of MPI, and has ", "sleep outside of MPI, and have "),
        ("computes, and has ", "compute, and have "),
    ] {
        if let Some(rest) = doing.strip_prefix(one) {
            return format!("{several}{rest}");
        }
    }
    doing.to_owned()
}
