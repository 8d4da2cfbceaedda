//! Collective algorithms, each written once, as a pure function that returns a schedule.
//!
//! Blocking, non-blocking and persistent calls are three ways to start the same schedule. Where a collective has two
//! algorithms, a function `choose` beside them decides, in the same way on all ranks. Its limits are guesses until they
//! are measured.
//!
//! | collective | algorithm | when |
//! |---|---|---|
//! | [`barrier`] | dissemination | |
//! | | all tell rank 0, which tells all | many ranks share cores |
//! | [`broadcast`] | tree | short, or many ranks |
//! | | all get it from the root | long, on one machine |
//! | | scatter, then a ring of pieces | long |
//! | [`gather`], [`scatter`] | tree | short blocks, or many ranks |
//! | | linear | long blocks |
//! | [`gather_blocks`], [`scatter_blocks`] | linear | always: only the root knows all lengths |
//! | [`allgather`], [`allgather_blocks`] | doubling | short in all, or many ranks |
//! | | ring | long in all |
//! | [`alltoall`], [`alltoall_blocks`] | pairwise | always |
//! | [`reduce`] | tree to the root | short, and commutative or the root is rank 0 |
//! | | tree to rank 0, which passes it on | short, and in rank order |
//! | | pairwise by pieces, then gathered | long |
//! | [`allreduce`] | doubling | short |
//! | | all to rank 0, which combines and tells all | short, and many ranks share cores |
//! | | halving, then doubling | long |
//! | [`reduce_scatter`], [`reduce_scatter_block`] | allreduce of all blocks | short in all, or many ranks |
//! | | pairwise | long in all |
//! | [`scan`], [`exscan`] | doubling | always |
//! | [`neighbourhood`] | all at once | always |
//!
//! With `_blocks` in their names, or lengths among their arguments, functions take blocks that may differ in length.
//! Collectives between two groups are in [`inter`], and are built from these.
//!
//! Blocks of several ranks are adjacent, in rank order. If our own span is already at its place in the span of all, it
//! is not copied: that is how in-place operation works.
//!
//! Operators are associative. Contributions are combined in rank order: a step combines its source, which comes from
//! lower ranks, into the rest. In most algorithms that costs nothing; where it does, it is done only for operators that
//! are not commutative. Either way the same ranks with the same bytes get the same result, to the last bit.

mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod broadcast;
mod gather;
pub mod inter;
mod neighbourhood;
mod reduce;
mod reduce_scatter;
mod scan;
mod scatter;
mod tree;

use std::sync::Arc;

use ferrywire_nic::{Operator, Schedule, Span, Step, StepId};

pub use allgather::{
    allgather, allgather_blocks, allgather_blocks_work_bytes, allgather_doubling, allgather_ring,
    allgather_work_bytes,
};
pub use allreduce::{
    allreduce, allreduce_doubling, allreduce_flat, allreduce_flat_work_bytes, allreduce_halving,
    allreduce_work_bytes,
};
pub use alltoall::{alltoall, alltoall_blocks, alltoall_blocks_work_bytes, alltoall_work_bytes};
pub use barrier::{barrier, barrier_dissemination, barrier_flat};
pub use broadcast::{broadcast, broadcast_flat, broadcast_pieces, broadcast_tree};
pub use gather::{gather, gather_blocks, gather_work_bytes};
pub use neighbourhood::{Edge, neighbourhood, neighbours};
pub use reduce::{reduce, reduce_pieces, reduce_pieces_work_bytes, reduce_work_bytes};
pub use reduce_scatter::{
    reduce_scatter, reduce_scatter_block, reduce_scatter_block_work_bytes,
    reduce_scatter_work_bytes,
};
pub use scan::{exscan, exscan_work_bytes, scan};
pub use scatter::{scatter, scatter_blocks, scatter_work_bytes};

use crate::group::Group;

/// The members of a collective, as one of them sees it.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The group id under which the collective's messages travel.
    pub group_id: u16,
    /// All members.
    pub group: &'a Group,
    /// Our rank in the group.
    pub rank: u32,
    /// Where the members run; all of them have the same value. It affects speed only.
    pub locality: Locality,
    /// How messages name their senders.
    pub naming: Naming,
}

/// How the messages of a collective name their senders.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Naming {
    /// By their ranks: all members of a communicator take part, and count ranks in the same way.
    #[default]
    Ranks,
    /// By their processes, under one subtag. For groups that share one group id, may overlap, and number the same
    /// process differently.
    Processes {
        /// The subtag of all their messages.
        subtag: u8,
    },
}

/// Where the members of a collective run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Locality {
    /// Unknown, or on several hosts.
    #[default]
    Unknown,
    /// On one host, with a core for each: all can read from one rank's memory.
    OneNode,
    /// On one host, with more ranks than cores: the cost is in the number of wake-ups.
    Oversubscribed,
}

impl Member<'_> {
    /// Number of members.
    pub fn size(self) -> u32 {
        self.group.size()
    }

    pub(crate) fn schedule(self) -> Schedule {
        assert!(self.rank < self.size(), "rank {} of {}", self.rank, self.size());
        Schedule::new(self.group_id, self.name_of(self.rank))
    }

    /// The source field of messages from `rank`.
    fn name_of(self, rank: u32) -> u32 {
        match self.naming {
            Naming::Ranks => rank,
            Naming::Processes { .. } => self.group.peer_of(rank).0,
        }
    }

    fn subtag(self, subtag: u8) -> u8 {
        match self.naming {
            Naming::Ranks => subtag,
            Naming::Processes { subtag: only } => {
                assert_eq!(subtag, 0, "it has one subtag");
                only
            }
        }
    }

    fn send(self, to: u32, source: Span) -> Step {
        self.send_on(0, to, source)
    }

    fn receive(self, from: u32, into: Span) -> Step {
        self.receive_on(0, from, into)
    }

    fn send_on(self, subtag: u8, to: u32, source: Span) -> Step {
        Step::Send { to: self.group.peer_of(to), source, subtag: self.subtag(subtag) }
    }

    fn receive_on(self, subtag: u8, from: u32, into: Span) -> Step {
        let (peer, subtag) = (self.group.peer_of(from), self.subtag(subtag));
        Step::Receive { from: peer, rank: self.name_of(from), into, subtag }
    }

    /// The rank `distance` ahead of ours, and the one as far behind, on a ring of ranks.
    fn around(self, distance: u32) -> (u32, u32) {
        let size = self.size();
        ((self.rank + distance) % size, (self.rank + size - distance) % size)
    }

    /// Our rank counted from `root`, and the map back.
    fn relative_to(self, root: u32) -> (u32, impl Fn(u32) -> u32) {
        let size = self.size();
        assert!(root < size, "root {root} of {size}");
        ((self.rank + size - root) % size, move |relative| (relative + root) % size)
    }
}

/// How contributions are combined.
#[derive(Clone, Copy, Debug)]
pub struct ReduceOp {
    /// The operator.
    pub operator: Operator,
    /// The operator's unit: a span is never cut inside one.
    pub element_bytes: u64,
    /// Whether contributions may be combined out of rank order.
    pub commutative: bool,
}

impl ReduceOp {
    fn step(self, source: Span, into: Span) -> Step {
        Step::Reduce { operator: self.operator, source, into }
    }
}

/// The block of a rank where all blocks have `len` bytes.
fn block(all: Span, rank: u32, len: u64) -> Span {
    blocks(all, rank, 1, len)
}

/// The blocks of `count` ranks from `rank` on.
fn blocks(all: Span, rank: u32, count: u32, len: u64) -> Span {
    all.part(u64::from(rank) * len, u64::from(count) * len)
}

/// The pieces of `count` ranks from `rank` on, if `all` is divided among `size` ranks as evenly as possible in units of
/// `unit_bytes`.
fn pieces(all: Span, unit_bytes: u64, size: u32, rank: u32, count: u32) -> Span {
    let piece_bytes = (all.len / unit_bytes).div_ceil(size.into()) * unit_bytes;
    let start = (u64::from(rank) * piece_bytes).min(all.len);
    let end = (u64::from(rank + count) * piece_bytes).min(all.len);
    all.part(start, end - start)
}

/// The rest of a span, from `start` on.
fn rest(span: Span, start: u64) -> Span {
    span.part(start, span.len - start)
}

/// Another schedule as a step. When one schedule waits for another, their messages need nothing to tell them apart:
/// sender and receiver both do all of the first before any of the second, and between two ranks messages are received
/// in the order in which they are sent.
pub(crate) fn start(schedule: Schedule) -> Step {
    Step::Start(Arc::new(schedule))
}

/// Copies, unless the bytes are already in place.
fn copy(schedule: &mut Schedule, source: Span, into: Span, after: &[StepId]) -> Option<StepId> {
    assert_eq!(source.len, into.len, "a block is as long as its place");
    (source != into).then(|| schedule.push(Step::Copy { source, into }, after))
}

/// The steps that the next step of a series waits for, so that no more than `open_max` are open at a time.
fn bounded(series: &[StepId], open_max: usize) -> &[StepId] {
    bounded_after(&[], series, open_max)
}

/// Like [`bounded`], for a series that begins after `ready`.
fn bounded_after<'a>(ready: &'a [StepId], series: &'a [StepId], open_max: usize) -> &'a [StepId] {
    match series.len().checked_sub(open_max) {
        Some(at) => &series[at..=at],
        None => ready,
    }
}

/// The most ranks for which one rank exchanges messages with all others in turn, to save wake-ups or copies: a tree has
/// fewer messages at its root. A guess until it is measured.
const FLAT_RANKS_MAX: u32 = 64;
/// The fewest oversubscribed ranks for which that saves wake-ups: on two cores, 4 and 8 ranks were slower, 16 and 32
/// faster.
const FLAT_RANKS_MIN: u32 = 16;

/// A step that does nothing, and so completes when all of `after` have.
fn join(schedule: &mut Schedule, after: &[StepId]) -> StepId {
    schedule.push(Step::Copy { source: Span::EMPTY, into: Span::EMPTY }, after)
}

/// Steps of one series that are open at a time where a rank exchanges with all others in turn. A guess until it is
/// measured.
const OPEN_MAX: usize = 16;

/// The most ranks for an algorithm with up to three steps per rank: a schedule has fewer than 65,536 steps. Beyond
/// that, trees take over where there are any.
pub const LINEAR_RANKS_MAX: u32 = 20_000;

fn assert_linear(me: Member) {
    let size = me.size();
    assert!(size <= LINEAR_RANKS_MAX, "{size} ranks, and steps for {LINEAR_RANKS_MAX}");
}
