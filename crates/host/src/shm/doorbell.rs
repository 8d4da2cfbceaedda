//! The doorbell of a rank: one word that says whether a thread sleeps there, and which.
//!
//! Senders do not ring while the rank is awake: a message to a rank that polls costs one load of a line that both keep
//! in their caches. A thread that goes to sleep arms the doorbell, looks once more, and sleeps; a sender makes its
//! frame visible, looks at the doorbell, and rings if it is armed. Neither pair of steps may be reordered, which takes
//! a fence on both sides.
//!
//! On an oversubscribed machine, where ranks sleep all the time, the ringer has that fence. Where every rank has a core
//! it has none, because it would wait there for its own store at every message; instead, the sleeper naps once before
//! it sleeps without a timeout, and looks again in between, the doorbell armed all the time. A store is on its way for
//! nanoseconds, a nap lasts for microseconds.

use std::time::Duration;

use crate::sync::{AtomicU32, Ordering, fence, park};

/// One word in shared memory, alone in its line. It begins as zero.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Doorbell {
    sleeper: AtomicU32,
}

/// Which thread sleeps. The values are bits of a futex set: a ring wakes the thread that it is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(crate) enum Sleeper {
    /// An application thread, in a call.
    Caller = 1,
    /// The agent, while the application is away.
    Agent = 2,
}

impl Doorbell {
    /// Called by a thread that has just made something visible to this rank. True if a thread slept; it is awake now,
    /// if it slept at this word.
    #[inline(always)]
    pub(crate) fn ring(&self, fenced: bool) -> bool {
        if fenced {
            // Pairs with the fence in `arm`: either we see the sleeper, or the sleeper sees what we brought.
            fence(Ordering::SeqCst);
        }
        let sleeper = self.sleeper.load(Ordering::Relaxed);
        sleeper != 0 && self.wake(sleeper)
    }

    #[cold]
    fn wake(&self, sleeper: u32) -> bool {
        // Pairs with the Acquire in `sleep`. One of several ringers takes the duty to wake. If the word has changed by
        // now, the earlier sleeper is awake, and a later one has looked.
        let taken = self.sleeper.compare_exchange(sleeper, 0, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            park::wake(&self.sleeper, sleeper);
        }
        taken.is_ok()
    }

    /// Makes senders ring. The caller looks once more before it sleeps.
    #[inline(always)]
    pub(crate) fn arm(&self, who: Sleeper, fenced: bool) {
        self.sleeper.store(who as u32, Ordering::Relaxed);
        if fenced {
            // Pairs with the fence in `ring`.
            fence(Ordering::SeqCst);
        }
    }

    /// Whether it is armed, and has not been rung.
    pub(crate) fn is_armed(&self) -> bool {
        self.sleeper.load(Ordering::Relaxed) != 0
    }

    /// Makes senders stop ringing.
    #[inline(always)]
    pub(crate) fn disarm(&self) {
        if self.sleeper.load(Ordering::Relaxed) != 0 {
            self.sleeper.store(0, Ordering::Relaxed);
        }
    }

    /// Sleeps until the doorbell rings, at most for `timeout`; not at all if it has rung since `arm`.
    pub(crate) fn sleep(&self, who: Sleeper, timeout: Option<Duration>) {
        park::wait(&self.sleeper, who as u32, who as u32, timeout);
        // Pairs with the Release in `wake`.
        self.sleeper.load(Ordering::Acquire);
    }
}
