//! The lock that processes share.

use std::sync::Arc;

use loom::thread;

use crate::process_lock::{Hold, ProcessLock};
use crate::sync::{UnsafeCell, explore, explore_up_to};

struct Guarded {
    lock: ProcessLock,
    value: UnsafeCell<u32>,
}

fn guarded() -> Arc<Guarded> {
    Arc::new(Guarded { lock: ProcessLock::default(), value: UnsafeCell::new(0) })
}

// SAFETY: the lock decides who touches the value, and loom checks it.
unsafe impl Sync for Guarded {}
// SAFETY: the same.
unsafe impl Send for Guarded {}

impl Guarded {
    fn raise(&self) {
        self.lock.acquire(Hold::Exclusive);
        // SAFETY: the lock is held alone.
        self.value.with_mut(|value| unsafe { *value += 1 });
        self.lock.release(Hold::Exclusive);
    }

    fn look(&self) -> u32 {
        self.lock.acquire(Hold::Shared);
        // SAFETY: the lock is held, and nobody writes.
        let value = self.value.with(|value| unsafe { *value });
        self.lock.release(Hold::Shared);
        value
    }
}

#[test]
fn one_holder_at_a_time() {
    explore("process lock, two writers", || {
        let guarded = guarded();
        let other = Arc::clone(&guarded);
        let writer = thread::spawn(move || other.raise());
        guarded.raise();
        writer.join().expect("it ends");
        assert_eq!(guarded.look(), 2);
    });
}

#[test]
fn nobody_looks_while_another_writes() {
    explore_up_to(Some(3), "process lock, two readers and a writer", || {
        let guarded = guarded();
        let (one, other) = (Arc::clone(&guarded), Arc::clone(&guarded));
        let reader = thread::spawn(move || one.look());
        let writer = thread::spawn(move || other.raise());
        assert!(guarded.look() <= 1);
        assert!(reader.join().expect("it ends") <= 1);
        writer.join().expect("it ends");
        assert_eq!(guarded.look(), 1);
    });
}
