//! Slots that are claimed and released, named by index and generation.
//!
//! A released slot is used again under another generation, so that a name from the past (a ticket
//! in a late frame, say) finds nothing instead of somebody else's operation.

use alloc::vec::Vec;

use crate::types::Ticket;

#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: u32,
    live: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    Free { next: u32 },
    Used(T),
}

const NONE: u32 = u32::MAX;

impl<T> Slab<T> {
    pub(crate) const fn new() -> Slab<T> {
        Slab { slots: Vec::new(), free: NONE, live: 0 }
    }

    pub(crate) fn claim(&mut self, value: T) -> Ticket {
        self.live += 1;
        if self.free == NONE {
            let index = u32::try_from(self.slots.len()).expect("fewer than 2^32 slots");
            self.grow();
            self.slots.push(Slot { generation: 1, state: State::Used(value) });
            return Ticket { index, generation: 1 };
        }
        let index = self.free;
        let slot = &mut self.slots[index as usize];
        let State::Free { next } = slot.state else { unreachable!("a free slot is free") };
        self.free = next;
        slot.state = State::Used(value);
        Ticket { index, generation: slot.generation }
    }

    pub(crate) fn release(&mut self, ticket: Ticket) -> Option<T> {
        let slot = self.slots.get_mut(ticket.index as usize)?;
        if slot.generation != ticket.generation || matches!(slot.state, State::Free { .. }) {
            return None;
        }
        let old = core::mem::replace(&mut slot.state, State::Free { next: self.free });
        slot.generation = slot.generation.wrapping_add(1);
        self.free = ticket.index;
        self.live -= 1;
        match old {
            State::Used(value) => Some(value),
            State::Free { .. } => None,
        }
    }

    /// Releases a slot after a last look at what is in it, which is not moved: it may be large.
    #[inline]
    pub(crate) fn discard<R>(&mut self, ticket: Ticket, look: impl FnOnce(&T) -> R) -> Option<R> {
        let slot = self.slots.get_mut(ticket.index as usize)?;
        let State::Used(value) = &slot.state else { return None };
        if slot.generation != ticket.generation {
            return None;
        }
        let seen = look(value);
        slot.state = State::Free { next: self.free };
        slot.generation = slot.generation.wrapping_add(1);
        self.free = ticket.index;
        self.live -= 1;
        Some(seen)
    }

    #[inline]
    pub(crate) fn find(&self, ticket: Ticket) -> Option<&T> {
        match self.slots.get(ticket.index as usize) {
            Some(Slot { generation, state: State::Used(value) })
                if *generation == ticket.generation =>
            {
                Some(value)
            }
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn find_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        match self.slots.get_mut(ticket.index as usize) {
            Some(Slot { generation, state: State::Used(value) })
                if *generation == ticket.generation =>
            {
                Some(value)
            }
            _ => None,
        }
    }

    /// The ticket of the slot at `index`, which must be in use.
    pub(crate) fn ticket_at(&self, index: u32) -> Ticket {
        Ticket { index, generation: self.slots[index as usize].generation }
    }

    pub(crate) fn live(&self) -> usize {
        self.live as usize
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ticket, &T)> {
        (0u32..).zip(&self.slots).filter_map(|(index, slot)| match &slot.state {
            State::Used(value) => Some((Ticket { index, generation: slot.generation }, value)),
            State::Free { .. } => None,
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| match &mut slot.state {
            State::Used(value) => Some(value),
            State::Free { .. } => None,
        })
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<T>>()
    }

    /// A quarter more at a time: with a million NICs in one machine, doubling is felt.
    fn grow(&mut self) {
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(self.slots.len() / 4 + 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_the_past_finds_nothing() {
        let mut slab = Slab::new();
        let first = slab.claim('a');
        assert_eq!(slab.release(first), Some('a'));
        let second = slab.claim('b');
        assert_eq!(first.index, second.index);
        assert_eq!(slab.find(first), None);
        assert_eq!(slab.release(first), None);
        assert_eq!(slab.find(second), Some(&'b'));
        assert_eq!(slab.live(), 1);
    }
}
