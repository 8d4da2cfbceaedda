//! The matcher in use: constant time in the depth of both queues, wildcards included.
//!
//! MPI has four kinds of receive. Each is a *class*, in which a receive is found by the bits that it insists on. A
//! receive enters one class of the posted queue, so an arriving message looks at no more than four entries, the
//! oldest of each class, and takes the oldest of those. For unexpected messages it is the other way round: a
//! message is in every class in use, and a receive looks in its own.
//!
//! Any other mask is a bug of the caller: [`super::Alpu`] takes such masks.

mod exact;
mod posted;
mod runs;
mod slots;
mod unexpected;

use super::{Age, Arrival, Cell, Entry, Item, Matcher, Post, Queue};
use crate::word::{Mask, MatchWord};
use posted::PostedQueue;
use unexpected::Unexpected;

/// Both queues, indexed by class. Allocates nothing while empty: a million ranks each have one.
///
/// Takes the four masks of MPI: [`Mask::EXACT`], [`Mask::ANY_SOURCE`], [`Mask::ANY_TAG`] and [`Mask::ANY_BOTH`].
/// Any other makes it panic.
#[derive(Debug, Default)]
pub struct Indexed {
    posted: PostedQueue,
    unexpected: Unexpected,
}

impl Matcher for Indexed {
    #[inline(always)]
    fn post(&mut self, word: MatchWord, mask: Mask, item: Item) -> Post {
        let class = Class::of(mask);
        match self.unexpected.take(word, class) {
            Some(message) => Post::Matched(message),
            None => Post::Waiting(self.posted.insert(word, class, item)),
        }
    }

    #[inline]
    fn arrive(
        &mut self,
        word: MatchWord,
        before: Age,
        keep: impl FnOnce() -> Option<Item>,
    ) -> Arrival {
        if let Some(receive) = self.posted.take(word, before) {
            return Arrival::Matched(receive);
        }
        match keep() {
            Some(item) => Arrival::Waiting(Cell(self.unexpected.insert(word, item))),
            None => Arrival::Refused,
        }
    }

    fn probe(&mut self, word: MatchWord, mask: Mask) -> Option<Item> {
        self.unexpected.oldest(word, Class::of(mask))
    }

    #[inline]
    fn take(&mut self, word: MatchWord, mask: Mask) -> Option<Item> {
        self.unexpected.take(word, Class::of(mask))
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

    #[inline]
    fn len(&self, queue: Queue) -> usize {
        match queue {
            Queue::Posted => self.posted.len(),
            Queue::Unexpected => self.unexpected.len(),
        }
    }

    fn dump(&self, queue: Queue, show: impl FnMut(Entry)) {
        match queue {
            Queue::Posted => self.posted.dump(show),
            Queue::Unexpected => self.unexpected.dump(show),
        }
    }

    fn heap_bytes(&self) -> usize {
        self.posted.heap_bytes() + self.unexpected.heap_bytes()
    }
}

/// The kinds of receive, by their wildcards. Those with wildcards are numbered from one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Class {
    Exact,
    AnySource,
    AnyTag,
    AnyBoth,
}

impl Class {
    const WILD: [Class; 3] = [Class::AnySource, Class::AnyTag, Class::AnyBoth];

    #[inline]
    fn of(mask: Mask) -> Class {
        match mask {
            Mask::EXACT => Class::Exact,
            Mask::ANY_SOURCE => Class::AnySource,
            Mask::ANY_TAG => Class::AnyTag,
            Mask::ANY_BOTH => Class::AnyBoth,
            _ => panic!("mask {:#018x} is none of the four of MPI", mask.bits()),
        }
    }

    #[inline]
    const fn mask(self) -> Mask {
        match self {
            Class::Exact => Mask::EXACT,
            Class::AnySource => Mask::ANY_SOURCE,
            Class::AnyTag => Mask::ANY_TAG,
            Class::AnyBoth => Mask::ANY_BOTH,
        }
    }
}

const _: () = assert!(size_of::<Indexed>() <= 264);

#[cfg(test)]
mod tests {
    use super::*;

    const MASKS: [Mask; 4] = [Mask::EXACT, Mask::ANY_SOURCE, Mask::ANY_TAG, Mask::ANY_BOTH];

    fn word(source: u32, tag: u32) -> MatchWord {
        MatchWord::new(1, source, tag)
    }

    #[test]
    fn the_oldest_receive_wins_whatever_its_class() {
        for first in MASKS {
            for second in MASKS {
                let mut matcher = Indexed::default();
                matcher.post(word(2, 3), first, 10);
                matcher.post(word(2, 3), second, 11);
                assert_eq!(matcher.arrive(word(2, 3), Age::MAX, || None), Arrival::Matched(10));
                assert_eq!(matcher.arrive(word(2, 3), Age::MAX, || None), Arrival::Matched(11));
            }
        }
    }

    #[test]
    fn a_receive_finds_messages_that_came_before_its_class_was_in_use() {
        for mask in MASKS {
            let mut matcher = Indexed::default();
            let cells = [10, 11, 12].map(|item| {
                let Arrival::Waiting(cell) = matcher.arrive(word(2, 3), Age::MAX, || Some(item))
                else {
                    panic!("no receive is posted")
                };
                cell
            });
            // The last message reuses the slot of the first, and must still come last.
            matcher.remove_message(cells[0]);
            matcher.arrive(word(2, 3), Age::MAX, || Some(13));
            let taken = [(); 4].map(|()| matcher.take(word(2, 3), mask));
            assert_eq!(taken, [Some(11), Some(12), Some(13), None]);
        }
    }

    #[test]
    fn a_class_out_of_use_comes_back() {
        let mut matcher = Indexed::default();
        for round in 0..3 {
            matcher.arrive(word(2, 3), Age::MAX, || Some(round));
            assert_eq!(matcher.probe(word(0, 3), Mask::ANY_SOURCE), Some(round));
            matcher.arrive(word(4, 3), Age::MAX, || Some(round + 10));
            assert_eq!(matcher.take(word(2, 3), Mask::EXACT), Some(round));
            assert_eq!(matcher.take(word(0, 3), Mask::ANY_SOURCE), Some(round + 10));
            assert_eq!(matcher.probe(word(0, 3), Mask::ANY_SOURCE), None);
        }
    }

    #[test]
    fn a_cancelled_receive_is_gone_from_its_class() {
        for mask in MASKS {
            let mut matcher = Indexed::default();
            let Post::Waiting(cell) = matcher.post(word(2, 3), mask, 10) else {
                panic!("no message waits")
            };
            assert_eq!(matcher.remove_receive(cell), 10);
            assert_eq!(matcher.arrive(word(2, 3), Age::MAX, || None), Arrival::Refused);
        }
    }

    #[test]
    fn it_holds_no_memory_until_something_waits() {
        let mut matcher = Indexed::default();
        assert_eq!(matcher.take(word(2, 3), Mask::ANY_BOTH), None);
        assert_eq!(matcher.arrive(word(2, 3), Age::MAX, || None), Arrival::Refused);
        assert_eq!(matcher.heap_bytes(), 0);
    }

    #[test]
    #[should_panic(expected = "none of the four")]
    fn other_masks_are_a_bug() {
        Indexed::default().post(word(2, 3), Mask::from_bits(1), 10);
    }
}
