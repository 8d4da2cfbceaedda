//! Sleeping on a word that processes share.
//!
//! Invariants, cited below by number.
//!   I1. A futex call reads or names the word behind a live reference, and writes nothing.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` holds `expected`, until woken under one of `bits`, at most for `timeout`. May wake spuriously:
/// the caller looks again.
pub(crate) fn wait(word: &AtomicU32, expected: u32, bits: u32, timeout: Option<Duration>) {
    let until = timeout.map(deadline);
    let until = until.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: I1, and `until` is null or points to a time that lives until the call returns.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT_BITSET,
            expected,
            until,
            std::ptr::null::<u32>(),
            bits,
        )
    };
}

/// Wakes all threads that sleep on `word` under one of `bits`.
pub(crate) fn wake(word: &AtomicU32, bits: u32) {
    // SAFETY: I1.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE_BITSET,
            i32::MAX,
            std::ptr::null::<libc::timespec>(),
            std::ptr::null::<u32>(),
            bits,
        )
    };
}

/// The time `timeout` from now, on the clock that the kernel waits by.
fn deadline(timeout: Duration) -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a time that we own.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let ns = now.tv_nsec + i64::from(timeout.subsec_nanos());
    let seconds = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX / 4);
    libc::timespec {
        tv_sec: now.tv_sec.saturating_add(seconds).saturating_add(ns / 1_000_000_000),
        tv_nsec: ns % 1_000_000_000,
    }
}
