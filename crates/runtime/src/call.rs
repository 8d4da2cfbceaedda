//! The name and arguments of a call, as errors report them.

use std::fmt;

use crate::address::{Rank, Source, Tag};

/// The name and arguments of a call. `C` names its communicator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Call<C> {
    /// The name of the call.
    pub name: &'static str,
    /// The communicator, unless it is the default one.
    pub comm: Option<C>,
    /// The ranks on the other side.
    pub peer: With,
    /// The tag, if messages of the call have one.
    pub tag: Option<Tag>,
    /// Bytes to be sent, or room for bytes to be received.
    pub bytes: Option<u64>,
}

/// The ranks on the other side of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum With {
    /// All ranks.
    All,
    /// All ranks, with this root.
    Root(Rank),
    /// The rank that the bytes go to.
    To(Rank),
    /// The source that the bytes come from.
    From(Source),
}

impl With {
    /// Whether the call is a collective.
    pub fn is_all(self) -> bool {
        matches!(self, With::All | With::Root(_))
    }
}

impl<C: fmt::Display> fmt::Display for Call<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(bytes) = self.bytes {
            write!(f, " of {bytes} byte{}", if bytes == 1 { "" } else { "s" })?;
        }
        match self.peer {
            With::All => {}
            With::Root(root) => write!(f, " with root {}", root.0)?,
            With::To(rank) => write!(f, " to {rank}")?,
            With::From(source) => write!(f, " from {source}")?,
        }
        if let Some(tag) = self.tag {
            write!(f, ", {tag}")?;
        }
        if let Some(comm) = &self.comm {
            write!(f, ", in {comm}")?;
        }
        Ok(())
    }
}
