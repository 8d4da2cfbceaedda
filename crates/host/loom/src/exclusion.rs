//! Mutual exclusion: the lock, and the stack of newcomers.

use std::sync::Arc;

use loom::thread;

use crate::lock::Lock;
use crate::newcomers::{Label, Newcomers};
use crate::sync::{UnsafeCell, explore};

#[test]
fn the_lock_lets_in_one_at_a_time() {
    explore("lock, two threads", || {
        let lock = Arc::new(Lock::new(0_u32).expect("a lock"));
        let other = Arc::clone(&lock);
        let thread = thread::spawn(move || {
            *other.lock() += 1;
            *other.lock() += 1;
        });
        *lock.lock() += 1;
        thread.join().expect("the thread is done");
        assert_eq!(*lock.lock(), 3);
    });
}

#[test]
fn the_lock_may_be_left_for_a_while() {
    explore("lock, left in between", || {
        let lock = Arc::new(Lock::new([0_u32; 2]).expect("a lock"));
        let other = Arc::clone(&lock);
        let thread = thread::spawn(move || {
            let mut guard = other.lock();
            guard[0] += 1;
            guard.unlocked(|| ());
            guard[1] += 1;
        });
        lock.lock().iter_mut().for_each(|count| *count += 1);
        thread.join().expect("the thread is done");
        assert_eq!(*lock.lock(), [2, 2]);
    });
}

struct Arena {
    newcomers: Newcomers,
    /// Labels by place, from place one on.
    labels: [Label; 2],
    rings: [UnsafeCell<[u8; 1]>; 2],
}

// SAFETY: the model checks that a ring is written before it is found.
unsafe impl Sync for Arena {}

impl Arena {
    fn connect(&self, at: usize) {
        // SAFETY: no other thread knows of the ring yet.
        self.rings[at - 1].with_mut(|ring| unsafe { ring.write([1]) });
        let from = u32::try_from(at).expect("small");
        self.newcomers.push(at as u64, &self.labels[at - 1], from + 10);
    }

    fn take_newcomers(&self, mut show: impl FnMut(u32)) {
        let index = |at: u64| usize::try_from(at).ok()?.checked_sub(1);
        self.newcomers.take(2, |at| {
            let label = self.labels.get(index(at)?)?;
            let ring = &self.rings[index(at).expect("it has a label")];
            // SAFETY: only the thread that found the ring uses it.
            assert_eq!(ring.with(|ring| unsafe { ring.read() }), [1], "made before it is found");
            show(label.from());
            Some(label.below())
        });
    }
}

#[test]
fn every_newcomer_is_taken_once() {
    explore("newcomers, two and the owner", || {
        let arena = Arc::new(Arena {
            newcomers: Newcomers::default(),
            labels: Default::default(),
            rings: Default::default(),
        });
        let comers = [1, 2].map(|at| {
            let arena = Arc::clone(&arena);
            thread::spawn(move || arena.connect(at))
        });
        let mut found = Vec::new();
        arena.take_newcomers(|from| found.push(from));
        arena.take_newcomers(|from| found.push(from));
        for comer in comers {
            comer.join().expect("the comer is done");
        }
        arena.take_newcomers(|from| found.push(from));
        found.sort_unstable();
        assert_eq!(found, [11, 12]);
        assert!(arena.newcomers.is_empty());
    });
}
