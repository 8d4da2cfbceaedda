//! Counters of windows: puts that raise them, waits, and messages and puts that they start.
#![allow(missing_docs)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{local, watched};
use ferrywire::LockKind::{Exclusive, Shared};
use ferrywire::{Counters, Error, Part, Plain, Window};

#[derive(Clone, Copy, Debug, PartialEq, Plain)]
#[repr(C)]
struct Triple([u8; 3]);

/// Neighbours put to each other, and wait for no more than their counters.
fn neighbours<T: Plain + PartialEq + std::fmt::Debug>(
    ranks: u32,
    len: usize,
    item: impl Fn(u32, usize) -> T + Sync,
) {
    local(ranks, |world| {
        let (rank, size) = (world.rank(), world.size());
        let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
        let mut window = world.window::<T>(len).unwrap();
        let counters = window.counters(3).unwrap();
        let all = window.lock_all().unwrap();
        for step in 1..=20 {
            let items: Vec<T> = (0..len).map(|at| item(rank + step, at)).collect();
            all.part(right).unwrap().put_notify(0, &items, 2).unwrap();
            counters.wait(2, step.into()).unwrap();
            let mut found = items.clone();
            all.part(rank).unwrap().get(0, &mut found).unwrap();
            assert!(found.iter().enumerate().all(|(at, found)| *found == item(left + step, at)));
            all.part(left).unwrap().put_notify(0, &[], 0).unwrap();
            counters.wait(0, step.into()).unwrap();
        }
        drop(all);
        let values = [0, 1, 2].map(|counter| counters.read(counter).unwrap());
        assert_eq!(values, [20, 0, 20]);
        window.free().unwrap();
    });
}

#[test]
fn neighbours_wait_for_counters_alone() {
    for ranks in 1..=4 {
        neighbours(ranks, 1, |rank, at| u64::from(rank) << 32 | at as u64);
        neighbours(ranks, 50_000, |rank, at| rank * 1000 + u32::try_from(at).unwrap());
        neighbours(ranks, 777, |rank, at| {
            Triple([u8::try_from(rank).unwrap(), 5, u8::try_from(at % 251).unwrap()])
        });
        neighbours(ranks, 100, |rank, at| [i128::from(rank), -(at as i128)]);
    }
}

#[test]
fn all_raise_one_counter() {
    local(4, |world| {
        let mut window = world.window::<u16>(4).unwrap();
        let counters = window.counters(1).unwrap();
        let rank = world.rank();
        window
            .fence(|epoch| {
                for _ in 0..100 {
                    epoch.part(0)?.put_notify(rank as usize, &[u16::try_from(rank).unwrap()], 0)?;
                }
                Ok::<_, Error>(())
            })
            .unwrap()
            .unwrap();
        assert_eq!(counters.read(0).unwrap(), if rank == 0 { 400 } else { 0 });
        if rank == 0 {
            let mut found = [0; 4];
            window.lock(0, Shared).unwrap().get(0, &mut found).unwrap();
            assert_eq!(found, [0, 1, 2, 3]);
            counters.set(0, 3).unwrap();
            assert_eq!(counters.read(0).unwrap(), 3);
            counters.wait(0, 3).unwrap();
        }
        world.barrier().unwrap();
    });
}

/// What the NIC writes and what ranks write by themselves are words of the same length.
#[test]
fn puts_that_notify_conflict_with_others_by_whole_words() {
    local(4, |world| {
        let window = world.window::<[u64; 2]>(64).unwrap();
        window.counters(1).unwrap();
        let rank = u64::from(world.rank());
        for _ in 0..50 {
            let part = window.lock(0, Shared).unwrap();
            part.put_notify(0, &[[rank; 2]; 64], 0).unwrap();
            part.put(0, &[[rank; 2]; 64]).unwrap();
            let mut found = [[0; 2]; 64];
            part.get(0, &mut found).unwrap();
            assert!(found.iter().flatten().all(|word| *word < 4));
        }
        world.barrier().unwrap();
    });
}

#[test]
fn messages_start_while_their_rank_computes() {
    // Rank 1 does not call anything before rank 0 has its answer.
    let is_answered = AtomicBool::new(false);
    for items in [1, 100_000] {
        is_answered.store(false, Ordering::SeqCst);
        local(2, |world| {
            let window = world.window::<u32>(1).unwrap();
            let counters = window.counters(2).unwrap();
            if world.rank() == 1 {
                let mut sent = world.send_init(vec![9_u32; items], 0, 1).unwrap();
                let mut received = world.recv_init::<u32>(items, 0, 2).unwrap();
                sent.start_when(counters.reaches(0, 2)).unwrap();
                received.start_when(counters.reaches(1, 1)).unwrap();
                assert!(sent.test().is_none());
                world.barrier().unwrap();
                let begun = Instant::now();
                while !is_answered.load(Ordering::SeqCst) {
                    assert!(begun.elapsed() < Duration::from_secs(10), "no answer");
                    std::hint::spin_loop();
                }
                sent.wait().unwrap();
                let status = received.wait().unwrap();
                assert_eq!((status.count, received.items()[items - 1]), (items, 8));
                // It can be started again, and starts at once.
                sent.items_mut().fill(10);
                sent.start_when(counters.reaches(0, 2)).unwrap();
                sent.wait().unwrap();
            } else {
                world.barrier().unwrap();
                let part = window.lock(1, Shared).unwrap();
                part.put_notify(0, &[1], 1).unwrap();
                world.synchronous_send(&vec![8_u32; items], 1, 2).unwrap();
                part.put_notify(0, &[2], 0).unwrap();
                part.put_notify(0, &[3], 0).unwrap();
                assert_eq!(world.receive_vec::<u32>(1, 1).unwrap().0, vec![9; items]);
                is_answered.store(true, Ordering::SeqCst);
                assert_eq!(world.receive_vec::<u32>(1, 1).unwrap().0, vec![10; items]);
            }
            world.barrier().unwrap();
        });
    }
}

#[test]
fn puts_start_puts() {
    for items in [1, 100_000] {
        for ranks in 1..=4 {
            local(ranks, |world| {
                let (rank, size) = (world.rank(), world.size());
                let mut window = world.window::<u32>(items).unwrap();
                let counters = window.counters(1).unwrap();
                let all = window.lock_all().unwrap();
                // The token goes round from rank 0, three times.
                let next = all.part((rank + 1) % size).unwrap();
                let lap = |lap: u64| vec![u32::try_from(lap).unwrap() * 100 + rank; items];
                let first = u64::from(rank != 0);
                let passed: Vec<_> = (0..3)
                    .map(|turn| {
                        let trigger = counters.reaches(0, turn + first);
                        next.put_when(trigger, 0, lap(turn), 0).unwrap()
                    })
                    .collect();
                for (turn, request) in (0..).zip(passed) {
                    assert_eq!(request.wait().unwrap(), lap(turn));
                }
                counters.wait(0, 3).unwrap();
                let left = (rank + size - 1) % size;
                let mut found = vec![0; items];
                all.part(rank).unwrap().get(0, &mut found).unwrap();
                assert_eq!(found, vec![200 + left; items]);
                drop(all);
                window.free().unwrap();
            });
        }
    }
}

/// Their buffers live until the operations are over, whatever happens to the requests.
#[test]
fn requests_may_be_dropped_before_they_start() {
    local(2, |world| {
        let other = 1 - world.rank();
        let window = world.window::<u64>(10_000).unwrap();
        let counters = window.counters(2).unwrap();
        let part = window.lock(other, Shared).unwrap();
        drop(part.put_when(counters.reaches(0, 1), 0, vec![3; 10_000], 1).unwrap());
        let mut sent = world.send_init(vec![5_u64; 10_000], other, 0).unwrap();
        sent.start_when(counters.reaches(0, 1)).unwrap();
        drop(sent);
        let mut received = world.recv_init::<u64>(1, other, 0).unwrap();
        received.start_when(counters.reaches(0, 1)).unwrap();
        drop(received);
        part.put_notify(0, &[], 0).unwrap();
        assert_eq!(world.receive_vec::<u64>(other, 0).unwrap().0, [5; 10_000]);
        counters.wait(1, 1).unwrap();
        drop(part);
        let mine = window.lock(world.rank(), Exclusive).unwrap();
        assert_eq!(mine.get_one(9_999).unwrap(), 3);
        drop(mine);
        // This one never starts.
        let part = window.lock(other, Shared).unwrap();
        drop(part.put_when(counters.reaches(0, 9), 0, vec![3; 10_000], 1).unwrap());
        drop(part);
        world.barrier().unwrap();
    });
}

#[test]
fn what_waits_for_a_closed_counter_is_cancelled() {
    for free in [false, true] {
        local(2, |world| {
            let window = world.window::<u8>(1).unwrap();
            let counters = window.counters(1).unwrap();
            let mut sent = world.send_init([1_u8], 0, 0).unwrap();
            sent.start_when(counters.reaches(0, 1)).unwrap();
            let part = window.lock(0, Shared).unwrap();
            let put = part.put_when(counters.reaches(0, 1), 0, [1], 0).unwrap();
            drop(part);
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| counters.wait(0, 1));
                std::thread::sleep(Duration::from_millis(10));
                match free {
                    true => window.free().unwrap(),
                    false => drop(window),
                }
                let error = waiting.join().unwrap().expect_err("the counter is closed");
                assert_eq!(
                    error.to_string(),
                    "wait, in a window of world: the operation was cancelled, or another part of it failed [FW0115]"
                );
            });
            assert!(matches!(sent.wait(), Err(Error::Cancelled { .. })));
            assert!(matches!(put.wait(), Err(Error::Cancelled { .. })));
            assert!(matches!(counters.wait(0, 1), Err(Error::Cancelled { .. })));
            assert_eq!(counters.read(0).unwrap(), 0);
            world.barrier().unwrap();
        });
    }
}

#[test]
fn errors_say_what_is_wrong() {
    local(2, |world| {
        let text = |error: Error| error.to_string();
        let window = world.window::<u32>(2).unwrap();
        {
            let part = window.lock(1, Shared).unwrap();
            assert_eq!(
                text(part.put_notify(0, &[1], 0).unwrap_err()),
                "put_notify of 4 bytes to rank 1, in a window of world: the window has no counters; \
                 Ferry_Win_counters, or Window::counters in Rust, gives it some [FW0512]"
            );
        }
        for count in [world.rank(), 1 + world.rank()] {
            assert_eq!(
                text(window.counters(count).err().unwrap()),
                "counters, in a window of world: the ranks pass different numbers of counters [FW0512]"
            );
        }
        assert_eq!(
            text(window.counters(1 << 17).err().unwrap()),
            "counters, in a window of world: a window has 1 to 65,536 counters [FW0512]"
        );
        let counters = window.counters(2).unwrap();
        assert_eq!(
            text(window.counters(2).err().unwrap()),
            "counters, in a window of world: the window has counters already [FW0512]"
        );
        let wrong = "invalid counter 2; the window has counters 0 to 1 [FW0512]";
        assert_eq!(
            text(counters.read(2).unwrap_err()),
            format!("read, in a window of world: {wrong}")
        );
        assert!(counters.set(2, 0).is_err() && counters.wait(2, 0).is_err());
        let mut sent = world.send_init([1], 0, 0).unwrap();
        let error = text(sent.start_when(counters.reaches(2, 1)).unwrap_err());
        assert_eq!(error, format!("send_init of 4 bytes to rank 0, tag 0: {wrong}"));
        let part = window.lock(1, Shared).unwrap();
        let refused = |part: &Part<'_, u32>, counters: &Counters, offset, counter| {
            part.put_when(counters.reaches(0, 1), offset, [1], counter).is_err()
        };
        assert!(refused(&part, &counters, 0, 2) && refused(&part, &counters, 2, 0));
        drop(part);
        world.barrier().unwrap();
    });
}

/// With ranks as threads, one could get the counters of another.
#[test]
fn counters_start_only_what_belongs_to_their_own_rank() {
    let (give, take) = std::sync::mpsc::channel::<(Window<u8>, Counters)>();
    let (give, take) = (std::sync::Mutex::new(Some(give)), std::sync::Mutex::new(take));
    local(2, |world| {
        let window = world.window::<u8>(1).unwrap();
        let counters = window.counters(1).unwrap();
        if world.rank() == 0 {
            give.lock().unwrap().take().unwrap().send((window, counters)).unwrap();
        } else {
            let (theirs, their_counters) = take.lock().unwrap().recv().unwrap();
            let mut sent = world.send_init([1], 0, 0).unwrap();
            let error = sent.start_when(their_counters.reaches(0, 0)).unwrap_err().to_string();
            assert!(
                error.ends_with("a counter starts only operations of its own NIC [FW0512]"),
                "{error}"
            );
            let part = window.lock(0, Shared).unwrap();
            assert!(part.put_when(their_counters.reaches(0, 0), 0, [1], 0).is_err());
            drop((theirs, their_counters));
        }
        world.barrier().unwrap();
    });
}

#[test]
fn a_panic_ends_those_who_wait_for_counters() {
    for late in [false, true] {
        let ended = std::sync::Mutex::new(Vec::new());
        watched(|| {
            let end = catch_unwind(AssertUnwindSafe(|| {
                ferrywire::local(3, |world| {
                    let window = world.window::<u8>(1).unwrap();
                    let counters = window.counters(1).unwrap();
                    if world.rank() == 1 {
                        for rank in [0, 2] {
                            world.receive_one::<u8>(rank, 0).unwrap();
                        }
                        // Usually, the others are waiting by then.
                        std::thread::sleep(Duration::from_millis(20));
                        panic!("rank 1 sinks");
                    }
                    world.send(&1_u8, 1, 0).unwrap();
                    if late {
                        world.barrier().unwrap_err();
                    }
                    let error = match world.rank() {
                        0 => counters.wait(0, 1).unwrap_err(),
                        _ => {
                            let mut sent = world.send_init([1_u8], 0, 0).unwrap();
                            sent.start_when(counters.reaches(0, 1)).unwrap();
                            sent.wait().unwrap_err()
                        }
                    };
                    ended.lock().unwrap().push(error);
                })
            }));
            assert!(end.is_err());
        });
        let ended = ended.into_inner().unwrap();
        assert_eq!(ended.len(), 2);
        assert!(ended.iter().all(|error| matches!(error, Error::RankLost { .. })), "{ended:?}");
    }
}
