//! Numbers of communicators, as one rank knows them: which are free, and who may take the next.
//!
//! The members of a new communicator take a number that is free at all of them (`agreement.rs`). Several agreements may be
//! under way in a rank at the same time, with different members, and must not take the same number. So they take turns,
//! and everywhere in the same order: otherwise two of them could wait for each other at two ranks.
//!
//! The order is Skeen's for total order multicast. Each member *proposes* a stamp, later than all that it has seen; the
//! latest proposal is the stamp of the agreement, and all members hear of it. An agreement has its turn at a rank when its
//! stamp is known and comes before all others there, proposals included, since a stamp is never earlier than its
//! proposals. Whatever is proposed after that is later. The first of all agreements has its turn at all its members, so
//! there is always one that goes on.
//!
//! Nobody proposes before all members take part: an agreement in which a rank is missing, perhaps because its program waits
//! for something else first, has no stamp and holds up nobody.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrywire_nic::Peer;

/// Communicators that a rank can have at a time.
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
    /// At least as late as every stamp that is known here.
    clock: u64,
    /// Agreements that have proposed a stamp and are not over, and of the next its name.
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
    /// Those of process `me`. All are free but the first `taken`.
    pub fn new(me: Peer, taken: u16) -> Arc<Numbers> {
        let mut free = [!0; COMMS_MAX / 64];
        (0..taken).for_each(|number| free[usize::from(number) / 64] &= !bit(number));
        let (seats, offering) = (BTreeMap::new(), None);
        Arc::new(Numbers {
            me,
            state: Mutex::new(State { free, clock: 0, seats, next: 0, offering }),
        })
    }

    /// Those that no communicator has.
    pub fn free(&self) -> Bits {
        self.lock().free
    }

    /// Takes a number, unless it is not free, or an agreement may be about to take it.
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

/// The part of a rank in one agreement. Whoever drops it before the end makes way for the others.
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

    /// A stamp that nobody else proposes, here or elsewhere. All members take part, and will propose one without
    /// waiting for anything else.
    pub fn propose(&self) -> u64 {
        let mut state = self.numbers.lock();
        state.clock = ((state.clock >> PEER_BITS) + 1) << PEER_BITS | u64::from(self.numbers.me.0);
        let stamp = state.clock;
        state.seats.insert(self.name, Stamp::Proposed(stamp));
        stamp
    }

    /// The stamp of the agreement: the latest that a member has proposed. Others may have their turn by that.
    pub fn settle(&self, stamp: u64) {
        let mut state = self.numbers.lock();
        state.clock = state.clock.max(stamp);
        state.seats.insert(self.name, Stamp::Settled(stamp));
    }

    /// The numbers that are free, if it is our turn.
    pub fn offer(&self) -> Option<Bits> {
        let mut state = self.numbers.lock();
        let Some(&Stamp::Settled(stamp)) = state.seats.get(&self.name) else { return None };
        let first = state.seats.values().all(|other| other.earliest() >= stamp);
        first.then(|| {
            state.offering = Some(self.name);
            state.free
        })
    }

    /// Takes the number on which all members agree, whose free numbers have `common` in common. None if there is none.
    /// Either way others have their turn.
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

    /// The number is not used again, by nobody who has a part in it: word of it may still be under way.
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
