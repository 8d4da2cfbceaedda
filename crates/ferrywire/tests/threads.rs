//! Several threads of a rank at the same time, on one communicator.
#![allow(missing_docs)]

mod common;

use std::thread;

use common::local;
use ferrywire::ANY;

#[test]
fn threads_send_and_receive_on_one_communicator() {
    for ranks in [1, 2, 3] {
        local(ranks, |world| {
            let size = world.size();
            thread::scope(|scope| {
                for tag in 0..4u32 {
                    scope.spawn(move || {
                        for lap in 0..100u32 {
                            for to in 0..size {
                                let items = if lap % 10 == 0 { 5000 } else { 4 };
                                drop(world.isend(vec![lap; items], to, tag).unwrap());
                            }
                        }
                    });
                    scope.spawn(move || {
                        for _ in 0..100 {
                            for from in 0..size {
                                let (items, _) = world.receive_vec::<u32>(from, tag).unwrap();
                                assert!(items.iter().all(|item| *item == items[0]));
                            }
                        }
                    });
                }
            });
        });
    }
}

#[test]
fn threads_that_take_from_one_queue_share_it_out() {
    use std::sync::atomic::{AtomicU32, Ordering};
    local(3, |world| {
        if world.rank() > 0 {
            for number in 0..300u32 {
                world.send(&vec![number; 1 + number as usize % 50], 0, 0).unwrap();
            }
            return;
        }
        let (sum, left) = (AtomicU32::new(0), AtomicU32::new(600));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let take = |left: u32| left.checked_sub(1);
                    while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
                        let (items, _) = world.receive_vec::<u32>(ANY, 0).unwrap();
                        assert_eq!(items.len(), 1 + items[0] as usize % 50);
                        sum.fetch_add(items[0], Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 2 * (0..300).sum::<u32>());
    });
}

#[test]
fn a_thread_that_probes_hears_what_another_sends_to_its_own_rank() {
    local(1, |world| {
        thread::scope(|scope| {
            let probing = scope.spawn(|| world.probe(0, 7).unwrap());
            let waiting = scope.spawn(|| world.receive_one::<u8>(0, 8).unwrap());
            world.send(&1u8, 0, 7).unwrap();
            probing.join().unwrap();
            world.send(&1u8, 0, 8).unwrap();
            waiting.join().unwrap();
            world.receive_one::<u8>(0, 7).unwrap();
        });
    });
}

#[test]
fn threads_make_communicators_at_the_same_time() {
    local(3, |world| {
        let comms: Vec<_> = (0..3).map(|_| world.dup().unwrap()).collect();
        thread::scope(|scope| {
            for comm in &comms {
                scope.spawn(move || {
                    for lap in 0..20 {
                        let made = comm.dup().unwrap();
                        let mut value = lap;
                        made.broadcast(&mut value, lap % 3).unwrap();
                        assert_eq!(value, lap);
                        let all = made.allgather(&lap).unwrap();
                        assert_eq!(all, [lap; 3]);
                    }
                });
            }
        });
    });
}
