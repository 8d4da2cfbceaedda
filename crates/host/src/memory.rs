//! User memory, as the NIC names it.
//!
//! The memory of a process is one region, and an offset in it is an address: lending a buffer costs nothing, and a span
//! can be handed to another process unchanged. Offsets in other regions are addresses, too: a region says which pieces
//! of memory a peer may reach, and how it changes them.
//!
//! Invariants, cited below by number.
//!   I1. A caller that gives a span to the NIC, through [`crate::Driver::submit`], vouches that it may lend the bytes,
//!       and lends them until the operation is over.

use ferrywire_nic::{Region, Span};

use crate::shm::ring::copy_short;

/// The whole memory of a process.
pub const MEMORY: Region = Region(0);

/// Lends bytes that will be read.
pub fn lend(bytes: &[u8]) -> Span {
    Span::new(MEMORY, bytes.as_ptr().expose_provenance() as u64, bytes.len() as u64)
}

/// Lends bytes that will be written.
pub fn lend_mut(bytes: &mut [u8]) -> Span {
    Span::new(MEMORY, bytes.as_mut_ptr().expose_provenance() as u64, bytes.len() as u64)
}

/// The bytes of a span.
///
/// # Safety
/// I1, and nothing writes them meanwhile.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(span: Span) -> &'a [u8] {
    if span.len == 0 {
        return &[];
    }
    // SAFETY: I1.
    unsafe {
        std::slice::from_raw_parts(
            std::ptr::with_exposed_provenance(size(span.offset)),
            size(span.len),
        )
    }
}

/// The bytes of a span, to write.
///
/// # Safety
/// I1, and nothing else reads or writes them meanwhile.
#[inline(always)]
pub(crate) unsafe fn bytes_mut<'a>(span: Span) -> &'a mut [u8] {
    if span.len == 0 {
        return &mut [];
    }
    let start = std::ptr::with_exposed_provenance_mut(size(span.offset));
    // SAFETY: I1.
    unsafe { std::slice::from_raw_parts_mut(start, size(span.len)) }
}

/// Copies bytes into a span of the same length.
///
/// # Safety
/// As for [`bytes_mut`].
#[inline(always)]
pub(crate) unsafe fn fill(from: &[u8], into: Span) {
    debug_assert_eq!(
        from.len() as u64,
        into.len,
        "what is filled is as long as what it is filled with"
    );
    let start = std::ptr::with_exposed_provenance_mut(size(into.offset));
    // SAFETY: I1.
    unsafe { copy_short(from, start) };
}

/// Offsets and lengths have 64 bits on the wire; so far, so do addresses.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "an address of this process came from one")]
pub(crate) fn size(number: u64) -> usize {
    number as usize
}
