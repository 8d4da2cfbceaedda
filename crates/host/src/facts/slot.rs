//! A call in the form in which it is recorded, as the trace of a rank uses it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ferrywire_nic::MatchWord;

use super::snapshot::{self, CallFact};
use super::{CallName, CallSlot, KIND_OTHER, NOBODY, what};

/// A call of which only the name is known. Pages have none: see [`super::Page::plain`].
const KIND_PLAIN: u32 = 4;

impl CallSlot {
    /// Makes it a call of which only the name is known.
    pub(crate) fn set_plain(&self, name: CallName) {
        self.set_words([0; 3]);
        self.side.store(NOBODY, Ordering::Relaxed);
        self.what.store(what(name, KIND_PLAIN), Ordering::Relaxed);
    }

    /// Whether only the name is known.
    pub(crate) fn is_plain(&self) -> bool {
        self.what.load(Ordering::Relaxed) & 0xff == KIND_PLAIN
    }

    /// Whether two calls of which only the names are known are of the same function.
    pub(crate) fn is_same_call(&self, other: &CallSlot) -> bool {
        let what = |slot: &CallSlot| slot.what.load(Ordering::Relaxed) >> 8;
        what(self) == what(other)
    }

    /// Makes it another call.
    pub(crate) fn copy(&self, other: &CallSlot) {
        let words = [&other.word, &other.more, &other.bytes];
        self.set_words(words.map(|word| word.load(Ordering::Relaxed)));
        self.side.store(other.side.load(Ordering::Relaxed), Ordering::Relaxed);
        self.what.store(other.what.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Sets its three words, whatever they mean.
    pub(crate) fn set_words(&self, words: [u64; 3]) {
        for (place, word) in [&self.word, &self.more, &self.bytes].into_iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
    }

    /// Says which message it is about.
    pub(crate) fn set_message(&self, word: MatchWord, bytes: u64) {
        self.set_words([word.bits(), 0, bytes]);
    }

    /// Says which message a receive has got, in place of the one that it wanted.
    pub(crate) fn set_received(&self, word: MatchWord, bytes: u64) {
        self.word.store(word.bits(), Ordering::Relaxed);
        self.more.store(bytes, Ordering::Relaxed);
    }

    /// Makes it so many calls that together took this time.
    pub(crate) fn set_polls(&self, polls: u64, time: u64) {
        let name = self.what.load(Ordering::Relaxed) >> 8 << 8;
        self.what.store(name | KIND_OTHER, Ordering::Relaxed);
        self.set_words([0, time, polls]);
    }

    /// Adds a call.
    pub(crate) fn add_polls(&self, time: u64) {
        let more = self.more.load(Ordering::Relaxed) + time;
        self.set_words([0, more, self.bytes.load(Ordering::Relaxed) + 1]);
    }

    /// Reads it from the words of a file.
    pub(crate) fn from_words([word, more, bytes]: [u64; 3], [side, what]: [u32; 2]) -> CallSlot {
        CallSlot {
            word: AtomicU64::new(word),
            more: AtomicU64::new(more),
            bytes: AtomicU64::new(bytes),
            side: AtomicU32::new(side),
            what: AtomicU32::new(what),
        }
    }

    /// The call.
    pub(crate) fn fact(&self) -> Option<CallFact> {
        snapshot::call(self)
    }
}
