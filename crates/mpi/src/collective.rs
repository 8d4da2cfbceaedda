//! Collective algorithms, each written once, as a pure function to a schedule.
//!
//! Blocking, non-blocking and persistent calls are three ways to start the same schedule. Where
//! there are two algorithms for one collective, a function `choose` beside them decides, alike on
//! all ranks. Its limits are guesses until they are measured.
//!
//! Blocks of several ranks lie one behind the other in rank order. A span of our own that is its
//! place in the span of all is not copied: that is how one works in place.
//!
//! Operators are associative. Unless a function says that it wants a commutative one, contributions
//! are combined in rank order: a step combines what comes from lower ranks, its source, into the
//! rest.

mod allgather;
mod allreduce;
mod alltoall;
mod broadcast;
mod gather;
mod reduce;
mod reduce_scatter;
mod scan;
mod scatter;
mod tree;

use ferrywire_nic::{Schedule, Span, Step, StepId};

pub use allgather::{allgather, allgather_blocks, allgather_doubling, allgather_work_bytes};
pub use allreduce::{allreduce, allreduce_doubling, allreduce_halving};
pub use alltoall::{alltoall, alltoall_blocks};
pub use broadcast::{broadcast, broadcast_pieces, broadcast_tree};
pub use gather::{gather, gather_blocks, gather_work_bytes};
pub use reduce::{reduce, reduce_in_order, reduce_in_order_work_bytes, reduce_work_bytes};
pub use reduce_scatter::{reduce_scatter_block, reduce_scatter_block_work_bytes};
pub use scan::{exscan, exscan_work_bytes, scan};
pub use scatter::{scatter, scatter_blocks, scatter_work_bytes};

use crate::group::Group;

/// Who takes part, as one of them sees it.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The group id under which the collective's messages travel.
    pub group_id: u16,
    /// Everybody who takes part.
    pub group: &'a Group,
    /// Our rank among them.
    pub rank: u32,
}

impl Member<'_> {
    /// How many members there are.
    pub fn size(self) -> u32 {
        self.group.size()
    }

    fn schedule(self) -> Schedule {
        assert!(self.rank < self.size(), "rank {} of {}", self.rank, self.size());
        Schedule::new(self.group_id, self.rank)
    }

    fn send(self, to: u32, source: Span) -> Step {
        self.send_on(0, to, source)
    }

    fn receive(self, from: u32, into: Span) -> Step {
        self.receive_on(0, from, into)
    }

    fn send_on(self, strand: u8, to: u32, source: Span) -> Step {
        Step::Send { to: self.group.peer_of(to), source, strand }
    }

    fn receive_on(self, strand: u8, from: u32, into: Span) -> Step {
        Step::Receive { from: self.group.peer_of(from), rank: from, into, strand }
    }

    /// The rank `distance` ahead of ours, and the one as far behind, if ranks were a ring.
    fn around(self, distance: u32) -> (u32, u32) {
        let size = self.size();
        ((self.rank + distance) % size, (self.rank + size - distance) % size)
    }

    /// Our rank if the group were counted from `root`, and the way back.
    fn relative_to(self, root: u32) -> (u32, impl Fn(u32) -> u32) {
        let size = self.size();
        assert!(root < size, "root {root} of {size}");
        ((self.rank + size - root) % size, move |relative| (relative + root) % size)
    }
}

/// Dissemination barrier: in round k, tell the rank 2^k ahead, hear from the rank 2^k behind.
/// After ceil(log2(size)) rounds every rank has heard, through others, of every rank.
pub fn barrier(me: Member) -> Schedule {
    let mut schedule = me.schedule();
    let mut heard: Option<StepId> = None;
    let mut reach = 1;
    while reach < me.size() {
        let (ahead, behind) = me.around(reach);
        schedule.push(me.send(ahead, Span::EMPTY), heard.as_slice());
        heard = Some(schedule.push(me.receive(behind, Span::EMPTY), heard.as_slice()));
        reach *= 2;
    }
    schedule
}

/// Exchange with the two neighbours on a ring: `bytes` goes both ways, `from_left` and
/// `from_right` get theirs.
pub fn neighbours(me: Member, bytes: Span, from_left: Span, from_right: Span) -> Schedule {
    let mut schedule = me.schedule();
    let (right, left) = me.around(1);
    // On a ring of two both neighbours are the same rank, and only the strand tells which way.
    schedule.push(me.send_on(0, right, bytes), &[]);
    schedule.push(me.send_on(1, left, bytes), &[]);
    schedule.push(me.receive_on(0, left, from_left), &[]);
    schedule.push(me.receive_on(1, right, from_right), &[]);
    schedule
}

/// The block of a rank where all blocks have `len` bytes.
fn block(all: Span, rank: u32, len: u64) -> Span {
    blocks(all, rank, 1, len)
}

/// The blocks of `count` ranks from `rank` on.
fn blocks(all: Span, rank: u32, count: u32, len: u64) -> Span {
    all.part(u64::from(rank) * len, u64::from(count) * len)
}

/// Copies, unless the bytes are where they belong.
fn copy(schedule: &mut Schedule, source: Span, into: Span, after: &[StepId]) -> Option<StepId> {
    assert_eq!(source.len, into.len, "a block is as long as its place");
    (source != into).then(|| schedule.push(Step::Copy { source, into }, after))
}

/// What the next step of a series waits for, so that no more than `open_max` of it are open.
fn bounded(series: &[StepId], open_max: usize) -> &[StepId] {
    match series.len().checked_sub(open_max) {
        Some(at) => &series[at..=at],
        None => &[],
    }
}

/// Steps of one series that are open at a time where ranks talk to all others in turn. A guess
/// until it is measured.
const OPEN_MAX: usize = 16;

/// The most ranks that an algorithm with up to three steps for each may have: a schedule has fewer
/// than 65,536 steps. Where there is a tree, it takes over.
pub const LINEAR_RANKS_MAX: u32 = 20_000;

fn assert_linear(me: Member) {
    let size = me.size();
    assert!(size <= LINEAR_RANKS_MAX, "{size} ranks, and steps for {LINEAR_RANKS_MAX}");
}
