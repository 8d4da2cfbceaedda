//! System calls on files that the standard library does not have.
//!
//! Invariants, cited below by number.
//!   I1. `IoSlice` and `IoSliceMut` have the layout of `iovec`: the standard library says so.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, IntoRawFd};

/// The most pieces of memory that a call takes.
pub const PIECES_MAX: usize = libc::UIO_MAXIOV as usize;

/// Writes pieces of memory, one after the other, at an offset of a file. Returns how many bytes were written.
pub fn write_at(file: &File, pieces: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
    let (first, count) = (pieces.as_ptr().cast(), pieces_of(pieces.len()));
    let offset = offset_of(offset)?;
    again(|| {
        // SAFETY: I1; the pieces are borrowed until this returns.
        unsafe { libc::pwritev(file.as_raw_fd(), first, count, offset) }
    })
}

/// Reads into pieces of memory, one after the other, from an offset of a file. Returns how many bytes were read: 0 at
/// its end.
pub fn read_at(file: &File, pieces: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
    let (first, count) = (pieces.as_mut_ptr().cast(), pieces_of(pieces.len()));
    let offset = offset_of(offset)?;
    again(|| {
        // SAFETY: I1; the pieces are borrowed until this returns.
        unsafe { libc::preadv(file.as_raw_fd(), first, count, offset) }
    })
}

/// Allocates the first bytes of a file, which grows if it has fewer.
pub fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let bytes = offset_of(bytes)?;
    // SAFETY: the descriptor is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Closes a file, and returns an error of writes that have not been reported yet: file systems on a network have some.
pub fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor is ours, and is not used again.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn pieces_of(count: usize) -> libc::c_int {
    libc::c_int::try_from(count.min(PIECES_MAX)).expect("the most is small")
}

fn offset_of(offset: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}

/// Calls until no signal interrupts it.
fn again(mut call: impl FnMut() -> libc::ssize_t) -> io::Result<usize> {
    loop {
        match usize::try_from(call()) {
            Ok(bytes) => return Ok(bytes),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
