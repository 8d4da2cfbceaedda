//! What a module did to a message, for the user to read.

use std::fmt;

use ferrywire_nic::{MatchWord, Trap};

/// What a module did that ended a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ModuleFault {
    /// Who sent the message.
    pub source: u32,
    /// Under which tag.
    pub tag: u32,
    /// What the module did.
    pub trap: Trap,
}

impl ModuleFault {
    /// The fault of a module at the message of this word.
    pub fn of(word: MatchWord, trap: Trap) -> ModuleFault {
        ModuleFault { source: word.source(), tag: word.tag(), trap }
    }
}

impl fmt::Display for ModuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ModuleFault { source, tag, trap } = self;
        write!(f, "the module ended the message of rank {source} with tag {tag}: {trap}")
    }
}
