//! Services: protocols of the library that run beside the application, whatever the application does.
//!
//! A service receives messages under a group of its own, is told which peers are gone, and returns actions. It
//! never calls the NIC: the driver carries out its actions on each turn.

use alloc::vec::Vec;

use crate::nic::{Nic, Variant};
use crate::port::Port;
use crate::types::{Fault, Peer};

/// The interface between a driver and a service.
pub trait Service: Send {
    /// A message for the service has arrived.
    fn on_message(&mut self, from: Peer, bytes: &[u8]);

    /// A peer is gone. Called once for each peer, and never for one that is alive.
    fn on_gone(&mut self, peer: Peer, how: Departure);

    /// Returns what to do now, in this order. Called after each of the above.
    fn take_actions(&mut self) -> Vec<Action>;
}

/// How a peer departed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Departure {
    /// Left in order, after all that it had sent was received.
    Left,
    /// Died without notice.
    Died,
}

/// An action that a service asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Sends a message to the service of a peer.
    Send {
        /// The peer.
        to: Peer,
        /// The message.
        bytes: Vec<u8>,
    },
    /// [`Nic::end_shared`].
    EndShared {
        /// The group.
        group: u16,
        /// The fault that operations end with.
        fault: Fault,
    },
    /// [`Nic::end_group`].
    EndGroup {
        /// The group.
        group: u16,
        /// The fault that operations end with.
        fault: Fault,
    },
    /// [`Nic::mend`].
    Mend {
        /// The group.
        group: u16,
    },
    /// [`Nic::forget_group`].
    Forget {
        /// The group.
        group: u16,
    },
}

impl<V: Variant> Nic<V> {
    /// Carries out an action of a service. False for a send, which needs memory of the caller.
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
