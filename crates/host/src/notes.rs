//! Work that one thread at a time does, and that nobody waits for: who finds another at it leaves a note, and that one
//! looks again.
//!
//! Invariants, cited below by number.
//!   N1. `desk` is touched by the one thread that found no note, until it has taken all notes away.

use crate::sync::{AtomicU32, Ordering, UnsafeCell};

/// Notes that there may be something to do, and what is needed to do it.
pub(crate) struct Notes<T> {
    /// Whoever leaves the first does all.
    count: AtomicU32,
    desk: UnsafeCell<T>,
}

// SAFETY: N1: one thread at a time has `desk`.
unsafe impl<T: Send> Sync for Notes<T> {}

impl<T> Notes<T> {
    pub(crate) fn new(desk: T) -> Notes<T> {
        Notes { count: AtomicU32::new(0), desk: UnsafeCell::new(desk) }
    }

    /// Does what there is to do, or leaves it to whoever is at it: `work` is called after this by somebody, and sees
    /// what has been done before.
    pub(crate) fn leave(&self, mut work: impl FnMut(&mut T)) {
        // Pairs with the exchange below: whoever comes next sees what we have done with `desk`.
        if self.count.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        loop {
            let seen = self.count.load(Ordering::Acquire);
            // SAFETY: N1.
            self.desk.with_mut(|desk| work(unsafe { &mut *desk }));
            let taken = self.count.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                return;
            }
        }
    }
}
