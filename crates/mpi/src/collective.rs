//! Collective algorithms, each written once, as a pure function to a schedule.
//!
//! Blocking, non-blocking and persistent calls are three ways to start the same schedule.

use ferrywire_nic::{Operator, Peer, Schedule, Span, Step, StepId};

/// Who takes part, as one of them sees it.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The group id under which the collective's messages travel.
    pub group: u16,
    /// Our rank in the group.
    pub rank: u32,
    /// How many members there are.
    pub size: u32,
}

impl Member {
    fn schedule(self) -> Schedule {
        assert!(self.rank < self.size, "rank {} of {}", self.rank, self.size);
        Schedule::new(self.group, self.rank)
    }

    /// The process behind a rank. So far every group is the whole job.
    fn peer(self, rank: u32) -> Peer {
        Peer(rank)
    }

    fn send(self, to: u32, source: Span) -> Step {
        Step::Send { to: self.peer(to), source, strand: 0 }
    }

    fn receive(self, from: u32, into: Span) -> Step {
        Step::Receive { from: self.peer(from), rank: from, into, strand: 0 }
    }

    /// Our rank if the group were counted from `root`, and the way back.
    fn relative_to(self, root: u32) -> (u32, impl Fn(u32) -> u32) {
        let size = self.size;
        ((self.rank + size - root) % size, move |relative| (relative + root) % size)
    }
}

/// Dissemination barrier: in round k, tell the rank 2^k ahead, hear from the rank 2^k behind.
/// After ceil(log2(size)) rounds every rank has heard, through others, of every rank.
pub fn barrier(me: Member) -> Schedule {
    let mut schedule = me.schedule();
    let mut heard: Option<StepId> = None;
    let mut reach = 1;
    while reach < me.size {
        let ahead = (me.rank + reach) % me.size;
        let behind = (me.rank + me.size - reach) % me.size;
        schedule.push(me.send(ahead, Span::EMPTY), heard.as_slice());
        heard = Some(schedule.push(me.receive(behind, Span::EMPTY), heard.as_slice()));
        reach *= 2;
    }
    schedule
}

/// Binomial broadcast: whoever has the bytes passes them on, to the farthest first.
pub fn broadcast(me: Member, root: u32, bytes: Span) -> Schedule {
    let mut schedule = me.schedule();
    let (relative, rank_of) = me.relative_to(root);
    let mut have: Option<StepId> = None;
    let mut reach = me.size.next_power_of_two();
    if relative > 0 {
        reach = 1 << relative.trailing_zeros();
        let parent = rank_of(relative - reach);
        have = Some(schedule.push(me.receive(parent, bytes), &[]));
    }
    while reach > 1 {
        reach /= 2;
        if relative + reach < me.size {
            schedule.push(me.send(rank_of(relative + reach), bytes), have.as_slice());
        }
    }
    schedule
}

/// Binomial reduction to `root`. `bytes` holds our contribution, and at the root the result.
///
/// `work` has room for our running result and for one contribution of each child. Our bytes are
/// copied there first; then the caller is released and may go on, and late children are combined
/// as they arrive, without it. Only the root's caller has to wait, since it wants the result.
pub fn reduce(me: Member, root: u32, operator: Operator, bytes: Span, work: Span) -> Schedule {
    let mut schedule = me.schedule();
    let (relative, rank_of) = me.relative_to(root);
    let len = bytes.len;
    let result = work.part(0, len);
    let mut combined = schedule.push(Step::Copy { source: bytes, into: result }, &[]);
    if relative != 0 {
        schedule.push(Step::Release, &[combined]);
    }
    let mut room = len;
    for child in children(relative, me.size) {
        let part = work.part(room, len);
        room += len;
        let arrived = schedule.push(me.receive(rank_of(child), part), &[]);
        let step = Step::Reduce { operator, source: part, into: result };
        combined = schedule.push(step, &[combined, arrived]);
    }
    if relative == 0 {
        schedule.push(Step::Copy { source: result, into: bytes }, &[combined]);
    } else {
        let parent = relative & (relative - 1);
        schedule.push(me.send(rank_of(parent), result), &[combined]);
    }
    schedule
}

/// How much room [`reduce`] needs to work in, for `len` bytes.
pub fn reduce_work_bytes(me: Member, root: u32, len: u64) -> u64 {
    let (relative, _) = me.relative_to(root);
    len * (1 + children(relative, me.size).count() as u64)
}

/// The children of a rank in the binomial tree, nearest first.
fn children(relative: u32, size: u32) -> impl Iterator<Item = u32> {
    let limit =
        if relative == 0 { size.next_power_of_two() } else { relative & relative.wrapping_neg() };
    (0..32)
        .map(|bit| 1 << bit)
        .take_while(move |&reach| reach < limit)
        .map(move |reach| relative + reach)
        .filter(move |&child| child < size)
}

/// Allreduce by recursive doubling: in round k, exchange with the partner whose rank differs in
/// bit k, and combine. Ranks beyond the largest power of two give theirs to a neighbour first and
/// get the result from it at the end. `work` has room for `bytes`.
pub fn allreduce(me: Member, operator: Operator, bytes: Span, work: Span) -> Schedule {
    let mut schedule = me.schedule();
    let core = 1 << me.size.ilog2();
    let extra = me.size - core;
    let part = work.part(0, bytes.len);
    let combine = Step::Reduce { operator, source: part, into: bytes };
    // The first 2 * extra ranks pair up: the odd one of each pair only gives and gets.
    if me.rank < 2 * extra && me.rank % 2 == 1 {
        let given = schedule.push(me.send(me.rank - 1, bytes), &[]);
        schedule.push(me.receive(me.rank - 1, bytes), &[given]);
        return schedule;
    }
    let mut done: Vec<StepId> = Vec::new();
    if me.rank < 2 * extra {
        let got = schedule.push(me.receive(me.rank + 1, part), &[]);
        done = vec![schedule.push(combine.clone(), &[got])];
    }
    let in_core = if me.rank < 2 * extra { me.rank / 2 } else { me.rank - extra };
    let rank_of = |core_rank: u32| match core_rank < extra {
        true => core_rank * 2,
        false => core_rank + extra,
    };
    let mut bit = 1;
    while bit < core {
        let partner = rank_of(in_core ^ bit);
        let sent = schedule.push(me.send(partner, bytes), &done);
        let got = schedule.push(me.receive(partner, part), &done);
        done = vec![schedule.push(combine.clone(), &[sent, got])];
        bit *= 2;
    }
    if me.rank < 2 * extra {
        schedule.push(me.send(me.rank + 1, bytes), &done);
    }
    schedule
}

/// Exchange with the two neighbours on a ring: `bytes` goes both ways, `from_left` and
/// `from_right` get theirs.
pub fn neighbours(me: Member, bytes: Span, from_left: Span, from_right: Span) -> Schedule {
    let mut schedule = me.schedule();
    let left = (me.rank + me.size - 1) % me.size;
    let right = (me.rank + 1) % me.size;
    // On a ring of two both neighbours are the same rank, and only the strand tells which way.
    let step = |to, strand| Step::Send { to: me.peer(to), source: bytes, strand };
    schedule.push(step(right, 0), &[]);
    schedule.push(step(left, 1), &[]);
    let step = |from, into, strand| Step::Receive { from: me.peer(from), rank: from, into, strand };
    schedule.push(step(left, from_left, 0), &[]);
    schedule.push(step(right, from_right, 1), &[]);
    schedule
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_but_the_root_is_a_child_of_exactly_one() {
        for size in 1..=64 {
            let mut parents = vec![0; size as usize];
            for rank in 0..size {
                children(rank, size).for_each(|child| parents[child as usize] += 1);
            }
            assert_eq!(parents[0], 0);
            assert!(parents[1..].iter().all(|&count| count == 1), "size {size}: {parents:?}");
        }
    }

    #[test]
    fn a_broadcast_sends_to_the_children_of_the_reduction() {
        for size in 1..=64 {
            for rank in 0..size {
                let me = Member { group: 0, rank, size };
                let sends = broadcast(me, 0, Span::EMPTY).len() - usize::from(rank > 0);
                assert_eq!(sends, children(rank, size).count(), "rank {rank} of {size}");
            }
        }
    }
}
