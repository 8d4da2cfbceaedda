//! The doorbell of a rank: one word that says whether a thread sleeps there, and which. All threads of a rank that
//! drive its NIC sleep here and nowhere else, so that handing over from one to another takes no system call.
//!
//! Senders do not ring while the rank is awake: a message to a rank that polls costs one load of a line that both keep
//! in their caches. A thread that goes to sleep arms the doorbell, looks once more, and sleeps; a sender makes its
//! frame visible, looks at the doorbell, and rings if it is armed. Neither pair of steps may be reordered, which takes
//! a fence on both sides.
//!
//! On an oversubscribed machine, where ranks sleep all the time, the ringer has that fence. Where every rank has a core
//! it has none, because it would wait there for its own store at every message; instead, the sleeper naps once before
//! it sleeps without a timeout, and looks again in between, the doorbell armed all the time. A store is on its way for
//! nanoseconds, a nap lasts for microseconds. Frames that cannot wait are rarer, and always ring with the fence.

use std::time::Duration;

use crate::sync::{AtomicU32, Ordering, fence, park};

/// One word in shared memory, alone in its line. It begins as zero: disarmed.
///
/// The two lowest bits name the sleeper. The others count how often the doorbell has been armed: a thread that decided
/// to sleep when the word had some value sleeps only if nothing has been armed or rung since.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Doorbell {
    word: AtomicU32,
}

/// The word of a doorbell at some time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Arming(u32);

/// Which thread sleeps. The values are bits of a futex set: a ring wakes the thread that it is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(crate) enum Sleeper {
    /// An application thread, in a call.
    Caller = 1,
    /// The agent, while the application is away.
    Agent = 2,
    /// The agent, while nothing that the application has left needs it: what can wait does not wake it.
    PatientAgent = 3,
}

impl Doorbell {
    /// Called by a thread that has just made something visible to this rank. True if a thread slept; it is awake now,
    /// if it slept at this word.
    #[inline(always)]
    pub(crate) fn ring(&self, fenced: bool) -> bool {
        let word = self.look(fenced);
        word & SLEEPER != 0 && self.wake(word)
    }

    /// The same for something that can wait.
    #[inline(always)]
    pub(crate) fn ring_gently(&self, fenced: bool) -> bool {
        let word = self.look(fenced);
        word & SLEEPER != 0 && word & SLEEPER != Sleeper::PatientAgent as u32 && self.wake(word)
    }

    #[inline(always)]
    fn look(&self, fenced: bool) -> u32 {
        if fenced {
            // Pairs with the fence in `arm`: either we see the sleeper, or the sleeper sees what we brought.
            fence(Ordering::SeqCst);
        }
        self.word.load(Ordering::Relaxed)
    }

    #[cold]
    fn wake(&self, word: u32) -> bool {
        // Pairs with the Acquire in `sleep`. One of several ringers takes the duty to wake. If the word has changed by
        // now, the earlier sleeper is awake, and a later one has looked.
        let (disarmed, sleeper) = (word & !SLEEPER, word & SLEEPER);
        let taken = self.word.compare_exchange(word, disarmed, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            park::wake(&self.word, sleeper);
        }
        taken.is_ok()
    }

    /// Makes senders ring. The caller looks once more before it or the thread that it arms for sleeps.
    #[inline(always)]
    pub(crate) fn arm(&self, who: Sleeper) -> Arming {
        let count = self.word.load(Ordering::Relaxed) & !SLEEPER;
        let word = count.wrapping_add(SLEEPER + 1) | who as u32;
        // An exchange rather than a store, because loom lets a compare-exchange of a ringer that is late overwrite a
        // store. Either costs little beside the fence.
        self.word.swap(word, Ordering::Relaxed);
        // Pairs with the fence of a ringer.
        fence(Ordering::SeqCst);
        Arming(word)
    }

    /// The word as it is.
    pub(crate) fn arming(&self) -> Arming {
        Arming(self.word.load(Ordering::Relaxed))
    }

    /// Makes senders stop ringing.
    #[inline(always)]
    pub(crate) fn disarm(&self) {
        let word = self.word.load(Ordering::Relaxed);
        if word & SLEEPER != 0 {
            self.word.swap(word & !SLEEPER, Ordering::Relaxed);
        }
    }

    /// Sleeps until the doorbell rings for `who`, at most for `timeout`; not at all if it has been armed or has rung
    /// since it was as in `arming`.
    pub(crate) fn sleep(&self, arming: Arming, who: Sleeper, timeout: Option<Duration>) {
        park::wait(&self.word, arming.0, who as u32, timeout);
        // Pairs with the Release in `wake`.
        self.word.load(Ordering::Acquire);
    }
}

impl Arming {
    /// Whether the doorbell was armed for this sleeper.
    pub(crate) fn is_for(self, who: Sleeper) -> bool {
        self.0 & SLEEPER == who as u32
    }

    /// Whether the doorbell was armed for the thread that sleeps under one of these bits.
    pub(crate) fn is_under(self, who: Sleeper) -> bool {
        self.0 & who as u32 != 0
    }
}

/// The bits that name the sleeper.
const SLEEPER: u32 = 3;
