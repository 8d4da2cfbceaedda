//! Faults of modules, as text for the user.

use std::fmt;

use ferrywire_nic::{MatchWord, Trap};

/// The fault by which a module ended a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ModuleFault {
    /// The sender of the message.
    pub source: u32,
    /// The tag of the message.
    pub tag: u32,
    /// What the module did.
    pub trap: Trap,
}

impl ModuleFault {
    /// The fault of a module at the message with this match word.
    pub fn of(word: MatchWord, trap: Trap) -> ModuleFault {
        ModuleFault { source: word.source(), tag: word.tag(), trap }
    }
}

impl fmt::Display for ModuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ModuleFault { source, tag, trap } = self;
        write!(f, "the module failed on the message from rank {source} with tag {tag}: {trap}")
    }
}
