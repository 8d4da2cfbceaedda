//! A resident: a protocol of the library's that lives beside the application, and goes on whatever that does.
//!
//! It gets messages under a group of its own, is told who is gone, and says what is to be done. It never calls the
//! NIC: the world does for it what it says, whenever it turns.

use alloc::vec::Vec;

use crate::nic::{Nic, Variant};
use crate::port::Port;
use crate::types::{Fault, Peer};

/// What a world tells a resident, and asks of it.
pub trait Resident: Send {
    /// A message for it has come.
    fn on_message(&mut self, from: Peer, bytes: &[u8]);

    /// A peer is gone. Told once of each, and never of one that still lives.
    fn on_gone(&mut self, peer: Peer, how: Departure);

    /// What is to be done now, in this order. It is asked after each of the above.
    fn take_deeds(&mut self) -> Vec<Deed>;
}

/// How a peer went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Departure {
    /// In order, when all that it had sent was taken.
    Left,
    /// Without a word.
    Died,
}

/// Something that a resident wants done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Deed {
    /// A message to the resident of a peer.
    Send {
        /// Whose.
        to: Peer,
        /// What.
        bytes: Vec<u8>,
    },
    /// [`Nic::end_shared`].
    EndShared {
        /// Under which group.
        group: u16,
        /// Why.
        fault: Fault,
    },
    /// [`Nic::end_group`].
    EndGroup {
        /// Which.
        group: u16,
        /// Why.
        fault: Fault,
    },
    /// [`Nic::mend`].
    Mend {
        /// Which group.
        group: u16,
    },
    /// [`Nic::forget_group`].
    Forget {
        /// Which group.
        group: u16,
    },
}

impl<V: Variant> Nic<V> {
    /// Does what a resident wants ended. False for what has to be sent, which takes memory of the caller's.
    pub fn end_for(&mut self, deed: &Deed, port: &mut impl Port) -> bool {
        match *deed {
            Deed::Send { .. } => return false,
            Deed::EndShared { group, fault } => self.end_shared(group, fault, port),
            Deed::EndGroup { group, fault } => self.end_group(group, fault, port),
            Deed::Mend { group } => self.mend(group),
            Deed::Forget { group } => self.forget_group(group),
        }
        true
    }
}
