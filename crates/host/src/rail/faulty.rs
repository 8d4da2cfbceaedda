//! A rail that loses, repeats and delays frames at given rates, from a seed.

use ferrywire_nic::{Envelope, Peer, Promises, Sent};

use super::Rail;

/// A wrapper around another rail that injects faults. It promises only what it keeps: frames may be lost.
pub(crate) struct Faulty<R> {
    rail: R,
    faults: Faults,
    random: u64,
    /// A frame that goes after the next one.
    late: Option<(Peer, Envelope, Vec<u8>)>,
    /// How many frames were lost, repeated and delayed.
    pub(crate) happened: [u64; 3],
}

/// Faults, in frames per hundred.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// Lost.
    pub(crate) lost: u64,
    /// Sent twice.
    pub(crate) twice: u64,
    /// Sent after the next one.
    pub(crate) late: u64,
}

impl<R: Rail> Faulty<R> {
    pub(crate) fn new(rail: R, faults: Faults, seed: u64) -> Faulty<R> {
        Faulty { rail, faults, random: seed, late: None, happened: [0; 3] }
    }

    /// True in `often` of a hundred cases: splitmix64.
    fn percent(&mut self, often: u64) -> bool {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.random;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ x >> 31) % 100 < often
    }
}

impl<R: Rail> Rail for Faulty<R> {
    fn promises(&self, peer: Peer) -> Promises {
        let inner = self.rail.promises(peer);
        Promises {
            reliable: false,
            may_vanish: true,
            puts: false,
            gets: false,
            burst_frames_max: 1,
            initial_credit_bytes: 0,
            ..inner
        }
    }

    fn send(&mut self, to: Peer, envelope: &Envelope, payload: &[u8]) -> Sent {
        if self.percent(self.faults.lost) {
            self.happened[0] += 1;
            return Sent::Away;
        }
        if self.late.is_none() && self.percent(self.faults.late) {
            self.happened[2] += 1;
            self.late = Some((to, *envelope, payload.to_vec()));
            return Sent::Away;
        }
        let sent = self.rail.send(to, envelope, payload);
        if sent == Sent::Full {
            return sent;
        }
        if self.percent(self.faults.twice) {
            self.happened[1] += 1;
            // A repeat that finds no room is lost.
            self.rail.send(to, envelope, payload);
        }
        if let Some((to, envelope, payload)) = self.late.take() {
            self.rail.send(to, &envelope, &payload);
        }
        sent
    }

    as_the_rail_inside!();

    fn is_drained(&mut self) -> bool {
        self.late.is_none() && self.rail.is_drained()
    }
}
