//! Atomic operations on the elements of shared memory.
//!
//! Invariants, cited below by number.
//!   I1. The caller vouches that the element is in shared memory of a window, which is mapped. Concurrent accesses to it
//!       are atomic, or the program has a race that the standard forbids.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use ferrywire_host::nic::Operator;
use ferrywire_mpi::operation::{self, Number, Operation};

/// How an accumulate changes an element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) operator: Operator,
    pub(super) number: Number,
    way: Way,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// It is replaced.
    Replace,
    /// It is only read.
    Keep,
    /// An integer is added, by one instruction.
    Add,
    /// It is combined, and stored if it has not changed meanwhile.
    Combine,
}

impl Change {
    /// The change that an operator makes, if it is predefined.
    pub(super) fn new(operator: Operator) -> Option<Change> {
        operation::meaning(operator)?;
        Change::of_valid(operator)
    }

    /// The same for an operator that [`operation::operator`] has returned.
    #[inline]
    pub(super) fn of_valid(operator: Operator) -> Option<Change> {
        let (operation, number) = operation::decode(operator)?;
        use Number::{I8, I16, I32, I64, U8, U16, U32, U64};
        let way = match (operation, number) {
            (Operation::Replace, _) => Way::Replace,
            (Operation::Keep, _) => Way::Keep,
            (Operation::Sum, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64) => Way::Add,
            _ => Way::Combine,
        };
        Some(Change { operator, number, way })
    }

    /// Whether elements have a gap between their value and their index, which their packed form has not.
    pub(super) fn has_gap(self) -> bool {
        self.number == Number::I16AndI32
    }

    /// The length of an element in memory.
    pub(super) fn memory_bytes(self) -> u64 {
        if self.has_gap() { GAPPED_BYTES as u64 } else { self.number.bytes() }
    }

    /// The same for elements as they are in memory, maybe with gaps.
    pub(super) fn combine_in_memory(self, source: &[u8], into: &mut [u8]) {
        if !self.has_gap() {
            return self.combine(source, into);
        }
        let mut packed = without_gaps(into);
        self.combine(&without_gaps(source), &mut packed);
        into.copy_from_slice(&with_gaps(&packed));
    }

    /// Combines elements that no other code accesses meanwhile.
    pub(super) fn combine(self, source: &[u8], into: &mut [u8]) {
        operation::combine(self.operator, source, into);
    }

    /// Whether elements of this length are changed by atomic instructions where they are aligned.
    pub(super) fn is_atomic(self) -> bool {
        matches!(self.number.bytes(), 1 | 2 | 4 | 8)
    }
}

/// Changes adjacent elements of 1, 2, 4 or 8 bytes, one by one. `before` gets what they were. Does nothing and returns false
/// if they are not aligned.
///
/// # Safety
/// I1.
#[inline]
pub(super) unsafe fn change_all(
    at: *mut u8,
    change: Change,
    source: &[u8],
    mut before: Option<&mut [u8]>,
) -> bool {
    macro_rules! change_as {
        ($atomic:ty, $number:ty) => {{
            const WIDTH: usize = size_of::<$number>();
            let count = source.len() / WIDTH;
            let number = |bytes: &[u8], index: usize| {
                let bytes = &bytes[index * WIDTH..][..WIDTH];
                <$number>::from_ne_bytes(bytes.try_into().expect("an element"))
            };
            // SAFETY: I1, and it is aligned.
            let element = |index| unsafe { <$atomic>::from_ptr(at.add(index * WIDTH).cast()) };
            let mut was = |index: usize, old: $number| {
                if let Some(before) = &mut before {
                    before[index * WIDTH..][..WIDTH].copy_from_slice(&old.to_ne_bytes());
                }
            };
            let combine_one = |index: usize| {
                let combine = |old: $number| {
                    let mut bytes = old.to_ne_bytes();
                    change.combine(&source[index * WIDTH..][..WIDTH], &mut bytes);
                    Some(<$number>::from_ne_bytes(bytes))
                };
                let order = (Ordering::AcqRel, Ordering::Acquire);
                let old = element(index).fetch_update(order.0, order.1, combine);
                old.expect("it always goes on")
            };
            match change.way {
                Way::Replace => (0..count).for_each(|index| {
                    was(index, element(index).swap(number(source, index), Ordering::AcqRel));
                }),
                Way::Keep => {
                    (0..count).for_each(|index| was(index, element(index).load(Ordering::Acquire)));
                }
                Way::Add => (0..count).for_each(|index| {
                    was(index, element(index).fetch_add(number(source, index), Ordering::AcqRel));
                }),
                Way::Combine if count == 1 => was(0, combine_one(0)),
                // The operator is looked up once for many elements. Those that have changed meanwhile are combined again.
                Way::Combine => (0..count).step_by(BATCH).for_each(|first| {
                    let len = BATCH.min(count - first);
                    let mut old = [0; BATCH * 8];
                    for index in 0..len {
                        let value = element(first + index).load(Ordering::Acquire);
                        old[index * WIDTH..][..WIDTH].copy_from_slice(&value.to_ne_bytes());
                    }
                    let mut new = old;
                    let source = &source[first * WIDTH..][..len * WIDTH];
                    change.combine(source, &mut new[..len * WIDTH]);
                    for index in 0..len {
                        let (expected, value) = (number(&old, index), number(&new, index));
                        let (order, other) = (Ordering::AcqRel, Ordering::Acquire);
                        let swapped =
                            element(first + index).compare_exchange(expected, value, order, other);
                        let old = swapped.unwrap_or_else(|_| combine_one(first + index));
                        was(first + index, old);
                    }
                }),
            }
        }};
    }
    let width = change.number.bytes();
    if !is_aligned(at, usize::try_from(width).expect("few")) {
        return false;
    }
    match width {
        1 => change_as!(AtomicU8, u8),
        2 => change_as!(AtomicU16, u16),
        4 => change_as!(AtomicU32, u32),
        8 => change_as!(AtomicU64, u64),
        _ => unreachable!("longer elements are not atomic"),
    }
    true
}

/// Elements that are combined at once.
const BATCH: usize = 64;

/// Stores `value` in an element of 1, 2, 4 or 8 bytes if it is `expected`, and returns what it was. `None` if it is not
/// aligned.
///
/// # Safety
/// I1.
pub(super) unsafe fn compare_swap(at: *mut u8, expected: &[u8], value: &[u8]) -> Option<[u8; 8]> {
    macro_rules! swap_as {
        ($atomic:ty, $number:ty) => {{
            // SAFETY: I1, and it is aligned.
            let element = unsafe { <$atomic>::from_ptr(at.cast()) };
            let number =
                |bytes: &[u8]| <$number>::from_ne_bytes(bytes.try_into().expect("an element"));
            let (order, other) = (Ordering::AcqRel, Ordering::Acquire);
            let swapped = element.compare_exchange(number(expected), number(value), order, other);
            let (Ok(old) | Err(old)) = swapped;
            widened(&old.to_ne_bytes())
        }};
    }
    if !is_aligned(at, value.len()) {
        return None;
    }
    Some(match value.len() {
        1 => swap_as!(AtomicU8, u8),
        2 => swap_as!(AtomicU16, u16),
        4 => swap_as!(AtomicU32, u32),
        8 => swap_as!(AtomicU64, u64),
        _ => return None,
    })
}

/// Elements with gaps, from their packed form.
pub(super) fn with_gaps(packed: &[u8]) -> Vec<u8> {
    let spread = |element: &[u8]| {
        let mut spread = [0; GAPPED_BYTES];
        spread[..2].copy_from_slice(&element[..2]);
        spread[4..].copy_from_slice(&element[2..]);
        spread
    };
    packed.chunks_exact(PACKED_BYTES).flat_map(spread).collect()
}

/// The packed form of elements with gaps.
pub(super) fn without_gaps(spread: &[u8]) -> Vec<u8> {
    let pack = |element: &[u8]| {
        let mut packed = [0; PACKED_BYTES];
        packed[..2].copy_from_slice(&element[..2]);
        packed[2..].copy_from_slice(&element[4..]);
        packed
    };
    spread.chunks_exact(GAPPED_BYTES).flat_map(pack).collect()
}

/// Bytes of a short and its index, with the gap between them and without.
const GAPPED_BYTES: usize = 8;
const PACKED_BYTES: usize = 6;

fn is_aligned(at: *mut u8, bytes: usize) -> bool {
    at.addr().is_multiple_of(bytes.max(1))
}

/// The bytes of an element, of which only as many count as it has.
fn widened(bytes: &[u8]) -> [u8; 8] {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    wide
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_come_and_go() {
        let packed: Vec<u8> = (1..=12).collect();
        let spread = with_gaps(&packed);
        assert_eq!(spread, [1, 2, 0, 0, 3, 4, 5, 6, 7, 8, 0, 0, 9, 10, 11, 12]);
        assert_eq!(without_gaps(&spread), packed);
    }
}
