//! Scatter: a block from the root to every rank. The reverse of a gather.

use ferrywire_nic::{Schedule, Span, Step, StepId};

use super::gather::{GatherAlgorithm, choose, halves, tree_work_bytes, wrapped};
use super::{Member, OPEN_MAX, assert_linear, block, blocks, bounded, copy, tree};

/// Scatter from the root. At the root `all` has all blocks in rank order, elsewhere it is ignored; `mine` receives
/// ours. `work` has room for [`scatter_work_bytes`].
pub fn scatter(me: Member, root: u32, all: Span, mine: Span, work: Span) -> Schedule {
    match choose(me.size(), mine.len) {
        GatherAlgorithm::Tree => scatter_tree(me, root, all, mine, work),
        GatherAlgorithm::Linear => {
            scatter_blocks(me, root, |rank| block(all, rank, mine.len), mine)
        }
    }
}

/// Work space of [`scatter`], for blocks of `len` bytes.
pub fn scatter_work_bytes(me: Member, root: u32, len: u64) -> u64 {
    match choose(me.size(), len) {
        GatherAlgorithm::Tree => tree_work_bytes(me, root, len),
        GatherAlgorithm::Linear => 0,
    }
}

/// Linear scatter: the root sends to all ranks. Blocks may differ in length: at the root `place` gives the place of
/// each rank's block.
pub fn scatter_blocks(me: Member, root: u32, place: impl Fn(u32) -> Span, mine: Span) -> Schedule {
    assert_linear(me);
    let mut schedule = me.schedule();
    if me.rank != root {
        schedule.push(me.receive(root, mine), &[]);
        return schedule;
    }
    copy(&mut schedule, place(root), mine, &[]);
    let mut sent: Vec<StepId> = Vec::new();
    for rank in (0..me.size()).filter(|&rank| rank != root) {
        let step = schedule.push(me.send(rank, place(rank)), bounded(&sent, OPEN_MAX));
        sent.push(step);
    }
    schedule
}

/// Binomial scatter: each rank receives its block together with those of all ranks below it.
fn scatter_tree(me: Member, root: u32, all: Span, mine: Span, work: Span) -> Schedule {
    let mut schedule = me.schedule();
    let (relative, rank_of) = me.relative_to(root);
    let (size, len) = (me.size(), mine.len);
    if relative != 0 {
        let parent = rank_of(tree::parent(relative));
        let count = tree::subtree(relative, size);
        if count == 1 {
            schedule.push(me.receive(parent, mine), &[]);
            return schedule;
        }
        let ours = blocks(work, 0, count, len);
        let arrived = schedule.push(me.receive(parent, ours), &[]);
        for child in tree::children_far_first(relative, size) {
            let theirs = blocks(ours, child - relative, tree::subtree(child, size), len);
            schedule.push(me.send(rank_of(child), theirs), &[arrived]);
        }
        copy(&mut schedule, block(ours, 0, len), mine, &[arrived]);
        return schedule;
    }
    for child in tree::children_far_first(0, size) {
        let (to, count) = (rank_of(child), tree::subtree(child, size));
        match wrapped(to, count, size) {
            None => {
                schedule.push(me.send(to, blocks(all, to, count, len)), &[]);
            }
            Some(before) => {
                let theirs = blocks(work, 0, count, len);
                let together = halves(theirs, all, to, before, count, len)
                    .map(|(into, source)| schedule.push(Step::Copy { source, into }, &[]));
                schedule.push(me.send(to, theirs), &together);
            }
        }
    }
    copy(&mut schedule, block(all, root, len), mine, &[]);
    schedule
}
