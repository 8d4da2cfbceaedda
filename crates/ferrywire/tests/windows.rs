//! Windows: accesses of every kind in every epoch, conflicts, errors.
#![allow(missing_docs)]

mod common;

use common::{local, watched};
use ferrywire::LockKind::{Exclusive, Shared};
use ferrywire::{Error, Number, Operation, Plain, Window};

#[derive(Clone, Copy, Debug, PartialEq, Plain)]
#[repr(C)]
struct Particle {
    position: [f32; 3],
    charge: i16,
    kind: u16,
}

#[test]
fn puts_arrive_in_every_epoch() {
    for ranks in 1..=5 {
        local(ranks, |world| {
            let (rank, size) = (world.rank(), world.size());
            let right = (rank + 1) % size;
            let left = (rank + size - 1) % size;
            let mut window = world.window::<u32>(3 + rank as usize).unwrap();
            assert_eq!(window.len(right).unwrap(), 3 + right as usize);

            window.lock(right, Exclusive).unwrap().put(0, &[rank]).unwrap();
            {
                let all = window.lock_all().unwrap();
                all.part(right).unwrap().put(1, &[rank + 10]).unwrap();
                all.flush().unwrap();
                assert_eq!(all.part(right).unwrap().get_one(1).unwrap(), rank + 10);
            }
            world.barrier().unwrap();
            let done: Result<(), Error> = window
                .fence(|epoch| {
                    epoch.part(right)?.put(2, &[rank + 20])?;
                    epoch.fence()?;
                    let mut mine = [0; 3];
                    epoch.part(rank)?.get(0, &mut mine)?;
                    assert_eq!(mine, [left, left + 10, left + 20]);
                    Ok(())
                })
                .unwrap();
            done.unwrap();
            window.free().unwrap();
        });
    }
}

#[test]
fn a_locked_part_is_changed_by_one_rank_at_a_time() {
    local(4, |world| {
        let window = world.window::<u64>(2).unwrap();
        for _ in 0..200 {
            let part = window.lock(0, Exclusive).unwrap();
            let mut pair = [0; 2];
            part.get(0, &mut pair).unwrap();
            assert_eq!(pair[0], pair[1]);
            part.put(0, &[pair[0] + 1]).unwrap();
            part.put(1, &[pair[1] + 1]).unwrap();
            part.unlock().unwrap();
        }
        world.barrier().unwrap();
        assert_eq!(window.lock(0, Shared).unwrap().get_one(1).unwrap(), 800);
    });
}

fn counts<T: Number + PartialEq + std::fmt::Debug + From<u8>>() {
    local(4, |world| {
        let mut window: Window<T> = world.window(3).unwrap();
        let one = T::from(1);
        let all = window.lock_all().unwrap();
        for _ in 0..15 {
            all.part(1).unwrap().fetch_add(0, one).unwrap();
            all.part(1).unwrap().accumulate(0, &[one, one, one], Operation::Sum).unwrap();
        }
        drop(all);
        world.barrier().unwrap();
        let mut found = [one; 3];
        window.lock(1, Shared).unwrap().get(0, &mut found).unwrap();
        assert_eq!(found, [120, 60, 60].map(T::from), "{}", std::any::type_name::<T>());
        window.free().unwrap();
    });
}

#[test]
fn numbers_of_every_type_are_counted_by_all_at_once() {
    counts::<u8>();
    counts::<u16>();
    counts::<u32>();
    counts::<u64>();
    counts::<i16>();
    counts::<i32>();
    counts::<i64>();
    counts::<f32>();
    counts::<f64>();
    counts::<usize>();
}

#[test]
fn operations_and_exchanges_return_what_was_there() {
    local(2, |world| {
        let window = world.window::<i32>(1).unwrap();
        if world.rank() == 0 {
            let part = window.lock(1, Shared).unwrap();
            assert_eq!((part.rank(), part.len()), (1, 1));
            assert_eq!(part.fetch_op(0, 7, Operation::Max).unwrap(), 0);
            assert_eq!(part.fetch_op(0, 3, Operation::Max).unwrap(), 7);
            assert_eq!(part.fetch_op(0, 5, Operation::Replace).unwrap(), 7);
            assert_eq!(part.compare_exchange(0, 7, 8).unwrap(), Err(5));
            assert_eq!(part.compare_exchange(0, 5, -8).unwrap(), Ok(5));
            part.flush().unwrap();
            assert_eq!(part.get_one(0).unwrap(), -8);
        }
    });
}

#[test]
fn conflicting_puts_leave_whole_words() {
    local(4, |world| {
        let window = world.window::<[u64; 2]>(64).unwrap();
        let mine = [[u64::from(world.rank()); 2]; 64];
        for _ in 0..50 {
            let part = window.lock(0, Shared).unwrap();
            part.put(0, &mine).unwrap();
            let mut found = [[0; 2]; 64];
            part.get(0, &mut found).unwrap();
            assert!(found.iter().flatten().all(|word| *word < 4));
        }
    });
}

#[test]
fn structs_and_wide_numbers_go_as_they_are() {
    local(2, |world| {
        let other = 1 - world.rank();
        let particle = Particle { position: [1.0, -2.0, 3.5], charge: -1, kind: 9 };
        let mut particles = world.window::<Particle>(4).unwrap();
        let mut wide = world.window::<i128>(1).unwrap();
        particles.fence(|epoch| epoch.part(other)?.put(3, &[particle])).unwrap().unwrap();
        wide.fence(|epoch| epoch.part(other)?.put(0, &[-5])).unwrap().unwrap();
        let mine = particles.lock(world.rank(), Shared).unwrap();
        assert_eq!(mine.get_one(3).unwrap(), particle);
        assert_eq!(wide.lock(world.rank(), Shared).unwrap().get_one(0).unwrap(), -5);
    });
}

#[test]
fn a_number_that_is_seen_comes_after_what_was_put_before() {
    local(2, |world| {
        let mut window = world.window::<u64>(2).unwrap();
        let all = window.lock_all().unwrap();
        let part = all.part(0).unwrap();
        for round in 1..500 {
            if world.rank() == 0 {
                part.put(0, &[round]).unwrap();
                part.put(1, &[round]).unwrap();
                world.barrier().unwrap();
            } else {
                while part.get_one(1).unwrap() != round {
                    std::thread::yield_now();
                }
                assert_eq!(part.get_one(0).unwrap(), round);
                world.barrier().unwrap();
            }
        }
    });
}

#[test]
fn threads_of_a_rank_share_a_window() {
    local(2, |world| {
        let mut window = world.window::<u32>(1).unwrap();
        let all = window.lock_all().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        all.part(0).unwrap().fetch_add(0, 1).unwrap();
                    }
                });
            }
        });
        drop(all);
        world.barrier().unwrap();
        assert_eq!(window.lock(0, Shared).unwrap().get_one(0).unwrap(), 600);
    });
}

#[test]
fn parts_may_be_empty_and_windows_many() {
    local(3, |world| {
        let mut windows: Vec<Window<u8>> =
            (0..20).map(|number| world.window(number * world.rank() as usize).unwrap()).collect();
        for window in &mut windows {
            assert_eq!(window.len(0).unwrap(), 0);
            window.fence(|epoch| epoch.part(0)?.put(0, &[])).unwrap().unwrap();
        }
        // Half of them are freed, and the others are dropped, in any order.
        for window in windows.drain(..10) {
            window.free().unwrap();
        }
        if world.rank() == 1 {
            windows.reverse();
        }
    });
}

#[test]
fn errors_say_what_is_wrong() {
    local(2, |world| {
        let window = world.window::<f64>(3).unwrap();
        let text = |error: Error| error.to_string();
        let part = window.lock(1, Exclusive).unwrap();
        assert_eq!(
            text(part.put(2, &[0.0, 1.0]).unwrap_err()),
            "put of 16 bytes to rank 1, in a window of world: items 2 to 4 are not in the part of that rank, \
             which has 3 items [FW0502]"
        );
        assert!(part.get(usize::MAX, &mut [0.0; 2]).is_err());
        assert_eq!(
            text(part.fetch_op(0, 1.0, Operation::BitAnd).unwrap_err()),
            "fetch_op of 8 bytes to rank 1, in a window of world: BitAnd is not defined for numbers of type F64 [FW0203]"
        );
        assert_eq!(
            text(window.lock(1, Shared).err().unwrap()),
            "lock to rank 1, in a window of world: an access epoch is open already [FW0503]"
        );
        assert_eq!(
            text(window.lock(2, Shared).err().unwrap()),
            "lock to rank 2, in a window of world: invalid rank; ranks go from 0 to 1 [FW0101]"
        );
        drop(part);
        assert_eq!(
            text(world.window::<u64>(usize::MAX).unwrap_err()),
            "window: a rank has no memory for its part of the window [FW0013]"
        );
        world.barrier().unwrap();
    });
}

#[test]
fn a_leaked_lock_is_an_error_and_nothing_worse() {
    local(1, |world| {
        let mut window = world.window::<u8>(1).unwrap();
        std::mem::forget(window.lock(0, Exclusive).unwrap());
        assert!(window.lock(0, Shared).is_err());
        assert!(window.lock_all().is_err());
        assert!(window.fence(|_| ()).is_err());
        assert!(window.free().is_err());
    });
}

#[test]
fn a_panic_unlocks_what_its_rank_has_locked() {
    let panic = watched(|| {
        std::panic::catch_unwind(|| {
            ferrywire::local(3, |world| {
                let window = world.window::<u64>(1).unwrap();
                let part = window.lock(0, Exclusive).unwrap();
                part.put(0, &[1]).unwrap();
                assert!(world.rank() != 1, "rank 1 sinks");
            })
        })
    });
    let text = panic.unwrap_err();
    assert_eq!(*text.downcast::<&str>().unwrap(), "rank 1 sinks");
}

#[test]
fn ranks_that_ask_for_different_windows_are_told() {
    local(2, |world| {
        let error = match world.rank() {
            0 => world.window::<u32>(1).unwrap_err(),
            _ => world.window::<f32>(1).unwrap_err(),
        };
        // Whoever comes second is told, and leaves; the other then fails without it.
        if let Error::WrongType { .. } = error {
            let text = error.to_string();
            assert!(text.contains("window of u32") && text.contains("window of f32"), "{text}");
        }
    });
}
