//! What every rail can do. `rail/promises.rs` has the list of promises that all of them keep, and rails around others, which
//! record and inject faults.
//!
//! A rail has two halves, so that a frame can still be read on one while the answer to it goes out
//! on the other: [`Rail`] sends, [`Inlet`] takes what has come.

/// The methods of a rail around another one that has nothing to add to them.
#[cfg(test)]
macro_rules! as_the_rail_inside {
    () => {
        fn flush(&mut self) {
            self.rail.flush();
        }

        fn poll_room(&mut self, show: impl FnMut($crate::nic::Peer)) {
            self.rail.poll_room(show);
        }

        fn poll_lost(&mut self, show: impl FnMut($crate::nic::Peer, std::io::Error)) {
            self.rail.poll_lost(show);
        }

        fn is_stuck(&self) -> bool {
            self.rail.is_stuck()
        }
    };
}

#[cfg(test)]
mod faulty;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod recorder;

use std::io;
use std::time::Duration;

use ferrywire_nic::{Envelope, Key, Peer, Promises, RailId, Sent, Span, Ticket};

/// Shared memory: leads to the ranks of this host.
pub const NEAR: RailId = RailId(0);
/// A network: leads to the ranks of other hosts.
pub const FAR: RailId = RailId(1);

/// The half that sends. What a rail does not have, it need not define.
pub trait Rail {
    /// What it promises for `peer`. The answer for a peer never changes.
    fn promises(&self, peer: Peer) -> Promises;

    /// Puts one frame on the way. After `Full`, [`Rail::poll_room`] tells when to try again.
    fn send(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent;

    /// Lets go what was collected to leave together.
    fn flush(&mut self) {}

    /// Shows peers to whom there is room again.
    fn poll_room(&mut self, show: impl FnMut(Peer));

    /// Shows peers that cannot be reached any more, and why.
    fn poll_lost(&mut self, _show: impl FnMut(Peer, io::Error)) {}

    /// Whether somebody waits for [`Rail::poll_room`] or [`Rail::poll_lost`].
    fn is_stuck(&self) -> bool;

    /// Whether everything that was sent has been taken, or has left for another host.
    fn is_drained(&mut self) -> bool;

    /// Whether a thread of `peer`'s user seems to wait right now, with a core to spare.
    fn attends(&self, _peer: Peer) -> bool {
        false
    }

    /// Asks peers that have been silent for a sign of life, and gives up those that give none.
    fn look_around(&mut self) {}

    /// How long one may sleep before the rail has to be looked at again; nothing if it wakes whoever sleeps.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// A peer is gone. False if something is still read from it; then [`Rail::poll_lost`] shows the peer when nothing is.
    fn forget(&mut self, _peer: Peer) -> bool {
        true
    }

    /// Lets `to` read a span of ours until [`Rail::conceal`].
    fn expose(&mut self, _to: Peer, _span: Span, _ticket: Ticket) -> Key {
        Key::NONE
    }

    /// Nobody reads that span any more.
    fn conceal(&mut self, _ticket: Ticket) {}

    /// Begins to read memory of a peer, where [`Rail::read`] cannot do it at once. [`Rail::poll_read`] tells the end. False if
    /// this rail does not read like that.
    fn get(&mut self, _peer: Peer, _from: Span, _key: Key, _into: Span, _ticket: Ticket) -> bool {
        false
    }

    /// Shows reads that are over.
    fn poll_read(&mut self, _show: impl FnMut(Ticket)) {}

    /// Copies `len` bytes at `from` in the memory of `peer` to `into` in ours.
    ///
    /// # Safety
    /// `into` is the address of `len` bytes that may be written.
    unsafe fn read(&mut self, _peer: Peer, _from: u64, _into: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Copies `len` bytes at `from` in our memory to `into` in the memory of `peer`.
    ///
    /// # Safety
    /// `from` is the address of `len` bytes that may be read.
    unsafe fn write(&mut self, _peer: Peer, _from: u64, _into: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Tells `to` that `bytes` have been written for its receive `ticket`.
    fn notify(&mut self, _to: Peer, _ticket: Ticket, _bytes: u64) -> Sent {
        unreachable!("a rail that cannot write has nothing to tell")
    }
}

/// The half that takes what has come.
pub trait Inlet {
    /// Shows what has come, in the order of each sender, and goes on until `limit` things have been shown or nothing is left to
    /// see. Answers how many things happened, which may be more than were to be shown.
    fn poll(&mut self, limit: usize, take: impl FnMut(Peer, Arrival<'_>)) -> usize;

    /// Whether there is something to show. Where one sleeps at a socket, what has come there wakes, and need not be known.
    fn is_ready(&self) -> bool;
}

/// What comes in on a rail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arrival<'a> {
    /// A frame that came by this rail.
    Frame(RailId, &'a [u8]),
    /// Bytes have been written into our memory for a receive.
    Landed {
        /// The receive.
        ticket: Ticket,
        /// How many bytes.
        bytes: u64,
    },
}
