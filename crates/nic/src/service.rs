//! A service: a protocol of the library that runs beside the application, whatever the application does.
//!
//! It gets messages under a group of its own, is told who is gone, and says what is to be done. It never calls the
//! NIC: the world does for it what it says, whenever it turns.

use alloc::vec::Vec;

use crate::nic::{Nic, Variant};
use crate::port::Port;
use crate::types::{Fault, Peer};

/// What a world tells a service, and asks of it.
pub trait Service: Send {
    /// A message for it has come.
    fn on_message(&mut self, from: Peer, bytes: &[u8]);

    /// A peer is gone. Told once of each, and never of one that still lives.
    fn on_gone(&mut self, peer: Peer, how: Departure);

    /// What is to be done now, in this order. It is asked after each of the above.
    fn take_actions(&mut self) -> Vec<Action>;
}

/// How a peer went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Departure {
    /// In order, when all that it had sent was taken.
    Left,
    /// Without a word.
    Died,
}

/// Something that a service wants done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// A message to the service of a peer.
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
    /// Does what a service wants ended. False for what has to be sent, which takes memory of the caller's.
    pub fn end_for(&mut self, action: &Action, port: &mut impl Port) -> bool {
        match *action {
            Action::Send { .. } => return false,
            Action::EndShared { group, fault } => self.end_shared(group, fault, port),
            Action::EndGroup { group, fault } => self.end_group(group, fault, port),
            Action::Mend { group } => self.mend(group),
            Action::Forget { group } => self.forget_group(group),
        }
        true
    }
}
