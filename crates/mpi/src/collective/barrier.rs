//! Barrier: no rank goes on before all ranks have entered.

use ferrywire_nic::{Schedule, Span, StepId};

use super::{FLAT_RANKS_MAX, FLAT_RANKS_MIN, Locality, Member, join};

/// Barrier: no rank goes on before all ranks have entered.
pub fn barrier(me: Member) -> Schedule {
    match (me.locality, me.size()) {
        (Locality::Oversubscribed, FLAT_RANKS_MIN..=FLAT_RANKS_MAX) => barrier_flat(me),
        _ => barrier_dissemination(me),
    }
}

/// Dissemination barrier: in round k, notify the rank 2^k ahead and wait for the rank 2^k behind. After
/// ceil(log2(size)) rounds every rank has heard, directly or indirectly, from every rank.
pub fn barrier_dissemination(me: Member) -> Schedule {
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

/// Flat barrier: all ranks notify rank 0, which then notifies all: every rank waits once.
pub fn barrier_flat(me: Member) -> Schedule {
    let mut schedule = me.schedule();
    if me.rank > 0 {
        schedule.push(me.send(0, Span::EMPTY), &[]);
        schedule.push(me.receive(0, Span::EMPTY), &[]);
        return schedule;
    }
    let others = 1..me.size();
    let heard: Vec<StepId> =
        others.clone().map(|rank| schedule.push(me.receive(rank, Span::EMPTY), &[])).collect();
    let all = join(&mut schedule, &heard);
    for rank in others {
        schedule.push(me.send(rank, Span::EMPTY), &[all]);
    }
    schedule
}
