//! Numbers of communicators, and how ranks come to agree on one.
//!
//! Each rank knows which numbers its own communicators have. To make a communicator, each of its future
//! members sets some free numbers aside, all of them the same if they have them; they combine, bit by
//! bit, what they have set aside; and all take the first number that is left. Nobody else in
//! a rank can take what is set aside, so one reduction does. If nothing is left, because a rank has set those numbers
//! aside for another communicator that is being made, they try others.
//!
//! That takes no memory that grows with ranks, and numbers are used again.

use std::sync::{Arc, Mutex, PoisonError};

/// Communicators that a rank can have at a time.
pub const COMMS_MAX: usize = 4096;

/// A set of numbers, one bit for each.
pub type Bits = [u64; COMMS_MAX / 64];

/// How often ranks try before they believe that there are no numbers left.
pub const ATTEMPTS_MAX: u32 = 256;

/// The numbers of the communicators of a rank.
#[derive(Debug)]
pub struct Numbers {
    free: Mutex<Bits>,
}

impl Numbers {
    /// All are free but the first `taken`.
    pub fn new(taken: u16) -> Arc<Numbers> {
        let mut free = [!0; COMMS_MAX / 64];
        (0..taken).for_each(|number| free[usize::from(number) / 64] &= !bit(number));
        Arc::new(Numbers { free: Mutex::new(free) })
    }

    /// Sets free numbers aside: those of one part of all, which `hint` and `attempt` choose. Ranks that are
    /// to agree pass the same.
    pub fn reserve(self: &Arc<Self>, hint: u16, attempt: u32) -> Reservation {
        let part = (usize::from(hint) + attempt as usize) % PARTS;
        let mut bits = [0; COMMS_MAX / 64];
        let mut free = self.lock();
        for word in (part..free.len()).step_by(PARTS) {
            bits[word] = std::mem::take(&mut free[word]);
        }
        Reservation { bits, numbers: Arc::clone(self) }
    }

    fn give_back(&self, bits: &Bits) {
        self.lock().iter_mut().zip(bits).for_each(|(free, bits)| *free |= bits);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Bits> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Numbers that are set aside until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    bits: Bits,
    numbers: Arc<Numbers>,
}

impl Reservation {
    /// Which they are.
    pub fn bits(&self) -> &Bits {
        &self.bits
    }

    /// Takes the number on which all agree who have combined what they had set aside to `common`. None: they have
    /// to try again. Either way the others are free again.
    pub fn settle(mut self, common: &Bits) -> Option<Claim> {
        let word = common.iter().position(|&bits| bits != 0)?;
        let number = u16::try_from(word * 64 + common[word].trailing_zeros() as usize).ok()?;
        debug_assert!(self.bits[word] & bit(number) != 0, "all have set it aside");
        self.bits[word] &= !bit(number);
        Some(Claim { number, numbers: Arc::clone(&self.numbers) })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.numbers.give_back(&self.bits);
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

impl Claim {
    /// The number is not used again, by nobody who has a part in it: word of it may still be under way.
    pub fn retire(self) {
        std::mem::forget(self);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut bits = [0; COMMS_MAX / 64];
        bits[usize::from(self.number) / 64] = bit(self.number);
        self.numbers.give_back(&bits);
    }
}

fn bit(number: u16) -> u64 {
    1 << (number % 64)
}

/// Communicators that one rank can be making at a time without getting into its own way.
const PARTS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_when_its_claim_is_gone() {
        let numbers = Numbers::new(2);
        let claim = alone(&numbers, 0).unwrap();
        assert_eq!(claim.number(), 2);
        assert_eq!(alone(&numbers, 0).unwrap().number(), 3);
        drop(claim);
        assert_eq!(alone(&numbers, 0).unwrap().number(), 2);
    }

    #[test]
    fn what_is_set_aside_is_nobody_elses() {
        let numbers = Numbers::new(0);
        let first = numbers.reserve(5, 0);
        assert!(alone(&numbers, 5).is_none());
        let other = numbers.reserve(5, 1);
        assert!(first.bits().iter().zip(other.bits()).all(|(one, other)| one & other == 0));
        drop(first);
        assert!(alone(&numbers, 5).is_some());
    }

    #[test]
    fn there_is_an_end_to_numbers() {
        let numbers = Numbers::new(0);
        let parts = u16::try_from(PARTS).unwrap();
        let claims: Vec<Claim> = (0..4096).map(|at| alone(&numbers, at % parts).unwrap()).collect();
        assert!((0..parts).all(|part| alone(&numbers, part).is_none()));
        drop(claims);
        assert!(alone(&numbers, 0).is_some());
    }

    fn alone(numbers: &Arc<Numbers>, hint: u16) -> Option<Claim> {
        let reservation = numbers.reserve(hint, 0);
        let bits = *reservation.bits();
        reservation.settle(&bits)
    }
}
