//! Waiting for descriptors, each with what it belongs to.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::sys;

/// A set of descriptors to wait for, each with its source.
pub(super) struct Watch<S> {
    set: Vec<libc::pollfd>,
    sources: Vec<S>,
}

impl<S> Watch<S> {
    pub(super) fn new() -> Watch<S> {
        Watch { set: Vec::new(), sources: Vec::new() }
    }

    /// Adds a descriptor that is ready when it is readable or at its end.
    pub(super) fn read(&mut self, descriptor: BorrowedFd<'_>, source: S) {
        self.add(descriptor, libc::POLLIN, source);
    }

    /// Adds a descriptor that is ready when it is writable.
    pub(super) fn write(&mut self, descriptor: BorrowedFd<'_>, source: S) {
        self.add(descriptor, libc::POLLOUT, source);
    }

    fn add(&mut self, descriptor: BorrowedFd<'_>, events: i16, source: S) {
        self.set.push(libc::pollfd { fd: descriptor.as_raw_fd(), events, revents: 0 });
        self.sources.push(source);
    }

    /// Waits at most `timeout_ms`, and returns the sources of the descriptors that are ready.
    pub(super) fn ready(mut self, timeout_ms: Option<u64>) -> io::Result<Vec<S>> {
        sys::poll(&mut self.set, timeout_ms)?;
        let all = self.set.iter().zip(self.sources);
        Ok(all.filter(|(entry, _)| entry.revents != 0).map(|(_, source)| source).collect())
    }
}
