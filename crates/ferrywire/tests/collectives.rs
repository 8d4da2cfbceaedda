//! Every collective on several numbers of ranks, with short and long data, blocking and nonblocking.
#![allow(missing_docs)]

mod common;

use common::{Random, block_on, local, seeds};
use ferrywire::{Operation, World};

/// Lengths on both sides of the switches between algorithms.
const ITEMS: [usize; 5] = [0, 1, 37, 3_000, 40_000];

/// Item `at` of rank `rank`.
fn item(rank: u32, at: usize) -> u64 {
    u64::from(rank) * 1_000_003 + at as u64
}

fn items(rank: u32, count: usize) -> Vec<u64> {
    (0..count).map(|at| item(rank, at)).collect()
}

fn on_every_size(test: impl Fn(&World, usize) + Sync) {
    for ranks in 1..=8 {
        local(ranks, |world| ITEMS.iter().for_each(|&count| test(world, count)));
    }
}

#[test]
fn barrier_holds_until_all_are_there() {
    use std::sync::atomic::{AtomicU32, Ordering};
    for ranks in 1..=8 {
        let there = AtomicU32::new(0);
        local(ranks, |world| {
            for lap in 1..=20 {
                there.fetch_add(1, Ordering::SeqCst);
                match lap % 2 {
                    0 => world.barrier().unwrap(),
                    _ => world.ibarrier().wait().unwrap(),
                }
                assert!(there.load(Ordering::SeqCst) >= lap * ranks);
            }
        });
    }
}

#[test]
fn broadcast_from_every_root() {
    on_every_size(|world, count| {
        for root in 0..world.size() {
            let mut data = items(world.rank(), count);
            world.broadcast(&mut data, root).unwrap();
            assert_eq!(data, items(root, count));
            let data = world.ibroadcast(items(world.rank(), count), root).unwrap();
            assert_eq!(block_on(data).unwrap(), items(root, count));
        }
    });
}

#[test]
fn reductions_to_all_and_to_every_root() {
    on_every_size(|world, count| {
        let (rank, size) = (world.rank(), world.size());
        let expected: Vec<u64> =
            (0..count).map(|at| (0..size).map(|rank| item(rank, at)).sum()).collect();
        let mut data = items(rank, count);
        world.allreduce(&mut data, Operation::Sum).unwrap();
        assert_eq!(data, expected);
        let data = world.iallreduce(items(rank, count), Operation::Sum).unwrap();
        assert_eq!(block_on(data).unwrap(), expected);
        for root in 0..size {
            let expected = if rank == root { expected.clone() } else { items(rank, count) };
            let mut data = items(rank, count);
            world.reduce(&mut data, Operation::Sum, root).unwrap();
            assert_eq!(data, expected);
            let data = world.ireduce(items(rank, count), Operation::Sum, root).unwrap();
            assert_eq!(data.wait().unwrap(), expected);
        }
    });
}

#[test]
fn scans() {
    on_every_size(|world, count| {
        let rank = world.rank();
        let sum = |ranks: u32, at| (0..ranks).map(|rank| item(rank, at)).sum();
        let expected: Vec<u64> = (0..count).map(|at| sum(rank + 1, at)).collect();
        let mut data = items(rank, count);
        world.scan(&mut data, Operation::Sum).unwrap();
        assert_eq!(data, expected);
        let data = world.iscan(items(rank, count), Operation::Sum).unwrap();
        assert_eq!(block_on(data).unwrap(), expected);
        let expected: Vec<u64> =
            (0..count).map(|at| if rank == 0 { item(0, at) } else { sum(rank, at) }).collect();
        let mut data = items(rank, count);
        world.exscan(&mut data, Operation::Sum).unwrap();
        assert_eq!(data, expected);
    });
}

#[test]
fn gather_scatter_allgather() {
    on_every_size(|world, count| {
        let (rank, size) = (world.rank(), world.size());
        let all: Vec<u64> = (0..size).flat_map(|rank| items(rank, count)).collect();
        let mine = items(rank, count);
        assert_eq!(world.allgather(&mine).unwrap(), all);
        assert_eq!(block_on(world.iallgather(mine.clone())).unwrap(), all);
        for root in 0..size {
            let at_root = (rank == root).then(|| all.clone());
            assert_eq!(world.gather(&mine, root).unwrap(), at_root);
            assert_eq!(block_on(world.igather(mine.clone(), root).unwrap()).unwrap(), at_root);
            let mut part = vec![0; count];
            world.scatter(at_root.as_deref(), &mut part, root).unwrap();
            assert_eq!(part, mine);
            let part = world.iscatter(at_root, count, root).unwrap();
            assert_eq!(block_on(part).unwrap(), mine);
        }
    });
}

#[test]
fn alltoall() {
    on_every_size(|world, count| {
        let (rank, size) = (world.rank(), world.size());
        let count = count / 8;
        let part = |from: u32, to: u32| items(from * 10 + to, count);
        let ours: Vec<u64> = (0..size).flat_map(|to| part(rank, to)).collect();
        let expected: Vec<u64> = (0..size).flat_map(|from| part(from, rank)).collect();
        assert_eq!(world.alltoall(&ours).unwrap(), expected);
        assert_eq!(block_on(world.ialltoall(ours).unwrap()).unwrap(), expected);
    });
}

/// Checks every operation on one type of number against its definition.
macro_rules! check_operations {
    ($world:expr, $type:ty, $convert:expr, $cases:expr) => {
        let numbers: Vec<$type> = (0..$world.size()).map($convert).collect();
        for (operation, f) in $cases {
            let mut value = numbers[$world.rank() as usize];
            $world.allreduce(&mut value, operation).unwrap();
            let expected = numbers.iter().copied().reduce(f).unwrap();
            assert_eq!(value, expected, "{operation:?} of {}", stringify!($type));
        }
    };
}

macro_rules! check_integers {
    ($world:expr, $($type:ty),*) => {$(
        let cases: [(Operation, fn($type, $type) -> $type); 7] = [
            (Operation::Sum, <$type>::wrapping_add),
            (Operation::Product, <$type>::wrapping_mul),
            (Operation::Min, |a, b| a.min(b)),
            (Operation::Max, |a, b| a.max(b)),
            (Operation::BitAnd, |a, b| a & b),
            (Operation::BitOr, |a, b| a | b),
            (Operation::BitXor, |a, b| a ^ b),
        ];
        check_operations!($world, $type, |rank| <$type>::try_from(rank * 5 + 3).unwrap(), cases);
    )*};
}

#[test]
fn every_operation_on_every_number() {
    for ranks in [1, 3, 4] {
        local(ranks, |world| {
            check_integers!(world, i8, i16, i32, i64, u8, u16, u32, u64, isize, usize);
            type Case<T> = (Operation, fn(T, T) -> T);
            let cases: [Case<f64>; 4] = [
                (Operation::Sum, |a, b| a + b),
                (Operation::Product, |a, b| a * b),
                (Operation::Min, f64::min),
                (Operation::Max, f64::max),
            ];
            check_operations!(world, f64, |rank| f64::from(rank) + 0.5, cases);
            let mut any = u8::from(world.rank() == 2);
            world.allreduce(&mut any, Operation::LogicalOr).unwrap();
            assert_eq!(any == 1, world.size() > 2);
        });
    }
}

#[test]
fn arrays_and_structs_are_gathered_whole() {
    local(3, |world| {
        let mut pair = [1.0_f32, 2.0];
        world.allreduce(&mut pair, Operation::Sum).unwrap();
        assert_eq!(pair.map(f32::to_bits), [3.0_f32, 6.0].map(f32::to_bits));
        let all = world.allgather(&[world.rank(), 7]).unwrap();
        assert_eq!(all, [[0, 7], [1, 7], [2, 7]]);
    });
}

/// A leaf of a reduction does not wait, so it can be many reductions ahead.
#[test]
fn a_released_rank_goes_ahead() {
    for ranks in [2, 5, 8] {
        local(ranks, |world| {
            if world.rank() != 0 {
                for lap in 0..200u64 {
                    world.reduce(&mut [lap; 100], Operation::Sum, 0).unwrap();
                }
                world.send(&1u8, 0, 0).unwrap();
                return;
            }
            // No rank waits for the root, so all of them get here before it begins.
            for rank in 1..ranks {
                world.receive_one::<u8>(rank, 0).unwrap();
            }
            for lap in 0..200u64 {
                let mut data = [lap; 100];
                world.reduce(&mut data, Operation::Sum, 0).unwrap();
                assert_eq!(data, [lap * u64::from(ranks); 100]);
            }
        });
    }
}

/// Several collectives in progress at once, complete in any order, among messages.
#[test]
fn many_at_once() {
    for seed in seeds(10) {
        println!("SEED={seed} cargo test -p ferrywire --test collectives many_at_once");
        let ranks = 2 + u32::try_from(seed % 6).unwrap();
        local(ranks, |world| {
            // All ranks make the same calls, but wait for them in different orders.
            let mut common = Random(seed);
            let mut own = Random(seed << 8 | u64::from(world.rank()));
            let mut open = Vec::new();
            for lap in 0..300u64 {
                let count_max = if common.one_in(10) { 20_000 } else { 20 };
                let count = common.below(count_max) as usize;
                let data = vec![lap + u64::from(world.rank()); count];
                let sum: u64 = (0..ranks).map(|rank| lap + u64::from(rank)).sum();
                match common.below(3) {
                    0 => {
                        let request = world.iallreduce(data, Operation::Sum).unwrap();
                        open.push((request, vec![sum; count]));
                    }
                    1 => {
                        let root = common.below(ranks);
                        let expected = vec![lap + u64::from(root); count];
                        open.push((world.ibroadcast(data, root).unwrap(), expected));
                    }
                    _ => drop(world.ibarrier()),
                }
                while open.len() > 20 || !open.is_empty() && own.one_in(4) {
                    let at = own.below(u32::try_from(open.len()).unwrap()) as usize;
                    // Waiting for a collective that other ranks have not begun would deadlock.
                    if let Some(result) = open[at].0.test() {
                        assert_eq!(result.unwrap(), open.swap_remove(at).1, "lap {lap}");
                    } else if open.len() <= 20 {
                        break;
                    }
                }
            }
            for (request, expected) in open {
                assert_eq!(request.wait().unwrap(), expected);
            }
        });
    }
}

#[test]
fn blocks_of_any_lengths_go_everywhere() {
    for ranks in 1..=6u32 {
        local(ranks, |world| {
            for (scale, root) in [(1, 0), (300, ranks - 1), (5000, ranks / 2)] {
                let rank = world.rank();
                // What goes from one rank to another; rank 1 sends nothing.
                let block = |from: u32, to: u32| {
                    let items = scale * (from + 2 * to) as usize * usize::from(from != 1);
                    vec![u64::from(1000 * from + to); items]
                };
                let to_all = |from: u32| (0..ranks).map(|to| block(from, to)).collect::<Vec<_>>();
                let from_all = |to: u32| (0..ranks).map(|from| block(from, to)).collect::<Vec<_>>();
                let got = world.gatherv(&block(rank, root), root).unwrap();
                assert_eq!(got, (rank == root).then(|| from_all(root)));
                let all = (rank == root).then(|| to_all(root));
                assert_eq!(world.scatterv(all.as_deref(), root).unwrap(), block(root, rank));
                assert_eq!(world.allgatherv(&block(rank, 3)).unwrap(), from_all(3));
                assert_eq!(world.alltoallv(&to_all(rank)).unwrap(), from_all(rank));
            }
        });
    }
}

#[test]
fn combined_blocks_are_scattered() {
    for ranks in 1..=6u32 {
        local(ranks, |world| {
            for scale in [1, 70, 4000] {
                let counts: Vec<usize> = (0..ranks as usize).map(|rank| scale * rank).collect();
                let items: usize = counts.iter().sum();
                let start: usize = counts[..world.rank() as usize].iter().sum();
                let ours: Vec<u64> = (0..items as u64).map(|item| item + 1).collect();
                let mine = world.reduce_scatter(&ours, &counts, Operation::Sum).unwrap();
                let sums: Vec<u64> = ours.iter().map(|item| item * u64::from(ranks)).collect();
                assert_eq!(mine, sums[start..start + counts[world.rank() as usize]]);

                let ours = vec![world.rank(); scale * ranks as usize];
                let mine = world.reduce_scatter_block(&ours, Operation::Max).unwrap();
                assert_eq!(mine, vec![ranks - 1; scale]);
            }
        });
    }
}

#[test]
fn a_refused_call_does_not_shift_later_ones() {
    local(2, |world| {
        let error = world.alltoallv(&[vec![1u8]]).unwrap_err();
        assert_eq!(error.to_string(), "alltoallv: the send list has 1 items; pass 2 [FW0206]");
        let error = world.gatherv(&1u8, 7).unwrap_err();
        assert_eq!(
            error.to_string(),
            "gatherv of 1 byte with root 7: invalid rank; ranks go from 0 to 1 [FW0101]"
        );
        let error = world.scatterv::<u8, Vec<u8>>(None, 9).unwrap_err();
        assert_eq!(
            error.to_string(),
            "scatterv with root 9: invalid rank; ranks go from 0 to 1 [FW0101]"
        );
        let error = world.reduce_scatter(&[1, 2, 3], &[1, 1], Operation::Sum).unwrap_err();
        assert_eq!(
            error.to_string(),
            "reduce_scatter of 12 bytes: the buffer has 3 items; pass 2 [FW0206]"
        );
        assert_eq!(world.allgatherv(&world.rank()).unwrap(), [[0], [1]]);
    });
}
