//! User-defined operators: order, types, threads, panics.
#![allow(missing_docs)]

mod common;

use common::{local, watched};
use ferrywire::{CombineOrder, Plain};

/// A matrix of two rows: a product that is associative and not commutative.
type Matrix = [u32; 4];

fn product(a: Matrix, b: Matrix) -> Matrix {
    let cell = |row: usize, column: usize| {
        let [left, right] = [0, 1].map(|k| a[2 * row + k].wrapping_mul(b[2 * k + column]));
        left.wrapping_add(right)
    };
    [cell(0, 0), cell(0, 1), cell(1, 0), cell(1, 1)]
}

fn matrix(rank: u32, item: u32) -> Matrix {
    [rank + 1, item, 1, rank.wrapping_mul(item) + 3]
}

fn product_of(ranks: std::ops::Range<u32>, item: u32) -> Option<Matrix> {
    ranks.map(|rank| matrix(rank, item)).reduce(product)
}

#[test]
fn products_in_the_order_of_ranks() {
    for ranks in 1..=7u32 {
        local(ranks, |world| {
            let rank = world.rank();
            for items in [0, 1, 3, 600, 20_000] {
                let mine: Vec<Matrix> = (0..items).map(|item| matrix(rank, item)).collect();
                let expected = |ranks: std::ops::Range<u32>| {
                    let item = |item| product_of(ranks.clone(), item).unwrap_or(matrix(0, item));
                    (0..items).map(item).collect::<Vec<Matrix>>()
                };
                let mut data = mine.clone();
                world.allreduce_with(&mut data, CombineOrder::ByRank, product).unwrap();
                assert!(data == expected(0..ranks), "allreduce of {items} on {ranks}");

                for root in [0, ranks - 1] {
                    let mut data = mine.clone();
                    world.reduce_with(&mut data, CombineOrder::ByRank, product, root).unwrap();
                    let whole = if rank == root { expected(0..ranks) } else { mine.clone() };
                    assert!(data == whole, "reduce of {items} on {ranks} at {root}");
                }
                let mut data = mine.clone();
                world.scan_with(&mut data, CombineOrder::ByRank, product).unwrap();
                assert!(data == expected(0..rank + 1), "scan of {items} on {ranks}");
                let mut data = mine.clone();
                world.exscan_with(&mut data, CombineOrder::ByRank, product).unwrap();
                let before = if rank == 0 { mine } else { expected(0..rank) };
                assert!(data == before, "exscan of {items} on {ranks}");
            }
        });
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Plain)]
#[repr(C)]
struct Extremes {
    min: f64,
    max: f64,
    count: u64,
}

#[test]
fn structs_in_any_order_with_captured_values() {
    for ranks in 1..=6u32 {
        local(ranks, |world| {
            let here = f64::from(world.rank());
            let mut extremes = Extremes { min: here, max: -here, count: 1 };
            let step = 10;
            world
                .allreduce_with(&mut extremes, CombineOrder::Any, move |a, b| Extremes {
                    min: a.min.min(b.min),
                    max: a.max.max(b.max),
                    count: a.count + b.count + step,
                })
                .unwrap();
            let count = u64::from(ranks) + step * u64::from(ranks - 1);
            assert_eq!(extremes, Extremes { min: 0.0, max: 0.0, count });
        });
    }
}

#[test]
fn several_threads_of_a_rank_combine_at_once() {
    local(3, |world| {
        let comms: Vec<_> = (0..4).map(|_| world.dup().unwrap()).collect();
        std::thread::scope(|scope| {
            for (comm, number) in comms.iter().zip(1u64..) {
                scope.spawn(move || {
                    for _ in 0..100 {
                        let mut data = vec![number; 50];
                        let add = move |a: u64, b: u64| a + b + number;
                        comm.allreduce_with(&mut data, CombineOrder::Any, add).unwrap();
                        assert_eq!(data, [5 * number; 50]);
                    }
                });
            }
        });
    });
}

#[test]
fn an_operator_may_call_the_library() {
    local(3, |world| {
        let comm = world.dup().unwrap();
        let mut data = 1u32;
        world
            .allreduce_with(&mut data, CombineOrder::Any, move |a, b| {
                comm.send(&a, comm.rank(), 0).unwrap();
                comm.receive_one::<u32>(comm.rank(), 0).unwrap().0 + b
            })
            .unwrap();
        assert_eq!(data, 3);
    });
}

#[test]
fn a_panic_of_an_operator_is_one_of_its_call() {
    let panic = watched(|| {
        std::panic::catch_unwind(|| {
            ferrywire::local(4, |world| {
                let mut data = [world.rank(); 100];
                let operator = |_: [u32; 100], _: [u32; 100]| panic!("the operator sinks");
                let _ = world.allreduce_with(&mut data, CombineOrder::ByRank, operator);
                let _ = world.barrier();
            })
        })
    });
    assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "the operator sinks");
}
