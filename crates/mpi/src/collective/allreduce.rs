//! Allreduce: everybody's bytes combined, for everybody.
//!
//! Both algorithms exchange with partners in a core whose size is a power of two. They are in rank
//! order, and every rank computes the same expression, so all have the same result to the last bit.

use ferrywire_nic::{Schedule, Span, StepId};

use super::{Combiner, Member, copy};

/// Everybody's bytes combined, for everybody. `bytes` holds our contribution, and then the result;
/// `work` has room for as many.
pub fn allreduce(me: Member, combiner: Combiner, bytes: Span, work: Span) -> Schedule {
    match choose(me.size(), bytes.len) {
        Way::Doubling => allreduce_doubling(me, combiner, bytes, work),
        Way::Halving => allreduce_halving(me, combiner, bytes, work),
    }
}

enum Way {
    Doubling,
    Halving,
}

/// Doubling has half the rounds, and sends everything in each of them. Halving sends everything
/// twice in all.
fn choose(size: u32, len: u64) -> Way {
    match len >= HALVING_BYTES_MIN && size > 2 {
        true => Way::Halving,
        false => Way::Doubling,
    }
}

/// The shortest message worth twice the rounds. A guess until it is measured.
const HALVING_BYTES_MIN: u64 = 16 << 10;

/// Recursive doubling: in round k, exchange with the partner whose place differs in bit k, and
/// combine. `work` has room for `bytes`.
pub fn allreduce_doubling(me: Member, combiner: Combiner, bytes: Span, work: Span) -> Schedule {
    let mut schedule = me.schedule();
    let core = Core::of(me.size());
    let Some(place) = core.place(me.rank) else { return give_and_get(me, schedule, bytes) };
    let mut sum = Sum { combiner, here: bytes, other: work.part(0, bytes.len) };
    let mut done = sum.take_in(me, &mut schedule, core);
    for bit in core.bits() {
        let partner = core.rank(place ^ bit);
        let sent = schedule.push(me.send(partner, sum.here), &done);
        let got = schedule.push(me.receive(partner, sum.other), &done);
        // What is sent may be combined into, or received over in the next round.
        done = vec![sum.combine(&mut schedule, place & bit != 0, &[sent, got])];
    }
    done.extend(copy(&mut schedule, sum.here, bytes, &done));
    give_back(me, &mut schedule, core, bytes, &done);
    schedule
}

/// Recursive halving, then doubling (Rabenseifner): in each round partners share what they have to
/// combine, so that in the end each has its part of the result; then parts are put together, the
/// same way back. `work` has room for `bytes`.
pub fn allreduce_halving(me: Member, combiner: Combiner, bytes: Span, work: Span) -> Schedule {
    let element_bytes = combiner.element_bytes;
    assert!(element_bytes > 0 && bytes.len.is_multiple_of(element_bytes), "whole elements");
    let mut schedule = me.schedule();
    let core = Core::of(me.size());
    let Some(place) = core.place(me.rank) else { return give_and_get(me, schedule, bytes) };
    let mut sum = Sum { combiner, here: bytes, other: work.part(0, bytes.len) };
    let mut done = sum.take_in(me, &mut schedule, core);
    // What we have given away in each round, and get back on the way out.
    let mut given: Vec<(u32, Span, StepId)> = Vec::new();
    let mut start = 0;
    for bit in core.bits() {
        let partner = core.rank(place ^ bit);
        let len = sum.here.len;
        let middle = len / element_bytes / 2 * element_bytes;
        let (low, high) = ((0, middle), (middle, len - middle));
        // The lower partner keeps the lower half.
        let (keep, give) = if place & bit == 0 { (low, high) } else { (high, low) };
        let sent = schedule.push(me.send(partner, sum.here.part(give.0, give.1)), &done);
        given.push((partner, bytes.part(start + give.0, give.1), sent));
        start += keep.0;
        sum.here = sum.here.part(keep.0, keep.1);
        sum.other = sum.other.part(keep.0, keep.1);
        let got = schedule.push(me.receive(partner, sum.other), &done);
        done = vec![sum.combine(&mut schedule, place & bit != 0, &[got])];
    }
    let mut ours = bytes.part(start, sum.here.len);
    done.extend(copy(&mut schedule, sum.here, ours, &done));
    while let Some((partner, theirs, sent)) = given.pop() {
        schedule.push(me.send_on(1, partner, ours), &done);
        // It may land when what was there is sent.
        let after: Vec<StepId> = done.iter().copied().chain([sent]).collect();
        done.push(schedule.push(me.receive_on(1, partner, theirs), &after));
        ours = Span { offset: ours.offset.min(theirs.offset), len: ours.len + theirs.len, ..ours };
    }
    give_back(me, &mut schedule, core, bytes, &done);
    schedule
}

/// The largest power of two of the ranks. The first `2 * extra` ranks pair up: the odd one of each
/// pair only gives its bytes to the even one, and gets the result from it.
#[derive(Clone, Copy)]
struct Core {
    size: u32,
    extra: u32,
}

impl Core {
    fn of(ranks: u32) -> Core {
        let size = 1 << ranks.ilog2();
        Core { size, extra: ranks - size }
    }

    /// Where a rank stands in the core, if it does.
    fn place(self, rank: u32) -> Option<u32> {
        match rank < 2 * self.extra {
            true => rank.is_multiple_of(2).then_some(rank / 2),
            false => Some(rank - self.extra),
        }
    }

    fn rank(self, place: u32) -> u32 {
        if place < self.extra { place * 2 } else { place + self.extra }
    }

    /// The bits in which places differ, lowest first: so partners combine runs of ranks that meet.
    fn bits(self) -> impl Iterator<Item = u32> {
        (0..self.size.ilog2()).map(|bit| 1 << bit)
    }

    /// The rank outside of the core that is ours to look after.
    fn ward(self, rank: u32) -> Option<u32> {
        (rank < 2 * self.extra).then_some(rank + 1)
    }
}

/// The running result, and room for what comes in. They change places when the result ends up in
/// what has come, which is the way to combine in rank order without a copy.
struct Sum {
    combiner: Combiner,
    here: Span,
    other: Span,
}

impl Sum {
    /// Combines what has come from lower or from higher ranks.
    fn combine(&mut self, schedule: &mut Schedule, from_lower: bool, after: &[StepId]) -> StepId {
        if !from_lower {
            std::mem::swap(&mut self.here, &mut self.other);
        }
        schedule.push(self.combiner.step(self.other, self.here), after)
    }

    /// Takes in the bytes of the rank that we look after. Answers what to wait for.
    fn take_in(&mut self, me: Member, schedule: &mut Schedule, core: Core) -> Vec<StepId> {
        let Some(ward) = core.ward(me.rank) else { return Vec::new() };
        let got = schedule.push(me.receive(ward, self.other), &[]);
        vec![self.combine(schedule, false, &[got])]
    }
}

/// The part of a rank outside of the core.
fn give_and_get(me: Member, mut schedule: Schedule, bytes: Span) -> Schedule {
    let given = schedule.push(me.send(me.rank - 1, bytes), &[]);
    schedule.push(me.receive(me.rank - 1, bytes), &[given]);
    schedule
}

fn give_back(me: Member, schedule: &mut Schedule, core: Core, bytes: Span, after: &[StepId]) {
    if let Some(ward) = core.ward(me.rank) {
        schedule.push(me.send(ward, bytes), after);
    }
}
