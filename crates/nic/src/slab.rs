//! Slots that are claimed and released, named by index and generation.
//!
//! A released slot is reused under another generation, so that a stale ticket (in a late frame, say) finds nothing
//! instead of another operation.

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
    state: SlotState<T>,
}

#[derive(Debug)]
enum SlotState<T> {
    Free { next: u32 },
    Used(T),
}

const NONE: u32 = u32::MAX;

impl<T> Slab<T> {
    pub(crate) const fn new() -> Slab<T> {
        Slab { slots: Vec::new(), free: NONE, live: 0 }
    }

    /// Index of the slot that the next claim will use.
    #[inline]
    pub(crate) fn next_index(&self) -> u32 {
        if self.free == NONE { self.len() } else { self.free }
    }

    /// The ticket that the next claim will return.
    #[inline]
    pub(crate) fn next_ticket(&self) -> Ticket {
        match self.slots.get(self.free as usize) {
            Some(slot) => Ticket { index: self.free, generation: slot.generation },
            None => Ticket { index: self.len(), generation: 1 },
        }
    }

    #[inline(always)]
    pub(crate) fn claim(&mut self, value: T) -> Ticket {
        self.live += 1;
        if self.free == NONE {
            return self.add(value);
        }
        let index = self.free;
        let slot = &mut self.slots[index as usize];
        let SlotState::Free { next } = slot.state else { unreachable!("a free slot is free") };
        self.free = next;
        slot.state = SlotState::Used(value);
        Ticket { index, generation: slot.generation }
    }

    #[cold]
    fn add(&mut self, value: T) -> Ticket {
        let index = self.len();
        self.grow();
        self.slots.push(Slot { generation: 1, state: SlotState::Used(value) });
        Ticket { index, generation: 1 }
    }

    fn len(&self) -> u32 {
        u32::try_from(self.slots.len()).expect("fewer than 2^32 slots")
    }

    pub(crate) fn release(&mut self, ticket: Ticket) -> Option<T> {
        let slot = self.slots.get_mut(ticket.index as usize)?;
        if slot.generation != ticket.generation || matches!(slot.state, SlotState::Free { .. }) {
            return None;
        }
        let old = core::mem::replace(&mut slot.state, SlotState::Free { next: self.free });
        slot.generation = slot.generation.wrapping_add(1);
        self.free = ticket.index;
        self.live -= 1;
        match old {
            SlotState::Used(value) => Some(value),
            SlotState::Free { .. } => None,
        }
    }

    /// Releases a slot after `look` has read the value. The value is not moved: it may be large.
    #[inline]
    pub(crate) fn discard<R>(&mut self, ticket: Ticket, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.find(ticket)?;
        self.discard_at(ticket.index, |_, value| Some(look(value)))
    }

    /// Releases the slot at `index`, which must be in use, if `look` returns something. The value is not moved.
    #[inline(always)]
    pub(crate) fn discard_at<R>(
        &mut self,
        index: u32,
        look: impl FnOnce(Ticket, &T) -> Option<R>,
    ) -> Option<R> {
        let slot = &mut self.slots[index as usize];
        let SlotState::Used(value) = &slot.state else { unreachable!("the slot is in use") };
        let seen = look(Ticket { index, generation: slot.generation }, value)?;
        slot.state = SlotState::Free { next: self.free };
        slot.generation = slot.generation.wrapping_add(1);
        self.free = index;
        self.live -= 1;
        Some(seen)
    }

    #[inline]
    pub(crate) fn find(&self, ticket: Ticket) -> Option<&T> {
        match self.slots.get(ticket.index as usize) {
            Some(Slot { generation, state: SlotState::Used(value) })
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
            Some(Slot { generation, state: SlotState::Used(value) })
                if *generation == ticket.generation =>
            {
                Some(value)
            }
            _ => None,
        }
    }

    /// The ticket of the slot at `index`, which must be in use.
    #[inline]
    pub(crate) fn ticket_at(&self, index: u32) -> Ticket {
        Ticket { index, generation: self.slots[index as usize].generation }
    }

    #[inline]
    pub(crate) fn live(&self) -> usize {
        self.live as usize
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ticket, &T)> {
        (0u32..).zip(&self.slots).filter_map(|(index, slot)| match &slot.state {
            SlotState::Used(value) => Some((Ticket { index, generation: slot.generation }, value)),
            SlotState::Free { .. } => None,
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| match &mut slot.state {
            SlotState::Used(value) => Some(value),
            SlotState::Free { .. } => None,
        })
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<T>>()
    }

    /// Grows by a quarter: with a million NICs in one machine, doubling costs too much.
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
        let expected = slab.next_ticket();
        let first = slab.claim('a');
        assert_eq!(first, expected);
        assert_eq!(slab.release(first), Some('a'));
        let expected = slab.next_ticket();
        let second = slab.claim('b');
        assert_eq!(second, expected);
        assert_eq!(first.index, second.index);
        assert_eq!(slab.find(first), None);
        assert_eq!(slab.release(first), None);
        assert_eq!(slab.find(second), Some(&'b'));
        assert_eq!(slab.live(), 1);
    }
}
