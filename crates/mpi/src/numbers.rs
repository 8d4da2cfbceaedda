//! Numbers of communicators, and how ranks come to agree on one.
//!
//! Each rank knows which numbers its own communicators have. To make a communicator its future members
//! combine what they have free, bit by bit; all pick the same number out of what is left, each
//! tries to claim it, and all combine whether they could. They could not if another thread of
//! a rank has claimed it meanwhile; then they try again, and look elsewhere.
//!
//! That takes no memory that grows with ranks, and numbers are used again.

use std::sync::{Arc, Mutex, PoisonError};

/// Communicators that a rank can have at a time.
pub const COMMS_MAX: usize = 4096;

/// Which numbers are free, one bit for each.
pub type Free = [u64; COMMS_MAX / 64];

/// The numbers of the communicators of a rank.
#[derive(Debug)]
pub struct Numbers {
    free: Mutex<Free>,
}

impl Numbers {
    /// All are free but the first `taken`.
    pub fn new(taken: u16) -> Arc<Numbers> {
        let mut free = [!0; COMMS_MAX / 64];
        (0..taken).for_each(|number| set(&mut free, number, false));
        Arc::new(Numbers { free: Mutex::new(free) })
    }

    /// What is free here.
    pub fn free(&self) -> Free {
        *self.lock()
    }

    /// Takes a number, if it is still free.
    pub fn claim(self: &Arc<Self>, number: u16) -> Option<Claim> {
        let mut free = self.lock();
        let is_free = free[usize::from(number) / 64] >> (number % 64) & 1 == 1;
        is_free.then(|| {
            set(&mut free, number, false);
            Claim { number, numbers: Arc::clone(self) }
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number that is ours until this is dropped.
#[derive(Debug)]
pub struct Claim {
    number: u16,
    numbers: Arc<Numbers>,
}

impl Claim {
    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        set(&mut self.numbers.lock(), self.number, true);
    }
}

/// The number that all try to claim, out of those that all have free. Where they start to look depends
/// on who they are and how often they have tried, so that communicators that are made at the same time
/// do not get into each other's way for ever.
pub fn pick(common: &Free, parent: u16, attempt: u32) -> Option<u16> {
    let start = match attempt {
        0 => 0,
        _ => (usize::from(parent) * 61 + attempt as usize * 7) % common.len(),
    };
    let words = (start..common.len()).chain(0..start);
    let word = words.into_iter().find(|&word| common[word] != 0)?;
    u16::try_from(word * 64 + common[word].trailing_zeros() as usize).ok()
}

fn set(free: &mut Free, number: u16, value: bool) {
    let bit = 1 << (number % 64);
    let word = &mut free[usize::from(number) / 64];
    *word = if value { *word | bit } else { *word & !bit };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_when_its_claim_is_gone() {
        let numbers = Numbers::new(2);
        let first = pick(&numbers.free(), 0, 0).unwrap();
        assert_eq!(first, 2);
        let claim = numbers.claim(first).unwrap();
        assert!(numbers.claim(first).is_none());
        assert_eq!(pick(&numbers.free(), 0, 0), Some(3));
        drop(claim);
        assert!(numbers.claim(first).is_some());
    }

    #[test]
    fn there_is_an_end_to_numbers() {
        let numbers = Numbers::new(0);
        let claims: Vec<Claim> = (0..4096).map(|number| numbers.claim(number).unwrap()).collect();
        assert_eq!(pick(&numbers.free(), 7, 3), None);
        drop(claims);
        assert!(pick(&numbers.free(), 7, 3).is_some());
    }
}
