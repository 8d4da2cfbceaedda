//! The lock around a NIC.
//!
//! It is taken for every message, mostly by the only thread there is, so releasing it is a plain store. A thread that
//! finds it held registers in `wanted`, spins, yields, and then naps rather than sleeps: the thread that releases it
//! may not see `wanted` in time, and a nap ends by itself.
//!
//! In a forked child the lock is neither free nor held, and cannot be taken: everything that it guards is the parent's.
//! The check costs nothing, because it is one more way in which the lock is not free.
//!
//! Invariants, cited below by number.
//!   I1. `state` is `HELD` exactly while a `Guard` exists, and only its thread touches `value`.

use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::sync::{
    AtomicU32, Ordering, SPINS_MAX, UnsafeCell, WipedOnFork, YIELDS_MAX, park, refuse_child,
    spin_loop, yield_now,
};

pub(crate) struct Lock<T> {
    state: WipedOnFork,
    /// Threads that wait for the lock.
    wanted: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: I1: one thread at a time touches the value.
unsafe impl<T: Send> Sync for Lock<T> {}

pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// A guard may be shared or sent if a reference to the value may be.
    value: PhantomData<&'a mut T>,
}

impl<T> Lock<T> {
    /// Fails if there is no memory for the lock.
    pub(crate) fn new(value: T) -> io::Result<Lock<T>> {
        let state = WipedOnFork::new(FREE)?;
        Ok(Lock { state, wanted: AtomicU32::new(0), value: UnsafeCell::new(value) })
    }

    /// Whether this process was forked from the one that created the lock.
    pub(crate) fn is_forked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FORKED
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.acquire();
        Guard { lock: self, value: PhantomData }
    }

    /// Takes the lock if it is free.
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
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    fn release(&self) {
        // Pairs with the Acquire in `is_acquired`.
        self.state.store(FREE, Ordering::Release);
        if self.is_wanted() {
            park::wake(&self.state, u32::MAX);
        }
    }

    #[cold]
    fn contend(&self) {
        if self.is_forked() {
            refuse_child();
        }
        self.wanted.fetch_add(1, Ordering::Relaxed);
        let mut tries = 0_u32;
        while !self.is_acquired() {
            tries += 1;
            match tries {
                0..SPINS_MAX => spin_loop(),
                SPINS_MAX..YIELDS_MAX => yield_now(),
                _ => park::wait(&self.state, HELD, u32::MAX, Some(NAP)),
            }
        }
        self.wanted.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a thread waits for the lock.
    #[inline(always)]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }
}

impl<T> Guard<'_, T> {
    /// Runs `something` without the lock.
    pub(crate) fn unlocked<R>(&mut self, something: impl FnOnce() -> R) -> R {
        /// Takes the lock back, even in a panic.
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

    /// Lets waiting threads go first.
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

/// What the kernel resets the state to in a forked child.
const FORKED: u32 = 0;
const FREE: u32 = 1;
const HELD: u32 = 2;
const NAP: Duration = Duration::from_micros(50);
