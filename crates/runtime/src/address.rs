//! Whom a message goes to or comes from, and under which tag.
//!
//! All of these are made of plain integers wherever a call wants one. An integer that names nobody is
//! kept as it is, so that the error can say what was asked for.

use std::fmt;

/// Any source, or any tag, will do: `world.receive(&mut buffer, ANY, 7)`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Any;

/// Any source, or any tag, will do.
pub const ANY: Any = Any;

/// The largest tag.
pub const TAG_MAX: u32 = ferrywire_mpi::comm::TAG_MAX;

/// A rank of a communicator: whom a message goes to, or the root of a collective.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rank(pub i64);

/// Whom a message may come from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// From this rank only.
    Rank(i64),
    /// From anybody.
    Any,
}

/// Which tag a message has, or may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tag {
    /// This one only.
    Number(i64),
    /// Any. A message that is sent needs a tag of its own.
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

/// Integers name ranks and tags.
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
