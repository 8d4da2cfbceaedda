//! Random bytes from the kernel.
//!
//! Invariants, cited below by number.
//!   I1. The kernel writes into bytes that live until the call returns, and no more than there are.

use std::io;

/// Fills `bytes` with unpredictable bytes.
pub(crate) fn fill(bytes: &mut [u8]) -> io::Result<()> {
    loop {
        // SAFETY: I1.
        let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        match usize::try_from(got) {
            Ok(length) if length == bytes.len() => return Ok(()),
            // Does not happen: the kernel returns so few bytes at once.
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
