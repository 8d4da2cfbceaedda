//! A model of an associative list processing unit (ALPU): matching as hardware does it.
//!
//! Each queue has a unit whose cells compare a match word all at once, and software that keeps the whole queue,
//! commands the unit and searches what the unit could not hold. It matches like any other matcher, with any mask;
//! its purpose is [`Matcher::work`], from which a simulation computes how long the hardware would have taken.

mod spill;
mod unit;

pub use unit::{Command, Response};

use super::{Age, Arrival, Cell, Entry, Item, Matcher, Post, Queue, Work};
use crate::word::{Mask, MatchWord};
use spill::Spill;

/// Two queues, each with an associative unit of `CELLS` cells, in blocks of `BLOCK`, at its front.
///
/// `LEAST` is the heuristic of the software: so many entries must have spilled, and so many cells be free, before it
/// loads them. With 1 it has none: every entry is loaded at once, and the unit is asked even if it is empty.
#[derive(Debug, Default)]
pub struct Alpu<const CELLS: usize = 256, const BLOCK: usize = 16, const LEAST: usize = 16> {
    posted: Spill<CELLS, BLOCK, LEAST>,
    unexpected: Spill<CELLS, BLOCK, LEAST>,
}

impl<const CELLS: usize, const BLOCK: usize, const LEAST: usize> Alpu<CELLS, BLOCK, LEAST> {
    fn queue(&self, queue: Queue) -> &Spill<CELLS, BLOCK, LEAST> {
        match queue {
            Queue::Posted => &self.posted,
            Queue::Unexpected => &self.unexpected,
        }
    }
}

impl<const CELLS: usize, const BLOCK: usize, const LEAST: usize> Matcher
    for Alpu<CELLS, BLOCK, LEAST>
{
    fn post(&mut self, word: MatchWord, mask: Mask, item: Item) -> Post {
        match self.take(word, mask) {
            Some(message) => Post::Matched(message),
            None => {
                let entry = Entry { word: word.masked(mask), mask, item };
                Post::Waiting(Cell(self.posted.append(entry)))
            }
        }
    }

    fn arrive(
        &mut self,
        word: MatchWord,
        before: Age,
        keep: impl FnOnce() -> Option<Item>,
    ) -> Arrival {
        if let Some(receive) = self.posted.take(word, Mask::EXACT, before) {
            return Arrival::Matched(receive);
        }
        let Some(item) = keep() else { return Arrival::Refused };
        let entry = Entry { word, mask: Mask::EXACT, item };
        Arrival::Waiting(Cell(self.unexpected.append(entry)))
    }

    fn probe(&mut self, word: MatchWord, mask: Mask) -> Option<Item> {
        self.unexpected.find(word, mask)
    }

    fn take(&mut self, word: MatchWord, mask: Mask) -> Option<Item> {
        // The reverse lookup: the cells are exact, and the lookup carries the mask.
        self.unexpected.take(word, mask, Age::MAX)
    }

    fn remove_receive(&mut self, cell: Cell) -> Item {
        self.posted.remove(cell.0)
    }

    fn remove_message(&mut self, cell: Cell) -> Item {
        self.unexpected.remove(cell.0)
    }

    fn next_age(&self) -> Age {
        self.posted.next_age()
    }

    fn len(&self, queue: Queue) -> usize {
        self.queue(queue).len()
    }

    fn dump(&self, queue: Queue, show: impl FnMut(Entry)) {
        self.queue(queue).entries().for_each(show);
    }

    fn work(&self, queue: Queue) -> Work {
        self.queue(queue).work()
    }

    fn heap_bytes(&self) -> usize {
        self.posted.heap_bytes() + self.unexpected.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_may_have_any_bits() {
        let mut alpu = <Alpu>::default();
        let odd = Mask::from_bits(1);
        for tag in 0..40 {
            alpu.post(MatchWord::new(1, 2, tag), odd, tag);
        }
        for tag in [1, 3, 5] {
            let arrival = alpu.arrive(MatchWord::new(9, 9, 99), Age::MAX, || None);
            assert_eq!(arrival, Arrival::Matched(tag));
        }
        assert_eq!(alpu.arrive(MatchWord::new(9, 9, 98), Age::MAX, || None), Arrival::Matched(0));
        assert_eq!(alpu.work(Queue::Posted).successes, 4);
    }

    #[test]
    fn messages_are_found_by_the_mask_of_the_receive() {
        let mut alpu = <Alpu>::default();
        for tag in 0..40 {
            alpu.arrive(MatchWord::new(1, tag % 4, tag), Age::MAX, || Some(tag));
        }
        assert_eq!(alpu.probe(MatchWord::new(1, 3, 0), Mask::ANY_TAG), Some(3));
        assert_eq!(alpu.take(MatchWord::new(1, 3, 0), Mask::ANY_TAG), Some(3));
        assert_eq!(alpu.take(MatchWord::new(1, 3, 0), Mask::ANY_TAG), Some(7));
        assert_eq!(alpu.post(MatchWord::new(1, 0, 39), Mask::ANY_SOURCE, 99), Post::Matched(39));
    }

    #[test]
    fn it_holds_no_memory_until_something_waits() {
        assert_eq!(<Alpu>::default().heap_bytes(), 0);
    }
}
