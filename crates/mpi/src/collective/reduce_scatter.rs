//! Reduce-scatter: everybody's blocks combined, each for one rank.

use ferrywire_nic::{Operator, Schedule, Span, Step, StepId};

use super::{Member, assert_linear, block, bounded, copy};

/// Block r of everybody's `all` combined, into `mine` of rank r. `work` has room for
/// [`reduce_scatter_block_work_bytes`].
///
/// Pairwise: in round k, give the rank k ahead its block, get a contribution to ours from the rank
/// k behind. So the lower ranks come first, from the next to rank 0, and go before ours one by one;
/// then the higher ones, from the last to the next, which are combined apart and put behind.
///
/// `mine` may be our block of `all`, and must not overlap another. Has steps for every rank, so
/// there may be [`super::LINEAR_RANKS_MAX`] at most.
pub fn reduce_scatter_block(
    me: Member,
    operator: Operator,
    all: Span,
    mine: Span,
    work: Span,
) -> Schedule {
    assert_linear(me);
    let mut schedule = me.schedule();
    let (size, len) = (me.size(), mine.len);
    let combine = |source, into| Step::Reduce { operator, source, into };
    let higher = block(work, 0, len);
    let mut lower = copy(&mut schedule, block(all, me.rank, len), mine, &[]);
    let mut sent: Vec<StepId> = Vec::new();
    // The last step that has used what came in each round.
    let mut used: Vec<StepId> = Vec::new();
    for round in 1..size {
        let (ahead, behind) = me.around(round);
        let step = schedule.push(me.send(ahead, block(all, ahead, len)), bounded(&sent, SLOTS));
        sent.push(step);
        let first_of_higher = behind == size - 1;
        let slot = u32::try_from(1 + used.len() % SLOTS).expect("few slots");
        let slot = if first_of_higher { higher } else { block(work, slot, len) };
        let got = schedule.push(me.receive(behind, slot), bounded(&used, SLOTS));
        if behind < me.rank {
            let after: Vec<StepId> = lower.into_iter().chain([got]).collect();
            lower = Some(schedule.push(combine(slot, mine), &after));
            used.extend(lower);
        } else if first_of_higher {
            used.push(got);
        } else {
            let after = [used[used.len() - 1], got];
            used.push(schedule.push(combine(slot, higher), &after));
        }
    }
    if me.rank + 1 < size {
        let after: Vec<StepId> = lower.into_iter().chain(used.last().copied()).collect();
        let result = schedule.push(combine(mine, higher), &after);
        schedule.push(Step::Copy { source: higher, into: mine }, &[result]);
    }
    schedule
}

/// How much room [`reduce_scatter_block`] needs to work in, for blocks of `len` bytes.
pub fn reduce_scatter_block_work_bytes(len: u64) -> u64 {
    (1 + SLOTS as u64) * len
}

/// Contributions that may wait to be combined. A guess until it is measured.
const SLOTS: usize = 4;
