//! The target or source of a message, and its tag.
//!
//! Calls convert plain integers to these types. An integer out of range is kept as it is, so that the error can show
//! it.

use std::fmt;

/// Any source or any tag: `world.receive(&mut buffer, ANY, 7)`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Any;

/// Any source or any tag, in a receive or a probe.
pub const ANY: Any = Any;

/// The largest tag.
pub const TAG_MAX: u32 = ferrywire_mpi::comm::TAG_MAX;

/// A rank of a communicator: the target of a message, or the root of a collective.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rank(pub i64);

/// The rank that a message may come from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// This rank only.
    Rank(i64),
    /// Any rank.
    Any,
}

/// The tag of a message, or the tags that a receive accepts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tag {
    /// This tag only.
    Number(i64),
    /// Any tag. Only receives and probes accept it.
    Any,
}

impl From<Any> for Source {
    fn from(_: Any) -> Source {
        Source::Any
    }
}

impl From<Rank> for Source {
    fn from(rank: Rank) -> Source {
        Source::Rank(rank.0)
    }
}

impl From<Any> for Tag {
    fn from(_: Any) -> Tag {
        Tag::Any
    }
}

/// Converts integers to ranks and tags.
macro_rules! integers {
    ($($type:ty),*) => {$(
        impl From<$type> for Rank {
            fn from(number: $type) -> Rank {
                Rank(i64::try_from(number).unwrap_or(i64::MAX))
            }
        }
        impl From<$type> for Source {
            fn from(number: $type) -> Source {
                Source::Rank(i64::try_from(number).unwrap_or(i64::MAX))
            }
        }
        impl From<$type> for Tag {
            fn from(number: $type) -> Tag {
                Tag::Number(i64::try_from(number).unwrap_or(i64::MAX))
            }
        }
    )*};
}

integers!(i32, u32, usize);

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.0)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Rank(rank) => write!(f, "rank {rank}"),
            Source::Any => write!(f, "any rank"),
        }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tag::Number(tag) => write!(f, "tag {tag}"),
            Tag::Any => write!(f, "any tag"),
        }
    }
}
