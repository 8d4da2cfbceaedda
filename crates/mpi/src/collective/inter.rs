//! Collectives between two groups (MPI 5.0 §6.2.3): each group receives what the other contributes.
//!
//! Built from the collectives within a group. Where there is a root, the root and the other group form a temporary
//! group with the root first. Where there is no root, rank 0 of each group acts for it: contributions are collected
//! there, the two exchange, and the results are distributed from there. Only alltoall has no such rank.
//!
//! | collective | algorithm |
//! |---|---|
//! | [`barrier`] | gather of nothing, exchange, broadcast of nothing |
//! | [`broadcast`] | as within the group of the root and the others |
//! | [`gather`], [`scatter`] | short blocks: within the other group, then in one piece; else linear |
//! | [`gather_blocks`], [`scatter_blocks`] | linear |
//! | [`allgather`], [`allgather_blocks`] | gather across at both first ranks, broadcast within |
//! | [`alltoall`], [`alltoall_blocks`] | pairwise |
//! | [`reduce`] | within the other group, then to the root |
//! | [`allreduce`] | reduction within, exchange, broadcast within |
//! | [`reduce_scatter`], [`reduce_scatter_block`] | reduction within, exchange, scatter within |
//!
//! Reductions are in rank order for every operator. Contributed spans are never written to.

use ferrywire_nic::{MatchWord, Schedule, Span, Step, StepId};

use super::gather::{GatherAlgorithm, choose};
use super::reduce_scatter::places;
use super::{
    LINEAR_RANKS_MAX, Locality, Member, Naming, OPEN_MAX, ReduceOp, block, bounded, copy, rest,
    start,
};
use crate::group::Group;

/// The two groups of a collective, as one member sees them.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// The group id under which the collective's messages travel, in both groups.
    pub group_id: u16,
    /// Our group.
    pub ours: &'a Group,
    /// The other group, disjoint from ours.
    pub theirs: &'a Group,
    /// Our rank in our group.
    pub rank: u32,
}

/// The root, as one member sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Root {
    /// This rank: `MPI_ROOT`.
    Us,
    /// Another rank of our group, so this rank does nothing: `MPI_PROC_NULL`.
    Ours,
    /// This rank of the other group.
    Theirs(u32),
}

impl<'a> Sides<'a> {
    /// This rank as a member of its own group.
    fn within(self) -> Member<'a> {
        Member {
            group_id: self.group_id,
            group: self.ours,
            rank: self.rank,
            locality: Locality::Unknown,
            naming: Naming::Ranks,
        }
    }

    fn is_first(self) -> bool {
        self.rank == 0
    }

    /// A schedule of messages between the groups. Each group numbers the ranks of the other after its own, which keeps
    /// these messages apart from those within a group.
    fn schedule(self) -> Schedule {
        let (ours, theirs) = (self.ours.size(), self.theirs.size());
        assert!(self.rank < ours, "rank {} of {ours}", self.rank);
        assert!(ours + theirs <= MatchWord::SOURCE_MAX, "{ours} and {theirs} ranks in 24 bits");
        Schedule::new(self.group_id, theirs + self.rank)
    }

    fn send(self, to: u32, source: Span) -> Step {
        Step::Send { to: self.theirs.peer_of(to), source, subtag: 0 }
    }

    fn receive(self, from: u32, into: Span) -> Step {
        let rank = self.ours.size() + from;
        Step::Receive { from: self.theirs.peer_of(from), rank, into, subtag: 0 }
    }

    /// At our first rank, when `ready`: sends `given` to their first rank, and receives as much from it. Returns the
    /// steps to wait for.
    fn exchange(
        self,
        schedule: &mut Schedule,
        given: Span,
        into: Span,
        ready: StepId,
    ) -> Vec<StepId> {
        if self.rank > 0 {
            return vec![ready];
        }
        schedule.push(self.send(0, given), &[ready]);
        vec![ready, schedule.push(self.receive(0, into), &[])]
    }

    fn assert_linear(self) {
        let ranks = self.ours.size().max(self.theirs.size());
        assert!(ranks <= LINEAR_RANKS_MAX, "{ranks} ranks, and steps for {LINEAR_RANKS_MAX}");
    }

    /// The group of the root and all members of the group that it is not in, and our rank there. None if we are not in
    /// it.
    fn rooted(self, root: Root) -> Option<(Group, u32)> {
        let (first, others, rank) = match root {
            Root::Us => (self.ours.peer_of(self.rank), self.theirs, 0),
            Root::Ours => return None,
            Root::Theirs(root) => (self.theirs.peer_of(root), self.ours, 1 + self.rank),
        };
        let members: Vec<_> = std::iter::once(first).chain(others.members()).collect();
        Some((Group::of(&members), rank))
    }

    /// The schedule that `build` returns for the group of the root, as rank 0, and the others; empty if we are not in
    /// it.
    fn with_root(self, root: Root, build: impl FnOnce(Member) -> Schedule) -> Schedule {
        match self.rooted(root) {
            Some((group, rank)) => build(Member {
                group_id: self.group_id,
                group: &group,
                rank,
                locality: Locality::Unknown,
                naming: Naming::Ranks,
            }),
            None => self.schedule(),
        }
    }
}

/// Barrier: every rank waits for all ranks of the other group.
pub fn barrier(us: Sides) -> Schedule {
    let mut schedule = us.schedule();
    let nothing = Span::EMPTY;
    let gather = super::gather(us.within(), 0, nothing, nothing, nothing);
    let gathered = schedule.push(start(gather), &[]);
    let exchanged = us.exchange(&mut schedule, nothing, nothing, gathered);
    schedule.push(start(super::broadcast(us.within(), 0, nothing)), &exchanged);
    schedule
}

/// Broadcast of the root's bytes to the other group.
pub fn broadcast(us: Sides, root: Root, bytes: Span) -> Schedule {
    us.with_root(root, |me| super::broadcast(me, 0, bytes))
}

/// Gather of a block of `len` bytes from each rank of the other group to the root. `mine` is our block, if we are in
/// that group; at the root `all` has room for all blocks. `work` has room for [`gather_work_bytes`].
pub fn gather(us: Sides, root: Root, len: u64, mine: Span, all: Span, work: Span) -> Schedule {
    let mut schedule = us.schedule();
    match (root, choose(us.with_root_size(root), len)) {
        (Root::Ours, _) => {}
        (_, GatherAlgorithm::Linear) => {
            return gather_blocks(us, root, mine, |rank| block(all, rank, len));
        }
        (Root::Us, GatherAlgorithm::Tree) => {
            schedule.push(us.receive(0, all), &[]);
        }
        (Root::Theirs(root), GatherAlgorithm::Tree) => {
            let (all, work) = us.at_first(len, work);
            let gather = super::gather(us.within(), 0, mine, all, work);
            let gathered = schedule.push(start(gather), &[]);
            if us.is_first() {
                schedule.push(us.send(root, all), &[gathered]);
            }
        }
    }
    schedule
}

/// Work space of [`gather`].
pub fn gather_work_bytes(us: Sides, root: Root, len: u64) -> u64 {
    tree_work_bytes(us, root, len, super::gather_work_bytes(us.within(), 0, len))
}

/// Like [`gather`], for blocks that may differ in length: at the root `place` gives the place of each rank's block.
pub fn gather_blocks(us: Sides, root: Root, mine: Span, place: impl Fn(u32) -> Span) -> Schedule {
    us.with_root(root, |me| {
        let mine = if me.rank == 0 { Span::EMPTY } else { mine };
        super::gather_blocks(me, 0, mine, behind_root(place))
    })
}

/// Scatter of a block of `len` bytes from the root to each rank of the other group. At the root `all` has all blocks;
/// `mine` receives ours, if we are in that group. `work` has room for [`scatter_work_bytes`].
pub fn scatter(us: Sides, root: Root, len: u64, all: Span, mine: Span, work: Span) -> Schedule {
    let mut schedule = us.schedule();
    match (root, choose(us.with_root_size(root), len)) {
        (Root::Ours, _) => {}
        (_, GatherAlgorithm::Linear) => {
            return scatter_blocks(us, root, |rank| block(all, rank, len), mine);
        }
        (Root::Us, GatherAlgorithm::Tree) => {
            schedule.push(us.send(0, all), &[]);
        }
        (Root::Theirs(root), GatherAlgorithm::Tree) => {
            let (all, work) = us.at_first(len, work);
            let arrived = us.is_first().then(|| schedule.push(us.receive(root, all), &[]));
            let scatter = super::scatter(us.within(), 0, all, mine, work);
            schedule.push(start(scatter), arrived.as_slice());
        }
    }
    schedule
}

/// Work space of [`scatter`].
pub fn scatter_work_bytes(us: Sides, root: Root, len: u64) -> u64 {
    tree_work_bytes(us, root, len, super::scatter_work_bytes(us.within(), 0, len))
}

/// Like [`scatter`], for blocks that may differ in length: at the root `place` gives the place of each rank's block.
pub fn scatter_blocks(us: Sides, root: Root, place: impl Fn(u32) -> Span, mine: Span) -> Schedule {
    us.with_root(root, |me| {
        let mine = if me.rank == 0 { Span::EMPTY } else { mine };
        super::scatter_blocks(me, 0, behind_root(place), mine)
    })
}

/// Places in a group where the root, which has no block, precedes the other group.
fn behind_root(place: impl Fn(u32) -> Span) -> impl Fn(u32) -> Span {
    move |rank| rank.checked_sub(1).map_or(Span::EMPTY, &place)
}

fn tree_work_bytes(us: Sides, root: Root, len: u64, within: u64) -> u64 {
    match (root, choose(us.with_root_size(root), len)) {
        (Root::Theirs(_), GatherAlgorithm::Tree) if us.is_first() => {
            u64::from(us.ours.size()) * len + within
        }
        (Root::Theirs(_), GatherAlgorithm::Tree) => within,
        _ => 0,
    }
}

impl Sides<'_> {
    /// Size of the root together with the group that it is not in.
    fn with_root_size(self, root: Root) -> u32 {
        match root {
            Root::Us | Root::Ours => 1 + self.theirs.size(),
            Root::Theirs(_) => 1 + self.ours.size(),
        }
    }

    /// Room for all our blocks at our first rank, and the rest of the work space.
    fn at_first(self, len: u64, work: Span) -> (Span, Span) {
        let bytes = if self.is_first() { u64::from(self.ours.size()) * len } else { 0 };
        (work.part(0, bytes), rest(work, bytes))
    }
}

/// Allgather between the groups. `mine` is our block; `all` receives all of theirs, which may have another length.
pub fn allgather(us: Sides, mine: Span, all: Span) -> Schedule {
    assert!(all.len.is_multiple_of(us.theirs.size().into()), "whole blocks");
    let len = all.len / u64::from(us.theirs.size());
    across_and_within(us, mine, all, |rank| block(all, rank, len)).0
}

/// Like [`allgather`], for blocks that may differ in length: `place` gives the place of each block of the other group.
/// `work` has room for [`allgather_blocks_work_bytes`].
pub fn allgather_blocks(
    us: Sides,
    mine: Span,
    place: impl Fn(u32) -> Span,
    work: Span,
) -> Schedule {
    let theirs: Vec<Span> = (0..us.theirs.size()).map(place).collect();
    let lens: Vec<u64> = theirs.iter().map(|place| place.len).collect();
    let all = work.part(0, lens.iter().sum());
    let together = places(all, &lens);
    let (mut schedule, done) = across_and_within(us, mine, all, |rank| together[rank as usize]);
    for (source, into) in together.iter().zip(theirs) {
        copy(&mut schedule, *source, into, &[done]);
    }
    schedule
}

/// Work space of [`allgather_blocks`].
pub fn allgather_blocks_work_bytes(us: Sides, place: impl Fn(u32) -> Span) -> u64 {
    (0..us.theirs.size()).map(|rank| place(rank).len).sum()
}

/// The first rank of each group gathers from the other and broadcasts to its own: the gathering rank is the one that
/// knows the lengths of the blocks.
fn across_and_within(
    us: Sides,
    mine: Span,
    all: Span,
    place: impl Fn(u32) -> Span,
) -> (Schedule, StepId) {
    us.assert_linear();
    let mut schedule = us.schedule();
    schedule.push(us.send(0, mine), &[]);
    let mut arrived: Vec<StepId> = Vec::new();
    if us.is_first() {
        for rank in 0..us.theirs.size() {
            let step = us.receive(rank, place(rank));
            let step = schedule.push(step, bounded(&arrived, OPEN_MAX));
            arrived.push(step);
        }
    }
    let broadcast = super::broadcast(us.within(), 0, all);
    let done = schedule.push(start(broadcast), &arrived);
    (schedule, done)
}

/// Alltoall between the groups: block r of `source` goes to their rank r, block r of `into` comes from it. The spans do
/// not overlap.
pub fn alltoall(us: Sides, source: Span, into: Span) -> Schedule {
    let theirs = u64::from(us.theirs.size());
    assert!(source.len.is_multiple_of(theirs), "whole blocks go");
    assert!(into.len.is_multiple_of(theirs), "whole blocks come");
    let (to, from) = (source.len / theirs, into.len / theirs);
    alltoall_blocks(us, |rank| block(source, rank, to), |rank| block(into, rank, from))
}

/// Like [`alltoall`], for blocks that may differ in length: `to` and `from` give the places of the blocks to and from
/// each of their ranks.
///
/// Pairwise as within a group, as if both groups had the size of the larger: a rank without a partner in a round skips
/// it.
pub fn alltoall_blocks(
    us: Sides,
    to: impl Fn(u32) -> Span,
    from: impl Fn(u32) -> Span,
) -> Schedule {
    us.assert_linear();
    let mut schedule = us.schedule();
    let theirs = us.theirs.size();
    let rounds = us.ours.size().max(theirs);
    let (mut sent, mut got): (Vec<StepId>, Vec<StepId>) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let (ahead, behind) = ((us.rank + round) % rounds, (us.rank + rounds - round) % rounds);
        if behind < theirs {
            let step = us.receive(behind, from(behind));
            let step = schedule.push(step, bounded(&got, OPEN_MAX));
            got.push(step);
        }
        if ahead < theirs {
            let step = schedule.push(us.send(ahead, to(ahead)), bounded(&sent, OPEN_MAX));
            sent.push(step);
        }
    }
    schedule
}

/// Reduction of the other group's bytes, at the root. `bytes` holds our contribution, or at the root the result. `work`
/// has room for [`reduce_work_bytes`].
pub fn reduce(us: Sides, root: Root, reduce_op: ReduceOp, bytes: Span, work: Span) -> Schedule {
    let mut schedule = us.schedule();
    match root {
        Root::Us => {
            schedule.push(us.receive(0, bytes), &[]);
        }
        Root::Ours => {}
        Root::Theirs(root) => {
            let (result, combined) = us.reduce_to_first(&mut schedule, reduce_op, bytes, work);
            if us.is_first() {
                schedule.push(us.send(root, result), &[combined]);
            }
        }
    }
    schedule
}

/// Work space of [`reduce`], for `len` bytes.
pub fn reduce_work_bytes(us: Sides, root: Root, reduce_op: ReduceOp, len: u64) -> u64 {
    match root {
        Root::Us | Root::Ours => 0,
        Root::Theirs(_) => us.reduce_to_first_work_bytes(reduce_op, len),
    }
}

/// Allreduce: each rank receives the combined contributions of the other group. `mine` is our contribution, `into`
/// receives the result; both sides contribute as many bytes. `work` has room for [`allreduce_work_bytes`].
pub fn allreduce(us: Sides, reduce_op: ReduceOp, mine: Span, into: Span, work: Span) -> Schedule {
    assert_eq!(mine.len, into.len, "as much goes as comes");
    let mut schedule = us.schedule();
    let (result, combined) = us.reduce_to_first(&mut schedule, reduce_op, mine, work);
    let exchanged = us.exchange(&mut schedule, result, into, combined);
    schedule.push(start(super::broadcast(us.within(), 0, into)), &exchanged);
    schedule
}

/// Work space of [`allreduce`], for `len` bytes.
pub fn allreduce_work_bytes(us: Sides, reduce_op: ReduceOp, len: u64) -> u64 {
    us.reduce_to_first_work_bytes(reduce_op, len)
}

/// Reduce-scatter: the combined contributions of the other group, divided among our group: block r goes to our rank r.
/// `lens` has the length of each block of our group; `all`, our contribution, is for the other group, whose blocks have
/// the same total length. `mine` receives our block. `work` has room for [`reduce_scatter_work_bytes`].
pub fn reduce_scatter(
    us: Sides,
    reduce_op: ReduceOp,
    all: Span,
    lens: &[u64],
    mine: Span,
    work: Span,
) -> Schedule {
    assert_eq!(lens.len(), us.ours.size() as usize, "a length for every rank");
    let (into, work) = (work.part(0, all.len), rest(work, all.len));
    let places = places(into, lens);
    let mut schedule = us.schedule();
    let (result, combined) = us.reduce_to_first(&mut schedule, reduce_op, all, work);
    let exchanged = us.exchange(&mut schedule, result, into, combined);
    let scatter = super::scatter_blocks(us.within(), 0, |rank| places[rank as usize], mine);
    schedule.push(start(scatter), &exchanged);
    schedule
}

/// Work space of [`reduce_scatter`], for `len` bytes in all.
pub fn reduce_scatter_work_bytes(us: Sides, reduce_op: ReduceOp, len: u64) -> u64 {
    len + us.reduce_to_first_work_bytes(reduce_op, len)
}

/// Like [`reduce_scatter`], with blocks of the length of `mine` for our group.
pub fn reduce_scatter_block(
    us: Sides,
    reduce_op: ReduceOp,
    all: Span,
    mine: Span,
    work: Span,
) -> Schedule {
    reduce_scatter(us, reduce_op, all, &vec![mine.len; us.ours.size() as usize], mine, work)
}

impl Sides<'_> {
    /// Reduces our group's bytes in rank order, at its first rank. Returns where the result is there, and the step
    /// after which our part is done.
    fn reduce_to_first(
        self,
        schedule: &mut Schedule,
        reduce_op: ReduceOp,
        bytes: Span,
        work: Span,
    ) -> (Span, StepId) {
        if !self.is_first() {
            let reduce = super::reduce(self.within(), 0, reduce_op, bytes, work);
            return (bytes, schedule.push(start(reduce), &[]));
        }
        // The result replaces the contribution of the first rank, and contributions must not be written to.
        let (result, work) = (work.part(0, bytes.len), rest(work, bytes.len));
        let copied = schedule.push(Step::Copy { source: bytes, into: result }, &[]);
        let reduce = super::reduce(self.within(), 0, reduce_op, result, work);
        (result, schedule.push(start(reduce), &[copied]))
    }

    fn reduce_to_first_work_bytes(self, reduce_op: ReduceOp, len: u64) -> u64 {
        let result = if self.is_first() { len } else { 0 };
        result + super::reduce_work_bytes(self.within(), 0, reduce_op, len)
    }
}
