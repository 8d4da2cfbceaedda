//! Barrier: nobody goes on before everybody has come.

use ferrywire_nic::{Schedule, Span, StepId};

use super::{FLAT_RANKS_MAX, FLAT_RANKS_MIN, Locality, Member, join};

/// Nobody goes on before everybody has come.
pub fn barrier(me: Member) -> Schedule {
    match (me.locality, me.size()) {
        (Locality::Oversubscribed, FLAT_RANKS_MIN..=FLAT_RANKS_MAX) => barrier_flat(me),
        _ => barrier_dissemination(me),
    }
}

/// In round k, tell the rank 2^k ahead, hear from the rank 2^k behind. After ceil(log2(size)) rounds
/// every rank has heard, through others, of every rank.
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

/// All tell rank 0, and when it has heard from all it tells all: everybody waits once.
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
