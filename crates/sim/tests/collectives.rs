//! Every collective of `mpi`, on groups of every size, against its expected result.
//!
//! Groups are not the whole job, ranks are not peers, and rails differ: one-sided transfers by which messages overtake
//! each other, and frames that are lost, repeated and late.

mod common;

use std::sync::Arc;

use common::{Diary, GUARD, Rail, functions, group, in_order, len, lend, pattern, run};
use ferrywire_mpi::collective::{self, Edge, LINEAR_RANKS_MAX, Locality, Member, Naming, ReduceOp};
use ferrywire_mpi::group::Group;
use ferrywire_mpi::operation::{self, Number, Operation};
use ferrywire_nic::{Peer, Schedule, Span, Standard};
use ferrywire_sim::memory::Memory;
use ferrywire_sim::port::{SUM, reduce_op};
use ferrywire_sim::random::Random;
use ferrywire_sim::world::World;

#[test]
fn a_broadcast_reaches_everybody() {
    type Algorithm = fn(Member<'_>, u32, Span) -> Schedule;
    let ways: [Algorithm; 4] = [
        collective::broadcast,
        collective::broadcast_tree,
        collective::broadcast_flat,
        collective::broadcast_pieces,
    ];
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
        for way in 0..3 {
            let found = case.run(|me, memory| {
                let mine = lend(memory, pattern(me.rank, case.len));
                let all = case.room_for_all(memory);
                let place = |rank| all.part(u64::from(rank) * case.len, case.len);
                let schedule = match way {
                    0 => collective::allgather_ring(me, mine, place),
                    1 => collective::allgather_doubling(me, mine, all, case.room_for_all(memory)),
                    _ => {
                        let work = collective::allgather_work_bytes(me, case.len);
                        let work = memory.lend_filled(work, GUARD);
                        collective::allgather(me, mine, all, work)
                    }
                };
                (schedule, all)
            });
            assert!(found.iter().all(|all| *all == expected), "{case:?} way {way}");
        }
    }
}

/// Blocks differ in length, and some are empty.
#[test]
fn blocks_may_differ_in_length() {
    // Short ones use other algorithms than long ones.
    for (case, root) in cases_with_root(&[6, 150]) {
        let size = case.group.size();
        let len_of = |rank: u32| u64::from(rank * 5 % 7) * case.len;
        let place = |all: Span, rank: u32| all.part((0..rank).map(len_of).sum(), len_of(rank));
        let expected: Vec<u8> = (0..size).flat_map(|rank| pattern(rank, len_of(rank))).collect();
        let total: u64 = (0..size).map(len_of).sum();
        let gathered = case.run(|me, memory| {
            let mine = lend(memory, pattern(me.rank, len_of(me.rank)));
            let all = memory.lend_filled(total, GUARD);
            (collective::gather_blocks(me, root, mine, |rank| place(all, rank)), all)
        });
        assert_eq!(gathered[root as usize], expected, "{case:?} root {root}");
        let scattered = case.run(|me, memory| {
            let all = lend(memory, expected.clone());
            let mine = memory.lend_filled(len_of(me.rank), GUARD);
            (collective::scatter_blocks(me, root, |rank| place(all, rank), mine), mine)
        });
        assert_eq!(scattered.concat(), expected, "{case:?} root {root}");
        let everywhere = case.run(|me, memory| {
            let all = memory.lend_filled(total, GUARD);
            let place = |rank| place(all, rank);
            // In place: our block is already where it belongs.
            let mine = place(me.rank);
            memory.bytes_mut(mine).copy_from_slice(&pattern(me.rank, mine.len));
            let work = collective::allgather_blocks_work_bytes(me, place);
            let work = memory.lend_filled(work, GUARD);
            (collective::allgather_blocks(me, mine, place, work), all)
        });
        assert!(everywhere.iter().all(|all| *all == expected), "{case:?}");
    }
}

/// Blocks that are not adjacent go to their places too.
#[test]
fn blocks_may_lie_anywhere() {
    for case in cases(&[5, 700]) {
        let size = case.group.size();
        let step = case.len + 3;
        let found = case.run(|me, memory| {
            let mine = lend(memory, pattern(me.rank, case.len));
            let all = memory.lend_filled(u64::from(size) * step, GUARD);
            let place = |rank: u32| all.part(u64::from(size - 1 - rank) * step, case.len);
            let work = collective::allgather_blocks_work_bytes(me, place);
            let work = memory.lend_filled(work, GUARD);
            (collective::allgather_blocks(me, mine, place, work), all)
        });
        let block = |rank| [pattern(rank, case.len), vec![GUARD; 3]].concat();
        let expected: Vec<u8> = (0..size).rev().flat_map(block).collect();
        assert!(found.iter().all(|all| *all == expected), "{case:?}");
    }
}

/// What a rank sends to another.
fn between(from: u32, to: u32, len: u64) -> Vec<u8> {
    pattern(from * 131 + to, len)
}

#[test]
fn an_alltoall_gives_everybody_what_is_theirs() {
    for case in cases(&[0, 1, 7, 600]) {
        let size = case.group.size();
        for in_place in [false, true] {
            let found = case.run(|me, memory| {
                let given = (0..size).flat_map(|to| between(me.rank, to, case.len)).collect();
                let source = lend(memory, given);
                let into = if in_place { source } else { case.room_for_all(memory) };
                let work = collective::alltoall_work_bytes(source, into);
                let work = memory.lend_filled(work, GUARD);
                (collective::alltoall(me, source, into, work), into)
            });
            for (rank, found) in (0..).zip(found) {
                let expected: Vec<u8> =
                    (0..size).flat_map(|from| between(from, rank, case.len)).collect();
                assert_eq!(found, expected, "{case:?} rank {rank} in place: {in_place}");
            }
        }
    }
}

/// A different length between any two ranks; in place, the same both ways.
#[test]
fn an_alltoall_has_blocks_of_any_length() {
    for case in cases(&[1, 90]) {
        let size = case.group.size();
        for in_place in [false, true] {
            let len_of = |from: u32, to: u32| {
                let mixed = if in_place { from + to } else { from + 3 * to };
                u64::from(mixed % 5) * case.len
            };
            let found = case.run(|me, memory| {
                let given: Vec<Vec<u8>> =
                    (0..size).map(|to| between(me.rank, to, len_of(me.rank, to))).collect();
                let source = lend(memory, given.concat());
                let to = |rank| {
                    let before = (0..rank).map(|to| len_of(me.rank, to)).sum();
                    source.part(before, len_of(me.rank, rank))
                };
                let comes = (0..size).map(|from| len_of(from, me.rank)).sum();
                let into = if in_place { source } else { memory.lend_filled(comes, GUARD) };
                let from = |rank| {
                    let before = (0..rank).map(|from| len_of(from, me.rank)).sum();
                    into.part(before, len_of(rank, me.rank))
                };
                let work = collective::alltoall_blocks_work_bytes(me, to, from);
                let work = memory.lend_filled(work, GUARD);
                (collective::alltoall_blocks(me, to, from, work), into)
            });
            for (rank, found) in (0..).zip(found) {
                let expected: Vec<u8> =
                    (0..size).flat_map(|from| between(from, rank, len_of(from, rank))).collect();
                assert_eq!(found, expected, "{case:?} rank {rank} in place: {in_place}");
            }
        }
    }
}

#[test]
fn reductions_are_in_rank_order() {
    for (case, root) in cases_with_root(&[0, 8, 40, 3000]) {
        let all = case.in_order(0..case.group.size());
        let reduce_op = case.rail.reduce_op();
        for pieces in [false, true] {
            let found = case.run(|me, memory| {
                let bytes = lend(memory, functions(me.rank, case.len));
                let work = match pieces {
                    false => collective::reduce_work_bytes(me, root, reduce_op, case.len),
                    true => collective::reduce_pieces_work_bytes(me, reduce_op, case.len),
                };
                let work = memory.lend_filled(work, GUARD);
                let reduce = if pieces { collective::reduce_pieces } else { collective::reduce };
                (reduce(me, root, reduce_op, bytes, work), bytes)
            });
            assert_eq!(found[root as usize], all, "{case:?} root {root} pieces {pieces}");
            for (rank, found) in (0..).zip(found).filter(|(rank, _)| *rank != root) {
                assert_eq!(found, functions(rank, case.len), "{case:?}: {rank} keeps its bytes");
            }
        }
    }
}

#[test]
fn a_reduction_comes_to_any_root() {
    for (case, root) in cases_with_root(&[0, 8, 3000]) {
        let found = case.run(|me, memory| {
            let bytes = lend(memory, functions(me.rank, case.len));
            let work = collective::reduce_work_bytes(me, root, xor(), case.len);
            let work = memory.lend_filled(work, GUARD);
            (collective::reduce(me, root, xor(), bytes, work), bytes)
        });
        let expected = all_xored(case.group.size(), case.len);
        assert_eq!(found[root as usize], expected, "{case:?} root {root}");
    }
}

/// The combination of the functions of `size` ranks under [`xor`].
fn all_xored(size: u32, bytes: u64) -> Vec<u8> {
    let mut result = vec![0; len(bytes)];
    for rank in 0..size {
        let theirs = functions(rank, bytes);
        result.iter_mut().zip(theirs).for_each(|(sum, byte)| *sum ^= byte);
    }
    result
}

/// Exclusive or: commutative.
fn xor() -> ReduceOp {
    let operator = operation::operator(Operation::BitXor, Number::U64).expect("it suits");
    ReduceOp { operator, element_bytes: 8, commutative: true }
}

#[test]
fn an_allreduce_is_in_rank_order_and_the_same_for_all() {
    for case in cases(&[0, 8, 24, 40, 3000]) {
        let expected = case.in_order(0..case.group.size());
        type Algorithm = fn(Member<'_>, ReduceOp, Span, Span, Span) -> Schedule;
        let ways: [(&str, Algorithm); 3] = [
            ("doubling", collective::allreduce_doubling),
            ("halving", collective::allreduce_halving),
            ("flat", collective::allreduce_flat),
        ];
        for (name, allreduce) in ways {
            let found = case.run(|me, memory| {
                let bytes = lend(memory, functions(me.rank, case.len));
                let work = case.len.max(collective::allreduce_flat_work_bytes(me, case.len));
                let work = memory.lend_filled(work, GUARD);
                (allreduce(me, case.rail.reduce_op(), bytes, bytes, work), bytes)
            });
            assert!(found.iter().all(|bytes| *bytes == expected), "{case:?} {name} in place");
            let found = case.run(|me, memory| {
                let mine = lend(memory, functions(me.rank, case.len));
                let result = memory.lend_filled(case.len, GUARD);
                let work = case.len.max(collective::allreduce_flat_work_bytes(me, case.len));
                let work = memory.lend_filled(work, GUARD);
                (allreduce(me, case.rail.reduce_op(), mine, result, work), result)
            });
            assert!(found.iter().all(|bytes| *bytes == expected), "{case:?} {name}");
        }
    }
}

#[test]
fn scans_are_in_rank_order() {
    for case in cases(&[0, 8, 3000]) {
        let with_ours = case.run(|me, memory| {
            let bytes = lend(memory, functions(me.rank, case.len));
            let work = memory.lend_filled(case.len, GUARD);
            (collective::scan(me, case.rail.reduce_op(), bytes, work), bytes)
        });
        let without = case.run(|me, memory| {
            let bytes = lend(memory, functions(me.rank, case.len));
            let work = memory.lend_filled(collective::exscan_work_bytes(case.len), GUARD);
            (collective::exscan(me, case.rail.reduce_op(), bytes, work), bytes)
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
        let all_bytes = case.len * u64::from(size);
        let found = case.run(|me, memory| {
            let all = lend(memory, functions(me.rank, all_bytes));
            // Every other rank works in place.
            let mine = match me.rank % 2 {
                0 => lend(memory, case.guard()),
                _ => all.part(u64::from(me.rank) * case.len, case.len),
            };
            let work = collective::reduce_scatter_block_work_bytes(me, case.len);
            let work = memory.lend_filled(work, GUARD);
            (collective::reduce_scatter_block(me, case.rail.reduce_op(), all, mine, work), mine)
        });
        assert_eq!(found.concat(), in_order(0..size, all_bytes), "{case:?}");
    }
}

#[test]
fn a_reduce_scatter_has_blocks_of_any_length() {
    for case in cases(&[8, 400]) {
        let size = case.group.size();
        let lens: Vec<u64> = (0..size).map(|rank| u64::from(rank * 5 % 7) * case.len).collect();
        let all_bytes = lens.iter().sum();
        let found = case.run(|me, memory| {
            let all = lend(memory, functions(me.rank, all_bytes));
            let (before, ours) = lens.split_at(me.rank as usize);
            let mine = match me.rank % 2 {
                0 => memory.lend_filled(ours[0], GUARD),
                _ => all.part(before.iter().sum(), ours[0]),
            };
            let work = collective::reduce_scatter_work_bytes(me, &lens);
            let work = memory.lend_filled(work, GUARD);
            let reduce_op = case.rail.reduce_op();
            (collective::reduce_scatter(me, reduce_op, all, &lens, mine, work), mine)
        });
        assert_eq!(found.concat(), in_order(0..size, all_bytes), "{case:?}");
    }
}

/// On a torus with two columns, left and right are the same rank; with one, they are the rank itself.
#[test]
fn neighbours_on_a_torus_get_what_was_sent_their_way() {
    for case in cases(&[0, 7, 600]) {
        let columns = 2 - case.group.size() % 2;
        let rows = case.group.size() / columns;
        let case = Case { group: group(0, rows * columns), ..case };
        // Left, right, up, down: the direction in which a message goes, and the one from which it comes.
        let ways = |rank: u32| {
            let (row, column) = (rank / columns, rank % columns);
            let left = row * columns + (column + columns - 1) % columns;
            let right = row * columns + (column + 1) % columns;
            let up = (row + rows - 1) % rows * columns + column;
            let down = (row + 1) % rows * columns + column;
            [(0, left, right), (1, right, left), (2, up, down), (3, down, up)]
        };
        let found = case.run(|me, memory| {
            let gives = ways(me.rank).map(|(subtag, rank, _)| {
                let bytes = lend(memory, pattern(4 * me.rank + u32::from(subtag), case.len));
                Edge { rank, subtag, bytes }
            });
            let all = memory.lend_filled(4 * case.len, GUARD);
            let gets = ways(me.rank).map(|(subtag, _, rank)| {
                let bytes = all.part(u64::from(subtag) * case.len, case.len);
                Edge { rank, subtag, bytes }
            });
            (collective::neighbourhood(me, &gives, &gets), all)
        });
        for (rank, found) in (0..).zip(found) {
            let expected: Vec<u8> = ways(rank)
                .into_iter()
                .flat_map(|(subtag, _, from)| pattern(4 * from + u32::from(subtag), case.len))
                .collect();
            assert_eq!(found, expected, "{case:?} rank {rank}");
        }
    }
}

/// Long messages use another algorithm, without being told to.
#[test]
fn long_messages_arrive_too() {
    // Longer than the messages that two ranks combine whole.
    let long = 300_000;
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
                let reduce_op = case.rail.reduce_op();
                let work = collective::allreduce_work_bytes(me, reduce_op, bytes, bytes);
                let work = memory.lend_filled(work, GUARD);
                (collective::allreduce(me, reduce_op, bytes, bytes, work), bytes)
            });
            let expected = case.in_order(0..size);
            assert!(found.iter().all(|bytes| *bytes == expected), "{case:?}");
            for (reduce_op, expected) in
                [(case.rail.reduce_op(), &expected), (xor(), &all_xored(size, long))]
            {
                let apart = |me: Member<'_>, memory: &mut Memory| {
                    let mine = lend(memory, functions(me.rank, long));
                    let result = memory.lend_filled(long, GUARD);
                    let work = collective::allreduce_work_bytes(me, reduce_op, mine, result);
                    let work = memory.lend_filled(work, GUARD);
                    (collective::allreduce(me, reduce_op, mine, result, work), mine, result)
                };
                let found = case.run(|me, memory| {
                    let (schedule, _, result) = apart(me, memory);
                    (schedule, result)
                });
                assert!(found.iter().all(|bytes| bytes == expected), "{case:?} apart");
                let kept = case.run(|me, memory| {
                    let (schedule, mine, _) = apart(me, memory);
                    (schedule, mine)
                });
                for (rank, kept) in (0..).zip(kept) {
                    assert_eq!(kept, functions(rank, long), "{case:?}: {rank} keeps its bytes");
                }
            }
            for reduce_op in [case.rail.reduce_op(), xor()] {
                let found = case.run(|me, memory| {
                    let bytes = lend(memory, functions(me.rank, long));
                    let work = collective::reduce_work_bytes(me, 1, reduce_op, long);
                    let work = memory.lend_filled(work, GUARD);
                    (collective::reduce(me, 1, reduce_op, bytes, work), bytes)
                });
                let expected =
                    if reduce_op.commutative { all_xored(size, long) } else { expected.clone() };
                assert!(found[1] == expected, "{case:?}");
            }
        }
    }
}

/// A rank that exchanges with all others does not start with all of them at the same time.
#[test]
fn an_alltoall_has_few_receives_open() {
    let case = Case { group: Group::whole(64), len: 8, rail: Rail::Ring };
    let mut world = case.world();
    for rank in 0..64 {
        world.act(Peer(rank), |_, context| {
            let all = context.port.memory.lend_filled(2 * 64 * 8, 0);
            let me = Member {
                group_id: 3,
                group: &case.group,
                rank,
                locality: Locality::Unknown,
                naming: Naming::Ranks,
            };
            let schedule = collective::alltoall(me, all.part(0, 512), all.part(512, 512), all);
            context.nic.post_schedule(Arc::new(schedule), 1, context.port);
        });
    }
    let mut most = 0;
    while let Some(rank) = world.step() {
        most = most.max(world.nic(rank).holdings().posted);
    }
    assert!((1..=16).contains(&most), "{most} receives were open");
}

/// Steps of a schedule are counted in 16 bits. With the most ranks that an algorithm takes, they fit; with more, those
/// of trees do.
#[test]
fn schedules_of_many_ranks_fit() {
    let group = Group::whole(LINEAR_RANKS_MAX);
    for rank in [0, 7, LINEAR_RANKS_MAX - 1] {
        let me = Member {
            group_id: 3,
            group: &group,
            rank,
            locality: Locality::Unknown,
            naming: Naming::Ranks,
        };
        let ranks = LINEAR_RANKS_MAX as usize;
        let nothing = |_| Span::EMPTY;
        let linear = collective::alltoall_blocks(me, nothing, nothing, Span::EMPTY);
        assert_eq!(linear.len(), 2 * (ranks - 1));
        let all = Span { len: 8 * u64::from(LINEAR_RANKS_MAX), ..Span::EMPTY };
        let in_place = collective::alltoall(me, all, all, all);
        assert_eq!(in_place.len(), 3 * (ranks - 1));
        collective::allgather_ring(me, Span::EMPTY, nothing);
        collective::gather_blocks(me, 0, Span::EMPTY, nothing);
        collective::broadcast_pieces(me, 0, Span::EMPTY);
        let (mine, work) = (Span { len: 8, ..Span::EMPTY }, Span { len: 2 * all.len, ..all });
        let pairwise = collective::reduce_scatter_block(me, reduce_op(SUM), all, mine, work);
        assert!(pairwise.len() >= 3 * (ranks - 2), "{} steps", pairwise.len());
    }
    let group = Group::whole(1 << 20);
    let me = Member {
        group_id: 3,
        group: &group,
        rank: 0,
        locality: Locality::Unknown,
        naming: Naming::Ranks,
    };
    let mine = Span { len: 1 << 16, ..Span::EMPTY };
    let all = Span { len: 1 << 36, ..Span::EMPTY };
    assert!(collective::gather(me, 0, mine, all, all).len() < 100);
    assert!(collective::scatter(me, 0, all, mine, all).len() < 100);
    assert!(collective::allgather(me, mine, all, all).len() < 100);
    assert!(collective::broadcast(me, 0, all).len() < 100);
    assert!(collective::reduce(me, 7, reduce_op(SUM), mine, all).len() < 100);
    assert!(
        collective::reduce_scatter_block(me, reduce_op(SUM), mine, mine.part(0, 0), all).len()
            < 100
    );
}

/// One group, one length, one kind of rail.
#[derive(Clone, Debug)]
struct Case {
    group: Group,
    len: u64,
    rail: Rail,
}

impl Case {
    /// Runs a schedule on every rank, and returns the bytes that each names.
    fn run(&self, build: impl Fn(Member<'_>, &mut Memory) -> (Schedule, Span)) -> Vec<Vec<u8>> {
        let seed = self.len + 1000 * u64::from(self.group.size());
        let (mut world, mut random) = (self.world(), Random::new(seed));
        run(&mut world, &mut random, self.group.members(), |rank, memory| {
            let rank = u32::try_from(rank).expect("few ranks");
            build(
                Member {
                    group_id: 3,
                    group: &self.group,
                    rank,
                    locality: self.locality(),
                    naming: Naming::Ranks,
                },
                memory,
            )
        })
    }

    /// It affects speed only, so every value must work; cases take them in turn.
    fn locality(&self) -> Locality {
        let homes = [Locality::Unknown, Locality::OneNode, Locality::Oversubscribed];
        homes[(len(self.len) + self.group.size() as usize) % homes.len()]
    }

    fn world(&self) -> World<Standard, Diary> {
        let ranks = self.group.members().map(|peer| peer.0 + 1).max().unwrap_or(0);
        self.rail.world(ranks, u64::from(ranks) * 1000 + self.len)
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

    /// The functions of these ranks, composed one by one.
    fn in_order(&self, ranks: std::ops::Range<u32>) -> Vec<u8> {
        in_order(ranks, self.len)
    }
}

/// Every size with every length; all forms of groups and all rails in turn.
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
