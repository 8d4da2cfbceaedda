//! Reading and writing the memory of another process, where the system permits it.
//!
//! Invariants, cited below by number.
//!   I1. The caller vouches for `len` bytes at the local address; the kernel checks the remote one.

use std::io;

/// Reads `len` bytes at `remote` of the process `pid` to `local`.
///
/// # Safety
/// `local` is the address of `len` bytes that may be written.
pub(crate) unsafe fn read(pid: i32, remote: usize, local: usize, len: usize) -> io::Result<()> {
    // SAFETY: I1.
    unsafe { walk(pid, remote, local, len, libc::process_vm_readv) }
}

/// Writes `len` bytes at `local` to `remote` of the process `pid`.
///
/// # Safety
/// `local` is the address of `len` bytes that may be read.
pub(crate) unsafe fn write(pid: i32, remote: usize, local: usize, len: usize) -> io::Result<()> {
    // SAFETY: I1.
    unsafe { walk(pid, remote, local, len, libc::process_vm_writev) }
}

type Call = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> isize;

/// Calls until all bytes are moved, because the kernel may move fewer than asked.
///
/// # Safety
/// As for [`read`] or [`write`].
unsafe fn walk(pid: i32, remote: usize, local: usize, len: usize, call: Call) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        let piece = |start: usize| libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut(start + done),
            iov_len: len - done,
        };
        let (here, there) = (piece(local), piece(remote));
        // SAFETY: I1 for the bytes of `here`; both descriptions live until the call returns.
        let moved = unsafe { call(pid, &raw const here, 1, &raw const there, 1, 0) };
        match usize::try_from(moved) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(moved) => done += moved,
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}
