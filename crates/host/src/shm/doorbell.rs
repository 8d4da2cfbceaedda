//! The doorbell of a rank: one word that says whether anybody sleeps there, and who.
//!
//! Nobody rings at a door behind which somebody is awake: a message to a rank that is looking costs
//! one load of a line that both keep in their caches. Whoever goes to sleep arms the doorbell, looks
//! once more, and sleeps; whoever brings something makes it visible, looks at the doorbell, and rings if
//! it is armed. Of these four steps no two may pass each other, which takes a fence on both sides.
//!
//! On a crowded machine, where ranks sleep all the time, the ringer has that fence. Where every rank
//! has a core it has none, because it would wait there for its own store at every message; then
//! whoever sleeps naps once before it sleeps for good, and looks again in between. A store is on
//! its way for nanoseconds, a nap lasts for microseconds.

use std::time::Duration;

use crate::sync::{AtomicU32, Ordering, fence};

/// One word in shared memory, alone in its line.
#[repr(C, align(64))]
pub(crate) struct Doorbell {
    sleeper: AtomicU32,
}

/// Who sleeps. The values are bits of a futex set: a ring wakes the one it is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(crate) enum Sleeper {
    /// A thread of the application, in a call.
    Caller = 1,
    /// The agent, while the application is away.
    Agent = 2,
}

impl Doorbell {
    #[cfg(loom)]
    pub(crate) fn new() -> Doorbell {
        Doorbell { sleeper: AtomicU32::new(0) }
    }

    /// Called by whoever has just made something visible to this rank.
    #[inline(always)]
    pub(crate) fn ring(&self, fenced: bool) {
        if fenced {
            // Pairs with the fence in `arm`: either we see the sleeper, or it what we brought.
            fence(Ordering::SeqCst);
        }
        if is_armed(self.sleeper.load(Ordering::Relaxed)) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // Pairs with the Acquire in `sleep`. One of several ringers takes the duty to wake. That it
        // has rung stays to be seen: whoever is about to sleep unarmed may be the one it was for.
        let sleeper = self.sleeper.swap(RUNG, Ordering::AcqRel);
        if is_armed(sleeper) {
            park::wake(&self.sleeper, sleeper);
        }
    }

    /// From now on whoever brings something rings. The caller looks once more before it sleeps.
    #[inline(always)]
    pub(crate) fn arm(&self, who: Sleeper, fenced: bool) {
        self.sleeper.store(who as u32, Ordering::Relaxed);
        if fenced {
            // Pairs with the fence in `ring`.
            fence(Ordering::SeqCst);
        }
    }

    /// Nobody needs to ring.
    #[inline(always)]
    pub(crate) fn disarm(&self) {
        if self.sleeper.load(Ordering::Relaxed) != 0 {
            self.sleeper.store(0, Ordering::Relaxed);
        }
    }

    /// What it says now, for one who wants to sleep without arming it. Nothing if somebody has rung: then
    /// whoever it was for is about to see to it.
    pub(crate) fn peek(&self) -> Option<u32> {
        Some(self.sleeper.load(Ordering::Relaxed)).filter(|&word| word != RUNG)
    }

    /// Sleeps until somebody rings, or for `patience`; not at all if somebody has rung since `arm`.
    pub(crate) fn sleep(&self, who: Sleeper, patience: Option<Duration>) {
        self.sleep_while(who as u32, who, patience);
    }

    /// The same; not at all if it does not say `word` any more.
    pub(crate) fn sleep_while(&self, word: u32, who: Sleeper, patience: Option<Duration>) {
        park::wait(&self.sleeper, word, who as u32, patience);
        // Pairs with the Release in `wake`.
        self.sleeper.load(Ordering::Acquire);
    }
}

/// Somebody has rung, and nobody has armed or disarmed it since.
const RUNG: u32 = 1 << 31;

fn is_armed(word: u32) -> bool {
    word != 0 && word != RUNG
}

#[cfg(not(loom))]
mod park {
    use super::{AtomicU32, Duration};
    use crate::sys::futex;

    pub(super) fn wait(word: &AtomicU32, expected: u32, who: u32, patience: Option<Duration>) {
        futex::wait(word, expected, who, patience);
    }

    pub(super) fn wake(word: &AtomicU32, who: u32) {
        futex::wake(word, who);
    }
}

/// Loom has no futex; a thread that sleeps lets the others go first.
#[cfg(loom)]
mod park {
    use super::{AtomicU32, Duration, Ordering};

    pub(super) fn wait(word: &AtomicU32, expected: u32, _: u32, _: Option<Duration>) {
        while word.load(Ordering::Acquire) == expected {
            loom::thread::yield_now();
        }
    }

    pub(super) fn wake(_: &AtomicU32, _: u32) {}
}
