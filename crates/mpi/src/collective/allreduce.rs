//! Allreduce: everybody's bytes combined, for everybody.
//!
//! Both algorithms exchange with partners in a core whose size is a power of two. They are in rank
//! order, and every rank computes the same expression, so all have the same result to the last bit.

use ferrywire_nic::{Schedule, Span, StepId};

use super::{Combiner, FLAT_RANKS_MAX, FLAT_RANKS_MIN, Home, Member, block, copy};

/// Everybody's bytes combined, for everybody. `bytes` holds our contribution, and then the result;
/// `work` has room for [`allreduce_work_bytes`].
pub fn allreduce(me: Member, combiner: Combiner, bytes: Span, work: Span) -> Schedule {
    match choose(me, bytes.len) {
        Way::Flat => allreduce_flat(me, combiner, bytes, work),
        Way::Doubling => allreduce_doubling(me, combiner, bytes, work),
        Way::Halving => allreduce_halving(me, combiner, bytes, work),
    }
}

/// How much room [`allreduce`] needs to work in, for `len` bytes.
pub fn allreduce_work_bytes(me: Member, len: u64) -> u64 {
    match choose(me, len) {
        Way::Flat => allreduce_flat_work_bytes(me, len),
        Way::Doubling | Way::Halving => len,
    }
}

enum Way {
    Flat,
    Doubling,
    Halving,
}

/// Doubling has half the rounds, and sends everything in each of them. Halving sends everything
/// twice in all. Where ranks share cores, each round is a wake-up, so that short ones have one.
fn choose(me: Member, len: u64) -> Way {
    let size = me.size();
    if me.home == Home::Crowded
        && len <= FLAT_BYTES_MAX
        && (FLAT_RANKS_MIN..=FLAT_RANKS_MAX).contains(&size)
    {
        return Way::Flat;
    }
    match len >= HALVING_BYTES_MIN && size > 2 {
        true => Way::Halving,
        false => Way::Doubling,
    }
}

/// The longest message that one rank combines for all. A guess until it is measured.
const FLAT_BYTES_MAX: u64 = 8 << 10;
/// The shortest message worth twice the rounds. A guess until it is measured.
const HALVING_BYTES_MIN: u64 = 16 << 10;

/// All send to rank 0, which combines them in rank order, and tells all. `work` has room for
/// [`allreduce_flat_work_bytes`].
pub fn allreduce_flat(me: Member, combiner: Combiner, bytes: Span, work: Span) -> Schedule {
    let mut schedule = me.schedule();
    if me.rank > 0 {
        let sent = schedule.push(me.send(0, bytes), &[]);
        schedule.push(me.receive(0, bytes), &[sent]);
        return schedule;
    }
    let mut result = bytes;
    let mut combined: Vec<StepId> = Vec::new();
    for rank in 1..me.size() {
        let part = block(work, rank - 1, bytes.len);
        combined.push(schedule.push(me.receive(rank, part), &[]));
        combined = vec![schedule.push(combiner.step(result, part), &combined)];
        result = part;
    }
    for rank in 1..me.size() {
        schedule.push(me.send(rank, result), &combined);
    }
    copy(&mut schedule, result, bytes, &combined);
    schedule
}

/// How much room [`allreduce_flat`] needs to work in, for `len` bytes.
pub fn allreduce_flat_work_bytes(me: Member, len: u64) -> u64 {
    if me.rank > 0 { 0 } else { u64::from(me.size() - 1) * len }
}

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
