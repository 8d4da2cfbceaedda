//! The posted queue by class: a receive is in one class, and a message looks in every class in use.

use alloc::boxed::Box;
use core::mem::size_of_val;

use super::super::{Age, Cell, Entry, Item};
use super::Class;
use super::exact::Exact;
use super::runs::{KeyRun, Runs};
use super::slots::{QueueSlot, Slots};
use crate::word::MatchWord;

/// Receives that wait for messages.
#[derive(Debug, Default)]
pub(super) struct PostedQueue {
    slots: Slots,
    exact: Exact,
    /// The other three classes. Ranks that never use a wildcard, which are most, do not pay for them.
    wild: Option<Box<[Runs; 3]>>,
    next_age: Age,
}

impl PostedQueue {
    #[inline(always)]
    pub(super) fn insert(&mut self, word: MatchWord, class: Class, item: Item) -> Cell {
        let key = word.masked(class.mask());
        let at = self.slots.insert(key, self.next_age, item, class);
        self.next_age += 1;
        match class {
            Class::Exact => self.exact.insert(at, key, &self.slots),
            _ => self.insert_wild(at, key, class),
        }
        Cell(at)
    }

    /// Takes the oldest receive that agrees with a message, if it is older than `before`.
    #[inline(always)]
    pub(super) fn take(&mut self, word: MatchWord, before: Age) -> Option<Item> {
        if self.slots.len() == 0 {
            return None;
        }
        let wild = self.wild.as_ref().and_then(|wild| oldest_wild(wild, &self.slots, word));
        // MPI 5.0, section 3.5: the oldest wins, even if a younger one is more specific.
        let limit = wild.map_or(before, |(_, age)| age.min(before));
        let at = match (self.exact.take(word, &self.slots, limit), wild) {
            (Some(at), _) => at,
            (None, Some((class, _))) => self.take_wild(word, class, before)?,
            (None, None) => return None,
        };
        Some(self.slots.remove(at))
    }

    #[inline(never)]
    fn take_wild(&mut self, word: MatchWord, class: Class, before: Age) -> Option<u32> {
        let runs = &mut self.wild.as_mut()?[class as usize - 1];
        runs.take(word.masked(class.mask()), &self.slots, class.mask(), before)
    }

    pub(super) fn remove(&mut self, at: u32) -> Item {
        let &QueueSlot { word: key, class, .. } = self.slots.slot(at);
        let class = class.expect("a cell is valid until its entry leaves");
        match (class, &mut self.wild) {
            (Class::Exact, _) | (_, None) => self.exact.remove(at, &self.slots),
            (_, Some(wild)) => {
                wild[class as usize - 1].remove(at, key, &self.slots, class.mask());
            }
        }
        self.slots.remove(at)
    }

    #[inline(never)]
    fn insert_wild(&mut self, at: u32, key: MatchWord, class: Class) {
        let runs = &mut self.wild.get_or_insert_default()[class as usize - 1];
        runs.insert(KeyRun::single(at), key, &self.slots, class.mask());
    }

    pub(super) fn next_age(&self) -> Age {
        self.next_age
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn dump(&self, mut show: impl FnMut(Entry)) {
        for at in self.slots.by_age() {
            let slot = self.slots.slot(at);
            let mask = slot.class.expect("a place with an entry").mask();
            show(Entry { word: slot.word, mask, item: slot.item });
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let wild = self.wild.as_ref().map_or(0, |wild| {
            size_of_val(&**wild) + wild.iter().map(Runs::heap_bytes).sum::<usize>()
        });
        wild + self.slots.heap_bytes() + self.exact.heap_bytes()
    }
}

/// The wildcard class with the oldest receive that agrees with a message, and the age of that receive.
#[inline(always)]
fn oldest_wild(wild: &[Runs; 3], slots: &Slots, word: MatchWord) -> Option<(Class, Age)> {
    let mut oldest = None;
    let mut before = Age::MAX;
    for (runs, &class) in wild.iter().zip(&Class::WILD) {
        let mask = class.mask();
        let Some(found) = runs.oldest(word.masked(mask), slots, mask) else { continue };
        let age = slots.slot(found.at).age;
        if age < before {
            before = age;
            oldest = Some((class, age));
        }
    }
    oldest
}
