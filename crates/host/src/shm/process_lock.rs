//! A lock in memory that processes share: for one holder, or for several that share it.
//!
//! It is one word, zero if it is free. A thread that has to wait spins, yields, and then sleeps on the word. Those that
//! would share it let somebody pass who wants it alone, so that a stream of shared holders ends. They do so only for a
//! while: they may hold another lock, for which the next holder of this one waits.
//!
//! Every change of the word by a holder acquires and releases, so that each holder sees what all before it did, also
//! those that shared the lock.

use std::time::Duration;

use crate::sync::{AtomicU32, Ordering, SPINS_MAX, YIELDS_MAX, park, spin_loop, yield_now};

/// A lock in memory that processes share. It is free at first.
#[derive(Default)]
#[repr(transparent)]
pub struct ProcessLock(AtomicU32);

/// How a lock is held.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hold {
    /// By one holder.
    Exclusive,
    /// Together with other holders that share it.
    Shared,
}

/// How long a thread sleeps before it asks whether waiting is hopeless.
const ASK_AFTER: Duration = Duration::from_millis(100);

/// One holder has it.
const EXCLUSIVE: u32 = 1 << 31;
/// Somebody wants it alone, and sleeps.
const WANTED: u32 = 1 << 30;
/// Somebody sleeps.
const ASLEEP: u32 = 1 << 29;
/// The rest of the word counts those that share it.
const HOLDERS: u32 = ASLEEP - 1;

impl ProcessLock {
    /// Takes the lock, as soon as it is free.
    #[inline]
    pub fn acquire(&self, hold: Hold) {
        if !self.is_acquired_at_once(hold) {
            self.contend(hold, None, || false);
        }
    }

    /// The same, unless it is not free and `is_hopeless` says that it may never be: a holder may have died. That is asked
    /// from time to time. Returns whether we have the lock.
    #[inline]
    pub fn acquire_unless(&self, hold: Hold, is_hopeless: impl FnMut() -> bool) -> bool {
        self.is_acquired_at_once(hold) || self.contend(hold, Some(ASK_AFTER), is_hopeless)
    }

    /// Takes the lock if it is free, whoever else wants it.
    pub fn try_acquire(&self, hold: Hold) -> bool {
        let mut state = self.0.load(Ordering::Relaxed);
        while is_free(hold, state) {
            if self.is_acquired(hold, state) {
                return true;
            }
            state = self.0.load(Ordering::Relaxed);
        }
        false
    }

    #[inline]
    fn is_acquired_at_once(&self, hold: Hold) -> bool {
        let state = self.0.load(Ordering::Relaxed);
        state & WANTED == 0 && self.is_acquired(hold, state)
    }

    #[inline]
    fn is_acquired(&self, hold: Hold, state: u32) -> bool {
        let held = match hold {
            // Others that want it alone say so again when they are woken.
            Hold::Exclusive => EXCLUSIVE | state & ASLEEP,
            Hold::Shared => state + 1,
        };
        let take = || self.0.compare_exchange(state, held, Ordering::AcqRel, Ordering::Relaxed);
        is_free(hold, state) && take().is_ok()
    }

    #[cold]
    fn contend(
        &self,
        hold: Hold,
        ask_after: Option<Duration>,
        mut is_hopeless: impl FnMut() -> bool,
    ) -> bool {
        let wish = match hold {
            Hold::Exclusive => WANTED | ASLEEP,
            Hold::Shared => ASLEEP,
        };
        let mut tries = 0_u32;
        loop {
            let state = self.0.load(Ordering::Relaxed);
            let lets_pass = hold == Hold::Shared && state & WANTED != 0 && tries + 1 < YIELDS_MAX;
            if is_free(hold, state) && !lets_pass {
                if self.is_acquired(hold, state) {
                    return true;
                }
                continue;
            }
            tries += 1;
            match tries {
                0..SPINS_MAX => spin_loop(),
                SPINS_MAX..YIELDS_MAX => yield_now(),
                // The wish stays: the next release takes it away, and wakes whoever else has it.
                _ if is_hopeless() => return false,
                _ => self.sleep(state, state | wish, ask_after),
            }
        }
    }

    /// Sleeps while the word is `asleep`, which differs from `state` at most in that we sleep.
    fn sleep(&self, state: u32, asleep: u32, at_most: Option<Duration>) {
        let say = || self.0.compare_exchange(state, asleep, Ordering::Relaxed, Ordering::Relaxed);
        if state == asleep || say().is_ok() {
            park::wait(&self.0, asleep, u32::MAX, at_most);
        }
    }

    /// Releases the lock.
    #[inline]
    pub fn release(&self, hold: Hold) {
        match hold {
            Hold::Exclusive => {
                if self.0.swap(0, Ordering::AcqRel) & ASLEEP != 0 {
                    park::wake(&self.0, u32::MAX);
                }
            }
            Hold::Shared => {
                let state = self.0.fetch_sub(1, Ordering::AcqRel) - 1;
                if state & HOLDERS == 0 && state & ASLEEP != 0 {
                    self.wake_all();
                }
            }
        }
    }

    /// Wakes all that sleep, unless there is another holder, who will.
    #[cold]
    fn wake_all(&self) {
        let mut state = self.0.load(Ordering::Relaxed);
        while state & (EXCLUSIVE | HOLDERS) == 0 && state & ASLEEP != 0 {
            // Whoever takes the lock next must see what the shared holders did before.
            match self.0.compare_exchange(state, 0, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return park::wake(&self.0, u32::MAX),
                Err(now) => state = now,
            }
        }
    }
}

fn is_free(hold: Hold, state: u32) -> bool {
    match hold {
        Hold::Exclusive => state & (EXCLUSIVE | HOLDERS) == 0,
        Hold::Shared => state & EXCLUSIVE == 0,
    }
}
