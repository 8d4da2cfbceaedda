//! The job's segment, as the launcher makes it when all ranks have said hello.
//!
//! This is the only place of the launcher that knows what a segment is.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::sys;

/// Room for the page of facts of each rank, and one for the job.
const PAGE_BYTES: u64 = 4096;

/// The memory that the ranks of a job share.
pub(super) struct Segment {
    memory: OwnedFd,
}

/// Makes the segment of a job.
pub(super) fn new_segment(size: u32, _job: u32, _crowded: bool) -> io::Result<Segment> {
    Ok(Segment { memory: sys::memory_file(bytes(size))? })
}

/// How much memory the segment of so many ranks takes.
pub(super) fn bytes(size: u32) -> u64 {
    PAGE_BYTES * (1 + u64::from(size))
}

impl Segment {
    /// Writes down who is rank `rank`, before anybody is welcomed.
    pub(super) fn introduce(&mut self, _rank: u32, _pid: u32, _probe_address: u64) {}
}

impl AsFd for Segment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}
