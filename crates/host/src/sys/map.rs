//! Memory without a name: a memfd that processes share, and a view of it; and memory that a fork wipes.
//!
//! Invariants, cited below by number.
//!   I1. A `Map` is the only owner of its mapping, which begins `lead` bytes before `start`, ends `len` bytes after it,
//!       and is unmapped once.

use std::ffi::{c_int, c_uint};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::NonNull;

/// Creates a file in memory, `bytes` long. No memory is reserved for it yet.
pub(crate) fn memory_file(bytes: u64) -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // Its contents cannot be executed. Kernels before 6.3 do not know that flag.
    let file = create(flags | libc::MFD_NOEXEC_SEAL).or_else(|error| match error.kind() {
        io::ErrorKind::InvalidInput => create(flags),
        _ => Err(error),
    })?;
    file.set_len(bytes)?;
    Ok(file)
}

fn create(flags: c_uint) -> io::Result<File> {
    // SAFETY: the name is a string that ends with a zero byte.
    let raw = unsafe { libc::memfd_create(c"ferrywire".as_ptr(), flags) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and owned by nothing else.
    Ok(unsafe { File::from_raw_fd(raw) })
}

/// Seals the length of the file: no process can change it any more.
pub(crate) fn seal_length(file: &File) -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, LENGTH_SEALS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the length is sealed: then a mapping of the file stays whole.
pub(crate) fn is_length_sealed(file: &File) -> bool {
    // SAFETY: the call takes numbers only.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & LENGTH_SEALS == LENGTH_SEALS
}

const LENGTH_SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Reserves memory for a piece of the file, so that touching it cannot fail.
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

/// Gives the memory of a piece of the file back. It reads as zeros afterwards.
pub(crate) fn give_back(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let [offset, bytes] = [offset, bytes].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: the call takes numbers only.
    match unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, bytes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A mapping of a piece of a file.
pub(crate) struct Map {
    start: NonNull<u8>,
    len: usize,
    /// Bytes between the beginning of the first page and `start`.
    lead: usize,
}

impl Map {
    /// Maps `len` bytes from `offset` on, which may lie anywhere in a page: pages have 4 KiB on some machines and 64 KiB on
    /// others.
    pub(crate) fn new(file: &File, offset: u64, len: u64) -> io::Result<Map> {
        let lead = offset % page_bytes();
        let offset = i64::try_from(offset - lead).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let [len, lead] = [len, lead].map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let mapped = len.checked_add(lead).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses an address where nothing is mapped.
        let raw = unsafe {
            libc::mmap(std::ptr::null_mut(), mapped, rights, flags, file.as_raw_fd(), offset)
        };
        if raw == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = NonNull::new(raw.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: so many bytes are mapped before those that were asked for.
        let start = unsafe { first.add(lead) };
        Ok(Map { start, len, lead })
    }

    /// Private memory of at least `len` bytes, which is all zeros in a forked child.
    pub(crate) fn wiped_on_fork(len: usize) -> io::Result<Map> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses an address where nothing is mapped.
        let raw = unsafe { libc::mmap(std::ptr::null_mut(), len, rights, flags, -1, 0) };
        if raw == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(raw.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = Map { start, len, lead: 0 };
        // SAFETY: I1.
        match unsafe { libc::madvise(raw, len, libc::MADV_WIPEONFORK) } {
            0 => Ok(map),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Makes the kernel map all pages at once, where it can: touching each later takes longer.
    pub(crate) fn populate(&self) {
        // SAFETY: I1: the pages are mapped. A kernel before 5.14 refuses, and nothing depends on it.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, libc::MADV_POPULATE_WRITE) };
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
        let first = unsafe { self.start.sub(self.lead) };
        // SAFETY: I1.
        unsafe { libc::munmap(first.as_ptr().cast(), self.lead + self.len) };
    }
}

// SAFETY: a mapping belongs to the process, not to a thread (I1).
unsafe impl Send for Map {}
// SAFETY: a `Map` only hands out an address and a length.
unsafe impl Sync for Map {}

/// The size of a page, as the kernel counts.
fn page_bytes() -> u64 {
    // SAFETY: the call takes a number only.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two()).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// Rings and signals begin at multiples of 4096, which are in the middle of larger pages.
    #[test]
    fn a_map_begins_anywhere_in_a_page() {
        let file = memory_file(1 << 18).expect("memory");
        for offset in [0, 1, 4096, 5000, 3 * 4096, 16_384 + 4096, 65_536 - 1, 65_536 + 4096] {
            file.write_all_at(b"ferry", offset).expect("room");
            let map = Map::new(&file, offset, 5).expect("a mapping");
            assert_eq!(map.len(), 5);
            // SAFETY: the mapping has five bytes, and nobody writes to them.
            let bytes = unsafe { std::slice::from_raw_parts(map.start().as_ptr(), 5) };
            assert_eq!(bytes, b"ferry", "at {offset}");
        }
    }
}
