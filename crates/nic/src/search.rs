//! Probes among messages that are still held by their senders.
//!
//! A probe must see a message that has been sent, even if there was no room to store it. So a probe
//! that finds nothing while somebody holds something asks for a sweep, and remembers the first
//! message of it that it was looking for. The message stays where it is: only a receive, or a
//! matched probe, makes its sender send it for good.

use alloc::collections::VecDeque;

use crate::receive::Probed;
use crate::types::Peer;
use crate::word::{Mask, MatchWord};

/// What the probes of a queue pair look for, and what they have seen. Several at a time: a user
/// may probe for one thing and another in turn, and must find both.
#[derive(Debug, Default)]
pub(crate) struct Searches {
    /// The number of the last search. A sweep is good for searches that began before it did:
    /// only then does it begin with the oldest message.
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
    /// What has been seen that agrees, if anything.
    pub(crate) fn seen(&self, word: MatchWord, mask: Mask) -> Option<Probed> {
        let search = self.open.iter().find(|search| (search.word, search.mask) == (word, mask));
        search.and_then(|search| search.seen)
    }

    /// Looks for something; true if it was not being looked for already.
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

    /// A refused message goes by, in a sweep that began when `swept_for` was the last search.
    pub(crate) fn show(&mut self, passing: Probed, swept_for: u32) {
        for search in self.open.iter_mut().filter(|search| search.number <= swept_for) {
            if search.seen.is_none() && passing.word.agrees(search.word, search.mask) {
                search.seen = Some(passing);
            }
        }
    }

    /// Whether something is looked for that has not been seen.
    pub(crate) fn is_on(&self) -> bool {
        self.open.iter().any(|search| search.seen.is_none())
    }

    /// A receive that may get it makes what was seen doubtful. The next probe looks again.
    #[inline]
    pub(crate) fn on_receive(&mut self, word: MatchWord, mask: Mask) {
        if self.open.is_empty() {
            return;
        }
        self.open.retain(|search| search.seen.is_none_or(|seen| !seen.word.agrees(word, mask)));
    }

    /// So does a change in what the peer holds.
    pub(crate) fn forget(&mut self, peer: Peer) {
        self.open.retain(|search| search.seen.is_none_or(|seen| seen.from != peer));
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.open.capacity() * size_of::<Search>()
    }
}

/// Nobody probes for so many things in turn.
const OPEN_MAX: usize = 64;
