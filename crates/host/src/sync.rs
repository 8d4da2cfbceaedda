//! What concurrent code shares: atomics, cells, waiting, and the sizes of shared structures.
//!
//! `lock.rs`, `coalesced.rs`, and the doorbell, rings, newcomers and process lock of `shm/` take all of it from
//! here. The models in `loom/` include those files and substitute a module of their own for this one, so that loom can
//! run every interleaving.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;

pub(crate) use crate::sys::fork::{WipedOnFork, refuse as refuse_child};
pub(crate) use crate::sys::futex as park;

/// Slots of a ring, a power of two.
pub(crate) const SLOTS: u32 = 128;
/// Slots that a consumer takes before it publishes that they are free.
pub(crate) const UNTOLD_MAX: u32 = SLOTS / 4;
/// The most data lines that a ring can have.
pub(crate) const DATA_LINES_MAX: u32 = 4096;
/// Tries to take a lock before yielding, and before napping.
pub(crate) const SPINS_MAX: u32 = 64;
pub(crate) const YIELDS_MAX: u32 = 80;

/// A cell whose pointer is handed out in the way that loom can watch.
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Hands out a pointer to read through.
    #[inline(always)]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Hands out a pointer to write through.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

impl<const N: usize> Default for UnsafeCell<[u8; N]> {
    fn default() -> UnsafeCell<[u8; N]> {
        UnsafeCell::new([0; N])
    }
}
