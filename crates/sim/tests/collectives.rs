//! Every collective of `mpi`, on every size of group, against what it must come to.
//!
//! Groups are not the whole job, ranks are not peers, and rails differ: messages that overtake each
//! other by one-sided transfer, and frames that are lost, repeated and late.

use std::sync::Arc;

use ferrywire_mpi::collective::{self, LINEAR_RANKS_MAX, Member};
use ferrywire_mpi::group::Group;
use ferrywire_mpi::operation::{self, Number, Operation};
use ferrywire_nic::{
    Limits, Operator, Outcome, Peer, Posted, Promises, Schedule, Span, Standard, Ticket,
};
use ferrywire_sim::fabric::{Costs, Fabric, Link, Rule};
use ferrywire_sim::memory::Memory;
use ferrywire_sim::port::{COMPOSE, COMPOSE_LATER, SUM, compose};
use ferrywire_sim::random::Random;
use ferrywire_sim::world::{Application, Context, World};

#[test]
fn a_broadcast_reaches_everybody() {
    type Algorithm = fn(Member<'_>, u32, Span) -> Schedule;
    let ways: [Algorithm; 3] =
        [collective::broadcast, collective::broadcast_tree, collective::broadcast_pieces];
    for (case, root) in cases_with_root(&[0, 1, 7, 3000]) {
        for way in ways {
            let found = case.run(|me, memory| {
                let mine = if me.rank == root { pattern(root, case.len) } else { case.guard() };
                let bytes = lend(memory, mine);
                (way(me, root, bytes), bytes)
            });
            assert!(found.iter().all(|bytes| *bytes == pattern(root, case.len)), "{case:?}");
        }
    }
}

#[test]
fn a_gather_brings_blocks_in_rank_order_to_any_root() {
    for (case, root) in cases_with_root(&[0, 1, 7, 600, 3000]) {
        let found = case.run(|me, memory| {
            let mine = lend(memory, pattern(me.rank, case.len));
            let all = if me.rank == root { case.room_for_all(memory) } else { Span::EMPTY };
            let work = collective::gather_work_bytes(me, root, case.len);
            let work = memory.lend_filled(work, GUARD);
            (collective::gather(me, root, mine, all, work), all)
        });
        assert_eq!(found[root as usize], case.all_patterns(), "{case:?} root {root}");
    }
}

#[test]
fn a_scatter_takes_blocks_in_rank_order_from_any_root() {
    for (case, root) in cases_with_root(&[0, 1, 7, 600, 3000]) {
        let found = case.run(|me, memory| {
            let all = match me.rank == root {
                true => lend(memory, case.all_patterns()),
                false => Span::EMPTY,
            };
            let mine = lend(memory, case.guard());
            let work = collective::scatter_work_bytes(me, root, case.len);
            let work = memory.lend_filled(work, GUARD);
            (collective::scatter(me, root, all, mine, work), mine)
        });
        assert_eq!(found.concat(), case.all_patterns(), "{case:?} root {root}");
    }
}

#[test]
fn an_allgather_brings_blocks_in_rank_order_to_everybody() {
    for case in cases(&[0, 1, 7, 3000]) {
        let expected = case.all_patterns();
        for doubling in [false, true] {
            let found = case.run(|me, memory| {
                let mine = lend(memory, pattern(me.rank, case.len));
                let all = case.room_for_all(memory);
                if doubling {
                    let work = case.room_for_all(memory);
                    return (collective::allgather_doubling(me, mine, all, work), all);
                }
                let work = collective::allgather_work_bytes(me, case.len);
                let work = memory.lend_filled(work, GUARD);
                (collective::allgather(me, mine, all, work), all)
            });
            assert!(found.iter().all(|all| *all == expected), "{case:?}");
        }
    }
}

/// The block of each rank has a length of its own, and some have none.
#[test]
fn blocks_may_differ_in_length() {
    let len_of = |rank: u32| u64::from(rank * 5 % 7 * 150);
    let block_of = |rank: u32| move |all: Span| all.part((0..rank).map(len_of).sum(), len_of(rank));
    for (case, root) in cases_with_root(&[0]) {
        let size = case.group.size();
        let expected: Vec<u8> = (0..size).flat_map(|rank| pattern(rank, len_of(rank))).collect();
        let total: u64 = (0..size).map(len_of).sum();
        let gathered = case.run(|me, memory| {
            let mine = lend(memory, pattern(me.rank, len_of(me.rank)));
            let all = memory.lend_filled(total, GUARD);
            (collective::gather_blocks(me, root, mine, |rank| block_of(rank)(all)), all)
        });
        assert_eq!(gathered[root as usize], expected, "{case:?} root {root}");
        let scattered = case.run(|me, memory| {
            let all = lend(memory, expected.clone());
            let mine = memory.lend_filled(len_of(me.rank), GUARD);
            (collective::scatter_blocks(me, root, |rank| block_of(rank)(all), mine), mine)
        });
        assert_eq!(scattered.concat(), expected, "{case:?} root {root}");
        let everywhere = case.run(|me, memory| {
            let all = memory.lend_filled(total, GUARD);
            // In place: our block is where it belongs.
            let mine = block_of(me.rank)(all);
            memory.bytes_mut(mine).copy_from_slice(&pattern(me.rank, mine.len));
            (collective::allgather_blocks(me, mine, |rank| block_of(rank)(all)), all)
        });
        assert!(everywhere.iter().all(|all| *all == expected), "{case:?}");
    }
}

#[test]
fn an_alltoall_gives_everybody_what_is_theirs() {
    let between = |from: u32, to: u32, len| pattern(from * 131 + to, len);
    for case in cases(&[0, 1, 7, 600]) {
        let size = case.group.size();
        let found = case.run(|me, memory| {
            let given = (0..size).flat_map(|to| between(me.rank, to, case.len)).collect();
            let source = lend(memory, given);
            let into = case.room_for_all(memory);
            (collective::alltoall(me, source, into), into)
        });
        for (rank, found) in (0..).zip(found) {
            let expected: Vec<u8> =
                (0..size).flat_map(|from| between(from, rank, case.len)).collect();
            assert_eq!(found, expected, "{case:?} rank {rank}");
        }
    }
}

#[test]
fn reductions_are_in_rank_order() {
    for (case, root) in cases_with_root(&[0, 8, 40, 3000]) {
        let all = case.in_order(0..case.group.size());
        let found = case.run(|me, memory| {
            let bytes = lend(memory, functions(me.rank, case.len));
            let work = collective::reduce_in_order_work_bytes(me, case.len);
            let work = memory.lend_filled(work, GUARD);
            (collective::reduce_in_order(me, root, case.operator(), bytes, work), bytes)
        });
        assert_eq!(found[root as usize], all, "{case:?} root {root}");
    }
}

#[test]
fn a_reduction_comes_to_any_root() {
    for (case, root) in cases_with_root(&[0, 8, 3000]) {
        let found = case.run(|me, memory| {
            let bytes = lend(memory, functions(me.rank, case.len));
            let work = collective::reduce_work_bytes(me, root, case.len);
            let work = memory.lend_filled(work, GUARD);
            // Exclusive or does not mind the order.
            let xor = operation::operator(Operation::BitXor, Number::U64).expect("it suits");
            (collective::reduce(me, root, xor, bytes, work), bytes)
        });
        let mut expected = vec![0; len(case.len)];
        for rank in 0..case.group.size() {
            let theirs = functions(rank, case.len);
            expected.iter_mut().zip(theirs).for_each(|(sum, byte)| *sum ^= byte);
        }
        assert_eq!(found[root as usize], expected, "{case:?} root {root}");
    }
}

#[test]
fn an_allreduce_is_in_rank_order_and_the_same_for_all() {
    for case in cases(&[0, 8, 24, 40, 3000]) {
        let expected = case.in_order(0..case.group.size());
        for halving in [false, true] {
            let found = case.run(|me, memory| {
                let bytes = lend(memory, functions(me.rank, case.len));
                let work = memory.lend_filled(case.len, GUARD);
                let schedule = match halving {
                    false => collective::allreduce_doubling(me, case.operator(), bytes, work),
                    true => collective::allreduce_halving(me, case.operator(), 8, bytes, work),
                };
                (schedule, bytes)
            });
            assert!(found.iter().all(|bytes| *bytes == expected), "{case:?} halving {halving}");
        }
    }
}

#[test]
fn scans_are_in_rank_order() {
    for case in cases(&[0, 8, 3000]) {
        let with_ours = case.run(|me, memory| {
            let bytes = lend(memory, functions(me.rank, case.len));
            let work = memory.lend_filled(case.len, GUARD);
            (collective::scan(me, case.operator(), bytes, work), bytes)
        });
        let without = case.run(|me, memory| {
            let bytes = lend(memory, functions(me.rank, case.len));
            let work = memory.lend_filled(collective::exscan_work_bytes(case.len), GUARD);
            (collective::exscan(me, case.operator(), bytes, work), bytes)
        });
        for rank in 0..case.group.size() {
            assert_eq!(with_ours[rank as usize], case.in_order(0..rank + 1), "{case:?} {rank}");
            let before = if rank == 0 { functions(0, case.len) } else { case.in_order(0..rank) };
            assert_eq!(without[rank as usize], before, "{case:?} rank {rank}");
        }
    }
}

#[test]
fn a_reduce_scatter_is_in_rank_order() {
    for case in cases(&[0, 8, 600]) {
        let size = case.group.size();
        let found = case.run(|me, memory| {
            let all = lend(memory, functions(me.rank, case.len * u64::from(size)));
            // Every other rank works in place.
            let mine = match me.rank % 2 {
                0 => lend(memory, case.guard()),
                _ => all.part(u64::from(me.rank) * case.len, case.len),
            };
            let work = collective::reduce_scatter_block_work_bytes(case.len);
            let work = memory.lend_filled(work, GUARD);
            (collective::reduce_scatter_block(me, case.operator(), all, mine, work), mine)
        });
        let whole = Case { len: case.len * u64::from(size), ..case.clone() };
        assert_eq!(found.concat(), whole.in_order(0..size), "{case:?}");
    }
}

/// What is long takes another way, without being told.
#[test]
fn long_messages_arrive_too() {
    let long = 200_000;
    for size in [2, 3, 5, 8] {
        for rail in Rail::ALL {
            let case = Case { group: Group::whole(size), len: long, rail };
            let found = case.run(|me, memory| {
                let mine = if me.rank == 1 { pattern(1, long) } else { case.guard() };
                let bytes = lend(memory, mine);
                (collective::broadcast(me, 1, bytes), bytes)
            });
            assert!(found.iter().all(|bytes| *bytes == pattern(1, long)), "{case:?}");
            let found = case.run(|me, memory| {
                let bytes = lend(memory, functions(me.rank, long));
                let work = memory.lend_filled(long, GUARD);
                (collective::allreduce(me, case.operator(), 8, bytes, work), bytes)
            });
            let expected = case.in_order(0..size);
            assert!(found.iter().all(|bytes| *bytes == expected), "{case:?}");
        }
    }
}

/// Whoever talks to everybody does not begin with everybody at the same time.
#[test]
fn an_alltoall_has_few_receives_open() {
    let case = Case { group: Group::whole(64), len: 8, rail: Rail::Ring };
    let mut world = case.world();
    for rank in 0..64 {
        world.act(Peer(rank), |_, context| {
            let all = context.port.memory.lend_filled(2 * 64 * 8, 0);
            let me = Member { group_id: 3, group: &case.group, rank };
            let schedule = collective::alltoall(me, all.part(0, 512), all.part(512, 512));
            context.nic.post_schedule(Arc::new(schedule), 1, context.port);
        });
    }
    let mut most = 0;
    while let Some(rank) = world.step() {
        most = most.max(world.nic(rank).holdings().posted);
    }
    assert!((1..=16).contains(&most), "{most} receives were open");
}

/// A schedule is counted in 16 bits. With as many ranks as an algorithm takes, it still fits; with
/// more, trees do.
#[test]
fn schedules_of_many_ranks_fit() {
    let group = Group::whole(LINEAR_RANKS_MAX);
    for rank in [0, 7, LINEAR_RANKS_MAX - 1] {
        let me = Member { group_id: 3, group: &group, rank };
        let block = |_| Span::EMPTY;
        let linear = collective::alltoall_blocks(me, block, block);
        assert_eq!(linear.len(), 2 * (LINEAR_RANKS_MAX as usize - 1));
        collective::allgather_blocks(me, Span::EMPTY, block);
        collective::gather_blocks(me, 0, Span::EMPTY, block);
        collective::broadcast_pieces(me, 0, Span::EMPTY);
        let empty = Span::EMPTY;
        collective::reduce_scatter_block(me, SUM, empty, empty, empty);
    }
    let group = Group::whole(1 << 20);
    let me = Member { group_id: 3, group: &group, rank: 0 };
    let mine = Span { len: 1 << 16, ..Span::EMPTY };
    let all = Span { len: 1 << 36, ..Span::EMPTY };
    assert!(collective::gather(me, 0, mine, all, all).len() < 100);
    assert!(collective::scatter(me, 0, all, mine, all).len() < 100);
    assert!(collective::allgather(me, mine, all, all).len() < 100);
    assert!(collective::broadcast(me, 0, all).len() < 100);
}

/// One group, one length, one sort of rail.
#[derive(Clone, Debug)]
struct Case {
    group: Group,
    len: u64,
    rail: Rail,
}

/// What carries the frames.
#[derive(Clone, Copy, Debug)]
enum Rail {
    /// Loses nothing, and is soon full.
    Ring,
    /// Writes and reads memory of the peer: long messages may overtake each other.
    OneSided,
    /// Loses, repeats and delays.
    Rough,
}

impl Rail {
    const ALL: [Rail; 3] = [Rail::Ring, Rail::OneSided, Rail::Rough];
}

impl Case {
    /// Lets everybody run the schedule that it gets, and answers the bytes that each names.
    fn run(&self, build: impl Fn(Member<'_>, &mut Memory) -> (Schedule, Span)) -> Vec<Vec<u8>> {
        let mut world = self.world();
        let mut random = Random::new(self.len);
        let mut begun: Vec<(Peer, Posted, Span)> = Vec::new();
        for (peer, rank) in self.group.members().zip(0..) {
            // Some are late, and find that others have begun.
            if random.percent(30) {
                for _ in 0..random.below(100) {
                    world.step();
                }
            }
            let me = Member { group_id: 3, group: &self.group, rank };
            begun.push(world.act(peer, |_, context| {
                let (schedule, result) = build(me, &mut context.port.memory);
                (peer, context.nic.post_schedule(Arc::new(schedule), 1, context.port), result)
            }));
        }
        world.run_until_quiet();
        let results = begun.into_iter().map(|(peer, posted, result)| {
            let told = &world.application(peer).told;
            let done = match posted {
                Posted::Done(outcome) => outcome == Outcome::Done,
                Posted::Pending(ticket) => told.contains(&(ticket, Outcome::Done)),
            };
            assert!(done, "{self:?}: {peer:?} is not done: {told:?}");
            assert_eq!(world.nic(peer).holdings().runs, 0);
            world.memory(peer).bytes(result).to_vec()
        });
        results.collect()
    }

    fn world(&self) -> World<Standard, Diary> {
        let ranks = self.group.members().map(|peer| peer.0 + 1).max().unwrap_or(0);
        let one_sided = matches!(self.rail, Rail::OneSided);
        let promises = Promises {
            reliable: !matches!(self.rail, Rail::Rough),
            puts: one_sided,
            gets: one_sided,
            frame_bytes_max: 1500,
            welcome_bytes: 0,
        };
        let link = Link { promises, latency_ns: 1000, byte_ps: 100 };
        let fabric = Fabric {
            ranks_per_node: 1,
            local: link,
            remote: link,
            costs: Costs { event_ns: 50, frame_ns: 50, byte_ps: 100 },
            ring_frames_max: matches!(self.rail, Rail::Ring).then_some(4),
        };
        let limits = Limits { eager_bytes_max: 200, ..Limits::default() };
        let seed = u64::from(ranks) * 1000 + self.len;
        let mut world = World::new(seed, fabric, &limits, (0..ranks).map(|_| Diary::default()));
        world.rules = vec![
            Rule::Lose { percent: 5 },
            Rule::Repeat { percent: 10, within_ns: 100_000 },
            Rule::Reorder { percent: 20, by_ns: 20_000 },
        ];
        world
    }

    /// An operator whose order matters, which is slow on most rails.
    fn operator(&self) -> Operator {
        if matches!(self.rail, Rail::OneSided) { COMPOSE } else { COMPOSE_LATER }
    }

    fn guard(&self) -> Vec<u8> {
        vec![GUARD; len(self.len)]
    }

    fn room_for_all(&self, memory: &mut Memory) -> Span {
        memory.lend_filled(self.len * u64::from(self.group.size()), GUARD)
    }

    fn all_patterns(&self) -> Vec<u8> {
        (0..self.group.size()).flat_map(|rank| pattern(rank, self.len)).collect()
    }

    /// What the functions of these ranks come to, composed one by one.
    fn in_order(&self, ranks: std::ops::Range<u32>) -> Vec<u8> {
        let mut ranks = ranks.rev();
        let mut result = functions(ranks.next().expect("at least one"), self.len);
        for rank in ranks {
            compose(&functions(rank, self.len), &mut result);
        }
        result
    }
}

/// Does nothing by itself, and writes down what it is told.
#[derive(Default)]
struct Diary {
    told: Vec<(Ticket, Outcome)>,
}

impl Application<Standard> for Diary {
    fn on_wake(&mut self, _: &mut Context<'_, Standard>) {}

    fn on_complete(&mut self, ticket: Ticket, outcome: Outcome, _: &mut Context<'_, Standard>) {
        self.told.push((ticket, outcome));
    }

    fn on_peer_down(&mut self, _: Peer, _: &mut Context<'_, Standard>) {}
}

/// Every size with every length; groups of all forms and all rails in turn.
fn cases(lens: &[u64]) -> Vec<Case> {
    let mut cases = Vec::new();
    for size in (1..=33).chain([40, 47, 63, 64]) {
        for &len in lens {
            let turn = cases.len();
            cases.push(Case { group: group(turn % 5, size), len, rail: Rail::ALL[turn % 3] });
        }
    }
    cases
}

/// The same, with every root of small groups and a few of large ones.
fn cases_with_root(lens: &[u64]) -> Vec<(Case, u32)> {
    let with_roots = |case: Case| {
        let size = case.group.size();
        let roots = (0..size).filter(move |&root| size <= 8 || root % (size / 3) == 0);
        roots.map(move |root| (case.clone(), root))
    };
    cases(lens).into_iter().flat_map(with_roots).collect()
}

/// Groups whose ranks are their peers, and groups whose ranks are not.
fn group(form: usize, size: u32) -> Group {
    let members: Vec<Peer> = match form {
        0 => return Group::whole(size),
        1 => (0..size).rev().map(Peer).collect(),
        2 => (0..size).map(|rank| Peer(5 + rank)).collect(),
        3 => (0..size).map(|rank| Peer(2 + 3 * rank)).collect(),
        // No rule: odd ones first, even ones after them, backwards.
        _ => (0..size)
            .filter(|rank| rank % 2 == 1)
            .chain((0..size).filter(|rank| rank % 2 == 0).rev())
            .map(Peer)
            .collect(),
    };
    Group::of(&members)
}

fn lend(memory: &mut Memory, bytes: Vec<u8>) -> Span {
    let len = bytes.len() as u64;
    Span::new(memory.lend(bytes), 0, len)
}

/// Bytes that tell whose they are and where.
fn pattern(whose: u32, len: u64) -> Vec<u8> {
    let byte = |at: u64| (u64::from(whose) * 167 + at * 31 + (at >> 7)).to_le_bytes()[0] | 1;
    (0..len).map(byte).collect()
}

/// Functions for [`COMPOSE`], which tell whose they are and where.
fn functions(whose: u32, len: u64) -> Vec<u8> {
    let part = |at: u64| u64::from(whose) * 2_654_435_761 + at * 40_503 + 3;
    (0..len / 4).flat_map(|at| part(at).to_le_bytes().into_iter().take(4)).collect()
}

fn len(bytes: u64) -> usize {
    usize::try_from(bytes).expect("it fits the machine")
}

/// What stands where nothing has been written.
const GUARD: u8 = 0;
