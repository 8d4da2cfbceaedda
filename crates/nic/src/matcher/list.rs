//! The plain list: the reference for every other matcher.
//!
//! Both queues are kept in order of age and searched from the front. Nothing here is fast, and everything is meant
//! to be obviously right.

use alloc::collections::VecDeque;
use core::mem::size_of;

use super::{Age, Arrival, Cell, Entry, Item, Matcher, Post, Queue, Work};
use crate::word::{Mask, MatchWord};

/// Two lists in order of age, searched from the front. Takes any mask.
#[derive(Debug, Default)]
pub struct List {
    posted: VecDeque<Waiting>,
    unexpected: VecDeque<Waiting>,
    next_age: Age,
    next_cell: u32,
    /// Entries compared, in the posted queue and in the unexpected one.
    searched: [u64; 2],
}

/// An entry of either queue; `age` is used for receives only.
#[derive(Debug)]
struct Waiting {
    entry: Entry,
    age: Age,
    cell: Cell,
}

impl List {
    /// Numbers the entries in order. The numbers repeat after 2^32 entries, more than a list ever gets.
    fn claim_cell(&mut self) -> Cell {
        self.next_cell = self.next_cell.wrapping_add(1);
        Cell(self.next_cell)
    }

    fn find_message(&mut self, wanted: MatchWord, mask: Mask) -> Option<usize> {
        let agrees = |message: &Waiting| message.entry.word.agrees(wanted, mask);
        search(&self.unexpected, &mut self.searched[Queue::Unexpected as usize], agrees)
    }

    fn find_receive(&mut self, word: MatchWord, before: Age) -> Option<usize> {
        let agrees = |receive: &Waiting| {
            receive.age < before && word.agrees(receive.entry.word, receive.entry.mask)
        };
        search(&self.posted, &mut self.searched[Queue::Posted as usize], agrees)
    }
}

impl Matcher for List {
    fn post(&mut self, word: MatchWord, mask: Mask, item: Item) -> Post {
        if let Some(message) = self.take(word, mask) {
            return Post::Matched(message);
        }
        let cell = self.claim_cell();
        let entry = Entry { word: word.masked(mask), mask, item };
        self.posted.push_back(Waiting { entry, age: self.next_age, cell });
        self.next_age += 1;
        Post::Waiting(cell)
    }

    fn arrive(
        &mut self,
        word: MatchWord,
        before: Age,
        keep: impl FnOnce() -> Option<Item>,
    ) -> Arrival {
        if let Some(at) = self.find_receive(word, before) {
            return Arrival::Matched(remove_at(&mut self.posted, at));
        }
        let Some(item) = keep() else { return Arrival::Refused };
        let cell = self.claim_cell();
        let entry = Entry { word, mask: Mask::EXACT, item };
        self.unexpected.push_back(Waiting { entry, age: 0, cell });
        Arrival::Waiting(cell)
    }

    fn probe(&mut self, word: MatchWord, mask: Mask) -> Option<Item> {
        self.find_message(word, mask).map(|at| self.unexpected[at].entry.item)
    }

    fn take(&mut self, word: MatchWord, mask: Mask) -> Option<Item> {
        self.find_message(word, mask).map(|at| remove_at(&mut self.unexpected, at))
    }

    fn remove_receive(&mut self, cell: Cell) -> Item {
        remove_cell(&mut self.posted, cell)
    }

    fn remove_message(&mut self, cell: Cell) -> Item {
        remove_cell(&mut self.unexpected, cell)
    }

    fn next_age(&self) -> Age {
        self.next_age
    }

    fn len(&self, queue: Queue) -> usize {
        match queue {
            Queue::Posted => self.posted.len(),
            Queue::Unexpected => self.unexpected.len(),
        }
    }

    fn dump(&self, queue: Queue, mut show: impl FnMut(Entry)) {
        let entries = match queue {
            Queue::Posted => &self.posted,
            Queue::Unexpected => &self.unexpected,
        };
        entries.iter().for_each(|waiting| show(waiting.entry));
    }

    fn work(&self, queue: Queue) -> Work {
        Work { searched: self.searched[queue as usize], ..Work::default() }
    }

    fn heap_bytes(&self) -> usize {
        (self.posted.capacity() + self.unexpected.capacity()) * size_of::<Waiting>()
    }
}

/// The position of the oldest entry that agrees. Counts the entries compared.
fn search(
    queue: &VecDeque<Waiting>,
    searched: &mut u64,
    agrees: impl Fn(&Waiting) -> bool,
) -> Option<usize> {
    let found = queue.iter().position(agrees);
    *searched += found.map_or(queue.len(), |at| at + 1) as u64;
    found
}

fn remove_at(queue: &mut VecDeque<Waiting>, at: usize) -> Item {
    queue.remove(at).expect("a position that a search returned").entry.item
}

fn remove_cell(queue: &mut VecDeque<Waiting>, cell: Cell) -> Item {
    let at = queue.iter().position(|waiting| waiting.cell == cell);
    remove_at(queue, at.expect("a cell is valid until its entry leaves"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_receive_wins_however_specific_a_younger_one_is() {
        let mut list = List::default();
        let word = MatchWord::new(1, 2, 3);
        list.post(word, Mask::ANY_BOTH, 10);
        list.post(word, Mask::EXACT, 11);
        assert_eq!(list.arrive(word, Age::MAX, || None), Arrival::Matched(10));
        assert_eq!(list.arrive(word, Age::MAX, || None), Arrival::Matched(11));
        assert_eq!(list.arrive(word, Age::MAX, || None), Arrival::Refused);
    }

    #[test]
    fn a_receive_that_is_too_young_does_not_count() {
        let mut list = List::default();
        let word = MatchWord::new(1, 2, 3);
        list.post(word, Mask::EXACT, 10);
        assert_eq!(list.arrive(word, 0, || None), Arrival::Refused);
        assert_eq!(list.arrive(word, 1, || None), Arrival::Matched(10));
    }

    #[test]
    fn it_counts_the_entries_that_it_compares() {
        let mut list = List::default();
        for tag in 0..10 {
            list.post(MatchWord::new(1, 2, tag), Mask::EXACT, tag);
        }
        list.arrive(MatchWord::new(1, 2, 6), Age::MAX, || None);
        list.arrive(MatchWord::new(1, 2, 99), Age::MAX, || None);
        assert_eq!(list.work(Queue::Posted).searched, 7 + 9);
        assert_eq!(list.work(Queue::Unexpected).searched, 0);
    }
}
