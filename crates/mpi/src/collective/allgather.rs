//! Allgather: a block from every rank, to every rank, in rank order.

use ferrywire_nic::{Schedule, Span, Step, StepId};

use super::{LINEAR_RANKS_MAX, Member, assert_linear, block, blocks, bounded, bounded_after, copy};

/// Allgather. `mine` is our block, `all` receives all blocks. `work` has room for [`allgather_work_bytes`].
pub fn allgather(me: Member, mine: Span, all: Span, work: Span) -> Schedule {
    match choose(me.size(), u64::from(me.size()) * mine.len) {
        AllgatherAlgorithm::Doubling => allgather_doubling(me, mine, all, work),
        AllgatherAlgorithm::Ring => allgather_ring(me, mine, |rank| block(all, rank, mine.len)),
    }
}

/// Work space of [`allgather`], for blocks of `len` bytes.
pub fn allgather_work_bytes(me: Member, len: u64) -> u64 {
    let all_bytes = u64::from(me.size()) * len;
    match choose(me.size(), all_bytes) {
        AllgatherAlgorithm::Doubling => all_bytes,
        AllgatherAlgorithm::Ring => 0,
    }
}

/// Like [`allgather`], for blocks that may differ in length: `place` gives the place of each rank's block, with the
/// same lengths on all ranks. `work` has room for [`allgather_blocks_work_bytes`].
pub fn allgather_blocks(
    me: Member,
    mine: Span,
    place: impl Fn(u32) -> Span,
    work: Span,
) -> Schedule {
    match choose(me.size(), total(me, &place)) {
        AllgatherAlgorithm::Doubling => doubling_blocks(me, mine, place, work),
        AllgatherAlgorithm::Ring => allgather_ring(me, mine, place),
    }
}

/// Work space of [`allgather_blocks`].
pub fn allgather_blocks_work_bytes(me: Member, place: impl Fn(u32) -> Span) -> u64 {
    let all_bytes = total(me, place);
    match choose(me.size(), all_bytes) {
        AllgatherAlgorithm::Doubling => all_bytes,
        AllgatherAlgorithm::Ring => 0,
    }
}

fn total(me: Member, place: impl Fn(u32) -> Span) -> u64 {
    (0..me.size()).map(|rank| place(rank).len).sum()
}

enum AllgatherAlgorithm {
    Doubling,
    Ring,
}

/// Both algorithms send the same bytes. Doubling has few rounds, and copies everything at the end.
fn choose(size: u32, all_bytes: u64) -> AllgatherAlgorithm {
    match all_bytes > DOUBLING_BYTES_MAX && size <= LINEAR_RANKS_MAX {
        true => AllgatherAlgorithm::Ring,
        false => AllgatherAlgorithm::Doubling,
    }
}

/// The most bytes, of all blocks together, for which saving rounds is worth a copy. A guess until it is measured.
const DOUBLING_BYTES_MAX: u64 = 64 << 10;

/// Allgather by doubling (Bruck): in round k, send all that we have, 2^k blocks at most, to the rank 2^k behind, and
/// receive as many from the rank 2^k ahead. `work` has room for all blocks, since we gather them beginning with our
/// own.
pub fn allgather_doubling(me: Member, mine: Span, all: Span, work: Span) -> Schedule {
    let len = mine.len;
    let (mut schedule, have) = double(me, mine, |first, count| blocks(work, first, count, len));
    // What we have gathered is in rank order, but begins with our own block.
    let to_end = me.size() - me.rank;
    for (from, to, count) in [(0, me.rank, to_end), (to_end, 0, me.rank)] {
        let (source, into) = (blocks(work, from, count, len), blocks(all, to, count, len));
        schedule.push(Step::Copy { source, into }, &have);
    }
    schedule
}

/// Like [`allgather_doubling`], for blocks that may differ in length.
fn doubling_blocks(me: Member, mine: Span, place: impl Fn(u32) -> Span, work: Span) -> Schedule {
    let size = me.size();
    let rank_of = |nth: u32| (me.rank + nth) % size;
    // Offsets of the blocks in `work`, ours first, and the end of the last one.
    let mut starts = vec![0];
    for nth in 0..size {
        starts.push(starts[nth as usize] + place(rank_of(nth)).len);
    }
    let run = |first: u32, count: u32| {
        let [start, end] = [first, first + count].map(|nth| starts[nth as usize]);
        work.part(start, end - start)
    };
    let (mut schedule, have) = double(me, mine, run);
    // Adjacent blocks are copied together.
    let mut first = 0;
    while first < size {
        let mut into = place(rank_of(first));
        let mut count = 1;
        while first + count < size && follows(into, place(rank_of(first + count))) {
            into.len += place(rank_of(first + count)).len;
            count += 1;
        }
        schedule.push(Step::Copy { source: run(first, count), into }, &have);
        first += count;
    }
    schedule
}

fn follows(span: Span, next: Span) -> bool {
    next.region == span.region && next.offset == span.offset + span.len
}

/// The rounds of doubling. `run` maps blocks, counted from ours, to where they are gathered. Returns the steps after
/// which we have all of them.
fn double(me: Member, mine: Span, run: impl Fn(u32, u32) -> Span) -> (Schedule, Vec<StepId>) {
    let mut schedule = me.schedule();
    let size = me.size();
    let mut have: Vec<StepId> = Vec::new();
    have.extend(copy(&mut schedule, mine, run(0, 1), &[]));
    let mut reach = 1;
    while reach < size {
        let (ahead, behind) = me.around(reach);
        let count = reach.min(size - reach);
        schedule.push(me.send(behind, run(0, count)), &have);
        have.push(schedule.push(me.receive(ahead, run(reach, count)), &[]));
        reach *= 2;
    }
    (schedule, have)
}

/// Ring allgather: each rank passes on to the right what came from the left. Blocks may differ in length: `place` gives
/// the place of each rank's block.
pub fn allgather_ring(me: Member, mine: Span, place: impl Fn(u32) -> Span) -> Schedule {
    assert_linear(me);
    let mut schedule = me.schedule();
    let own = copy(&mut schedule, mine, place(me.rank), &[]);
    ring(me, &mut schedule, own.as_slice(), me.rank, |place| place, place);
    schedule
}

/// Appends the ring to a schedule, after `ready`. Our position on the ring is `place`; `rank_of` gives the rank at any
/// position.
pub(super) fn ring(
    me: Member,
    schedule: &mut Schedule,
    ready: &[StepId],
    place: u32,
    rank_of: impl Fn(u32) -> u32,
    piece: impl Fn(u32) -> Span,
) {
    let size = me.size();
    let (right, left) = (rank_of((place + 1) % size), rank_of((place + size - 1) % size));
    let (mut sent, mut got): (Vec<StepId>, Vec<StepId>) = (Vec::new(), Vec::new());
    for round in 0..size - 1 {
        // Long messages may overtake each other, so rounds that can be open together have different subtags. Subtag 0
        // is for messages before the ring.
        let subtag = u8::try_from(1 + round % 255).expect("a subtag");
        let (giving, getting) = ((place + size - round) % size, (place + size - round - 1) % size);
        let mut after = Vec::from(got.last().map_or(ready, std::slice::from_ref));
        after.extend(bounded(&sent, RING_OPEN_MAX));
        sent.push(schedule.push(me.send_on(subtag, right, piece(giving)), &after));
        let after = bounded_after(ready, &got, RING_OPEN_MAX);
        let step = schedule.push(me.receive_on(subtag, left, piece(getting)), after);
        got.push(step);
    }
}

/// Rounds of a ring that are open at a time: one arrives while one is passed on. A guess until it is measured.
const RING_OPEN_MAX: usize = 2;
