//! Alltoall: a different block from every rank to every rank.

use ferrywire_nic::{Schedule, Span, Step, StepId};

use super::{Member, OPEN_MAX, assert_linear, block, bounded_after, copy};

/// Alltoall: block r of `source` goes to rank r, block r of `into` comes from it. The spans are the same or do not
/// overlap. `work` has room for [`alltoall_work_bytes`].
///
/// The schedule has steps for every rank, so a group has at most [`super::LINEAR_RANKS_MAX`] members.
pub fn alltoall(me: Member, source: Span, into: Span, work: Span) -> Schedule {
    assert_eq!(source.len, into.len, "as much goes as comes");
    assert!(source.len.is_multiple_of(me.size().into()), "whole blocks");
    let len = source.len / u64::from(me.size());
    alltoall_blocks(me, |rank| block(source, rank, len), |rank| block(into, rank, len), work)
}

/// Work space of [`alltoall`].
pub fn alltoall_work_bytes(source: Span, into: Span) -> u64 {
    if source == into { source.len } else { 0 }
}

/// Pairwise exchange: in round k, send to the rank k ahead and receive from the rank k behind, so that no rank is the
/// target of all others at the same time. A few rounds are open together. Blocks may differ in length: `to` and `from`
/// give the places of the blocks to and from each rank. `work` has room for [`alltoall_blocks_work_bytes`].
pub fn alltoall_blocks(
    me: Member,
    to: impl Fn(u32) -> Span,
    from: impl Fn(u32) -> Span,
    work: Span,
) -> Schedule {
    assert_linear(me);
    let mut schedule = me.schedule();
    copy(&mut schedule, to(me.rank), from(me.rank), &[]);
    // In place, what arrives would overwrite what is to be sent, so that is copied aside first.
    let mut aside: Option<StepId> = None;
    let mut used_bytes = 0;
    let (mut sent, mut got): (Vec<StepId>, Vec<StepId>) = (Vec::new(), Vec::new());
    let mut givings: Vec<Span> = Vec::new();
    for round in 1..me.size() {
        let (ahead, _) = me.around(round);
        let mut giving = to(ahead);
        if is_in_place(giving, from(ahead)) {
            let room = work.part(used_bytes, giving.len);
            used_bytes += giving.len;
            let step = Step::Copy { source: giving, into: room };
            aside = Some(schedule.push(step, aside.as_slice()));
            giving = room;
        }
        givings.push(giving);
    }
    for (round, giving) in (1..me.size()).zip(givings) {
        let (ahead, behind) = me.around(round);
        // Sends first: a short one is over at once, and nothing arrives before the receives that may begin are posted.
        let after = bounded_after(aside.as_slice(), &sent, OPEN_MAX);
        let step = schedule.push(me.send(ahead, giving), after);
        sent.push(step);
        let after = bounded_after(aside.as_slice(), &got, OPEN_MAX);
        let step = schedule.push(me.receive(behind, from(behind)), after);
        got.push(step);
    }
    schedule
}

/// Work space of [`alltoall_blocks`].
pub fn alltoall_blocks_work_bytes(
    me: Member,
    to: impl Fn(u32) -> Span,
    from: impl Fn(u32) -> Span,
) -> u64 {
    let others = (0..me.size()).filter(|&rank| rank != me.rank);
    others.filter(|&rank| is_in_place(to(rank), from(rank))).map(|rank| to(rank).len).sum()
}

/// Whether the block from a rank arrives where the block to it is sent from.
fn is_in_place(to: Span, from: Span) -> bool {
    to == from && to.len > 0
}
