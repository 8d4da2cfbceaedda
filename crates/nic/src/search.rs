//! Probes among messages that are still held by their senders.
//!
//! A probe must see a message that has been sent, even if there was no room to store it. So a probe that finds
//! nothing while peers hold messages asks for a sweep, and remembers the first message of the sweep that agrees.
//! The message stays with its sender: only a receive or a matched probe makes the sender send it for good.

use alloc::collections::VecDeque;

use crate::receive::Probed;
use crate::types::Peer;
use crate::word::{Mask, MatchWord};

/// What the probes of a queue pair look for, and what they have seen. There may be several: a user may alternate
/// between probes, and each must find its message.
#[derive(Debug, Default)]
pub(crate) struct Searches {
    /// The number of the last search. A sweep serves only the searches that began before it: for later ones it
    /// does not begin with the oldest message.
    pub(crate) last: u32,
    open: VecDeque<Search>,
}

#[derive(Debug)]
struct Search {
    number: u32,
    word: MatchWord,
    mask: Mask,
    seen: Option<Probed>,
}

impl Searches {
    /// The message that a search for `word` and `mask` has seen, if any.
    pub(crate) fn seen(&self, word: MatchWord, mask: Mask) -> Option<Probed> {
        let search = self.open.iter().find(|search| (search.word, search.mask) == (word, mask));
        search.and_then(|search| search.seen)
    }

    /// Begins a search; false if the same search is open already.
    pub(crate) fn begin(&mut self, word: MatchWord, mask: Mask) -> bool {
        if self.open.iter().any(|search| (search.word, search.mask) == (word, mask)) {
            return false;
        }
        if self.open.len() == OPEN_MAX {
            self.open.pop_front();
        }
        self.last += 1;
        self.open.push_back(Search { number: self.last, word, mask, seen: None });
        true
    }

    /// Shows a refused message to the searches. Its sweep began when `swept_for` was the last search.
    pub(crate) fn show(&mut self, passing: Probed, swept_for: u32) {
        for search in self.open.iter_mut().filter(|search| search.number <= swept_for) {
            if search.seen.is_none() && passing.word.agrees(search.word, search.mask) {
                search.seen = Some(passing);
            }
        }
    }

    /// Whether a search has not seen a message yet.
    pub(crate) fn is_on(&self) -> bool {
        self.open.iter().any(|search| search.seen.is_none())
    }

    /// A new receive may match what a search has seen: such searches end, and the next probe begins anew.
    #[inline]
    pub(crate) fn on_receive(&mut self, word: MatchWord, mask: Mask) {
        if self.open.is_empty() {
            return;
        }
        self.open.retain(|search| search.seen.is_none_or(|seen| !seen.word.agrees(word, mask)));
    }

    /// The messages that `peer` holds have changed: searches that have seen one end.
    pub(crate) fn forget(&mut self, peer: Peer) {
        self.open.retain(|search| search.seen.is_none_or(|seen| seen.from != peer));
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.open.capacity() * size_of::<Search>()
    }
}

/// More than a user probes for in turn.
const OPEN_MAX: usize = 64;
