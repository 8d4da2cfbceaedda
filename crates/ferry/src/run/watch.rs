//! What a loop of the launcher waits for: descriptors, and what each of them belongs to.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::sys;

/// Descriptors to wait for, each with its source.
pub(super) struct Watch<S> {
    set: Vec<libc::pollfd>,
    sources: Vec<S>,
}

impl<S> Watch<S> {
    pub(super) fn new() -> Watch<S> {
        Watch { set: Vec::new(), sources: Vec::new() }
    }

    /// From something that can be read, or is at its end.
    pub(super) fn read(&mut self, descriptor: BorrowedFd<'_>, source: S) {
        self.add(descriptor, libc::POLLIN, source);
    }

    /// From something that has room.
    pub(super) fn write(&mut self, descriptor: BorrowedFd<'_>, source: S) {
        self.add(descriptor, libc::POLLOUT, source);
    }

    fn add(&mut self, descriptor: BorrowedFd<'_>, events: i16, source: S) {
        self.set.push(libc::pollfd { fd: descriptor.as_raw_fd(), events, revents: 0 });
        self.sources.push(source);
    }

    /// Waits, for as long as this at most, and tells whose descriptors are ready.
    pub(super) fn ready(mut self, timeout_ms: Option<u64>) -> io::Result<Vec<S>> {
        sys::poll(&mut self.set, timeout_ms)?;
        let all = self.set.iter().zip(self.sources);
        Ok(all.filter(|(entry, _)| entry.revents != 0).map(|(_, source)| source).collect())
    }
}
