//! Reduce-scatter: the combined blocks of all ranks, one to each rank.

use ferrywire_nic::{Schedule, Span, Step, StepId};

use super::allreduce::{allreduce, allreduce_work_bytes_max};
use super::{LINEAR_RANKS_MAX, Member, ReduceOp, assert_linear, block, bounded, copy, rest, start};

/// Reduce-scatter: block r of every rank's `all`, combined, into `mine` of rank r. `work` has room for
/// [`reduce_scatter_block_work_bytes`].
///
/// `mine` may be our block of `all`, and must not overlap another.
pub fn reduce_scatter_block(
    me: Member,
    reduce_op: ReduceOp,
    all: Span,
    mine: Span,
    work: Span,
) -> Schedule {
    let place = |rank| block(all, rank, mine.len);
    match choose(me.size(), all.len) {
        ReduceScatterAlgorithm::Whole => {
            reduce_scatter_whole(me, reduce_op, all, place(me.rank), mine, work)
        }
        ReduceScatterAlgorithm::Pairwise => pairwise(me, reduce_op, place, mine, work),
    }
}

/// Work space of [`reduce_scatter_block`], for blocks of `len` bytes.
pub fn reduce_scatter_block_work_bytes(me: Member, len: u64) -> u64 {
    work_bytes(me, u64::from(me.size()) * len, len)
}

/// Like [`reduce_scatter_block`], for blocks that may differ in length: `lens` has the length of each rank's block, the
/// same on all ranks. `work` has room for [`reduce_scatter_work_bytes`].
pub fn reduce_scatter(
    me: Member,
    reduce_op: ReduceOp,
    all: Span,
    lens: &[u64],
    mine: Span,
    work: Span,
) -> Schedule {
    assert_eq!(lens.len(), me.size() as usize, "a length for every rank");
    let places = places(all, lens);
    let place = |rank: u32| places[rank as usize];
    match choose(me.size(), all.len) {
        ReduceScatterAlgorithm::Whole => {
            reduce_scatter_whole(me, reduce_op, all, place(me.rank), mine, work)
        }
        ReduceScatterAlgorithm::Pairwise => pairwise(me, reduce_op, place, mine, work),
    }
}

/// Work space of [`reduce_scatter`].
pub fn reduce_scatter_work_bytes(me: Member, lens: &[u64]) -> u64 {
    work_bytes(me, lens.iter().sum(), lens[me.rank as usize])
}

/// The places of blocks of these lengths in the span of all.
pub(super) fn places(all: Span, lens: &[u64]) -> Vec<Span> {
    let mut start = 0;
    let place = |&len: &u64| {
        let place = all.part(start, len);
        start += len;
        place
    };
    lens.iter().map(place).collect()
}

fn work_bytes(me: Member, all_bytes: u64, len: u64) -> u64 {
    match choose(me.size(), all_bytes) {
        ReduceScatterAlgorithm::Whole => all_bytes + allreduce_work_bytes_max(me, all_bytes),
        ReduceScatterAlgorithm::Pairwise => pairwise_work_bytes(len),
    }
}

enum ReduceScatterAlgorithm {
    Whole,
    Pairwise,
}

/// Combining everything at every rank takes few rounds, and receives more than is needed. Pairwise receives only what
/// is needed, in as many rounds as there are ranks.
fn choose(size: u32, all_bytes: u64) -> ReduceScatterAlgorithm {
    match all_bytes > WHOLE_BYTES_MAX && size <= LINEAR_RANKS_MAX {
        true => ReduceScatterAlgorithm::Pairwise,
        false => ReduceScatterAlgorithm::Whole,
    }
}

/// The most bytes, of all blocks together, that every rank combines to save rounds. A guess until it is measured.
const WHOLE_BYTES_MAX: u64 = 4 << 10;

/// Allreduce of everything, of which we keep `ours`. `work` has room for the result and for the work space of the
/// allreduce.
fn reduce_scatter_whole(
    me: Member,
    reduce_op: ReduceOp,
    all: Span,
    ours: Span,
    mine: Span,
    work: Span,
) -> Schedule {
    let mut schedule = me.schedule();
    let result = work.part(0, all.len);
    let combine = allreduce(me, reduce_op, all, result, rest(work, all.len));
    let combined = schedule.push(start(combine), &[]);
    let source = result.part(ours.offset - all.offset, ours.len);
    schedule.push(Step::Copy { source, into: mine }, &[combined]);
    schedule
}

/// Pairwise: in round k, send the rank k ahead its block, and receive a contribution to ours from the rank k behind. So
/// the lower ranks come first, from the next lower one down to rank 0, and are prepended to ours one by one; then the
/// higher ones, from the last down to the next higher, which are combined separately and appended.
///
/// `place` gives the place of each rank's block in our memory. The schedule has steps for every rank, so a group has at
/// most [`super::LINEAR_RANKS_MAX`] members.
pub(super) fn pairwise(
    me: Member,
    reduce_op: ReduceOp,
    place: impl Fn(u32) -> Span,
    mine: Span,
    work: Span,
) -> Schedule {
    assert_linear(me);
    let mut schedule = me.schedule();
    let (size, len) = (me.size(), mine.len);
    let higher = block(work, 0, len);
    let mut lower = copy(&mut schedule, place(me.rank), mine, &[]);
    let mut sent: Vec<StepId> = Vec::new();
    // The last step that used what arrived in each round.
    let mut used: Vec<StepId> = Vec::new();
    for round in 1..size {
        let (ahead, behind) = me.around(round);
        let step = schedule.push(me.send(ahead, place(ahead)), bounded(&sent, SLOTS));
        sent.push(step);
        let first_of_higher = behind == size - 1;
        let slot = u32::try_from(1 + used.len() % SLOTS).expect("few slots");
        let slot = if first_of_higher { higher } else { block(work, slot, len) };
        let got = schedule.push(me.receive(behind, slot), bounded(&used, SLOTS));
        if behind < me.rank {
            let after: Vec<StepId> = lower.into_iter().chain([got]).collect();
            lower = Some(schedule.push(reduce_op.step(slot, mine), &after));
            used.extend(lower);
        } else if first_of_higher {
            used.push(got);
        } else {
            let after = [used[used.len() - 1], got];
            used.push(schedule.push(reduce_op.step(slot, higher), &after));
        }
    }
    if me.rank + 1 < size {
        let after: Vec<StepId> = lower.into_iter().chain(used.last().copied()).collect();
        let result = schedule.push(reduce_op.step(mine, higher), &after);
        schedule.push(Step::Copy { source: higher, into: mine }, &[result]);
    }
    schedule
}

/// Work space of [`pairwise`], if our block has `len` bytes.
pub(super) fn pairwise_work_bytes(len: u64) -> u64 {
    (1 + SLOTS as u64) * len
}

/// Contributions that may wait to be combined. A guess until it is measured.
const SLOTS: usize = 4;
