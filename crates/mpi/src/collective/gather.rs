//! Gather: a block from every rank, to the root, in rank order.

use ferrywire_nic::{Schedule, Span, Step, StepId};

use super::{
    LINEAR_RANKS_MAX, Member, OPEN_MAX, assert_linear, block, blocks, bounded, copy, tree,
};

/// Gather to the root. `mine` is our block; at the root `all` has room for all blocks, elsewhere it is ignored. `work`
/// has room for [`gather_work_bytes`].
pub fn gather(me: Member, root: u32, mine: Span, all: Span, work: Span) -> Schedule {
    match choose(me.size(), mine.len) {
        GatherAlgorithm::Tree => gather_tree(me, root, mine, all, work),
        GatherAlgorithm::Linear => gather_blocks(me, root, mine, |rank| block(all, rank, mine.len)),
    }
}

/// Work space of [`gather`], for blocks of `len` bytes.
pub fn gather_work_bytes(me: Member, root: u32, len: u64) -> u64 {
    match choose(me.size(), len) {
        GatherAlgorithm::Tree => tree_work_bytes(me, root, len),
        GatherAlgorithm::Linear => 0,
    }
}

pub(super) enum GatherAlgorithm {
    Tree,
    Linear,
}

/// Up a tree, blocks travel several times, but the root receives few messages; long blocks travel once.
pub(super) fn choose(size: u32, len: u64) -> GatherAlgorithm {
    match len > TREE_BLOCK_BYTES_MAX && size <= LINEAR_RANKS_MAX {
        true => GatherAlgorithm::Linear,
        false => GatherAlgorithm::Tree,
    }
}

/// The longest block that goes up the tree. A guess until it is measured.
const TREE_BLOCK_BYTES_MAX: u64 = 2 << 10;

/// Linear gather: all ranks send to the root. Blocks may differ in length: at the root `place` gives the place of each
/// rank's block.
pub fn gather_blocks(me: Member, root: u32, mine: Span, place: impl Fn(u32) -> Span) -> Schedule {
    assert_linear(me);
    let mut schedule = me.schedule();
    if me.rank != root {
        schedule.push(me.send(root, mine), &[]);
        return schedule;
    }
    copy(&mut schedule, mine, place(root), &[]);
    let mut arrived: Vec<StepId> = Vec::new();
    for rank in (0..me.size()).filter(|&rank| rank != root) {
        let step = me.receive(rank, place(rank));
        let step = schedule.push(step, bounded(&arrived, OPEN_MAX));
        arrived.push(step);
    }
    schedule
}

/// Binomial gather: each rank sends its block together with those of all ranks below it.
fn gather_tree(me: Member, root: u32, mine: Span, all: Span, work: Span) -> Schedule {
    let mut schedule = me.schedule();
    let (relative, rank_of) = me.relative_to(root);
    let (size, len) = (me.size(), mine.len);
    if relative != 0 {
        let parent = rank_of(tree::parent(relative));
        let count = tree::subtree(relative, size);
        if count == 1 {
            schedule.push(me.send(parent, mine), &[]);
            return schedule;
        }
        let ours = blocks(work, 0, count, len);
        let mut arrived: Vec<StepId> = Vec::new();
        arrived.extend(copy(&mut schedule, mine, block(ours, 0, len), &[]));
        for child in tree::children(relative, size) {
            let theirs = blocks(ours, child - relative, tree::subtree(child, size), len);
            arrived.push(schedule.push(me.receive(rank_of(child), theirs), &[]));
        }
        schedule.push(me.send(parent, ours), &arrived);
        return schedule;
    }
    copy(&mut schedule, mine, block(all, root, len), &[]);
    for child in tree::children(0, size) {
        let (from, count) = (rank_of(child), tree::subtree(child, size));
        match wrapped(from, count, size) {
            None => {
                schedule.push(me.receive(from, blocks(all, from, count, len)), &[]);
            }
            Some(before) => {
                let theirs = blocks(work, 0, count, len);
                let arrived = schedule.push(me.receive(from, theirs), &[]);
                for (source, into) in halves(theirs, all, from, before, count, len) {
                    schedule.push(Step::Copy { source, into }, &[arrived]);
                }
            }
        }
    }
    schedule
}

/// Work space of [`gather_tree`] and of its mirror image, the tree scatter.
pub(super) fn tree_work_bytes(me: Member, root: u32, len: u64) -> u64 {
    let (relative, rank_of) = me.relative_to(root);
    let size = me.size();
    let ranks = match (relative, tree::subtree(relative, size)) {
        (0, _) => tree::children(0, size)
            .map(|child| (rank_of(child), tree::subtree(child, size)))
            .find(|&(from, count)| wrapped(from, count, size).is_some())
            .map_or(0, |(_, count)| count),
        (_, 1) => 0,
        (_, count) => count,
    };
    u64::from(ranks) * len
}

/// If a run of `count` ranks from `from` goes past the last rank: how many come before that. At most one child of the
/// root has such a run.
pub(super) fn wrapped(from: u32, count: u32, size: u32) -> Option<u32> {
    (from + count > size).then_some(size - from)
}

/// A wrapped run in its two halves: each a part of `run`, with its place in `all`.
pub(super) fn halves(
    run: Span,
    all: Span,
    from: u32,
    before: u32,
    count: u32,
    len: u64,
) -> [(Span, Span); 2] {
    let after = count - before;
    [
        (blocks(run, 0, before, len), blocks(all, from, before, len)),
        (blocks(run, before, after, len), blocks(all, 0, after, len)),
    ]
}
