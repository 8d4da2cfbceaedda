//! The lock around a NIC.
//!
//! It is taken for every message, mostly by the only thread there is, so letting go of it is a plain
//! store. Whoever finds it taken says so, spins, yields, and then naps rather than sleeps: the
//! thread that lets go may not see in time that somebody waits, and a nap ends by itself.
//!
//! Invariants, cited below by number.
//!   I1. `held` is 1 exactly while a `Guard` exists, and only its thread touches `value`.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::sync::{
    AtomicU32, Ordering, SPINS_MAX, UnsafeCell, YIELDS_MAX, park, spin_loop, yield_now,
};

pub(crate) struct Lock<T> {
    held: AtomicU32,
    /// Threads that want it and do not have it.
    wanted: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: I1: one thread at a time touches the value.
unsafe impl<T: Send> Sync for Lock<T> {}

pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// It hands out the value, so it may be shared and sent if a reference to that may be.
    value: PhantomData<&'a mut T>,
}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Lock<T> {
        Lock { held: AtomicU32::new(0), wanted: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.acquire();
        Guard { lock: self, value: PhantomData }
    }

    /// The lock, if nobody has it.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.is_acquired().then(|| Guard { lock: self, value: PhantomData })
    }

    #[inline(always)]
    fn acquire(&self) {
        if !self.is_acquired() {
            self.contend();
        }
    }

    #[inline(always)]
    fn is_acquired(&self) -> bool {
        // Pairs with the Release in `release`.
        self.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    fn release(&self) {
        // Pairs with the Acquire in `is_acquired`.
        self.held.store(0, Ordering::Release);
        if self.is_wanted() {
            park::wake(&self.held, u32::MAX);
        }
    }

    #[cold]
    fn contend(&self) {
        self.wanted.fetch_add(1, Ordering::Relaxed);
        let mut tries = 0_u32;
        while !self.is_acquired() {
            tries += 1;
            match tries {
                0..SPINS_MAX => spin_loop(),
                SPINS_MAX..YIELDS_MAX => yield_now(),
                _ => park::wait(&self.held, 1, u32::MAX, Some(NAP)),
            }
        }
        self.wanted.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether somebody waits for it.
    #[inline(always)]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }
}

impl<T> Guard<'_, T> {
    /// Does something without the lock.
    pub(crate) fn unlocked<R>(&mut self, something: impl FnOnce() -> R) -> R {
        /// Takes the lock back, whatever happens.
        struct Relock<'a, T>(&'a Lock<T>);
        impl<T> Drop for Relock<'_, T> {
            fn drop(&mut self) {
                self.0.acquire();
            }
        }
        self.lock.release();
        let _relock = Relock(self.lock);
        something()
    }

    /// Lets whoever waits go first.
    #[cold]
    pub(crate) fn give_way(&mut self) {
        let lock = self.lock;
        self.unlocked(|| {
            let mut tries = 0;
            while lock.is_wanted() && tries < YIELDS_MAX {
                yield_now();
                tries += 1;
            }
        });
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.release();
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: I1.
        unsafe { &*self.lock.value.with(|value| value) }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: I1.
        unsafe { &mut *self.lock.value.with_mut(|value| value) }
    }
}

const NAP: Duration = Duration::from_micros(50);
