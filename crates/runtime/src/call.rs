//! What a call was asked for, as errors describe it.

use std::fmt;

use crate::address::{Rank, Source, Tag};

/// A call. `C` is what names its communicator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Call<C> {
    /// The name of the call.
    pub name: &'static str,
    /// The communicator, unless it goes without saying.
    pub comm: Option<C>,
    /// The other side.
    pub peer: With,
    /// The tag, if messages of the call have one.
    pub tag: Option<Tag>,
    /// Bytes that were to be sent, or could be received.
    pub bytes: Option<u64>,
}

/// The other side of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum With {
    /// Everybody.
    All,
    /// Everybody, and this root.
    Root(Rank),
    /// Bytes go to this one.
    To(Rank),
    /// Bytes come from here.
    From(Source),
}

impl With {
    /// Whether everybody calls it together.
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
