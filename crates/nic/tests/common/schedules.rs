//! Three collectives as pure functions to a schedule. Ranks and peers are numbered alike.

use std::sync::Arc;

use ferrywire_nic::{Peer, Schedule, Span, Step};

use super::SUM;

/// The group in whose name the schedules of the tests send.
pub(crate) const GROUP: u16 = 4;

/// Dissemination barrier: in round k, tell the rank 2^k ahead, hear from the rank 2^k behind.
pub(crate) fn barrier(me: u32, size: u32) -> Arc<Schedule> {
    let mut schedule = Schedule::new(GROUP, me);
    let mut heard = vec![];
    let mut reach = 1;
    while reach < size {
        let (ahead, behind) = ((me + reach) % size, (me + size - reach) % size);
        let tell = Step::Send { to: Peer(ahead), source: Span::EMPTY, strand: 0 };
        schedule.push(tell, &heard);
        let hear = Step::Receive { from: Peer(behind), rank: behind, into: Span::EMPTY, strand: 0 };
        heard = vec![schedule.push(hear, &heard)];
        reach *= 2;
    }
    Arc::new(schedule)
}

/// The parent of `me` in a binomial tree with root 0, and its children.
fn binomial(me: u32, size: u32) -> (Option<u32>, Vec<u32>) {
    let mut children = vec![];
    let mut bit = 1;
    while bit < size {
        if me & bit != 0 {
            return (Some(me & !bit), children);
        }
        if me | bit < size {
            children.push(me | bit);
        }
        bit *= 2;
    }
    (None, children)
}

/// Binomial broadcast from rank 0.
pub(crate) fn broadcast(me: u32, size: u32, data: Span) -> Arc<Schedule> {
    let (parent, children) = binomial(me, size);
    let mut schedule = Schedule::new(GROUP, me);
    let here: Vec<_> = parent
        .map(|rank| Step::Receive { from: Peer(rank), rank, into: data, strand: 0 })
        .map(|receive| schedule.push(receive, &[]))
        .into_iter()
        .collect();
    // The largest subtree first.
    for &child in children.iter().rev() {
        schedule.push(Step::Send { to: Peer(child), source: data, strand: 0 }, &here);
    }
    Arc::new(schedule)
}

/// Binomial reduction to rank 0. `data` holds our part and then the sum of our subtree;
/// `scratch` has as many bytes for each child. Whoever is not the root is released at once.
pub(crate) fn reduce(me: u32, size: u32, data: Span, scratch: Span) -> Arc<Schedule> {
    let (parent, children) = binomial(me, size);
    let mut schedule = Schedule::new(GROUP, me);
    if parent.is_some() {
        schedule.push(Step::Release, &[]);
    }
    let mut summed = vec![];
    for (turn, &rank) in (0..).zip(&children) {
        let into = scratch.part(turn * data.len, data.len);
        let receive = Step::Receive { from: Peer(rank), rank, into, strand: 0 };
        let mut after = vec![schedule.push(receive, &[])];
        after.append(&mut summed);
        summed =
            vec![schedule.push(Step::Reduce { operator: SUM, source: into, into: data }, &after)];
    }
    if let Some(parent) = parent {
        schedule.push(Step::Send { to: Peer(parent), source: data, strand: 0 }, &summed);
    }
    Arc::new(schedule)
}
