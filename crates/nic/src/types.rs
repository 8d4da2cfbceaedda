//! The small values that everything else is said with.

use core::fmt;

/// A process, as the NIC counts.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Peer(pub u32);

/// Nanoseconds since whenever the world began to count.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Time(pub u64);

impl Time {
    /// The moment `ns` later.
    #[must_use]
    pub const fn after(self, ns: u64) -> Time {
        Time(self.0.saturating_add(ns))
    }

    /// How long ago `earlier` was; zero if it is yet to come.
    pub const fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Memory that the user has lent to the NIC, by the number that the user gave it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Region(pub u32);

/// A piece of a region. The NIC never touches the bytes behind it: it asks its port to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Span {
    /// The region that the piece is in.
    pub region: Region,
    /// Where the piece begins in it.
    pub offset: u64,
    /// How many bytes the piece has.
    pub len: u64,
}

impl Span {
    /// No bytes at all.
    pub const EMPTY: Span = Span { region: Region(0), offset: 0, len: 0 };

    /// The piece of `region` that begins at `offset` and has `len` bytes.
    pub const fn new(region: Region, offset: u64, len: u64) -> Span {
        Span { region, offset, len }
    }

    /// The first `len` bytes, or all of them if there are fewer.
    #[must_use]
    #[inline]
    pub fn first(self, len: u64) -> Span {
        Span { len: self.len.min(len), ..self }
    }

    /// The part that begins `start` bytes in and has `len` bytes, which must lie inside.
    #[must_use]
    pub fn part(self, start: u64, len: u64) -> Span {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.len), "part outside its span");
        Span { offset: self.offset + start, len, ..self }
    }
}

/// What a rail calls memory that a peer may read there. Only the rail knows what it means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Key(pub u64);

impl Key {
    /// Of memory that nobody can read.
    pub const NONE: Key = Key(u64::MAX);
}

/// Names one operation in progress. A ticket that has ended names nothing, for ever.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ticket {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Ticket {
    /// The ticket with these bits, as it travels.
    pub const fn from_bits(bits: u64) -> Ticket {
        Ticket { index: (bits << 32 >> 32) as u32, generation: (bits >> 32) as u32 }
    }

    /// The place of the operation among those in progress: small, and used again and again.
    #[inline]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// What tells this operation from others that had or will have its place.
    #[inline]
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// The bits of the ticket, as it travels.
    pub const fn bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.index, self.generation)
    }
}

/// What a send promises to whom.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// Over when the bytes are no longer needed.
    #[default]
    Standard,
    /// Over when a receive has matched.
    Synchronous,
    /// The user vouches that a receive is waiting, so the bytes may go at once.
    Ready,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// A send, a put, a schedule: it is done.
    Done,
    /// A receive or a get: this message is in place.
    Received(Received),
    /// The value that a compare-and-swap found.
    Found(u64),
    /// The caller of a schedule may go on; the schedule itself goes on too, and its ticket
    /// completes once more when it ends.
    Released,
    /// Taken back before it matched anything.
    Cancelled,
    /// Something a peer did, or stopped doing.
    Failed(Fault),
}

/// What a receive got.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Received {
    /// What the message said of itself.
    pub word: crate::MatchWord,
    /// Its bytes.
    pub len: u64,
}

/// What a peer, a rail or a module can do to an operation. Expected, handled, counted; never a panic.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The message is longer than the receive that matched it; what fits is in place.
    Truncated {
        /// What the message said of itself.
        word: crate::MatchWord,
        /// Bytes of the message.
        len: u64,
    },
    /// The peer is gone, or silent for too long.
    PeerDown(Peer),
    /// The peer has no such region, or not that much of it.
    Denied,
    /// A module did not come to an end: the message that it ran for ends here.
    Module {
        /// What the message said of itself.
        word: crate::MatchWord,
        /// What the module did.
        trap: crate::Trap,
    },
    /// Another step of the same schedule failed, or the schedule was cancelled.
    Abandoned,
    /// Its owner has ended all that was open under the group.
    Revoked,
}

/// What a post answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Posted {
    /// It is over already; nothing more will be said of it.
    Done(Outcome),
    /// It goes on; [`crate::Port::complete`] will name this ticket.
    Pending(Ticket),
}
