//! Clocks and pinning.
//!
//! Invariants, cited below by number.
//!   I1. Memory that a system call is given is ours, and has the size that we pass.

use std::io;

/// Nanoseconds on a clock that all processes of the machine share.
pub(crate) fn wall_ns() -> f64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Processor time of this process: all its threads.
pub(crate) fn process_ns() -> f64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor time of this thread.
pub(crate) fn thread_ns() -> f64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> f64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: I1.
    unsafe { libc::clock_gettime(clock, &raw mut at) };
    at.tv_sec as f64 * 1e9 + at.tv_nsec as f64
}

/// Binds this thread, and what it starts, to one processor.
pub(crate) fn pin(cpu: usize) -> io::Result<()> {
    // SAFETY: I1: a set of bits; all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: I1: `CPU_SET` checks the number against the size of the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: I1: the set is ours, and its size is what we pass.
    let failed = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
