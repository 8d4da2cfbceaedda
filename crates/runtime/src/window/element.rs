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
    operator: Operator,
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
    /// The change that a predefined operator makes.
    pub(super) fn new(operator: Operator) -> Change {
        let (operation, number) = operation::meaning(operator).expect("a predefined operator");
        use Number::{I8, I16, I32, I64, U8, U16, U32, U64};
        let way = match (operation, number) {
            (Operation::Replace, _) => Way::Replace,
            (Operation::Keep, _) => Way::Keep,
            (Operation::Sum, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64) => Way::Add,
            _ => Way::Combine,
        };
        Change { operator, number, way }
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

/// Changes an element of 1, 2, 4 or 8 bytes, and returns what it was. `None` if it is not aligned.
///
/// # Safety
/// I1.
#[inline]
pub(super) unsafe fn change(at: *mut u8, change: Change, source: &[u8]) -> Option<[u8; 8]> {
    macro_rules! change_as {
        ($atomic:ty, $number:ty) => {{
            // SAFETY: I1, and it is aligned.
            let element = unsafe { <$atomic>::from_ptr(at.cast()) };
            let value = <$number>::from_ne_bytes(source.try_into().expect("an element"));
            let order = Ordering::AcqRel;
            widened(
                &match change.way {
                    Way::Replace => element.swap(value, order),
                    Way::Keep => element.load(Ordering::Acquire),
                    Way::Add => element.fetch_add(value, order),
                    Way::Combine => {
                        let combine = |old: $number| {
                            let mut bytes = old.to_ne_bytes();
                            change.combine(source, &mut bytes);
                            Some(<$number>::from_ne_bytes(bytes))
                        };
                        let before = element.fetch_update(order, Ordering::Acquire, combine);
                        before.expect("it always goes on")
                    }
                }
                .to_ne_bytes(),
            )
        }};
    }
    if !is_aligned(at, source.len()) {
        return None;
    }
    Some(match source.len() {
        1 => change_as!(AtomicU8, u8),
        2 => change_as!(AtomicU16, u16),
        4 => change_as!(AtomicU32, u32),
        8 => change_as!(AtomicU64, u64),
        _ => unreachable!("longer elements are not atomic"),
    })
}

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

fn is_aligned(at: *mut u8, bytes: usize) -> bool {
    at.addr().is_multiple_of(bytes.max(1))
}

/// The bytes of an element, of which only as many count as it has.
fn widened(bytes: &[u8]) -> [u8; 8] {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    wide
}
