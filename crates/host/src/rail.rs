//! The interface of every rail. `rail/promises.rs` tests the promises that all of them keep, with wrappers
//! that record frames and inject faults.
//!
//! A rail has two halves, so that a frame can still be read on one while the answer to it goes out on the
//! other: [`Rail`] sends, [`Inlet`] receives.

/// The methods that a wrapper passes on unchanged.
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
/// Loopback: leads from a rank to itself.
pub const OWN: RailId = RailId(2);

/// The half that sends. Methods with a default are optional.
pub trait Rail {
    /// What it promises for `peer`. The answer for a peer never changes.
    fn promises(&self, peer: Peer) -> Promises;

    /// Sends one frame. After `Full`, [`Rail::poll_room`] tells when to try again.
    fn send(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent;

    /// Sends what was collected to leave together.
    fn flush(&mut self) {}

    /// Shows peers for which there is room again.
    fn poll_room(&mut self, show: impl FnMut(Peer));

    /// Shows peers that have become unreachable, and why.
    fn poll_lost(&mut self, _show: impl FnMut(Peer, io::Error)) {}

    /// Whether [`Rail::poll_room`] or [`Rail::poll_lost`] has to be called.
    fn is_stuck(&self) -> bool;

    /// Whether all that was sent has been received on this host, or has left for another.
    fn is_drained(&mut self) -> bool;

    /// Whether an application thread of `peer` seems to be waiting right now, with a core to spare.
    fn attends(&self, _peer: Peer) -> bool {
        false
    }

    /// How long a thread may sleep before it has to poll the rail again; `None` if the rail wakes sleepers.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Forgets a peer that is gone. False if something is still being read from it; then [`Rail::poll_lost`]
    /// shows the peer when nothing is.
    fn forget(&mut self, _peer: Peer) -> bool {
        true
    }

    /// Lets `to` read a span of ours until [`Rail::conceal`].
    fn expose(&mut self, _to: Peer, _span: Span, _ticket: Ticket) -> Key {
        Key::NONE
    }

    /// Ends the exposure of that span.
    fn conceal(&mut self, _ticket: Ticket) {}

    /// Starts a read of a peer's memory, where [`Rail::read`] cannot do it at once. [`Rail::poll_read`] shows
    /// its end. False if this rail does not read like that.
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

/// The half that receives.
pub trait Inlet {
    /// Shows what has arrived, in order for each sender, until `limit` arrivals have been shown or nothing is
    /// left. Returns the number of events, which may exceed the number shown.
    fn poll(&mut self, limit: usize, take: impl FnMut(Peer, Arrival<'_>)) -> usize;

    /// Whether there is something to show. An arrival at a socket where a thread sleeps wakes it, and need
    /// not count here.
    fn is_ready(&self) -> bool;
}

/// What arrives on a rail.
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
