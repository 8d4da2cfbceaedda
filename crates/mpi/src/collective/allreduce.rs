//! Allreduce: the combined contributions of all ranks, to all ranks.
//!
//! Two algorithms exchange with partners in a core whose size is a power of two. Doubling combines in rank order, and
//! every rank computes the same expression, so all have the same result to the last bit. Halving computes each part of
//! the result once, for all.
//!
//! Our contribution is where the caller has it, and may be where the result goes: then the operation is in place. If it
//! is elsewhere it is only read, and the first message may land where the result goes: so between two ranks nothing is
//! copied, and no work space is needed.

use ferrywire_nic::{Schedule, Span, StepId};

use super::{FLAT_RANKS_MAX, FLAT_RANKS_MIN, Locality, Member, ReduceOp, block, copy};

/// Allreduce of every rank's `mine` into every rank's `result`. They may be the same span, and must not overlap
/// otherwise. `work` has room for [`allreduce_work_bytes`].
pub fn allreduce(
    me: Member,
    reduce_op: ReduceOp,
    mine: Span,
    result: Span,
    work: Span,
) -> Schedule {
    match choose(me, result.len) {
        AllreduceAlgorithm::Flat => allreduce_flat(me, reduce_op, mine, result, work),
        AllreduceAlgorithm::Doubling => allreduce_doubling(me, reduce_op, mine, result, work),
        AllreduceAlgorithm::Halving => allreduce_halving(me, reduce_op, mine, result, work),
    }
}

/// Work space of [`allreduce`].
pub fn allreduce_work_bytes(me: Member, reduce_op: ReduceOp, mine: Span, result: Span) -> u64 {
    let (core, len) = (Core::of(me.size()), result.len);
    let order = match choose(me, len) {
        AllreduceAlgorithm::Flat => return allreduce_flat_work_bytes(me, len),
        AllreduceAlgorithm::Doubling => CombineOrder::OfRanks,
        AllreduceAlgorithm::Halving => CombineOrder::for_halving(reduce_op),
    };
    let once = core.combinations(me.rank) <= 1;
    if once && order.lets_read(core, me.rank, mine, result) { 0 } else { len }
}

/// The maximum of [`allreduce_work_bytes`] over all operators and spans of `len` bytes.
pub(super) fn allreduce_work_bytes_max(me: Member, len: u64) -> u64 {
    match choose(me, len) {
        AllreduceAlgorithm::Flat => allreduce_flat_work_bytes(me, len),
        AllreduceAlgorithm::Doubling | AllreduceAlgorithm::Halving => len,
    }
}

enum AllreduceAlgorithm {
    Flat,
    Doubling,
    Halving,
}

/// Doubling has half the rounds, and sends everything in each of them. Halving sends everything twice in all. For
/// oversubscribed ranks each round is a wake-up, so short messages take the algorithm with one.
fn choose(me: Member, len: u64) -> AllreduceAlgorithm {
    let size = me.size();
    if me.locality == Locality::Oversubscribed
        && len <= FLAT_BYTES_MAX
        && (FLAT_RANKS_MIN..=FLAT_RANKS_MAX).contains(&size)
    {
        return AllreduceAlgorithm::Flat;
    }
    let halving_bytes_min = if size == 2 { PAIR_BYTES_MIN } else { HALVING_BYTES_MIN };
    match len >= halving_bytes_min {
        true => AllreduceAlgorithm::Halving,
        false => AllreduceAlgorithm::Doubling,
    }
}

/// The longest message that one rank combines for all. A guess until it is measured.
const FLAT_BYTES_MAX: u64 = 8 << 10;
/// The shortest message worth twice the rounds. A guess until it is measured.
const HALVING_BYTES_MIN: u64 = 16 << 10;
/// The same between two ranks, where the one round of doubling becomes two: on two busy cores 64 KB took longer that
/// way, 128 KB about as long, 1 MB half as long.
const PAIR_BYTES_MIN: u64 = 256 << 10;

/// All ranks send to rank 0, which combines the contributions in rank order and sends the result to all. `work` has
/// room for [`allreduce_flat_work_bytes`].
pub fn allreduce_flat(
    me: Member,
    reduce_op: ReduceOp,
    mine: Span,
    result: Span,
    work: Span,
) -> Schedule {
    let mut schedule = me.schedule();
    if me.rank > 0 {
        let sent = schedule.push(me.send(0, mine), &[]);
        schedule.push(me.receive(0, result), &[sent]);
        return schedule;
    }
    let mut sum = mine;
    let mut combined: Vec<StepId> = Vec::new();
    for rank in 1..me.size() {
        let part = block(work, rank - 1, mine.len);
        combined.push(schedule.push(me.receive(rank, part), &[]));
        combined = vec![schedule.push(reduce_op.step(sum, part), &combined)];
        sum = part;
    }
    for rank in 1..me.size() {
        schedule.push(me.send(rank, sum), &combined);
    }
    copy(&mut schedule, sum, result, &combined);
    schedule
}

/// Work space of [`allreduce_flat`], for `len` bytes.
pub fn allreduce_flat_work_bytes(me: Member, len: u64) -> u64 {
    if me.rank > 0 { 0 } else { u64::from(me.size() - 1) * len }
}

/// Recursive doubling: in round k, exchange with the partner whose place differs in bit k, and combine. `work` has room
/// for `result`.
pub fn allreduce_doubling(
    me: Member,
    reduce_op: ReduceOp,
    mine: Span,
    result: Span,
    work: Span,
) -> Schedule {
    let mut schedule = me.schedule();
    let core = Core::of(me.size());
    let Some(place) = core.place(me.rank) else { return give_and_get(me, schedule, mine, result) };
    let spans = Spans { mine, result, work };
    let (mut sum, mut done) =
        Sum::begin(me, &mut schedule, reduce_op, CombineOrder::OfRanks, spans);
    for bit in core.bits() {
        let partner = core.rank(place ^ bit);
        let from_lower = place & bit != 0;
        let sent = schedule.push(me.send(partner, sum.here), &done);
        // The span being sent may be combined into, or received into in the next round.
        let mut after = if sum.only_reads() { Vec::new() } else { vec![sent] };
        // Nothing is left to do then but to receive, and the NIC can await that.
        after.extend(sum.copy_ahead(&mut schedule, from_lower));
        after.push(schedule.push(me.receive(partner, sum.room), &done));
        done = vec![sum.combine(&mut schedule, from_lower, &after)];
    }
    done.extend(copy(&mut schedule, sum.here, result, &done));
    give_back(me, &mut schedule, core, result, &done);
    schedule
}

/// Recursive halving, then doubling (Rabenseifner): in each round partners divide between them what they have to
/// combine, so that in the end each has its part of the result; then the parts are exchanged back the same way. `work`
/// has room for `result`, or for [`allreduce_work_bytes`].
pub fn allreduce_halving(
    me: Member,
    reduce_op: ReduceOp,
    mine: Span,
    result: Span,
    work: Span,
) -> Schedule {
    let element_bytes = reduce_op.element_bytes;
    assert!(element_bytes > 0 && mine.len.is_multiple_of(element_bytes), "whole elements");
    let mut schedule = me.schedule();
    let core = Core::of(me.size());
    let Some(place) = core.place(me.rank) else { return give_and_get(me, schedule, mine, result) };
    let (order, spans) = (CombineOrder::for_halving(reduce_op), Spans { mine, result, work });
    let (mut sum, mut done) = Sum::begin(me, &mut schedule, reduce_op, order, spans);
    // Parts given away in each round, which we receive back on the way out.
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
        given.push((partner, result.part(start + give.0, give.1), sent));
        start += keep.0;
        sum.keep(keep.0, keep.1);
        let got = schedule.push(me.receive(partner, sum.room), &done);
        done = vec![sum.combine(&mut schedule, place & bit != 0, &[got])];
    }
    let mut ours = result.part(start, sum.here.len);
    done.extend(copy(&mut schedule, sum.here, ours, &done));
    while let Some((partner, theirs, sent)) = given.pop() {
        schedule.push(me.send_on(1, partner, ours), &done);
        // It may land once what was there is sent.
        let after: Vec<StepId> = done.iter().copied().chain([sent]).collect();
        done.push(schedule.push(me.receive_on(1, partner, theirs), &after));
        ours = Span { offset: ours.offset.min(theirs.offset), len: ours.len + theirs.len, ..ours };
    }
    give_back(me, &mut schedule, core, result, &done);
    schedule
}

/// The core: the largest power of two of the ranks. The first `2 * extra` ranks pair up: the odd one of each pair sends
/// its contribution to the even one, and receives the result from it.
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

    /// The place of a rank in the core, if it is in it.
    fn place(self, rank: u32) -> Option<u32> {
        match rank < 2 * self.extra {
            true => rank.is_multiple_of(2).then_some(rank / 2),
            false => Some(rank - self.extra),
        }
    }

    fn rank(self, place: u32) -> u32 {
        if place < self.extra { place * 2 } else { place + self.extra }
    }

    /// The bits in which places differ, lowest first: so partners combine adjacent runs of ranks.
    fn bits(self) -> impl Iterator<Item = u32> {
        (0..self.size.ilog2()).map(|bit| 1 << bit)
    }

    /// The rank outside the core that a rank of the core exchanges with.
    fn ward(self, rank: u32) -> Option<u32> {
        (rank < 2 * self.extra).then_some(rank + 1)
    }

    /// How many combinations a rank of the core performs.
    fn combinations(self, rank: u32) -> u32 {
        self.size.ilog2() + u32::from(self.ward(rank).is_some())
    }

    /// Whether the first contribution that a rank of the core receives is from a higher rank: its ward, or the higher
    /// one of the first two partners.
    fn begins_with_higher(self, rank: u32) -> bool {
        self.ward(rank).is_some() || self.place(rank).is_some_and(|place| place.is_multiple_of(2))
    }
}

/// The order in which two contributions are combined.
#[derive(Clone, Copy, Eq, PartialEq)]
enum CombineOrder {
    /// In rank order.
    OfRanks,
    /// In either order.
    Any,
}

impl CombineOrder {
    /// Any order for commutative operators, since each part of the result is computed by one rank only.
    fn for_halving(reduce_op: ReduceOp) -> CombineOrder {
        if reduce_op.commutative { CombineOrder::Any } else { CombineOrder::OfRanks }
    }

    /// Whether our contribution can be combined into the first that arrives: then it is read in place.
    fn lets_read(self, core: Core, rank: u32, mine: Span, result: Span) -> bool {
        mine != result && (self == CombineOrder::Any || core.begins_with_higher(rank))
    }
}

/// The memory of an allreduce.
struct Spans {
    mine: Span,
    result: Span,
    work: Span,
}

/// The running result, and room for what arrives. They swap when the result ends up in what has arrived, which combines
/// in rank order without a copy.
struct Sum {
    reduce_op: ReduceOp,
    order: CombineOrder,
    here: Span,
    room: Span,
    /// Until the first combination, `here` may be read-only memory: this replaces it afterwards.
    instead: Option<Span>,
}

impl Sum {
    /// Begins with our contribution, and that of our ward. Also returns the steps to wait for.
    fn begin(
        me: Member,
        schedule: &mut Schedule,
        reduce_op: ReduceOp,
        order: CombineOrder,
        Spans { mine, result, work }: Spans,
    ) -> (Sum, Vec<StepId>) {
        assert_eq!(mine.len, result.len, "as much goes as comes");
        let core = Core::of(me.size());
        let work = work.first(result.len);
        let (room, instead) = match order.lets_read(core, me.rank, mine, result) {
            true => (result, Some(work)),
            false => (work, (mine != result).then_some(result)),
        };
        let mut sum = Sum { reduce_op, order, here: mine, room, instead };
        let done = sum.take_in(me, schedule, core);
        (sum, done)
    }

    fn take_in(&mut self, me: Member, schedule: &mut Schedule, core: Core) -> Vec<StepId> {
        let Some(ward) = core.ward(me.rank) else { return Vec::new() };
        let got = schedule.push(me.receive(ward, self.room), &[]);
        vec![self.combine(schedule, false, &[got])]
    }

    /// Whether `here` is only read.
    fn only_reads(&self) -> bool {
        self.instead.is_some()
    }

    /// Continues with a part of the result.
    fn keep(&mut self, start: u64, len: u64) {
        self.here = self.here.part(start, len);
        self.room = self.room.part(start, len);
        // Where nothing arrives after the first contribution, there is no room to cut.
        let part = |span: Span| if span.len == 0 { span } else { span.part(start, len) };
        self.instead = self.instead.map(part);
    }

    fn combines_into_room(&self, from_lower: bool) -> bool {
        match self.order {
            CombineOrder::OfRanks => !from_lower,
            CombineOrder::Any => self.only_reads(),
        }
    }

    /// Copies our contribution to where the next combination has its result, if it may not be changed where it is.
    fn copy_ahead(&mut self, schedule: &mut Schedule, from_lower: bool) -> Option<StepId> {
        if self.combines_into_room(from_lower) {
            return None;
        }
        let result = self.instead.take()?;
        let mine = std::mem::replace(&mut self.here, result);
        copy(schedule, mine, result, &[])
    }

    /// Combines what has arrived from lower or from higher ranks.
    fn combine(&mut self, schedule: &mut Schedule, from_lower: bool, after: &[StepId]) -> StepId {
        let mut after = after.to_vec();
        match self.combines_into_room(from_lower) {
            true => std::mem::swap(&mut self.here, &mut self.room),
            false => after.extend(self.copy_ahead(schedule, from_lower)),
        }
        let step = schedule.push(self.reduce_op.step(self.room, self.here), &after);
        self.room = self.instead.take().unwrap_or(self.room);
        step
    }
}

/// The schedule of a rank outside the core.
fn give_and_get(me: Member, mut schedule: Schedule, mine: Span, result: Span) -> Schedule {
    let given = schedule.push(me.send(me.rank - 1, mine), &[]);
    schedule.push(me.receive(me.rank - 1, result), &[given]);
    schedule
}

fn give_back(me: Member, schedule: &mut Schedule, core: Core, bytes: Span, after: &[StepId]) {
    if let Some(ward) = core.ward(me.rank) {
        schedule.push(me.send(ward, bytes), after);
    }
}
