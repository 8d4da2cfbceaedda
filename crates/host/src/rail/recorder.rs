//! A rail that writes down what goes out by it.

use ferrywire_nic::{Envelope, Peer, Promises, Sent};

use super::Rail;

/// A rail around another one, with a record of the frames that it has taken.
pub(crate) struct Recorder<R> {
    rail: R,
    /// To whom, and the whole frame.
    pub(crate) frames: Vec<(Peer, Vec<u8>)>,
}

impl<R: Rail> Recorder<R> {
    pub(crate) fn new(rail: R) -> Recorder<R> {
        Recorder { rail, frames: Vec::new() }
    }
}

impl<R: Rail> Rail for Recorder<R> {
    fn promises(&self, peer: Peer) -> Promises {
        // What is read and written directly would not be seen.
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
