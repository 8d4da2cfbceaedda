//! How the memory of another rank is reached.

use std::io;

use crate::shm::segment::Process;
use crate::sys::reach;

/// How the memory of a rank is reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MemoryAccess {
    /// It is in this process.
    Here,
    /// The kernel copies between this process and the one with this process id.
    There(i32),
    /// Not at all.
    Not,
}

impl MemoryAccess {
    /// Finds how the memory of a process is reached from the one with the identity `word`. The kernel takes a process id as
    /// the caller counts, and we do not know how we count this one: seen from our container it may have another id, or
    /// none. So each id that others know it by is tried.
    pub(crate) fn find(word: u64, process: Process) -> MemoryAccess {
        if process.word == 0 {
            return MemoryAccess::Not;
        }
        if process.word == word {
            return MemoryAccess::Here;
        }
        let pids = [process.pid_outside, process.pid].into_iter();
        let mut pids = pids.filter_map(|pid| i32::try_from(pid).ok()).filter(|&pid| pid > 0);
        pids.find(|&pid| holds_word(pid, process)).map_or(MemoryAccess::Not, MemoryAccess::There)
    }

    /// Copies `len` bytes at `from` there to `into` here.
    ///
    /// # Safety
    /// The bytes at `into` may be written; those at `from`, too, may be read, if they are in this process.
    pub unsafe fn read(self, from: u64, into: u64, len: u64) -> io::Result<()> {
        let [from, into, len] = [from, into, len].map(address);
        match self {
            // SAFETY: the caller vouches for `into`.
            MemoryAccess::There(pid) => unsafe { reach::read(pid, from, into, len) },
            MemoryAccess::Not => Err(io::ErrorKind::PermissionDenied.into()),
            MemoryAccess::Here => {
                // SAFETY: the caller vouches for both.
                unsafe { copy_here(from, into, len) };
                Ok(())
            }
        }
    }

    /// Copies `len` bytes at `from` here to `into` there.
    ///
    /// # Safety
    /// The bytes at `from` may be read; those at `into`, too, may be written, if they are in this process.
    pub unsafe fn write(self, from: u64, into: u64, len: u64) -> io::Result<()> {
        let [from, into, len] = [from, into, len].map(address);
        match self {
            // SAFETY: the caller vouches for `from`.
            MemoryAccess::There(pid) => unsafe { reach::write(pid, into, from, len) },
            MemoryAccess::Not => Err(io::ErrorKind::PermissionDenied.into()),
            MemoryAccess::Here => {
                // SAFETY: the caller vouches for both.
                unsafe { copy_here(from, into, len) };
                Ok(())
            }
        }
    }
}

fn address(number: u64) -> usize {
    usize::try_from(number).expect("addresses have 64 bits")
}

/// # Safety
/// `len` bytes at `from` may be read, and at `into` written.
unsafe fn copy_here(from: usize, into: usize, len: usize) {
    let from: *const u8 = std::ptr::with_exposed_provenance(from);
    let into: *mut u8 = std::ptr::with_exposed_provenance_mut(into);
    // SAFETY: the caller vouches. `copy`, because a rank may send to itself what it receives.
    unsafe { std::ptr::copy(from, into, len) };
}

/// Whether this process id leads to that very process, and we may read its memory: we try. Another process may have the
/// id, and even something at the same address, but not the word.
fn holds_word(pid: i32, process: Process) -> bool {
    let mut found = 0_u64;
    let here = (&raw mut found).expose_provenance();
    let Ok(there) = usize::try_from(process.probe) else { return false };
    // SAFETY: `found` is ours, and eight bytes long.
    let read = unsafe { reach::read(pid, there, here, 8) };
    // The kernel has written it, which the compiler does not know.
    read.is_ok() && std::hint::black_box(found) == process.word
}
