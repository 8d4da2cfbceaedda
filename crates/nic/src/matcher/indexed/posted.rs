//! The posted queue by class: a receive is in one class, and a message asks every class in use.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::size_of_val;

use super::super::{Age, Cell, Entry, Item};
use super::Class;
use super::index::Index;
use crate::word::MatchWord;

/// Receives that wait for messages.
#[derive(Debug, Default)]
pub(super) struct Posted {
    exact: Index,
    /// The other three classes. Most ranks never use a wildcard and never pay for these.
    wild: Option<Box<[Index; 3]>>,
    next_age: Age,
}

impl Posted {
    #[inline]
    pub(super) fn insert(&mut self, word: MatchWord, class: Class, item: Item) -> Cell {
        let age = self.next_age;
        self.next_age += 1;
        let at = self.index(class).insert(word.masked(class.mask()), age, item);
        Cell(at << 2 | class as u32)
    }

    /// Takes the oldest receive that agrees with a message, if it is older than `before`.
    #[inline]
    pub(super) fn take(&mut self, word: MatchWord, before: Age) -> Option<Item> {
        let (mut oldest, mut found) = (before, None);
        for (class, index) in self.classes() {
            let Some(at) = index.oldest(word.masked(class.mask())) else { continue };
            // MPI 5.0, section 3.5: the oldest wins, even if a younger one is more specific.
            if index.slot(at).age < oldest {
                (oldest, found) = (index.slot(at).age, Some((class, at)));
            }
        }
        found.map(|(class, at)| self.index(class).remove(at))
    }

    pub(super) fn remove(&mut self, cell: Cell) -> Item {
        self.index(Class::ALL[(cell.0 & 3) as usize]).remove(cell.0 >> 2)
    }

    pub(super) fn next_age(&self) -> Age {
        self.next_age
    }

    pub(super) fn len(&self) -> usize {
        self.classes().map(|(_, index)| index.len()).sum()
    }

    pub(super) fn dump(&self, show: impl FnMut(Entry)) {
        let mut entries: Vec<(Age, Entry)> = Vec::with_capacity(self.len());
        for (class, index) in self.classes() {
            entries.extend(index.entries().map(|(_, slot)| {
                (slot.age, Entry { word: slot.key, mask: class.mask(), item: slot.item })
            }));
        }
        entries.sort_unstable_by_key(|&(age, _)| age);
        entries.into_iter().map(|(_, entry)| entry).for_each(show);
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let wild = self.wild.as_ref().map_or(0, |wild| size_of_val(&**wild));
        wild + self.classes().map(|(_, index)| index.heap_bytes()).sum::<usize>()
    }

    #[inline]
    fn index(&mut self, class: Class) -> &mut Index {
        match class.wild() {
            None => &mut self.exact,
            Some(which) => &mut self.wild.get_or_insert_default()[which],
        }
    }

    #[inline]
    fn classes(&self) -> impl Iterator<Item = (Class, &Index)> {
        let wild = self.wild.iter().flat_map(|wild| Class::WILD.into_iter().zip(&**wild));
        core::iter::once((Class::Exact, &self.exact)).chain(wild)
    }
}
