//! The exact class of a queue: a table of runs, and beside it the youngest run.
//!
//! The youngest entries that have the same word are a run that the table does not know. It enters the table when an
//! entry with another word comes, all at once. So a program that receives a stream under one word, a message at a time
//! or in windows, never touches the table, and in a deep queue it costs no cache miss.

use super::super::Age;
use super::runs::{KeyRun, Runs};
use super::slots::Slots;
use crate::word::{Mask, MatchWord};

/// The entries of a queue by their whole word. Allocates nothing while empty.
#[derive(Debug, Default)]
pub(super) struct Exact {
    table: Runs,
    /// Younger than all entries of the table with the same word.
    young: Option<KeyRun>,
    /// A word that no entry of the table has. The word of a search that was in vain is often searched next, too.
    absent: Option<MatchWord>,
}

impl Exact {
    /// Adds the entry at `at` as the youngest of its word.
    #[inline(always)]
    pub(super) fn insert(&mut self, at: u32, word: MatchWord, slots: &Slots) {
        match &mut self.young {
            None => self.young = Some(KeyRun::single(at)),
            Some(young) if slots.slot(young.leader()).word == word => self.table.join(young, at),
            Some(_) => self.replace_young(at, slots),
        }
    }

    /// Removes the oldest entry with this word if it is older than `before`, and returns its slot.
    #[inline(always)]
    pub(super) fn take(&mut self, word: MatchWord, slots: &Slots, before: Age) -> Option<u32> {
        if !self.table.is_empty() && self.absent != Some(word) {
            let taken = self.table.take(word, slots, Mask::EXACT, before);
            if taken.is_some() {
                return taken;
            }
            if before == Age::MAX {
                self.absent = Some(word);
            }
        }
        let leader = self.young?.leader();
        let slot = slots.slot(leader);
        if slot.word != word || slot.age >= before {
            return None;
        }
        self.leave_young(leader);
        Some(leader)
    }

    /// Removes the entry at `at`.
    pub(super) fn remove(&mut self, at: u32, slots: &Slots) {
        let slot = slots.slot(at);
        let is_young = self.young.is_some_and(|young| {
            let leader = slots.slot(young.leader());
            leader.word == slot.word && leader.age <= slot.age
        });
        match is_young {
            true => self.leave_young(at),
            false => self.table.remove(at, slot.word, slots, Mask::EXACT),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.table.heap_bytes()
    }

    #[inline(always)]
    fn leave_young(&mut self, at: u32) {
        self.young = self.young.and_then(|young| self.table.leave(young, at));
    }

    /// The youngest run enters the table, and the entry at `at` begins another.
    #[inline(never)]
    fn replace_young(&mut self, at: u32, slots: &Slots) {
        let Some(run) = self.young.replace(KeyRun::single(at)) else { return };
        let word = slots.slot(run.leader()).word;
        self.table.insert(run, word, slots, Mask::EXACT);
        if self.absent == Some(word) {
            self.absent = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::Class;
    use super::*;

    #[derive(Default)]
    struct Queue {
        exact: Exact,
        slots: Slots,
        next_age: Age,
    }

    impl Queue {
        fn insert(&mut self, tag: u32) -> u32 {
            let at = self.slots.insert(word(tag), self.next_age, 0, Class::Exact);
            self.next_age += 1;
            self.exact.insert(at, word(tag), &self.slots);
            at
        }

        fn take(&mut self, tag: u32) -> Option<Age> {
            let at = self.exact.take(word(tag), &self.slots, Age::MAX)?;
            let age = self.slots.slot(at).age;
            self.slots.remove(at);
            Some(age)
        }

        fn remove(&mut self, at: u32) {
            self.exact.remove(at, &self.slots);
            self.slots.remove(at);
        }

        fn drain(&mut self, tag: u32) -> Vec<Age> {
            core::iter::from_fn(|| self.take(tag)).collect()
        }
    }

    fn word(tag: u32) -> MatchWord {
        MatchWord::new(1, 2, tag)
    }

    #[test]
    fn a_stream_of_one_word_never_touches_the_table() {
        let mut queue = Queue::default();
        for _ in 0..3 {
            (0..40).for_each(|_| _ = queue.insert(7));
            assert_eq!(queue.drain(7).len(), 40);
        }
        assert!(queue.exact.table.is_empty());
        assert_eq!(queue.take(8), None);
    }

    #[test]
    fn young_entries_come_after_those_of_the_table_and_join_them_in_order() {
        let mut queue = Queue::default();
        [7, 7, 8, 7, 7].iter().for_each(|&tag| _ = queue.insert(tag));
        assert_eq!(queue.take(7), Some(0));
        // The young run of two joins what is left of the older one.
        queue.insert(9);
        assert_eq!(queue.drain(7), [1, 3, 4]);
        assert_eq!([queue.take(8), queue.take(9)], [Some(2), Some(5)]);
    }

    #[test]
    fn an_entry_leaves_the_front_the_middle_or_the_back_of_the_young_run_and_of_the_older_one() {
        for gone in 0..6 {
            let mut queue = Queue::default();
            let mut places: Vec<u32> = (0..3).map(|_| queue.insert(7)).collect();
            queue.insert(8);
            places.extend((0..3).map(|_| queue.insert(7)));
            queue.remove(places[gone]);
            let mut rest = alloc::vec![0, 1, 2, 4, 5, 6];
            rest.remove(gone);
            assert_eq!(queue.drain(7), rest);
        }
    }

    #[test]
    fn a_word_that_was_absent_from_the_table_is_found_after_it_has_entered() {
        let mut queue = Queue::default();
        [8, 9, 7, 7].iter().for_each(|&tag| _ = queue.insert(tag));
        assert_eq!(queue.take(7), Some(2));
        assert_eq!(queue.exact.absent, Some(word(7)));
        queue.insert(8);
        assert_eq!(queue.drain(7), [3]);
        assert_eq!(queue.drain(8), [0, 4]);
    }
}
