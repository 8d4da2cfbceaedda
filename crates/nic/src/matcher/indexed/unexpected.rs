//! The unexpected queue by class: a message is in every class in use, and a receive looks in one.
//!
//! A class comes into use when a receive or a probe of that class looks at a queue with messages in it, and goes
//! out of use when the queue becomes empty. The exact class is always in use.

use alloc::boxed::Box;
use core::mem::size_of_val;

use super::super::{Age, Entry, Item};
use super::Class;
use super::runs::{KeyRun, Runs};
use super::slots::Slots;
use crate::word::{Mask, MatchWord};

/// Messages that wait for receives.
#[derive(Debug, Default)]
pub(super) struct Unexpected {
    slots: Slots,
    exact: Runs,
    wild: Option<Box<[Runs; 3]>>,
    /// The wildcard classes in use, a bit for each.
    in_use: u8,
    /// The age of the next message, by which messages can be sorted.
    next_age: Age,
}

impl Unexpected {
    #[inline(always)]
    pub(super) fn insert(&mut self, word: MatchWord, item: Item) -> u32 {
        let at = self.slots.insert(word, self.next_age, item, Class::Exact);
        self.next_age += 1;
        self.exact.insert(KeyRun::single(at), word, &self.slots, Mask::EXACT);
        if self.in_use != 0 {
            self.each_wild(|runs, slots, mask| {
                runs.insert(KeyRun::single(at), word.masked(mask), slots, mask);
            });
        }
        at
    }

    /// Takes the oldest message that agrees with a receive of this class.
    #[inline(always)]
    pub(super) fn take(&mut self, word: MatchWord, class: Class) -> Option<Item> {
        if self.slots.len() == 0 {
            return None;
        }
        if class != Class::Exact {
            return self.take_wild(word, class);
        }
        let at = self.exact.take(word, &self.slots, Mask::EXACT, Age::MAX)?;
        Some(self.remove_from_others(at, word))
    }

    #[inline(never)]
    fn take_wild(&mut self, word: MatchWord, class: Class) -> Option<Item> {
        let at = self.find_wild(word, class)?;
        Some(self.remove(at))
    }

    /// The oldest message that agrees with a receive of this class.
    pub(super) fn oldest(&mut self, word: MatchWord, class: Class) -> Option<Item> {
        if self.slots.len() == 0 {
            return None;
        }
        let at = match class {
            Class::Exact => self.exact.oldest(word, &self.slots, Mask::EXACT)?.at,
            _ => self.find_wild(word, class)?,
        };
        Some(self.slots.slot(at).item)
    }

    fn find_wild(&mut self, word: MatchWord, class: Class) -> Option<u32> {
        let (which, mask) = (class as usize - 1, class.mask());
        if self.in_use & 1 << which == 0 {
            self.bring_into_use(class);
        }
        let wild = self.wild.as_ref().expect("a class in use has its runs");
        wild[which].oldest(word.masked(mask), &self.slots, mask).map(|found| found.at)
    }

    pub(super) fn remove(&mut self, at: u32) -> Item {
        let word = self.slots.slot(at).word;
        self.exact.remove(at, word, &self.slots, Mask::EXACT);
        self.remove_from_others(at, word)
    }

    /// Finishes the removal of a message that has left the exact class.
    #[inline(always)]
    fn remove_from_others(&mut self, at: u32, word: MatchWord) -> Item {
        if self.in_use != 0 {
            self.each_wild(|runs, slots, mask| runs.remove(at, word.masked(mask), slots, mask));
        }
        let item = self.slots.remove(at);
        if self.slots.len() == 0 {
            self.slots.forget();
            self.in_use = 0;
        }
        item
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn dump(&self, mut show: impl FnMut(Entry)) {
        for at in self.slots.by_age() {
            let slot = self.slots.slot(at);
            show(Entry { word: slot.word, mask: Mask::EXACT, item: slot.item });
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let wild = self.wild.as_ref().map_or(0, |wild| {
            size_of_val(&**wild) + wild.iter().map(Runs::heap_bytes).sum::<usize>()
        });
        wild + self.slots.heap_bytes() + self.exact.heap_bytes()
    }

    /// Applies `act` to every wildcard class in use.
    #[inline(always)]
    fn each_wild(&mut self, act: impl Fn(&mut Runs, &Slots, Mask)) {
        let wild = self.wild.as_mut().expect("a class in use has its runs");
        let mut rest = self.in_use;
        while rest != 0 {
            let which = rest.trailing_zeros() as usize;
            act(&mut wild[which], &self.slots, Class::WILD[which].mask());
            rest &= rest - 1;
        }
    }

    /// Enters the waiting messages into a class. A message is entered at most once for each class while it waits,
    /// so its cost is constant except for the sorting.
    #[cold]
    fn bring_into_use(&mut self, class: Class) {
        let which = class as usize - 1;
        let runs = &mut self.wild.get_or_insert_default()[which];
        for at in self.slots.by_age() {
            let key = self.slots.slot(at).word.masked(class.mask());
            runs.insert(KeyRun::single(at), key, &self.slots, class.mask());
        }
        self.in_use |= 1 << which;
    }
}
