//! Handles as integers, for languages without pointers.
//!
//! An object gets an integer when the program first asks for one, and keeps it until it is freed. The object stores
//! its integer, and a slot of a table stores the object, so that neither direction searches or takes a lock. Tables
//! never move: each has twice the slots of the one before.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The handles that have integers. The tables hold the integers from 4,096 to 8,191, from there to 16,383, and so on.
pub(super) struct Numbers {
    tables: [OnceLock<Box<[AtomicUsize]>>; TABLES],
    unused: Mutex<Unused>,
}

/// Integers without a handle: those of freed objects, oldest first, and all from `next` on.
struct Unused {
    freed: VecDeque<u32>,
    next: u32,
}

impl Numbers {
    pub(super) const fn new() -> Numbers {
        let unused = Unused { freed: VecDeque::new(), next: FIRST };
        Numbers { tables: [const { OnceLock::new() }; TABLES], unused: Mutex::new(unused) }
    }

    /// Assigns an integer to a handle.
    pub(super) fn claim(&self, handle: usize) -> u32 {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        let number = unused.freed.pop_front().unwrap_or_else(|| {
            unused.next += 1;
            unused.next - 1
        });
        let (table, at) = place(number).expect("memory ends before the integers do");
        let slots = 1 << (FIRST.ilog2() as usize + table);
        let table = self.tables[table].get_or_init(|| (0..slots).map(|_| 0.into()).collect());
        table[at].store(handle, Ordering::Release);
        number
    }

    /// The handle with this integer; null if there is none.
    #[inline]
    pub(super) fn find(&self, number: u32) -> usize {
        let slot = place(number).and_then(|(table, at)| self.tables[table].get()?.get(at));
        slot.map_or(0, |slot| slot.load(Ordering::Acquire))
    }

    /// Releases the integer of a handle.
    pub(super) fn release(&self, number: u32) {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((table, at)) = place(number)
            && let Some(slots) = self.tables[table].get()
        {
            slots[at].store(0, Ordering::Release);
            unused.freed.push_back(number);
        }
    }
}

/// The table of an integer, and its index there.
#[inline]
fn place(number: u32) -> Option<(usize, usize)> {
    let table = number.checked_ilog2()?.checked_sub(FIRST.ilog2())? as usize;
    (table < TABLES).then(|| (table, number as usize - (1 << number.ilog2())))
}

/// The first integer: those below are the predefined handles.
const FIRST: u32 = 4096;
const _: () = assert!(FIRST as usize == super::PREDEFINED_MAX + 1);
/// Enough tables for all positive values of a C int.
const TABLES: usize = 31 - FIRST.ilog2() as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_found_by_its_integer_until_that_is_released() {
        let numbers = Numbers::new();
        let handles: Vec<usize> = (0..20_000).map(|nth| 0x10_0000 + nth * 8).collect();
        let claimed: Vec<u32> = handles.iter().map(|&handle| numbers.claim(handle)).collect();
        assert_eq!((claimed[0], claimed[19_999]), (4096, 24_095));
        assert!(
            claimed.iter().zip(&handles).all(|(&number, &handle)| numbers.find(number) == handle)
        );
        numbers.release(claimed[7]);
        assert_eq!(numbers.find(claimed[7]), 0);
        assert_eq!(numbers.claim(1), claimed[7], "it is given again");
    }

    #[test]
    fn integers_without_a_handle_are_null_pointers() {
        let numbers = Numbers::new();
        for number in [0, 1, 4095, 4096, 8192, u32::MAX / 2, u32::MAX / 2 + 1, u32::MAX] {
            assert_eq!(numbers.find(number), 0, "{number}");
        }
        assert_eq!(super::super::from_int(-1), 0);
        assert_eq!(super::super::from_int(0x101), 0x101);
    }
}
