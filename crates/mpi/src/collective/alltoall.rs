//! Alltoall: a block from everybody to everybody, each a different one.

use ferrywire_nic::{Schedule, Span, StepId};

use super::{Member, OPEN_MAX, assert_linear, block, bounded, copy};

/// A block from everybody to everybody: block r of `source` goes to rank r, block r of `into` comes
/// from it. They must not overlap: who works in place copies first.
///
/// Has steps for every rank, so there may be [`super::LINEAR_RANKS_MAX`] at most.
pub fn alltoall(me: Member, source: Span, into: Span) -> Schedule {
    assert_eq!(source.len, into.len, "as much goes as comes");
    assert!(source.len.is_multiple_of(me.size().into()), "whole blocks");
    let len = source.len / u64::from(me.size());
    alltoall_blocks(me, |rank| block(source, rank, len), |rank| block(into, rank, len))
}

/// Pairwise exchange: in round k, send to the rank k ahead, hear from the rank k behind, so that
/// nobody is everybody's target at the same time. A few rounds are open together. Blocks may differ
/// in length: `to` and `from` say where those to and from each rank are.
pub fn alltoall_blocks(
    me: Member,
    to: impl Fn(u32) -> Span,
    from: impl Fn(u32) -> Span,
) -> Schedule {
    assert_linear(me);
    let mut schedule = me.schedule();
    copy(&mut schedule, to(me.rank), from(me.rank), &[]);
    let (mut sent, mut got): (Vec<StepId>, Vec<StepId>) = (Vec::new(), Vec::new());
    for round in 1..me.size() {
        let (ahead, behind) = me.around(round);
        // Receives first: a message that finds one is not kept.
        let step = me.receive(behind, from(behind));
        let step = schedule.push(step, bounded(&got, OPEN_MAX));
        got.push(step);
        let step = schedule.push(me.send(ahead, to(ahead)), bounded(&sent, OPEN_MAX));
        sent.push(step);
    }
    schedule
}
