//! The entries of one queue. An entry keeps its slot until it leaves.

use alloc::vec::Vec;
use core::mem::size_of;

use super::super::{Age, Item};
use super::Class;
use crate::word::MatchWord;

/// Entries by slot. Allocates nothing while empty.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<QueueSlot>,
    /// Slots that have been used since all were forgotten. Those behind them are as good as new.
    begun: u32,
    len: u32,
    /// The first slot to reuse, linked through `item`.
    free: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct QueueSlot {
    pub(super) word: MatchWord,
    pub(super) age: Age,
    pub(super) item: Item,
    /// The class of a receive; always exact for a message. `None`: the slot is free.
    pub(super) class: Option<Class>,
}

impl Slots {
    #[inline(always)]
    pub(super) fn insert(&mut self, word: MatchWord, age: Age, item: Item, class: Class) -> u32 {
        let at = match self.free {
            NONE => self.begin_place(),
            at => {
                self.free = self.slots[at as usize].item;
                at
            }
        };
        // Field by field: a value built first is written in small pieces and copied in large ones, which stalls
        // the processor.
        let slot = &mut self.slots[at as usize];
        slot.word = word;
        slot.age = age;
        slot.item = item;
        slot.class = Some(class);
        self.len += 1;
        at
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, at: u32) -> Item {
        let slot = &mut self.slots[at as usize];
        assert!(slot.class.is_some(), "place {at} has no entry to remove");
        let item = slot.item;
        slot.class = None;
        slot.item = self.free;
        self.free = at;
        self.len -= 1;
        item
    }

    /// Forgets the slots of past entries, so that the cost of [`Slots::by_age`] depends on the entries since then
    /// and not on the longest that the queue has ever been.
    #[inline]
    pub(super) fn forget(&mut self) {
        assert!(self.len == 0, "places are forgotten with {} entries in them", self.len);
        self.begun = 0;
        self.free = NONE;
    }

    #[inline]
    pub(super) fn slot(&self, at: u32) -> &QueueSlot {
        &self.slots[at as usize]
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// All occupied slots, oldest first.
    pub(super) fn by_age(&self) -> Vec<u32> {
        let begun = &self.slots[..self.begun as usize];
        let taken = (0..).zip(begun).filter(|(_, slot)| slot.class.is_some());
        let mut places: Vec<u32> = taken.map(|(at, _)| at).collect();
        places.sort_unstable_by_key(|&at| self.slot(at).age);
        places
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<QueueSlot>()
    }

    /// Takes the first slot behind those in use.
    #[inline]
    fn begin_place(&mut self) -> u32 {
        let at = self.begun;
        if at as usize == self.slots.len() {
            self.add_place();
        }
        self.begun += 1;
        at
    }

    #[cold]
    fn add_place(&mut self) {
        assert!(self.slots.len() < SLOTS_MAX as usize, "a queue has room for 2^31 entries");
        let word = MatchWord::from_bits(0);
        self.slots.push(QueueSlot { word, age: 0, item: NONE, class: None });
    }
}

impl Default for Slots {
    fn default() -> Slots {
        Slots { slots: Vec::new(), begun: 0, len: 0, free: NONE }
    }
}

const NONE: u32 = u32::MAX;
/// Slot numbers leave one bit to [`super::runs`].
const SLOTS_MAX: u32 = 1 << 31;

const _: () = assert!(size_of::<QueueSlot>() == 24);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_ages_tell_the_order() {
        let mut slots = Slots::default();
        let word = MatchWord::new(1, 2, 3);
        let places = [0, 1, 2].map(|age| slots.insert(word, age, 10, Class::Exact));
        slots.remove(places[0]);
        assert_eq!(slots.insert(word, 3, 11, Class::Exact), places[0]);
        assert_eq!(slots.by_age(), [places[1], places[2], places[0]]);
    }

    #[test]
    #[should_panic(expected = "no entry to remove")]
    fn an_entry_leaves_once() {
        let mut slots = Slots::default();
        let at = slots.insert(MatchWord::new(1, 2, 3), 0, 10, Class::Exact);
        slots.remove(at);
        slots.remove(at);
    }
}
