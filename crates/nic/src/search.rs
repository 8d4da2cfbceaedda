//! Probes among messages that are still held by their senders.
//!
//! A probe must see a message that has been sent, even if there was no room to store it. So a probe
//! that finds nothing while somebody holds something asks for a sweep, and remembers the first
//! message of it that it was looking for. The message stays where it is: only a receive, or a
//! matched probe, makes its sender send it for good.

use crate::receive::Probed;
use crate::types::Peer;
use crate::word::{Mask, MatchWord};

/// What a queue pair's last probe was looking for, and what it has seen.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// Tells sweeps that began after the search from those before: only they begin at the oldest.
    pub(crate) number: u32,
    wanted: Option<(MatchWord, Mask)>,
    seen: Option<Probed>,
}

impl Search {
    /// What has been seen that agrees, if anything.
    pub(crate) fn seen(&self, word: MatchWord, mask: Mask) -> Option<Probed> {
        self.seen.filter(|seen| seen.word.agrees(word, mask))
    }

    /// Looks for something; true if it was not being looked for already.
    pub(crate) fn begin(&mut self, word: MatchWord, mask: Mask) -> bool {
        if self.wanted == Some((word, mask)) {
            return false;
        }
        *self = Search { number: self.number + 1, wanted: Some((word, mask)), seen: None };
        true
    }

    /// A message went by in a sweep that began after the search.
    pub(crate) fn show(&mut self, passing: Probed) {
        if self.is_on() && self.wanted.is_some_and(|(w, m)| passing.word.agrees(w, m)) {
            self.seen = Some(passing);
        }
    }

    /// Whether something is looked for and has not been seen.
    pub(crate) fn is_on(&self) -> bool {
        self.wanted.is_some() && self.seen.is_none()
    }

    /// Something has changed that makes what was seen doubtful. The next probe looks again.
    pub(crate) fn end(&mut self) {
        self.wanted = None;
        self.seen = None;
    }

    /// The peer holds nothing any more.
    pub(crate) fn forget(&mut self, peer: Peer) {
        if self.seen.is_some_and(|seen| seen.from == peer) {
            self.end();
        }
    }
}
