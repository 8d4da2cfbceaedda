//! The unexpected queue by class: a message is in every class in use, and a receive asks one.
//!
//! Every message is in the exact index, which chooses its place; the indexes of other classes
//! keep it at the same place, so that a message found in one is removed from all without a search.
//! A class comes into use when a receive or a probe of that class looks at a queue with messages
//! in it, and goes out of use when the queue runs empty.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::size_of_val;

use super::super::{Age, Entry, Item};
use super::Class;
use super::index::Index;
use crate::word::{Mask, MatchWord};

/// Messages that wait for receives.
#[derive(Debug, Default)]
pub(super) struct Unexpected {
    exact: Index,
    wild: Option<Box<[Index; 3]>>,
    in_use: [bool; 3],
    /// Counts messages, so that they can be put in order again.
    next_age: Age,
}

impl Unexpected {
    #[inline]
    pub(super) fn insert(&mut self, word: MatchWord, item: Item) -> u32 {
        let age = self.next_age;
        self.next_age += 1;
        let at = self.exact.insert(word, age, item);
        for (class, index) in wild_in_use(&mut self.wild, self.in_use) {
            index.insert_at(at, word.masked(class.mask()), age, item);
        }
        at
    }

    /// The place and name of the oldest message that agrees with a receive of this class.
    #[inline]
    pub(super) fn oldest(&mut self, word: MatchWord, class: Class) -> Option<(u32, Item)> {
        if self.exact.is_empty() {
            return None;
        }
        let index = match class.wild() {
            None => &self.exact,
            Some(which) => self.wild(class, which),
        };
        let at = index.oldest(word.masked(class.mask()))?;
        Some((at, index.slot(at).item))
    }

    #[inline]
    pub(super) fn remove(&mut self, at: u32) -> Item {
        for (_, index) in wild_in_use(&mut self.wild, self.in_use) {
            index.remove_at(at);
        }
        let item = self.exact.remove(at);
        if self.exact.is_empty() {
            self.run_empty();
        }
        item
    }

    pub(super) fn len(&self) -> usize {
        self.exact.len()
    }

    pub(super) fn dump(&self, mut show: impl FnMut(Entry)) {
        for at in self.by_age() {
            let slot = self.exact.slot(at);
            show(Entry { word: slot.key, mask: Mask::EXACT, item: slot.item });
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let wild = self.wild.as_ref().map_or(0, |wild| {
            size_of_val(&**wild) + wild.iter().map(Index::heap_bytes).sum::<usize>()
        });
        wild + self.exact.heap_bytes()
    }

    /// The index of a class that a receive asks, filled with the waiting messages if it was not in
    /// use. A message is entered so at most once for each class while it waits.
    #[inline]
    fn wild(&mut self, class: Class, which: usize) -> &Index {
        if !self.in_use[which] {
            self.bring_into_use(class, which);
        }
        &self.wild.as_ref().expect("a class in use has an index")[which]
    }

    #[cold]
    fn bring_into_use(&mut self, class: Class, which: usize) {
        let waiting = self.by_age();
        let index = &mut self.wild.get_or_insert_default()[which];
        for at in waiting {
            let slot = self.exact.slot(at);
            index.insert_at(at, slot.key.masked(class.mask()), slot.age, slot.item);
        }
        self.in_use[which] = true;
    }

    /// Forgets the classes in use, and the places, so that [`Unexpected::by_age`] costs what came
    /// since and not the longest the queue has ever been.
    #[inline]
    fn run_empty(&mut self) {
        self.exact.forget();
        for (_, index) in wild_in_use(&mut self.wild, self.in_use) {
            index.forget();
        }
        self.in_use = [false; 3];
    }

    fn by_age(&self) -> Vec<u32> {
        let mut places: Vec<u32> = self.exact.entries().map(|(at, _)| at).collect();
        places.sort_unstable_by_key(|&at| self.exact.slot(at).age);
        places
    }
}

/// The wild classes in use. Takes fields instead of the queue, which lends its exact index too.
#[inline]
fn wild_in_use(
    wild: &mut Option<Box<[Index; 3]>>,
    in_use: [bool; 3],
) -> impl Iterator<Item = (Class, &mut Index)> {
    let classes = wild.iter_mut().flat_map(|wild| Class::WILD.into_iter().zip(&mut **wild));
    classes.zip(in_use).filter_map(|(class, in_use)| in_use.then_some(class))
}
