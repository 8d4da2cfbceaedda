//! Put and get by atomic instructions: for callers that cannot vouch that accesses do not conflict.
//!
//! Invariants, cited below by number.
//!   I1. Shared memory of a window is mapped as long as the window lives, and an access is inside its part. The words
//!       are aligned.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use ferrywire_host::nic::Operator;
use ferrywire_mpi::operation::{self, Number, Operation};

use super::access::{Location, TargetData};
use super::{Window, WindowResult};
use crate::comm::Comm;

/// The length of words that are accessed by one instruction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WordWidth {
    /// One byte.
    One,
    /// Two bytes.
    Two,
    /// Four bytes.
    Four,
    /// Eight bytes.
    Eight,
}

impl WordWidth {
    /// The longest words that divide so many bytes.
    pub const fn dividing(bytes: usize) -> WordWidth {
        match bytes.trailing_zeros() {
            0 => WordWidth::One,
            1 => WordWidth::Two,
            2 => WordWidth::Four,
            _ => WordWidth::Eight,
        }
    }

    /// The length in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            WordWidth::One => 1,
            WordWidth::Two => 2,
            WordWidth::Four => 4,
            WordWidth::Eight => 8,
        }
    }

    /// The longest words, up to this width, that so many bytes at this address consist of.
    pub(super) fn fitting(self, at: *mut u8, bytes: usize) -> WordWidth {
        let width = WordWidth::dividing(at.addr() | bytes);
        if width.bytes() < self.bytes() { width } else { self }
    }

    /// The operator that replaces such words, or only reads them.
    fn operator(self, operation: Operation) -> Operator {
        let number = match self {
            WordWidth::One => Number::U8,
            WordWidth::Two => Number::U16,
            WordWidth::Four => Number::U32,
            WordWidth::Eight => Number::U64,
        };
        operation::operator(operation, number).expect("all numbers can be replaced and read")
    }

    /// Whether a word may begin there.
    fn is_aligned(self, at: *mut u8) -> bool {
        at.addr().is_multiple_of(self.bytes())
    }
}

impl Window {
    /// Writes adjacent words, each by an atomic instruction. A get of words by another rank that reads one of them then
    /// reads everything that was put before this call.
    pub fn put_words(
        &self,
        comm: Comm<'_>,
        data: TargetData<'_>,
        width: WordWidth,
        bytes: &[u8],
    ) -> WindowResult {
        match self.words(comm, data, width, bytes.len())? {
            Some(first) => {
                // SAFETY: I1.
                unsafe { put(first, width, bytes) };
                Ok(())
            }
            None => self.accumulate(comm, data, width.operator(Operation::Replace), bytes, None),
        }
    }

    /// Reads adjacent words, each by an atomic instruction.
    pub fn get_words(
        &self,
        comm: Comm<'_>,
        data: TargetData<'_>,
        width: WordWidth,
        bytes: &mut [u8],
    ) -> WindowResult {
        match self.words(comm, data, width, bytes.len())? {
            Some(first) => {
                // SAFETY: I1.
                unsafe { load(first, width, bytes) };
                // Pairs with the fence in `put`.
                fence(Ordering::Acquire);
                Ok(())
            }
            None => {
                let nothing = vec![0; bytes.len()];
                let operator = width.operator(Operation::Keep);
                self.accumulate(comm, data, operator, &nothing, Some(bytes))
            }
        }
    }

    /// Where adjacent words are in this process. `None` if they are in no shared memory, or not aligned there.
    #[inline]
    fn words(
        &self,
        comm: Comm<'_>,
        data: TargetData<'_>,
        width: WordWidth,
        bytes: usize,
    ) -> WindowResult<Option<*mut u8>> {
        let first = match self.direct(data.rank, data.displacement, bytes) {
            Some((first, _)) => Some(first),
            None => match self.target(comm, data)?.place {
                Location::Shared(first) => Some(first),
                Location::Process(..) | Location::Remote(_) => None,
            },
        };
        Ok(first.filter(|&first| width.is_aligned(first)))
    }

    /// The length of the part of a member, in bytes.
    pub fn part_bytes(&self, rank: u32) -> u64 {
        self.controls.of(rank).part().bytes
    }
}

/// Runs a loop over words for each width, with an atomic type and its number.
macro_rules! by_width {
    ($width:expr, $each:ident) => {
        match $width {
            WordWidth::One => $each!(AtomicU8, u8),
            WordWidth::Two => $each!(AtomicU16, u16),
            WordWidth::Four => $each!(AtomicU32, u32),
            WordWidth::Eight => $each!(AtomicU64, u64),
        }
    };
}

/// Stores words after everything that was put before.
///
/// # Safety
/// I1.
pub(super) unsafe fn put(first: *mut u8, width: WordWidth, bytes: &[u8]) {
    // Pairs with the fence in `get_words`.
    fence(Ordering::Release);
    // SAFETY: I1.
    unsafe { store(first, width, bytes) };
}

/// Stores words.
///
/// # Safety
/// I1.
unsafe fn store(first: *mut u8, width: WordWidth, bytes: &[u8]) {
    macro_rules! store_as {
        ($atomic:ty, $number:ty) => {{
            let (words, rest) = bytes.as_chunks();
            debug_assert!(rest.is_empty(), "whole words");
            for (index, word) in words.iter().enumerate() {
                let place = first.cast::<$number>().wrapping_add(index);
                // SAFETY: I1.
                let at = unsafe { <$atomic>::from_ptr(place) };
                at.store(<$number>::from_ne_bytes(*word), Ordering::Relaxed);
            }
        }};
    }
    by_width!(width, store_as);
}

/// Loads words.
///
/// # Safety
/// I1.
unsafe fn load(first: *mut u8, width: WordWidth, bytes: &mut [u8]) {
    macro_rules! load_as {
        ($atomic:ty, $number:ty) => {{
            let (words, rest) = bytes.as_chunks_mut();
            debug_assert!(rest.is_empty(), "whole words");
            for (index, word) in words.iter_mut().enumerate() {
                let place = first.cast::<$number>().wrapping_add(index);
                // SAFETY: I1.
                let at = unsafe { <$atomic>::from_ptr(place) };
                *word = at.load(Ordering::Relaxed).to_ne_bytes();
            }
        }};
    }
    by_width!(width, load_as);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_long_as_the_length_of_an_item_allows() {
        let width = |bytes| WordWidth::dividing(bytes).bytes();
        assert_eq!([1, 2, 3, 4, 6, 8, 12, 16, 24].map(width), [1, 2, 1, 4, 2, 8, 4, 8, 8]);
    }

    #[test]
    fn words_are_no_longer_than_their_alignment_allows() {
        let fitting = |address, bytes| {
            let at = std::ptr::without_provenance_mut(address);
            WordWidth::Four.fitting(at, bytes).bytes()
        };
        assert_eq!(
            [(16, 8), (4, 4), (4, 6), (2, 4), (1, 4), (8, 1)].map(|(a, b)| fitting(a, b)),
            [4, 4, 2, 2, 1, 1]
        );
    }

    #[test]
    fn words_of_every_width_are_stored_and_loaded() {
        let mut memory = [0_u64; 3];
        let first: *mut u8 = memory.as_mut_ptr().cast();
        for bytes in [1, 2, 4, 8] {
            let width = WordWidth::dividing(bytes);
            let source: [u8; 24] = std::array::from_fn(|at| u8::try_from(at + bytes).unwrap());
            let mut loaded = [0; 24];
            // SAFETY: it is memory of ours, and aligned.
            unsafe { store(first, width, &source) };
            // SAFETY: the same.
            unsafe { load(first, width, &mut loaded) };
            assert_eq!(loaded, source);
        }
    }
}
