//! Memory without a name that processes share: a memfd, and a view of it.
//!
//! Invariants, cited below by number.
//!   I1. A `Map` is the only owner of its mapping, which is `len` bytes long and is unmapped once.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::NonNull;

/// A file that exists in memory only, `bytes` long. Nothing is set aside for it yet.
pub(crate) fn memory_file(bytes: u64) -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a string that ends in zero.
    let raw = unsafe { libc::memfd_create(c"ferrywire".as_ptr(), flags) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    let file = unsafe { File::from_raw_fd(raw) };
    file.set_len(bytes)?;
    Ok(file)
}

/// Nobody can make the file shorter or longer any more.
pub(crate) fn seal_length(file: &File) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: the call takes numbers only.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets memory aside for a piece of the file, so that touching it cannot fail.
pub(crate) fn reserve(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let [offset, bytes] = [offset, bytes].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    loop {
        // SAFETY: the call takes numbers only.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, offset, bytes) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// A view of a piece of a file.
pub(crate) struct Map {
    start: NonNull<u8>,
    len: usize,
}

impl Map {
    /// The `len` bytes from `offset` on, which is a multiple of the page size.
    pub(crate) fn new(file: &File, offset: u64, len: u64) -> io::Result<Map> {
        let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses a place where nothing is.
        let raw = unsafe {
            libc::mmap(std::ptr::null_mut(), len, rights, flags, file.as_raw_fd(), offset)
        };
        if raw == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(raw.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Map { start, len })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: I1.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

// SAFETY: a mapping belongs to the process, not to a thread (I1).
unsafe impl Send for Map {}
// SAFETY: a `Map` gives out an address and a length, nothing more.
unsafe impl Sync for Map {}
