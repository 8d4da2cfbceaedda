//! Basic types: peers, times, spans, tickets, outcomes.

use core::fmt;

/// A process, as an index into the NIC's peer table.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Peer(pub u32);

/// Nanoseconds since an arbitrary start.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Time(pub u64);

impl Time {
    /// The time `ns` later.
    #[must_use]
    pub const fn after(self, ns: u64) -> Time {
        Time(self.0.saturating_add(ns))
    }

    /// Nanoseconds since `earlier`; zero if `earlier` is in the future.
    pub const fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Memory that the user has lent to the NIC, by the number that the user gave it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Region(pub u32);

/// Part of a region. The NIC never touches the bytes itself: it asks its port to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Span {
    /// The region.
    pub region: Region,
    /// Where in the region the span begins.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Span {
    /// The empty span.
    pub const EMPTY: Span = Span { region: Region(0), offset: 0, len: 0 };

    /// The `len` bytes of `region` that begin at `offset`.
    pub const fn new(region: Region, offset: u64, len: u64) -> Span {
        Span { region, offset, len }
    }

    /// The first `len` bytes, or all of them if there are fewer.
    #[must_use]
    #[inline]
    pub fn first(self, len: u64) -> Span {
        Span { len: self.len.min(len), ..self }
    }

    /// The `len` bytes that begin at `start`. They must lie inside the span.
    #[must_use]
    pub fn part(self, start: u64, len: u64) -> Span {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.len), "part outside its span");
        Span { offset: self.offset + start, len, ..self }
    }
}

/// A rail's name for memory that a peer may read. Only the rail knows what it means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Key(pub u64);

impl Key {
    /// No key: the memory cannot be read.
    pub const NONE: Key = Key(u64::MAX);
}

/// Names one operation in progress. A ticket never becomes valid again once its operation has ended.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ticket {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Ticket {
    /// Decodes a ticket from a frame.
    pub const fn from_bits(bits: u64) -> Ticket {
        Ticket { index: (bits << 32 >> 32) as u32, generation: (bits >> 32) as u32 }
    }

    /// Index of the operation among those in progress. Small, and reused.
    #[inline]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Tells this operation from earlier and later ones with the same index.
    #[inline]
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// Encodes the ticket for a frame.
    pub const fn bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.index, self.generation)
    }
}

/// Send mode, as in MPI.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// Completes when the bytes are no longer needed.
    #[default]
    Standard,
    /// Completes when a receive has matched.
    Synchronous,
    /// The user guarantees that a receive is posted, so the bytes may go at once.
    Ready,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// A send, put or schedule is done.
    Done,
    /// A receive or get has its bytes in place.
    Received(Received),
    /// The value that a compare-and-swap found.
    Found(u64),
    /// The caller of a schedule may continue. The schedule goes on, and its ticket completes once more when it
    /// ends.
    Released,
    /// Cancelled before it matched.
    Cancelled,
    /// The operation failed.
    Failed(Fault),
}

/// What a receive got.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Received {
    /// Match word of the message.
    pub word: crate::MatchWord,
    /// Length of the message in bytes.
    pub len: u64,
}

/// What a peer, a rail or a module can do to an operation. Expected, handled, counted; never a panic.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The message is longer than the receive that matched it; the part that fits is in place.
    Truncated {
        /// Match word of the message.
        word: crate::MatchWord,
        /// Length of the message in bytes.
        len: u64,
    },
    /// The peer is gone, or has been silent for too long.
    PeerDown(Peer),
    /// The peer has not opened that region, or not that many bytes of it.
    Denied,
    /// A module trapped while it handled the message, which ends here.
    Module {
        /// Match word of the message.
        word: crate::MatchWord,
        /// Why the module trapped.
        trap: crate::Trap,
    },
    /// Another step of the same schedule failed, or the schedule was cancelled.
    Abandoned,
    /// Everything open under the group was ended by its owner.
    Revoked,
}

/// The result of a post.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Posted {
    /// Already complete; the port is not told.
    Done(Outcome),
    /// In progress; [`crate::Port::complete`] will name this ticket.
    Pending(Ticket),
}
