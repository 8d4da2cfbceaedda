//! A word that a fork wipes, and the end of a child that calls the library.
//!
//! A child has a copy of everything that its parent had: the rings of a rank, its sockets, its keys and its counters.
//! If both continued, they would send different frames under the same nonces, and take each other's frames from the
//! rings. The kernel sets the word to zero in every child, whichever call created it.
//!
//! Invariants, cited below by number.
//!   I1. The map is private, at least a page long, and all of it is atomic words; the kernel's zeros are valid values.

use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};

use super::map::Map;

/// A word that is zero in every child of the process that created it.
pub(crate) struct WipedOnFork(Map);

impl WipedOnFork {
    /// Fails if there is no memory, or the kernel is older than 4.14.
    pub(crate) fn new(value: u32) -> io::Result<WipedOnFork> {
        let word = WipedOnFork(Map::wiped_on_fork(size_of::<AtomicU32>())?);
        word.store(value, Ordering::Relaxed);
        Ok(word)
    }
}

impl Deref for WipedOnFork {
    type Target = AtomicU32;

    #[inline(always)]
    fn deref(&self) -> &AtomicU32 {
        // SAFETY: I1.
        unsafe { self.0.start().cast().as_ref() }
    }
}

/// Ends this process, a forked child of a rank that has called the library.
///
/// It only writes and exits: locks of the standard library may have been held by threads that do not exist in this
/// process, and exit handlers belong to the parent.
#[cold]
pub(crate) fn refuse() -> ! {
    let said = REFUSED.as_bytes();
    // SAFETY: the length is that of the bytes.
    unsafe { libc::write(libc::STDERR_FILENO, said.as_ptr().cast(), said.len()) };
    // SAFETY: it takes a number.
    unsafe { libc::_exit(REFUSED_CODE) }
}

const REFUSED: &str = "ferrywire: a process forked from a rank called the library and is terminated: a child \
                       must not use the connections and keys of the rank. Call exec in the child, or send and \
                       receive messages in the rank only.\n";
/// The code by which a shell says that a command cannot be executed.
const REFUSED_CODE: i32 = 126;
