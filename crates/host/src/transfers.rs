//! Copies between the memory of this process and that of another, which the port was asked for and turns do piece by
//! piece.

use std::collections::VecDeque;

use ferrywire_nic::{Peer, Span, Ticket};

/// Bytes that are copied directly between two processes, a piece each turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) peer: Peer,
    pub(crate) from: Span,
    pub(crate) into: Span,
    pub(crate) done: u64,
    pub(crate) ticket: Ticket,
    pub(crate) direction: Direction,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    /// We read the memory of the peer.
    Read,
    /// We write the memory of the peer, and notify it under this ticket.
    Write(Ticket),
}

/// The transfers in progress.
pub(crate) enum Transfers {
    Running(VecDeque<Transfer>),
    /// The job has ended: nothing is copied any more.
    Stopped,
}

impl Default for Transfers {
    fn default() -> Transfers {
        Transfers::Running(VecDeque::new())
    }
}

impl Transfers {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Transfers::Running(queue) => queue.is_empty(),
            Transfers::Stopped => true,
        }
    }

    /// Adds a transfer, whose turn comes after all others.
    pub(crate) fn add(&mut self, transfer: Transfer) {
        if let Transfers::Running(queue) = self {
            queue.push_back(transfer);
        }
    }

    /// Takes the transfer whose turn it is.
    pub(crate) fn take(&mut self) -> Option<Transfer> {
        match self {
            Transfers::Running(queue) => queue.pop_front(),
            Transfers::Stopped => None,
        }
    }

    /// Drops all transfers from and to a peer that is gone.
    pub(crate) fn forget(&mut self, peer: Peer) {
        if let Transfers::Running(queue) = self {
            queue.retain(|transfer| transfer.peer != peer);
        }
    }

    /// Drops all transfers, and all that are added later.
    pub(crate) fn stop(&mut self) {
        *self = Transfers::Stopped;
    }
}
