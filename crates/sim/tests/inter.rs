//! Every collective between two groups, on all kinds of rails, for every root of either group.

mod common;

use common::{Diary, GUARD, Rail, functions, in_order, lend, pattern, run};
use ferrywire_mpi::collective::inter::{self, Root, Sides};
use ferrywire_mpi::group::Group;
use ferrywire_nic::{Peer, Schedule, Span, Standard};
use ferrywire_sim::memory::Memory;
use ferrywire_sim::random::Random;
use ferrywire_sim::world::World;

#[test]
fn a_barrier_lets_nobody_go_before_the_others_have_come() {
    for case in cases(&[0]) {
        case.run(|us, _| (inter::barrier(us.sides), Span::EMPTY));
        // Without the last rank of one group, no rank of the other is done.
        for missing in [Side::Left, Side::Right] {
            let mut world = case.world();
            let last = case.group(missing).size() - 1;
            for (side, rank) in case.everybody() {
                if (side, rank) != (missing, last) {
                    let peer = case.group(side).peer_of(rank);
                    let barrier = inter::barrier(case.sides(side, rank)).into();
                    world.act(peer, |_, context| {
                        context.nic.post_schedule(barrier, 1, context.port);
                    });
                }
            }
            world.run_until_quiet();
            for peer in case.group(missing.other()).members() {
                assert!(world.application(peer).told.is_empty(), "{case:?} {peer:?} went");
            }
        }
    }
}

#[test]
fn a_broadcast_reaches_the_other_group() {
    for (case, side, root) in cases_with_root(&[0, 7, 3000, 150_000]) {
        let found = case.run(|us, memory| {
            let ours = (us.side, us.sides.rank) == (side, root);
            let bytes = if ours { pattern(root, case.len) } else { case.guard() };
            let bytes = lend(memory, bytes);
            (inter::broadcast(us.sides, us.root(side, root), bytes), bytes)
        });
        let expected = |us: &Us| match us.side == side && us.sides.rank != root {
            true => case.guard(),
            false => pattern(root, case.len),
        };
        case.assert(&found, expected);
    }
}

#[test]
fn a_gather_and_a_scatter_are_between_the_root_and_the_other_group() {
    for (case, side, root) in cases_with_root(&[0, 7, 600, 3000]) {
        let others = case.group(side.other()).size();
        let all: Vec<u8> = (0..others).flat_map(|rank| pattern(rank, case.len)).collect();
        let gathered = case.run(|us, memory| {
            let mine = lend(memory, pattern(us.sides.rank, case.len));
            let into = memory.lend_filled(u64::from(others) * case.len, GUARD);
            let root = us.root(side, root);
            let work = inter::gather_work_bytes(us.sides, root, case.len);
            let work = memory.lend_filled(work, GUARD);
            (inter::gather(us.sides, root, case.len, mine, into, work), into)
        });
        case.assert(&gathered, |us| match us.root(side, root) {
            Root::Us => all.clone(),
            _ => vec![GUARD; all.len()],
        });
        let scattered = case.run(|us, memory| {
            let source = lend(memory, all.clone());
            let mine = lend(memory, case.guard());
            let root = us.root(side, root);
            let work = inter::scatter_work_bytes(us.sides, root, case.len);
            let work = memory.lend_filled(work, GUARD);
            (inter::scatter(us.sides, root, case.len, source, mine, work), mine)
        });
        case.assert(&scattered, |us| match us.root(side, root) {
            Root::Theirs(_) => pattern(us.sides.rank, case.len),
            _ => case.guard(),
        });
    }
}

#[test]
fn blocks_may_differ_in_length() {
    for (case, side, root) in cases_with_root(&[1, 300]) {
        let others = case.group(side.other()).size();
        let len_of = |rank: u32| u64::from(rank * 5 % 7) * case.len;
        let all: Vec<u8> = (0..others).flat_map(|rank| pattern(rank, len_of(rank))).collect();
        let place = |all: Span, rank: u32| all.part((0..rank).map(len_of).sum(), len_of(rank));
        let gathered = case.run(|us, memory| {
            let mine = lend(memory, pattern(us.sides.rank, len_of(us.sides.rank)));
            let into = memory.lend_filled(all.len() as u64, GUARD);
            let root = us.root(side, root);
            (inter::gather_blocks(us.sides, root, mine, |rank| place(into, rank)), into)
        });
        case.assert(&gathered, |us| match us.root(side, root) {
            Root::Us => all.clone(),
            _ => vec![GUARD; all.len()],
        });
        let scattered = case.run(|us, memory| {
            let source = lend(memory, all.clone());
            let mine = memory.lend_filled(len_of(us.sides.rank), GUARD);
            let root = us.root(side, root);
            (inter::scatter_blocks(us.sides, root, |rank| place(source, rank), mine), mine)
        });
        case.assert(&scattered, |us| match us.root(side, root) {
            Root::Theirs(_) => pattern(us.sides.rank, len_of(us.sides.rank)),
            _ => vec![GUARD; common::len(len_of(us.sides.rank))],
        });
    }
}

#[test]
fn an_allgather_brings_the_blocks_of_the_other_group() {
    for case in cases(&[0, 7, 3000, 40_000]) {
        // One group may have longer blocks than the other.
        let len_of = |side| if side == Side::Left { case.len } else { 2 * case.len };
        let found = case.run(|us, memory| {
            let mine = lend(memory, us.pattern(len_of(us.side)));
            let theirs = u64::from(us.sides.theirs.size()) * len_of(us.side.other());
            let all = memory.lend_filled(theirs, GUARD);
            (inter::allgather(us.sides, mine, all), all)
        });
        case.assert(&found, |us| us.what_others_have(|other, _| other.pattern(len_of(other.side))));
    }
}

#[test]
fn an_allgather_has_blocks_of_any_length() {
    for case in cases(&[1, 300]) {
        let len_of = |rank: u32| u64::from(rank * 5 % 7) * case.len;
        let found = case.run(|us, memory| {
            let mine = lend(memory, us.pattern(len_of(us.sides.rank)));
            let theirs = us.sides.theirs.size();
            let all = memory.lend_filled((0..theirs).map(len_of).sum(), GUARD);
            let place = |rank: u32| all.part((0..rank).map(len_of).sum(), len_of(rank));
            let work = inter::allgather_blocks_work_bytes(us.sides, place);
            let work = memory.lend_filled(work, GUARD);
            (inter::allgather_blocks(us.sides, mine, place, work), all)
        });
        case.assert(&found, |us| {
            us.what_others_have(|other, _| other.pattern(len_of(other.sides.rank)))
        });
    }
}

#[test]
fn an_alltoall_gives_the_other_group_what_is_theirs() {
    for case in cases(&[0, 1, 7, 600]) {
        let found = case.run(|us, memory| {
            let theirs = us.sides.theirs.size();
            let given = (0..theirs).flat_map(|to| us.pattern_to(to, case.len)).collect();
            let source = lend(memory, given);
            let into = memory.lend_filled(source.len, GUARD);
            (inter::alltoall(us.sides, source, into), into)
        });
        case.assert(&found, |us| {
            us.what_others_have(|other, us| other.pattern_to(us.sides.rank, case.len))
        });
    }
}

#[test]
fn an_alltoall_has_blocks_of_any_length() {
    for case in cases(&[1, 300]) {
        // From a rank of one group to a rank of the other.
        let len_of = |from: u32, to: u32| u64::from((from + 3 * to) % 5) * case.len;
        let found = case.run(|us, memory| {
            let (rank, theirs) = (us.sides.rank, us.sides.theirs.size());
            let given = (0..theirs).flat_map(|to| us.pattern_to(to, len_of(rank, to))).collect();
            let source = lend(memory, given);
            let comes = (0..theirs).map(|from| len_of(from, rank)).sum();
            let into = memory.lend_filled(comes, GUARD);
            let to = |other| {
                source.part((0..other).map(|to| len_of(rank, to)).sum(), len_of(rank, other))
            };
            let from = |other| {
                into.part((0..other).map(|from| len_of(from, rank)).sum(), len_of(other, rank))
            };
            (inter::alltoall_blocks(us.sides, to, from), into)
        });
        case.assert(&found, |us| {
            us.what_others_have(|other, us| {
                let len = len_of(other.sides.rank, us.sides.rank);
                other.pattern_to(us.sides.rank, len)
            })
        });
    }
}

#[test]
fn a_reduction_of_the_other_group_comes_to_the_root_in_rank_order() {
    for (case, side, root) in cases_with_root(&[0, 8, 3000, 160_000]) {
        let reduce_op = case.rail.reduce_op();
        let found = case.run(|us, memory| {
            let root = us.root(side, root);
            let bytes = match root {
                Root::Theirs(_) => functions(us.sides.rank, case.len),
                _ => case.guard(),
            };
            let bytes = lend(memory, bytes);
            let work = inter::reduce_work_bytes(us.sides, root, reduce_op, case.len);
            let work = memory.lend_filled(work, GUARD);
            (inter::reduce(us.sides, root, reduce_op, bytes, work), bytes)
        });
        case.assert(&found, |us| match us.root(side, root) {
            Root::Us => in_order(0..us.sides.theirs.size(), case.len),
            Root::Ours => case.guard(),
            Root::Theirs(_) => functions(us.sides.rank, case.len),
        });
    }
}

#[test]
fn an_allreduce_brings_what_the_other_group_comes_to() {
    for case in cases(&[0, 8, 3000, 160_000]) {
        let reduce_op = case.rail.reduce_op();
        let found = case.run(|us, memory| {
            let mine = lend(memory, functions(us.number(), case.len));
            let into = lend(memory, case.guard());
            let work = inter::allreduce_work_bytes(us.sides, reduce_op, case.len);
            let work = memory.lend_filled(work, GUARD);
            (inter::allreduce(us.sides, reduce_op, mine, into, work), into)
        });
        case.assert(&found, |us| in_order(us.numbers_of_others(), case.len));
    }
}

#[test]
fn a_reduce_scatter_shares_out_what_the_other_group_comes_to() {
    for case in cases(&[0, 8, 600]) {
        let reduce_op = case.rail.reduce_op();
        // Both groups have as many bytes, whatever their sizes; the first rank takes the remainder.
        let blocks = |side: Side| u64::from(case.group(side).size());
        let all_bytes = blocks(Side::Left) * blocks(Side::Right) * case.len;
        for even in [true, false] {
            let lens_of = |side: Side| {
                let ranks = blocks(side);
                let mut lens: Vec<u64> = match even {
                    true => vec![all_bytes / ranks; common::len(ranks)],
                    false => (0..ranks).map(|rank| rank % 3 * 8).collect(),
                };
                let rest = all_bytes.checked_sub(lens[1..].iter().sum());
                match rest {
                    Some(rest) => lens[0] = rest,
                    None => lens = vec![all_bytes / ranks; common::len(ranks)],
                }
                lens
            };
            let found = case.run(|us, memory| {
                let all = lend(memory, functions(us.number(), all_bytes));
                let lens = lens_of(us.side);
                let mine = memory.lend_filled(lens[us.sides.rank as usize], GUARD);
                let work = inter::reduce_scatter_work_bytes(us.sides, reduce_op, all_bytes);
                let work = memory.lend_filled(work, GUARD);
                let schedule = match even {
                    true => inter::reduce_scatter_block(us.sides, reduce_op, all, mine, work),
                    false => inter::reduce_scatter(us.sides, reduce_op, all, &lens, mine, work),
                };
                (schedule, mine)
            });
            case.assert(&found, |us| {
                let (lens, rank) = (lens_of(us.side), us.sides.rank as usize);
                let start = common::len(lens[..rank].iter().sum());
                let all = in_order(us.numbers_of_others(), all_bytes);
                all[start..][..common::len(lens[rank])].to_vec()
            });
        }
    }
}

/// Two groups, one length, one kind of rail.
#[derive(Debug)]
struct Case {
    left: Group,
    right: Group,
    len: u64,
    rail: Rail,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Side {
    Left,
    Right,
}

impl Side {
    fn other(self) -> Side {
        if self == Side::Left { Side::Right } else { Side::Left }
    }
}

/// One member.
#[derive(Clone, Copy)]
struct Us<'a> {
    side: Side,
    sides: Sides<'a>,
}

impl Us<'_> {
    /// The root, given as a rank of a side, as this member sees it.
    fn root(&self, side: Side, root: u32) -> Root {
        match (self.side == side, self.sides.rank == root) {
            (true, true) => Root::Us,
            (true, false) => Root::Ours,
            (false, _) => Root::Theirs(root),
        }
    }

    /// Our number among both groups: those of the right follow all of the left.
    fn number(&self) -> u32 {
        FIRST_OF_RIGHT * u32::from(self.side == Side::Right) + self.sides.rank
    }

    fn numbers_of_others(&self) -> std::ops::Range<u32> {
        let first = FIRST_OF_RIGHT * u32::from(self.side == Side::Left);
        first..first + self.sides.theirs.size()
    }

    fn pattern(&self, len: u64) -> Vec<u8> {
        pattern(self.number(), len)
    }

    fn pattern_to(&self, to: u32, len: u64) -> Vec<u8> {
        pattern(self.number() * 131 + to, len)
    }

    /// What all members of the other group have for us, in rank order.
    fn what_others_have(&self, theirs: impl Fn(&Us, &Us) -> Vec<u8>) -> Vec<u8> {
        let Sides { group_id, ours, theirs: others, .. } = self.sides;
        let them = |rank| Us {
            side: self.side.other(),
            sides: Sides { group_id, ours: others, theirs: ours, rank },
        };
        (0..others.size()).flat_map(|rank| theirs(&them(rank), self)).collect()
    }
}

const FIRST_OF_RIGHT: u32 = 100;

impl Case {
    fn group(&self, side: Side) -> &Group {
        if side == Side::Left { &self.left } else { &self.right }
    }

    fn sides(&self, side: Side, rank: u32) -> Sides<'_> {
        Sides { group_id: 3, ours: self.group(side), theirs: self.group(side.other()), rank }
    }

    /// All members in the order in which they begin: the groups take turns.
    fn everybody(&self) -> Vec<(Side, u32)> {
        let ranks = 0..self.left.size().max(self.right.size());
        ranks
            .flat_map(|rank| [(Side::Left, rank), (Side::Right, rank)])
            .filter(|&(side, rank)| rank < self.group(side).size())
            .collect()
    }

    fn us(&self, nth: usize) -> Us<'_> {
        let (side, rank) = self.everybody()[nth];
        Us { side, sides: self.sides(side, rank) }
    }

    fn world(&self) -> World<Standard, Diary> {
        self.rail.world(self.left.size() + self.right.size() + 1, self.len)
    }

    /// Runs a schedule on every member, and returns the bytes that each names.
    fn run(&self, build: impl Fn(Us, &mut Memory) -> (Schedule, Span)) -> Vec<Vec<u8>> {
        let seed = self.len + 1000 * u64::from(self.left.size()) + self.rail as u64;
        let mut random = Random::new(seed);
        let peers = self.everybody().into_iter().map(|(side, rank)| self.group(side).peer_of(rank));
        let build = |nth, memory: &mut Memory| build(self.us(nth), memory);
        run(&mut self.world(), &mut random, peers, build)
    }

    fn assert(&self, found: &[Vec<u8>], expected: impl Fn(&Us) -> Vec<u8>) {
        for (nth, found) in found.iter().enumerate() {
            let us = self.us(nth);
            let same = *found == expected(&us);
            assert!(same, "{self:?}: {:?} rank {}", us.side, us.sides.rank);
        }
    }

    fn guard(&self) -> Vec<u8> {
        vec![GUARD; common::len(self.len)]
    }
}

/// Pairs of groups with every length and every rail. Peers are ranks of neither group.
fn cases(lens: &[u64]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (left, right) in [(1, 1), (1, 3), (2, 2), (3, 5), (7, 2), (2, 12)] {
        for (&len, rail) in lens.iter().flat_map(|len| Rail::ALL.map(|rail| (len, rail))) {
            let left_last: Vec<Peer> = (0..left).map(|rank| Peer(right + 1 + rank)).collect();
            let backwards: Vec<Peer> = (0..right).rev().map(|rank| Peer(1 + rank)).collect();
            let (left, right) = (Group::of(&left_last), Group::of(&backwards));
            cases.push(Case { left, right, len, rail });
        }
    }
    cases
}

/// The same with every root.
fn cases_with_root(lens: &[u64]) -> Vec<(Case, Side, u32)> {
    let mut with_roots = Vec::new();
    for case in cases(lens) {
        for (side, root) in case.everybody() {
            let (left, right) = (case.left.clone(), case.right.clone());
            with_roots.push((Case { left, right, ..case }, side, root));
        }
    }
    with_roots
}
