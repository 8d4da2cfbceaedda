//! Matching: which receive gets which message.
//!
//! A matcher owns both queues of a queue pair, the posted receives and the unexpected messages,
//! and each call that searches one also appends to the other when it finds nothing. Search and
//! append are therefore one step by construction: no message can slip between them.
//!
//! Three matchers keep this promise. [`Indexed`] is the one in use, constant time in the depth of
//! the queues. [`Alpu`] models the associative unit of the first document and takes any mask.
//! [`List`] is the plain list that says what is right.

pub mod alpu;
mod indexed;
mod list;

pub use alpu::Alpu;
pub use indexed::Indexed;
pub use list::List;

use crate::word::{Mask, MatchWord};

/// What the owner of a queue entry calls it: the matcher stores it and gives it back.
pub type Item = u32;

/// Where a matcher keeps an entry; the key for removing it. Valid until the entry leaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cell(pub u32);

/// Position of a receive in the order of posting. Lower is older.
pub type Age = u64;

/// What became of a receive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Post {
    /// This unexpected message was waiting for it, and has left its queue.
    Matched(Item),
    /// Nothing was waiting: the receive is in the posted queue.
    Waiting(Cell),
}

/// What became of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arrival {
    /// This receive was waiting for it, and has left its queue.
    Matched(Item),
    /// No receive wanted it: the message is in the unexpected queue.
    Waiting(Cell),
    /// No receive wanted it and its owner had no room to keep it.
    Refused,
}

/// Which of the two queues of a pair.
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
    /// What the message says, or what the receive wants; bits outside the mask are zero.
    pub word: MatchWord,
    /// The bits that a receive insists on; [`Mask::EXACT`] for a message.
    pub mask: Mask,
    /// The owner's name of the entry.
    pub item: Item,
}

/// A pair of queues with MPI's order: the oldest entry that agrees wins, however specific a
/// younger one may be (MPI 5.0, section 3.5).
pub trait Matcher: Default {
    /// A receive looks for the oldest unexpected message that agrees with it, and takes it out of
    /// its queue; if there is none, the receive joins the posted queue as `item`.
    fn post(&mut self, word: MatchWord, mask: Mask, item: Item) -> Post;

    /// A message looks for the oldest posted receive that it agrees with and that is older than
    /// `before`, and takes it out of its queue. Otherwise `keep` decides: the message joins the
    /// unexpected queue under the name that `keep` returns, or is refused.
    ///
    /// If the oldest receive that agrees is not older than `before`, none is.
    fn arrive(
        &mut self,
        word: MatchWord,
        before: Age,
        keep: impl FnOnce() -> Option<Item>,
    ) -> Arrival;

    /// The oldest unexpected message that agrees, left where it is.
    fn probe(&mut self, word: MatchWord, mask: Mask) -> Option<Item>;

    /// The oldest unexpected message that agrees, taken out of its queue (a matched probe).
    fn take(&mut self, word: MatchWord, mask: Mask) -> Option<Item>;

    /// Takes a receive out of the posted queue, wherever it stands.
    fn remove_receive(&mut self, cell: Cell) -> Item;

    /// Takes a message out of the unexpected queue, wherever it stands.
    fn remove_message(&mut self, cell: Cell) -> Item;

    /// The age that the next receive to wait will have.
    fn next_age(&self) -> Age;

    /// How many entries `queue` holds.
    fn len(&self, queue: Queue) -> usize;

    /// Shows every entry of `queue`, oldest first.
    fn dump(&self, queue: Queue, show: impl FnMut(Entry));

    /// Bytes of memory that the matcher holds beside its own value.
    fn heap_bytes(&self) -> usize;
}
