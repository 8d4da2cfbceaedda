//! Work that one thread at a time does and no thread waits for. A thread that finds another at work asks it for one
//! more pass instead of waiting.
//!
//! Invariants, cited below by number.
//!   C1. Only the thread that raised `requests` from zero touches `state`, until it has set `requests` back to zero.

use crate::sync::{AtomicU32, Ordering, UnsafeCell};

/// Work whose requests coalesce, and its state.
pub struct Coalesced<T> {
    /// Requests that no pass has served yet. The thread that makes the first one serves all.
    requests: AtomicU32,
    state: UnsafeCell<T>,
}

// SAFETY: C1: one thread at a time has `state`.
unsafe impl<T: Send> Sync for Coalesced<T> {}

impl<T> Coalesced<T> {
    /// Work with this state.
    pub fn new(state: T) -> Coalesced<T> {
        Coalesced { requests: AtomicU32::new(0), state: UnsafeCell::new(state) }
    }

    /// Runs `work`, or leaves it to the thread that is at work: a pass begins after this call, and sees everything that
    /// was done before it.
    pub fn request(&self, mut work: impl FnMut(&mut T)) {
        // Pairs with the exchange below: the next thread sees what we have done with `state`.
        if self.requests.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        loop {
            let seen = self.requests.load(Ordering::Acquire);
            // SAFETY: C1.
            self.state.with_mut(|state| work(unsafe { &mut *state }));
            let taken =
                self.requests.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                return;
            }
        }
    }
}
