//! Matching: which receive gets which message.
//!
//! A matcher owns both queues of a queue pair, the posted receives and the unexpected messages, and each call that
//! searches one also appends to the other when it finds nothing. Search and append are therefore one step by
//! construction: no message can slip between them.
//!
//! There are three matchers. [`Indexed`] is the one in use, constant time in the depth of the queues. [`Alpu`]
//! models an associative unit in hardware and takes any mask. [`List`] is the plain list that defines what is
//! right.

pub mod alpu;
mod indexed;
mod list;

pub use alpu::Alpu;
pub use indexed::Indexed;
pub use list::List;

use crate::word::{Mask, MatchWord};

/// The owner's number for a queue entry: the matcher stores it and gives it back.
pub type Item = u32;

/// Where a matcher keeps an entry; the key for removing it. Valid until the entry leaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cell(pub u32);

/// Position of a receive in the order of posting. Lower is older.
pub type Age = u64;

/// The result of posting a receive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Post {
    /// This unexpected message matches, and has left its queue.
    Matched(Item),
    /// No message matches: the receive is in the posted queue.
    Waiting(Cell),
}

/// The result of a message's arrival.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arrival {
    /// This receive matches, and has left its queue.
    Matched(Item),
    /// No receive matches: the message is in the unexpected queue.
    Waiting(Cell),
    /// No receive matches, and the owner had no room to store the message.
    Refused,
}

/// One of the two queues of a pair.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Queue {
    /// Receives that wait for messages.
    Posted,
    /// Messages that wait for receives.
    Unexpected,
}

/// One entry of a queue, as [`Matcher::dump`] shows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The word of the message or receive; bits outside the mask are zero.
    pub word: MatchWord,
    /// The bits that a receive insists on; [`Mask::EXACT`] for a message.
    pub mask: Mask,
    /// The owner's number for the entry.
    pub item: Item,
}

/// What a matcher has done so far in one queue: the events that a model of its time weighs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Work {
    /// Entries that software has compared, one after the other.
    pub searched: u64,
    /// Lookups in an associative unit, counting held ones again when they are repeated.
    pub looks: u64,
    /// Lookups that found a cell.
    pub successes: u64,
    /// Lookups that failed in insert mode and were held.
    pub held: u64,
    /// Entries into insert mode.
    pub insert_modes: u64,
    /// Cells filled.
    pub inserts: u64,
    /// Times that all cells were emptied.
    pub resets: u64,
    /// Entries that are in the unit now, the oldest of the queue: software does not search them.
    pub loaded: usize,
}

impl Work {
    /// The work of both.
    #[must_use]
    pub fn and(self, other: Work) -> Work {
        Work {
            searched: self.searched + other.searched,
            looks: self.looks + other.looks,
            successes: self.successes + other.successes,
            held: self.held + other.held,
            insert_modes: self.insert_modes + other.insert_modes,
            inserts: self.inserts + other.inserts,
            resets: self.resets + other.resets,
            loaded: self.loaded + other.loaded,
        }
    }
}

/// A pair of queues with MPI's order: the oldest entry that agrees wins, however specific a
/// younger one may be (MPI 5.0, section 3.5).
pub trait Matcher: Default {
    /// Finds the oldest unexpected message that agrees with a receive, and removes it from its queue. If there is
    /// none, the receive joins the posted queue as `item`.
    fn post(&mut self, word: MatchWord, mask: Mask, item: Item) -> Post;

    /// Finds the oldest posted receive that agrees with a message and is older than `before`, and removes it from
    /// its queue. If there is none, `keep` decides: the message joins the unexpected queue under the number that
    /// `keep` returns, or is refused.
    ///
    /// If the oldest receive that agrees is not older than `before`, none is.
    fn arrive(
        &mut self,
        word: MatchWord,
        before: Age,
        keep: impl FnOnce() -> Option<Item>,
    ) -> Arrival;

    /// The oldest unexpected message that agrees. It stays in its queue.
    fn probe(&mut self, word: MatchWord, mask: Mask) -> Option<Item>;

    /// Removes the oldest unexpected message that agrees (a matched probe).
    fn take(&mut self, word: MatchWord, mask: Mask) -> Option<Item>;

    /// Removes a receive from anywhere in the posted queue.
    fn remove_receive(&mut self, cell: Cell) -> Item;

    /// Removes a message from anywhere in the unexpected queue.
    fn remove_message(&mut self, cell: Cell) -> Item;

    /// The age of the next receive that waits.
    fn next_age(&self) -> Age;

    /// The number of entries in `queue`.
    fn len(&self, queue: Queue) -> usize;

    /// Shows every entry of `queue`, oldest first.
    fn dump(&self, queue: Queue, show: impl FnMut(Entry));

    /// What the matcher has done so far in `queue`. Nothing, if it does not count.
    fn work(&self, _queue: Queue) -> Work {
        Work::default()
    }

    /// Bytes of memory that the matcher holds besides its own value.
    fn heap_bytes(&self) -> usize;
}
