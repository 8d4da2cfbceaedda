//! A rail that records the frames sent through it.

use ferrywire_nic::{Envelope, Peer, Promises, Sent};

use super::Rail;

/// A wrapper around another rail, with a record of the frames that it has accepted.
pub(crate) struct Recorder<R> {
    rail: R,
    /// The receiver, and the whole frame.
    pub(crate) frames: Vec<(Peer, Vec<u8>)>,
}

impl<R: Rail> Recorder<R> {
    pub(crate) fn new(rail: R) -> Recorder<R> {
        Recorder { rail, frames: Vec::new() }
    }
}

impl<R: Rail> Rail for Recorder<R> {
    fn promises(&self, peer: Peer) -> Promises {
        // Direct reads and writes would not be recorded.
        Promises { puts: false, gets: false, ..self.rail.promises(peer) }
    }

    fn send(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
        let sent = self.rail.send(to, envelope, payload);
        if sent == Sent::Away {
            let mut head = [0; Envelope::BYTES_MAX];
            let head_bytes = envelope.emit(&mut head);
            self.frames.push((to, [&head[..head_bytes], payload].concat()));
        }
        sent
    }

    as_the_rail_inside!();

    fn is_drained(&mut self) -> bool {
        self.rail.is_drained()
    }
}
