//! Flushes the buffers of standard streams, of the C library and of Rust: what a program has printed is written,
//! however the program ends.
//!
//! Invariants, cited below by number.
//!   S1. `stdout` of the C library is set before `main` and stays a stream until the process ends.

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

unsafe extern "C" {
    /// The standard output stream of the C library.
    static stdout: *mut libc::FILE;
}

/// Line-buffers the standard output of the C library, which by default buffers whole blocks unless it writes to a
/// terminal. A rank that dies, or is ended because another died, then loses no finished line.
pub fn buffer_lines() {
    // SAFETY: by S1; without a buffer of ours the stream keeps the one that it has.
    unsafe { libc::setvbuf(stdout, std::ptr::null_mut(), libc::_IOLBF, 0) };
}

/// Flushes the buffers of all streams, before this process ends in a way that would not flush them.
///
/// The standard output comes first, and this gives up after a while: a thread that waits for input holds the lock of
/// that stream, and a full pipe may have no reader.
pub fn flush_all() {
    let (done, flushed) = mpsc::channel();
    let flush = move || {
        // SAFETY: by S1.
        unsafe { libc::fflush(stdout) };
        let _ = io::stdout().flush();
        // SAFETY: a null pointer stands for all streams.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        let _ = done.send(());
    };
    if thread::Builder::new().spawn(flush).is_ok() {
        let _ = flushed.recv_timeout(FLUSH_MAX);
    }
}

/// How long a reader of our output may take to make room.
const FLUSH_MAX: Duration = Duration::from_secs(1);
