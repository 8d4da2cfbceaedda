//! Who waits for whom.

use std::collections::BTreeSet;

use ferrywire_host::facts::{CallFact, CallKind};
use ferrywire_host::nic::PendingKind;
use ferrywire_runtime::call_name::name_of;

use super::{AllRanks, Doing, Seen};

/// What a rank waits for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// Ranks, of which it needs all, or one if `any`.
    pub(crate) ranks: BTreeSet<usize>,
    pub(crate) any: bool,
}

impl<'a> AllRanks<'a> {
    /// What a rank waits for, as far as its facts and those of others tell. Empty if it does not wait, or if nothing is
    /// known.
    pub(crate) fn waits(self, at: usize) -> Waits {
        let Doing::Waits(call) = self.0[at].doing() else { return Waits::default() };
        let mut waits = Waits::default();
        match call.kind {
            CallKind::Send { to, .. } => waits.ranks.extend(self.index_of(Some(to))),
            CallKind::Receive { any_source: false, .. } => {
                waits.ranks.extend(self.source_of(at, call.kind));
            }
            CallKind::Receive { word, .. } => {
                waits.any = true;
                let number = ferrywire_mpi::comm::number_of(word);
                if let Some(object) = self.0[at].object(number) {
                    waits.ranks.extend(self.members(object).filter(|&other| other != at));
                }
            }
            CallKind::Collective { object, nth, .. } => {
                waits.ranks.extend(self.missing(at, object, nth))
            }
            CallKind::Other { object, peer, .. } => match name_of(call.name) {
                "MPI_Win_lock" | "lock" => {
                    waits.ranks.extend(self.holders(at, object, self.index_of(peer)));
                }
                "MPI_Win_wait" => waits.ranks.extend(self.origins(at, object)),
                "MPI_Win_start" | "MPI_Win_complete" => {
                    waits.ranks.extend(self.targets(at, object))
                }
                _ => waits.ranks.extend(self.pending(at)),
            },
        }
        waits
    }

    /// Members that have made fewer collective calls on an object than a rank.
    pub(super) fn missing(self, at: usize, number: u16, nth: u32) -> Vec<usize> {
        let Some(object) = self.0[at].object(number) else { return Vec::new() };
        let late = |&other: &usize| {
            // A member that has never used it knows nothing of it, unless it has freed it.
            self.0[other].calls_on(object).is_some_and(|calls| calls < nth)
        };
        self.members(object).filter(late).collect()
    }

    /// Ranks with which a rank has operations that are not over.
    fn pending(self, at: usize) -> Vec<usize> {
        let pending = &self.0[at].facts.answer.pending;
        let ours = pending.iter().filter(|one| one.kind != PendingKind::Arrived);
        ours.filter_map(|one| self.index_of(one.peer)).collect()
    }

    /// Ranks that hold the lock of a rank in a window.
    pub(super) fn holders(self, at: usize, number: u16, target: Option<usize>) -> Vec<usize> {
        let (Some(object), Some(target)) = (self.0[at].object(number), target) else {
            return Vec::new();
        };
        let target = self.0[target].peer;
        self.members(object)
            .filter(|&other| other != at && holds(&self.0[other], number, target))
            .collect()
    }

    /// Ranks for which a rank has opened an exposure epoch, and which have not completed theirs.
    pub(super) fn origins(self, at: usize, number: u16) -> Vec<usize> {
        let posted = calls(&self.0[at], number).filter(|call| name_of(call.name) == "MPI_Win_post");
        let posted: BTreeSet<usize> =
            posted.filter_map(|call| self.index_of(peer_of(call))).collect();
        let count = |at: usize, name: &str| {
            calls(&self.0[at], number).filter(|call| name_of(call.name) == name).count()
        };
        let done = count(at, "MPI_Win_wait");
        posted.into_iter().filter(|&other| count(other, "MPI_Win_complete") < done).collect()
    }

    /// Ranks at which a rank has begun an access epoch, and which have not opened theirs.
    fn targets(self, at: usize, number: u16) -> Vec<usize> {
        let started =
            calls(&self.0[at], number).filter(|call| name_of(call.name) == "MPI_Win_start");
        started.filter_map(|call| self.index_of(peer_of(call))).collect()
    }

    /// The waiting ranks from which no path leads to another set of waiting ranks: a cycle, or a single rank.
    pub(super) fn root(self) -> Vec<usize> {
        let waits: Vec<Waits> = (0..self.0.len()).map(|at| self.waits(at)).collect();
        let is_waiting = |at: usize| matches!(self.0[at].doing(), Doing::Waits(_));
        let reach = |from: usize| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
            while let Some(at) = next.pop() {
                for &other in waits[at].ranks.iter().filter(|&&other| is_waiting(other)) {
                    if seen.insert(other) {
                        next.push(other);
                    }
                }
            }
            seen
        };
        let waiting: Vec<usize> = (0..self.0.len()).filter(|&at| is_waiting(at)).collect();
        let reaches: Vec<BTreeSet<usize>> = (0..self.0.len()).map(reach).collect();
        // From a rank of the root, only ranks are reached from which it is reached, too.
        let is_root = |at: usize| {
            reaches[at].iter().all(|&other| other == at || reaches[other].contains(&at))
        };
        let Some(&first) = waiting.iter().find(|&&at| is_root(at)) else { return waiting };
        let mut root: Vec<usize> = reaches[first].iter().copied().collect();
        if !root.contains(&first) {
            root.push(first);
        }
        root.sort_unstable();
        root
    }
}

/// The calls of a rank on an object, apart from collective ones.
pub(super) fn calls(seen: &Seen, number: u16) -> impl Iterator<Item = &CallFact> {
    seen.facts
        .calls
        .iter()
        .filter(move |call| matches!(call.kind, CallKind::Other { object, .. } if object == number))
}

fn peer_of(call: &CallFact) -> Option<ferrywire_host::nic::Peer> {
    match call.kind {
        CallKind::Other { peer, .. } => peer,
        _ => None,
    }
}

/// Whether a rank has locked the window of a process, and not unlocked it.
fn holds(seen: &Seen, number: u16, target: u32) -> bool {
    let mut held = false;
    let waits = matches!(seen.doing(), Doing::Waits(call) if name_of(call.name) == "MPI_Win_lock");
    let all = calls(seen, number).count();
    for (at, call) in calls(seen, number).enumerate() {
        let is_it = peer_of(call).is_some_and(|peer| peer.0 == target);
        match name_of(call.name) {
            // It does not hold what it waits for.
            "MPI_Win_lock" | "lock" if is_it => held = !(waits && at + 1 == all),
            "MPI_Win_unlock" | "unlock" if is_it => held = false,
            "MPI_Win_lock_all" | "lock_all" => held = true,
            "MPI_Win_unlock_all" | "unlock_all" => held = false,
            _ => {}
        }
    }
    held
}
