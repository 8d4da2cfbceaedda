//! The bounded store of unexpected messages: headers, and payload in linked fragments. A short payload lies in its
//! header, where the fields of an offer would be, and takes no fragment.
//!
//! Every byte is paid for before it is used. A budget covers what is stored and what has been promised to senders
//! as credit, and it is never exceeded: a store without room says so, and the message stays with its sender.

use alloc::vec::Vec;

use crate::slab::Slab;
use crate::types::{Key, Peer, Span, Ticket};
use crate::word::MatchWord;

/// The unit of accounting.
pub const UNIT_BYTES: u32 = 128;

/// Payload bytes of a fragment; the link takes the rest of the unit.
const FRAGMENT_BYTES: u32 = UNIT_BYTES - 4;

/// Cost of the header of a stored message: the header itself and its entry in the matcher.
pub const HEADER_BYTES: u32 = UNIT_BYTES;

/// The longest payload that lies in its header.
pub const SHORT_BYTES_MAX: u32 = 32;

/// Cost of a whole message of `len` bytes. A short one costs as much as if it took a fragment.
#[inline]
pub const fn eager_bytes(len: u32) -> u32 {
    HEADER_BYTES + len.div_ceil(FRAGMENT_BYTES) * UNIT_BYTES
}

/// A message that no receive has matched yet.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) from: Peer,
    pub(crate) word: MatchWord,
    pub(crate) body: Body,
    /// Whether its room was reserved for its sender, and goes back to it as credit.
    pub(crate) secured: bool,
    /// The matcher's cell; `None` once a matched probe has taken the message.
    pub(crate) cell: Option<crate::matcher::Cell>,
}

#[derive(Debug)]
pub(crate) enum Body {
    /// All bytes are here.
    Whole { len: u32, synchronous: Option<Ticket>, payload: Payload },
    /// The bytes are still with the sender.
    Offered { ticket: Ticket, source: Span, key: Key },
}

/// Where the bytes of a whole message are.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Here, if they are at most [`SHORT_BYTES_MAX`].
    Short([u8; SHORT_BYTES_MAX as usize]),
    /// In fragments, of which this is the first.
    Long(u32),
}

impl Payload {
    /// Shows the `len` bytes in pieces, with the offset of each, and frees what they took.
    #[inline(always)]
    pub(crate) fn drain(
        &self,
        len: u32,
        fragments: &mut Fragments,
        mut show: impl FnMut(u64, &[u8]),
    ) {
        match self {
            Payload::Short(bytes) => show(0, &bytes[..len as usize]),
            &Payload::Long(first) => fragments.drain(first, len, show),
        }
    }
}

/// What a message takes of the budget, and whose reservation it goes back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) from: Peer,
    pub(crate) bytes: u32,
    pub(crate) secured: bool,
}

/// The header and its entry in the matcher take a unit.
const _: () = assert!(size_of::<Stored>() <= 80);

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

    pub(crate) fn room(&self) -> Room {
        Room { from: self.from, bytes: self.bytes(), secured: self.secured }
    }

    /// Bytes that the message costs.
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
    pub(crate) fragments: Fragments,
    bytes_max: u32,
    /// Bytes of stored messages.
    used: u32,
    /// Bytes reserved for senders: credit that they hold, and credit about to go back to them.
    reserved: u32,
}

/// The payload of longer messages.
#[derive(Debug)]
pub(crate) struct Fragments {
    /// In pieces of [`PIECE_FRAGMENTS`], of which the first grows as needed. A single list would be moved whenever
    /// it grows, and have up to twice the capacity of its contents: the budget bounds memory, too.
    pieces: Vec<Vec<Fragment>>,
    free: u32,
}

#[derive(Clone, Debug)]
struct Fragment {
    bytes: [u8; FRAGMENT_BYTES as usize],
    next: u32,
}

const _: () = assert!(size_of::<Fragment>() == UNIT_BYTES as usize);

const NONE: u32 = u32::MAX;

/// Fragments of a piece: 32 KiB.
const PIECE_FRAGMENTS: usize = 256;

/// The piece of a fragment, and its index in the piece.
fn place(fragment: u32) -> (usize, usize) {
    (fragment as usize / PIECE_FRAGMENTS, fragment as usize % PIECE_FRAGMENTS)
}

impl Store {
    pub(crate) fn new(bytes_max: u32) -> Store {
        Store {
            headers: Slab::new(),
            fragments: Fragments { pieces: Vec::new(), free: NONE },
            bytes_max,
            used: 0,
            reserved: 0,
        }
    }

    pub(crate) fn is_within_budget(&self) -> bool {
        self.used.checked_add(self.reserved).is_some_and(|sum| sum <= self.bytes_max)
    }

    /// Bytes that are neither used nor promised.
    /// The bytes that messages take or that are reserved for them, and how many there may be.
    pub(crate) fn used(&self) -> (u32, u32) {
        (self.used + self.reserved, self.bytes_max)
    }

    pub(crate) fn room(&self) -> u32 {
        self.bytes_max - self.used - self.reserved
    }

    /// Reserves `bytes`, which must fit, for a sender.
    pub(crate) fn reserve(&mut self, bytes: u32) {
        assert!(bytes <= self.room(), "a reservation must fit the budget");
        self.reserved += bytes;
    }

    /// Enlarges the budget by what is reserved for a new sender.
    pub(crate) fn widen(&mut self, bytes: u32) {
        self.bytes_max += bytes;
        self.reserved += bytes;
    }

    /// Takes a reservation back.
    pub(crate) fn unreserve(&mut self, bytes: u32) {
        assert!(bytes <= self.reserved, "only what was reserved can be taken back");
        self.reserved -= bytes;
    }

    /// Stores a message whose room the caller has checked or, if it is secured, reserved.
    #[inline(always)]
    pub(crate) fn keep(&mut self, message: Stored) -> Ticket {
        let bytes = message.bytes();
        if message.secured {
            self.unreserve(bytes);
        }
        assert!(bytes <= self.room(), "a message must fit the budget");
        self.used += bytes;
        self.headers.claim(message)
    }

    /// Returns the bytes of a message to the budget. The caller has freed its fragments.
    pub(crate) fn forget(&mut self, bytes: u32) {
        self.used -= bytes;
    }

    /// Returns the bytes of a message to the reservation of its sender.
    pub(crate) fn give_back(&mut self, bytes: u32) {
        self.used -= bytes;
        self.reserved += bytes;
    }

    /// Copies a payload to where it waits.
    #[inline]
    pub(crate) fn fill(&mut self, payload: &[u8]) -> Payload {
        let mut short = [0; SHORT_BYTES_MAX as usize];
        match short.get_mut(..payload.len()) {
            Some(place) => {
                place.copy_from_slice(payload);
                Payload::Short(short)
            }
            None => Payload::Long(self.fragments.fill(payload)),
        }
    }

    /// Stored messages of `peer` no longer give credit back when they leave.
    pub(crate) fn disown(&mut self, peer: Peer) {
        for message in self.headers.iter_mut().filter(|message| message.from == peer) {
            message.secured = false;
        }
    }

    /// Counts the store from its contents, to compare with its accounts.
    pub(crate) fn audit(&self) -> Audit {
        let headers: u32 = self.headers.iter().map(|(_, message)| message.bytes()).sum();
        Audit {
            stored: headers,
            used: self.used,
            reserved: self.reserved,
            bytes_max: self.bytes_max,
            fragments_in_use: self.fragments.in_use(),
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.headers.heap_bytes() + self.fragments.heap_bytes()
    }
}

impl Fragments {
    /// Copies payload into fragments; returns the first.
    #[inline(never)]
    fn fill(&mut self, mut payload: &[u8]) -> u32 {
        let mut first = NONE;
        let mut last = NONE;
        while !payload.is_empty() {
            let (part, rest) = payload.split_at(payload.len().min(FRAGMENT_BYTES as usize));
            let fragment = self.claim();
            let slot = self.at(fragment);
            slot.bytes[..part.len()].copy_from_slice(part);
            slot.next = NONE;
            match last {
                NONE => first = fragment,
                _ => self.at(last).next = fragment,
            }
            last = fragment;
            payload = rest;
        }
        first
    }

    /// Shows the payload of a message fragment by fragment, and frees the fragments.
    #[inline(never)]
    fn drain(&mut self, first: u32, len: u32, mut show: impl FnMut(u64, &[u8])) {
        let mut offset = 0;
        let mut fragment = first;
        while fragment != NONE {
            let part = (len as usize - offset).min(FRAGMENT_BYTES as usize);
            let free = self.free;
            let slot = self.at(fragment);
            show(offset as u64, &slot.bytes[..part]);
            offset += part;
            let next = core::mem::replace(&mut slot.next, free);
            self.free = fragment;
            fragment = next;
        }
    }

    /// Fragments that hold payload.
    fn in_use(&self) -> usize {
        let mut free = 0;
        let mut fragment = self.free;
        while fragment != NONE {
            free += 1;
            let (piece, at) = place(fragment);
            fragment = self.pieces[piece][at].next;
        }
        self.pieces.iter().map(Vec::len).sum::<usize>() - free
    }

    fn heap_bytes(&self) -> usize {
        self.pieces.capacity() * size_of::<Vec<Fragment>>()
            + self.pieces.iter().map(Vec::capacity).sum::<usize>() * size_of::<Fragment>()
    }

    fn claim(&mut self) -> u32 {
        if self.free == NONE {
            return self.add();
        }
        let fragment = self.free;
        self.free = self.at(fragment).next;
        fragment
    }

    #[cold]
    fn add(&mut self) -> u32 {
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE_FRAGMENTS) {
            let room = if self.pieces.is_empty() { 0 } else { PIECE_FRAGMENTS };
            self.pieces.push(Vec::with_capacity(room));
        }
        let before = (self.pieces.len() - 1) * PIECE_FRAGMENTS;
        let piece = self.pieces.last_mut().expect("there is one");
        piece.push(Fragment { bytes: [0; FRAGMENT_BYTES as usize], next: NONE });
        u32::try_from(before + piece.len() - 1).expect("the budget is a u32")
    }

    fn at(&mut self, fragment: u32) -> &mut Fragment {
        let (piece, at) = place(fragment);
        &mut self.pieces[piece][at]
    }
}

/// A store, counted twice: by its accounts and by its contents.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Audit {
    /// Bytes of the stored messages, by contents.
    pub stored: u32,
    /// Bytes of the stored messages, by the accounts.
    pub used: u32,
    /// Bytes reserved for senders.
    pub reserved: u32,
    /// The budget.
    pub bytes_max: u32,
    /// Fragments that hold payload.
    pub fragments_in_use: usize,
}
