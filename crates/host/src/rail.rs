//! What every rail can do. `tests/rails.rs` has the one list of promises that all of them keep.
//!
//! A rail has two halves, so that a frame can still be read on one while the answer to it goes out
//! on the other: [`Rail`] sends, [`Inlet`] takes what has come.

use std::io;

use ferrywire_nic::{Envelope, Peer, Promises, RailId, Sent, Ticket};

/// Shared memory: leads to the ranks of this host.
pub const NEAR: RailId = RailId(0);
/// A network: leads to the ranks of other hosts.
pub const FAR: RailId = RailId(1);

/// The half that sends.
pub trait Rail {
    /// What it promises for `peer`. The answer for a peer never changes.
    fn promises(&self, peer: Peer) -> Promises;

    /// Whether a thread of `peer`'s user seems to wait right now, with a core to spare.
    fn attends(&self, peer: Peer) -> bool;

    /// Puts one frame on the way. After `Full`, [`Rail::poll_room`] tells when to try again.
    fn send(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent;

    /// Tells `to` that `bytes` have been written for its receive `ticket`.
    fn notify(&mut self, to: Peer, ticket: Ticket, bytes: u64) -> Sent;

    /// Copies `len` bytes at `from` in the memory of `peer` to `into` in ours.
    ///
    /// # Safety
    /// `into` is the address of `len` bytes that may be written.
    unsafe fn read(&mut self, peer: Peer, from: u64, into: u64, len: u64) -> io::Result<()>;

    /// Copies `len` bytes at `from` in our memory to `into` in the memory of `peer`.
    ///
    /// # Safety
    /// `from` is the address of `len` bytes that may be read.
    unsafe fn write(&mut self, peer: Peer, from: u64, into: u64, len: u64) -> io::Result<()>;

    /// Shows peers to whom there is room again.
    fn poll_room(&mut self, show: impl FnMut(Peer));

    /// Shows peers that cannot be reached any more, and why.
    fn poll_lost(&mut self, show: impl FnMut(Peer, io::Error));

    /// Whether somebody waits for [`Rail::poll_room`] or [`Rail::poll_lost`].
    fn is_stuck(&self) -> bool;
}

/// The half that takes what has come.
pub trait Inlet {
    /// Shows what has come, at most `limit` things, in the order of each sender; answers how many.
    fn poll(&mut self, limit: usize, take: impl FnMut(Peer, Arrival<'_>)) -> usize;

    /// Whether there is something to show.
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
