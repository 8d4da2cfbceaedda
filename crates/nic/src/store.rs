//! The bounded room in which unexpected messages wait: headers, and payload in linked fragments.
//!
//! Every byte is paid for before it is used. A budget covers what is stored and what has been
//! promised to senders as credit, and it is never exceeded: a store that has no room says so, and
//! the message stays with its sender.

use alloc::vec::Vec;

use crate::slab::Slab;
use crate::types::{Key, Peer, Span, Ticket};
use crate::word::MatchWord;

/// Everything is counted in units of this size.
pub const UNIT_BYTES: u32 = 128;

/// Payload bytes of a fragment; its link takes the rest of a unit.
const FRAGMENT_BYTES: u32 = UNIT_BYTES - 4;

/// What the header of one stored message takes: the header itself and its place in the matcher.
pub const HEADER_BYTES: u32 = UNIT_BYTES;

/// What a whole message of `len` bytes takes.
pub const fn eager_bytes(len: u32) -> u32 {
    HEADER_BYTES + len.div_ceil(FRAGMENT_BYTES) * UNIT_BYTES
}

/// A message that no receive has asked for yet.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) from: Peer,
    pub(crate) word: MatchWord,
    pub(crate) body: Body,
    /// Whether its room was set aside for its sender, and goes back to it as credit.
    pub(crate) secured: bool,
    /// Where the matcher keeps it; none once a matched probe has taken it.
    pub(crate) cell: Option<crate::matcher::Cell>,
}

#[derive(Debug)]
pub(crate) enum Body {
    /// All of it is here, in fragments.
    Whole { first: u32, len: u32, synchronous: Option<Ticket> },
    /// Its bytes are still with the sender.
    Offered { ticket: Ticket, source: Span, key: Key },
}

impl Stored {
    pub(crate) fn len(&self) -> u64 {
        match self.body {
            Body::Whole { len, .. } => u64::from(len),
            Body::Offered { source, .. } => source.len,
        }
    }

    pub(crate) fn is_offer(&self) -> bool {
        matches!(self.body, Body::Offered { .. })
    }

    /// What it costs to keep.
    pub(crate) fn bytes(&self) -> u32 {
        match self.body {
            Body::Whole { len, .. } => eager_bytes(len),
            Body::Offered { .. } => HEADER_BYTES,
        }
    }
}

/// Headers, fragments and the budget of one queue pair.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) headers: Slab<Stored>,
    /// In pieces of [`PIECE_FRAGMENTS`], of which the first grows as it is needed. One list would be moved whenever it grows, and be up
    /// to twice as long as what is in it: the budget is of memory, too.
    pieces: Vec<Vec<Fragment>>,
    free: u32,
    bytes_max: u32,
    /// Bytes of stored messages.
    used: u32,
    /// Bytes set aside for senders: credit they hold, and credit about to go back to them.
    reserved: u32,
}

#[derive(Clone, Debug)]
struct Fragment {
    bytes: [u8; FRAGMENT_BYTES as usize],
    next: u32,
}

const _: () = assert!(size_of::<Fragment>() == UNIT_BYTES as usize);

const NONE: u32 = u32::MAX;

/// 32 KiB at a time.
const PIECE_FRAGMENTS: usize = 256;

/// Which piece a fragment is in, and where in it.
fn place(fragment: u32) -> (usize, usize) {
    (fragment as usize / PIECE_FRAGMENTS, fragment as usize % PIECE_FRAGMENTS)
}

impl Store {
    pub(crate) fn new(bytes_max: u32) -> Store {
        Store {
            headers: Slab::new(),
            pieces: Vec::new(),
            free: NONE,
            bytes_max,
            used: 0,
            reserved: 0,
        }
    }

    pub(crate) fn is_within_budget(&self) -> bool {
        self.used.checked_add(self.reserved).is_some_and(|sum| sum <= self.bytes_max)
    }

    /// Bytes that are neither used nor promised.
    pub(crate) fn room(&self) -> u32 {
        self.bytes_max - self.used - self.reserved
    }

    /// Sets `bytes` aside for a sender, which must fit.
    pub(crate) fn reserve(&mut self, bytes: u32) {
        assert!(bytes <= self.room(), "a reservation must fit the budget");
        self.reserved += bytes;
    }

    /// Makes the budget larger by what is set aside for a sender that is new.
    pub(crate) fn widen(&mut self, bytes: u32) {
        self.bytes_max += bytes;
        self.reserved += bytes;
    }

    /// Takes back what was set aside.
    pub(crate) fn unreserve(&mut self, bytes: u32) {
        assert!(bytes <= self.reserved, "only what was reserved can be taken back");
        self.reserved -= bytes;
    }

    /// Keeps a message whose room the caller has checked, or, if it is secured, reserved.
    pub(crate) fn keep(&mut self, message: Stored) -> Ticket {
        let bytes = message.bytes();
        if message.secured {
            self.unreserve(bytes);
        }
        assert!(bytes <= self.room(), "a message must fit the budget");
        self.used += bytes;
        self.headers.claim(message)
    }

    /// Lets a message go. The caller has dealt with its fragments.
    pub(crate) fn forget(&mut self, message: &Stored) {
        self.used -= message.bytes();
    }

    /// What is stored of `peer` no longer gives credit back when it goes.
    pub(crate) fn disown(&mut self, peer: Peer) {
        for message in self.headers.iter_mut().filter(|message| message.from == peer) {
            message.secured = false;
        }
    }

    /// Copies payload into fragments; answers the first.
    pub(crate) fn fill(&mut self, mut payload: &[u8]) -> u32 {
        let mut first = NONE;
        let mut last = NONE;
        while !payload.is_empty() {
            let (part, rest) = payload.split_at(payload.len().min(FRAGMENT_BYTES as usize));
            let fragment = self.claim_fragment();
            let slot = self.fragment(fragment);
            slot.bytes[..part.len()].copy_from_slice(part);
            slot.next = NONE;
            match last {
                NONE => first = fragment,
                _ => self.fragment(last).next = fragment,
            }
            last = fragment;
            payload = rest;
        }
        first
    }

    /// Shows the payload of a message, fragment by fragment, and frees them.
    pub(crate) fn drain(&mut self, first: u32, len: u32, mut show: impl FnMut(u64, &[u8])) {
        let mut offset = 0;
        let mut fragment = first;
        while fragment != NONE {
            let part = (len as usize - offset).min(FRAGMENT_BYTES as usize);
            let free = self.free;
            let slot = self.fragment(fragment);
            show(offset as u64, &slot.bytes[..part]);
            offset += part;
            let next = core::mem::replace(&mut slot.next, free);
            self.free = fragment;
            fragment = next;
        }
    }

    /// Bytes of stored messages, counted from the messages themselves.
    pub(crate) fn audit(&self) -> Audit {
        let headers: u32 = self.headers.iter().map(|(_, message)| message.bytes()).sum();
        let mut free = 0;
        let mut fragment = self.free;
        while fragment != NONE {
            free += 1;
            let (piece, at) = place(fragment);
            fragment = self.pieces[piece][at].next;
        }
        Audit {
            stored: headers,
            used: self.used,
            reserved: self.reserved,
            bytes_max: self.bytes_max,
            fragments_in_use: self.pieces.iter().map(Vec::len).sum::<usize>() - free,
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.headers.heap_bytes()
            + self.pieces.capacity() * size_of::<Vec<Fragment>>()
            + self.pieces.iter().map(Vec::capacity).sum::<usize>() * size_of::<Fragment>()
    }

    fn claim_fragment(&mut self) -> u32 {
        if self.free == NONE {
            return self.add_fragment();
        }
        let fragment = self.free;
        self.free = self.fragment(fragment).next;
        fragment
    }

    #[cold]
    fn add_fragment(&mut self) -> u32 {
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE_FRAGMENTS) {
            let room = if self.pieces.is_empty() { 0 } else { PIECE_FRAGMENTS };
            self.pieces.push(Vec::with_capacity(room));
        }
        let before = (self.pieces.len() - 1) * PIECE_FRAGMENTS;
        let piece = self.pieces.last_mut().expect("there is one");
        piece.push(Fragment { bytes: [0; FRAGMENT_BYTES as usize], next: NONE });
        u32::try_from(before + piece.len() - 1).expect("the budget is a u32")
    }

    fn fragment(&mut self, fragment: u32) -> &mut Fragment {
        let (piece, at) = place(fragment);
        &mut self.pieces[piece][at]
    }
}

/// A store, counted twice: by its books and by what is in it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Audit {
    /// Bytes of the messages that are stored.
    pub stored: u32,
    /// The same by the books.
    pub used: u32,
    /// Bytes set aside for senders.
    pub reserved: u32,
    /// The budget.
    pub bytes_max: u32,
    /// Fragments that hold payload.
    pub fragments_in_use: usize,
}
