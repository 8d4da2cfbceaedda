//! Communicator numbers of one rank: which are free, and which agreement may take the next.
//!
//! The members of a new communicator take a number that is free at all of them (`number_agreement.rs`). Several
//! agreements may be in progress in a rank at the same time, with different members, and must not take the same number.
//! So they take turns, in the same order everywhere: otherwise two of them could wait for each other at two ranks.
//!
//! The order is Skeen's for total order multicast. Each member *proposes* a stamp, later than all that it has seen; the
//! latest proposal is the stamp of the agreement, and all members receive it. An agreement has its turn at a rank when
//! its stamp is known and precedes all others there, proposals included, since a stamp is never earlier than its
//! proposals. Every later proposal has a later stamp. The first of all agreements has its turn at all its members, so
//! there is always one that makes progress.
//!
//! No member proposes before all members take part: an agreement that lacks a member, perhaps because its application
//! waits for something else first, has no stamp and delays no other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrywire_nic::Peer;

/// The most communicators that a rank can have at a time.
pub const COMMS_MAX: usize = 4096;

/// A set of numbers, one bit for each.
pub type Bits = [u64; COMMS_MAX / 64];

/// The numbers of the communicators of a rank.
#[derive(Debug)]
pub struct Numbers {
    me: Peer,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: Bits,
    /// At least as late as every stamp known here.
    clock: u64,
    /// Agreements that have proposed a stamp and are not over, by name; and the next name.
    seats: BTreeMap<u64, Stamp>,
    next: u64,
    /// The agreement whose turn it is: its members may take any number that is free here.
    offering: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Stamp {
    Proposed(u64),
    Settled(u64),
}

impl Stamp {
    fn earliest(self) -> u64 {
        let (Stamp::Proposed(stamp) | Stamp::Settled(stamp)) = self;
        stamp
    }
}

impl Numbers {
    /// The numbers of process `me`. All are free but the first `taken`.
    pub fn new(me: Peer, taken: u16) -> Arc<Numbers> {
        let mut free = [!0; COMMS_MAX / 64];
        (0..taken).for_each(|number| free[usize::from(number) / 64] &= !bit(number));
        let (seats, offering) = (BTreeMap::new(), None);
        Arc::new(Numbers {
            me,
            state: Mutex::new(State { free, clock: 0, seats, next: 0, offering }),
        })
    }

    /// The free numbers.
    pub fn free(&self) -> Bits {
        self.lock().free
    }

    /// Claims a number, unless it is taken or an agreement may be about to take it.
    pub fn hold(self: &Arc<Self>, number: u16) -> Option<Claim> {
        let mut state = self.lock();
        let is_free = state.free[usize::from(number) / 64] & bit(number) != 0;
        (is_free && state.offering.is_none()).then(|| state.claim(number, self))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn claim(&mut self, number: u16, numbers: &Arc<Numbers>) -> Claim {
        self.free[usize::from(number) / 64] &= !bit(number);
        Claim { number, numbers: Arc::clone(numbers) }
    }

    fn leave(&mut self, seat: u64) {
        self.seats.remove(&seat);
        self.offering = self.offering.filter(|&offering| offering != seat);
    }
}

/// The part of a rank in one agreement. Dropping it before the end gives way to other agreements.
#[derive(Debug)]
pub struct Seat {
    name: u64,
    numbers: Arc<Numbers>,
}

impl Seat {
    /// Takes part in another agreement.
    pub fn new(numbers: &Arc<Numbers>) -> Seat {
        let mut state = numbers.lock();
        let name = state.next;
        state.next += 1;
        drop(state);
        Seat { name, numbers: Arc::clone(numbers) }
    }

    /// Proposes a stamp that no other agreement or rank proposes. All members take part by now, and will propose one
    /// without waiting for anything else.
    pub fn propose(&self) -> u64 {
        let mut state = self.numbers.lock();
        state.clock = ((state.clock >> PEER_BITS) + 1) << PEER_BITS | u64::from(self.numbers.me.0);
        let stamp = state.clock;
        state.seats.insert(self.name, Stamp::Proposed(stamp));
        stamp
    }

    /// Sets the stamp of the agreement: the latest proposal of all members. This may give others their turn.
    pub fn settle(&self, stamp: u64) {
        let mut state = self.numbers.lock();
        state.clock = state.clock.max(stamp);
        state.seats.insert(self.name, Stamp::Settled(stamp));
    }

    /// The free numbers, if it is our turn.
    pub fn offer(&self) -> Option<Bits> {
        let mut state = self.numbers.lock();
        let Some(&Stamp::Settled(stamp)) = state.seats.get(&self.name) else { return None };
        let first = state.seats.values().all(|other| other.earliest() >= stamp);
        first.then(|| {
            state.offering = Some(self.name);
            state.free
        })
    }

    /// Claims the number that all members agree on: the first of `common`, the numbers free at all of them. None if
    /// there is none. Either way our turn ends.
    pub fn take(&self, common: &Bits) -> Option<Claim> {
        let mut state = self.numbers.lock();
        state.leave(self.name);
        first_of(common).map(|number| state.claim(number, &self.numbers))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.numbers.lock().leave(self.name);
    }
}

/// The first number of a set.
pub fn first_of(bits: &Bits) -> Option<u16> {
    let word = bits.iter().position(|&bits| bits != 0)?;
    u16::try_from(word * 64 + bits[word].trailing_zeros() as usize).ok()
}

/// A claimed number; dropping the claim frees it.
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

    /// Keeps the number from being used again: messages about it may still be under way.
    pub fn retire(self) {
        std::mem::forget(self);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.numbers.lock().free[usize::from(self.number) / 64] |= bit(self.number);
    }
}

fn bit(number: u16) -> u64 {
    1 << (number % 64)
}

/// The low bits of a stamp name the process that proposed it.
const PEER_BITS: u32 = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_when_its_claim_is_gone() {
        let numbers = Numbers::new(Peer(0), 2);
        let claim = alone(&numbers).unwrap();
        assert_eq!(claim.number(), 2);
        assert_eq!(alone(&numbers).unwrap().number(), 3);
        drop(claim);
        assert_eq!(alone(&numbers).unwrap().number(), 2);
    }

    #[test]
    fn agreements_take_turns_in_the_order_of_their_stamps() {
        let numbers = Numbers::new(Peer(7), 0);
        let [early, late] = [Seat::new(&numbers), Seat::new(&numbers)];
        let (first, second) = (early.propose(), late.propose());
        assert!(first < second);
        late.settle(second);
        assert!(late.offer().is_none(), "the first may still be the earlier");
        let elsewhere = second + (1 << PEER_BITS);
        early.settle(elsewhere);
        assert!(early.offer().is_none(), "it is the later now");
        let common = late.offer().unwrap();
        assert!(numbers.hold(5).is_none(), "it may be about to be taken");
        assert_eq!(late.take(&common).unwrap().number(), 0);
        assert!(early.offer().is_some());
        assert!(Seat::new(&numbers).propose() > elsewhere);
        drop(early);
        assert_eq!(numbers.hold(5).unwrap().number(), 5);
    }

    #[test]
    fn there_is_an_end_to_numbers() {
        let numbers = Numbers::new(Peer(0), 0);
        let claims: Vec<Claim> = (0..COMMS_MAX).map(|_| alone(&numbers).unwrap()).collect();
        assert!(alone(&numbers).is_none());
        drop(claims);
        assert!(alone(&numbers).is_some());
    }

    fn alone(numbers: &Arc<Numbers>) -> Option<Claim> {
        let seat = Seat::new(numbers);
        seat.settle(seat.propose());
        let common = seat.offer().expect("there is no other");
        seat.take(&common)
    }
}
