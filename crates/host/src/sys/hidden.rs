//! Memory that is left out of core dumps, for what must not leave the process.
//!
//! Invariants, cited below by number.
//!   H1. A `Hidden` is the only owner of its mapping, which is `HIDDEN_BYTES` long, no less than `N`, and aligned to a
//!       page. It is unmapped once.
//!   H2. Any bytes are a valid `[u8; N]`, zeros at first.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

use zeroize::Zeroize;

/// `N` bytes in a page of their own, which the kernel leaves out of core dumps. They are wiped when dropped.
pub(crate) struct Hidden<const N: usize> {
    start: NonNull<[u8; N]>,
}

/// A page: nothing that is hidden is longer.
const HIDDEN_BYTES: usize = 4096;

impl<const N: usize> Hidden<N> {
    const FITS: () = assert!(N <= HIDDEN_BYTES, "a secret has at most a page");

    /// Zeros.
    pub(crate) fn new() -> Hidden<N> {
        let () = Self::FITS;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses an address where nothing is mapped.
        let raw = unsafe { libc::mmap(std::ptr::null_mut(), HIDDEN_BYTES, rights, flags, -1, 0) };
        let start = NonNull::new(raw.cast()).filter(|_| raw != libc::MAP_FAILED);
        // As for any other failed allocation.
        let start = start.unwrap_or_else(|| handle_alloc_error(Layout::new::<[u8; N]>()));
        // All kernels that we run on know this advice.
        // SAFETY: H1.
        unsafe { libc::madvise(raw, HIDDEN_BYTES, libc::MADV_DONTDUMP) };
        Hidden { start }
    }

    pub(crate) fn bytes(&self) -> &[u8; N] {
        // SAFETY: H1, H2.
        unsafe { self.start.as_ref() }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8; N] {
        // SAFETY: H1, H2, and the borrow is exclusive.
        unsafe { self.start.as_mut() }
    }
}

impl<const N: usize> Drop for Hidden<N> {
    fn drop(&mut self) {
        self.bytes_mut().zeroize();
        // SAFETY: H1.
        unsafe { libc::munmap(self.start.as_ptr().cast(), HIDDEN_BYTES) };
    }
}

// SAFETY: a mapping belongs to the process, not to a thread (H1).
unsafe impl<const N: usize> Send for Hidden<N> {}
// SAFETY: a shared reference only hands out bytes that do not change.
unsafe impl<const N: usize> Sync for Hidden<N> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_leaves_it_out_of_dumps() {
        let hidden = Hidden::<32>::new();
        let start = format!("{:x}-", hidden.start.addr());
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("mappings are listed");
        let flags = maps.lines().skip_while(|line| !line.starts_with(&start));
        let flags = flags.skip(1).find_map(|line| line.strip_prefix("VmFlags:"));
        assert!(flags.is_some_and(|flags| flags.split(' ').any(|flag| flag == "dd")), "{flags:?}");
    }
}
