//! Ranks and tags from C: integers, some of which have a special meaning.
//!
//! In this crate they have the values of the standard ABI. A front for another ABI translates its values at the entry
//! of its functions, and the code behind that does not know of it.

use std::ffi::c_int;
use std::fmt;

use ferrywire_runtime::{Rank, Source, Tag};

use crate::convert::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL, MPI_ROOT};

/// The target rank of a message, or a leader. It may be MPI_PROC_NULL.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub(crate) struct PeerRank(c_int);

/// The source rank of a message. It may be MPI_ANY_SOURCE or MPI_PROC_NULL.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub(crate) struct SourceRank(c_int);

/// The root of a collective. In an intercommunicator it may be MPI_ROOT or MPI_PROC_NULL.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub(crate) struct RootRank(c_int);

/// The tag of a message. In a receive it may be MPI_ANY_TAG.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub(crate) struct MessageTag(c_int);

impl PeerRank {
    /// The rank, if it is below `end`.
    #[inline]
    pub(crate) fn below(self, end: u32) -> Option<u32> {
        below(self.0, end)
    }

    /// Whether it is MPI_PROC_NULL.
    #[inline]
    pub(crate) fn is_null(self) -> bool {
        self.0 == MPI_PROC_NULL
    }

    /// The integer, where it is only a number.
    pub(crate) fn number(self) -> c_int {
        self.0
    }
}

impl SourceRank {
    /// Whether it is MPI_ANY_SOURCE.
    #[inline]
    pub(crate) fn is_any(self) -> bool {
        self.0 == MPI_ANY_SOURCE
    }

    /// The rank as that of a peer, if it is not MPI_ANY_SOURCE.
    #[inline]
    pub(crate) fn peer(self) -> Option<PeerRank> {
        if self.is_any() { None } else { Some(PeerRank(self.0)) }
    }

    /// The integer, where any value is valid.
    pub(crate) fn number(self) -> c_int {
        self.0
    }
}

impl RootRank {
    /// The rank, if it is below `end`.
    #[inline]
    pub(crate) fn below(self, end: u32) -> Option<u32> {
        below(self.0, end)
    }

    /// The integer, to recognise the same root again.
    #[inline]
    pub(crate) fn bits(self) -> u32 {
        self.0.cast_unsigned()
    }

    /// Whether it is MPI_ROOT: the calling process.
    pub(crate) fn is_caller(self) -> bool {
        self.0 == MPI_ROOT
    }

    /// Whether it is MPI_PROC_NULL: another process of the caller's group.
    pub(crate) fn is_null(self) -> bool {
        self.0 == MPI_PROC_NULL
    }
}

impl MessageTag {
    /// Whether it is MPI_ANY_TAG.
    #[inline]
    pub(crate) fn is_any(self) -> bool {
        self.0 == MPI_ANY_TAG
    }

    /// The tag, if it is at most `max`.
    #[inline]
    pub(crate) fn up_to(self, max: u32) -> Option<u32> {
        u32::try_from(self.0).ok().filter(|&tag| tag <= max)
    }

    /// The integer, where any value is valid.
    pub(crate) fn bits(self) -> u32 {
        self.0.cast_unsigned()
    }

    /// The tag of a send, for errors; it cannot be MPI_ANY_TAG.
    #[inline]
    pub(crate) fn number(self) -> Tag {
        Tag::Number(self.0.into())
    }
}

#[inline]
fn below(rank: c_int, end: u32) -> Option<u32> {
    u32::try_from(rank).ok().filter(|&rank| rank < end)
}

impl From<PeerRank> for Rank {
    #[inline]
    fn from(rank: PeerRank) -> Rank {
        Rank(rank.0.into())
    }
}

impl From<SourceRank> for Source {
    #[inline]
    fn from(source: SourceRank) -> Source {
        if source.is_any() { Source::Any } else { Source::Rank(source.0.into()) }
    }
}

impl From<MessageTag> for Tag {
    #[inline]
    fn from(tag: MessageTag) -> Tag {
        if tag.is_any() { Tag::Any } else { tag.number() }
    }
}

impl fmt::Display for PeerRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for RootRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Constructors for the front of another ABI.
#[cfg(test)]
mod made {
    use super::*;

    impl PeerRank {
        /// A rank; `None` is MPI_PROC_NULL.
        pub(crate) fn of(rank: Option<c_int>) -> PeerRank {
            PeerRank(rank.unwrap_or(MPI_PROC_NULL))
        }
    }

    impl SourceRank {
        pub(crate) const ANY: SourceRank = SourceRank(MPI_ANY_SOURCE);

        /// A rank; `None` is MPI_PROC_NULL.
        pub(crate) fn of(rank: Option<c_int>) -> SourceRank {
            SourceRank(rank.unwrap_or(MPI_PROC_NULL))
        }
    }

    impl MessageTag {
        pub(crate) const ANY: MessageTag = MessageTag(MPI_ANY_TAG);

        pub(crate) fn of(tag: c_int) -> MessageTag {
            MessageTag(tag)
        }
    }
}
