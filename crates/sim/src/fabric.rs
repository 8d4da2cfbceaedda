//! The modelled network: what a frame costs, and what may happen to it.

use ferrywire_nic::{Peer, Promises, RailId};

use crate::random::Random;

/// Topology and costs.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// Ranks on one node. They reach each other by the local link, others by the remote one.
    pub ranks_per_node: u32,
    /// Within a node.
    pub local: Link,
    /// Between nodes.
    pub remote: Link,
    /// What a rank's own work costs.
    pub costs: Costs,
    /// Frames that a reliable rail holds from one rank to another before it is full.
    pub ring_frames_max: Option<u32>,
}

/// A kind of rail.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// What it promises to the NIC.
    pub promises: Promises,
    /// From the last byte sent to the last byte received.
    pub latency_ns: u64,
    /// Cost of one byte, in picoseconds, at the sender and at the receiver.
    pub byte_ps: u64,
}

/// What a rank's processor spends.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// For each event.
    pub event_ns: u64,
    /// For each frame sent.
    pub frame_ns: u64,
    /// For each byte copied, in picoseconds.
    pub byte_ps: u64,
}

/// The rail from each rank to itself. A frame on it costs what its rank does with it, and no time on the way.
static LOOPBACK: Link = Link {
    promises: Promises {
        rail: RailId(u8::MAX),
        reliable: true,
        may_vanish: false,
        puts: false,
        gets: false,
        frame_bytes_max: 4096,
        burst_frames_max: 1,
        initial_credit_bytes: 0,
    },
    latency_ns: 0,
    byte_ps: 0,
};

impl Fabric {
    /// The rail between two ranks.
    pub fn link(&self, from: Peer, to: Peer) -> &Link {
        if from == to {
            return &LOOPBACK;
        }
        match from.0 / self.ranks_per_node == to.0 / self.ranks_per_node {
            true => &self.local,
            false => &self.remote,
        }
    }
}

impl Link {
    /// How long these bytes keep the rail busy.
    pub fn busy_ns(&self, bytes: u64) -> u64 {
        bytes * self.byte_ps / 1000
    }
}

/// What a rule does to a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FrameFate {
    /// The frame passes.
    Pass,
    /// The frame never arrives.
    Lose,
    /// The frame arrives again, this much later.
    Repeat(u64),
    /// The frame arrives this much later, and others may overtake it.
    Delay(u64),
}

/// A fault on rails that promise nothing.
#[derive(Clone, Debug)]
pub enum Rule {
    /// `percent` of the frames are lost.
    Lose {
        /// Of a hundred.
        percent: u64,
    },
    /// `percent` of the frames arrive again, up to `within_ns` later.
    Repeat {
        /// Of a hundred.
        percent: u64,
        /// The longest delay.
        within_ns: u64,
    },
    /// `percent` of the frames are late by up to `by_ns`, so that others overtake them.
    Reorder {
        /// Of a hundred.
        percent: u64,
        /// The longest delay.
        by_ns: u64,
    },
    /// Every frame sent between the two moments is late by `by_ns`.
    Spike {
        /// The first moment.
        from_ns: u64,
        /// The last moment.
        until_ns: u64,
        /// The delay.
        by_ns: u64,
    },
    /// Between the two moments no frame passes between ranks below `border` and the others.
    Cut {
        /// The first moment.
        from_ns: u64,
        /// When the network heals.
        until_ns: u64,
        /// The first rank of the other side.
        border: u32,
    },
}

impl Rule {
    /// The fate of a frame sent now.
    pub fn judge(&self, from: Peer, to: Peer, now_ns: u64, random: &mut Random) -> FrameFate {
        match *self {
            Rule::Lose { percent } if random.percent(percent) => FrameFate::Lose,
            Rule::Repeat { percent, within_ns } if random.percent(percent) => {
                FrameFate::Repeat(random.between(1, within_ns))
            }
            Rule::Reorder { percent, by_ns } if random.percent(percent) => {
                FrameFate::Delay(random.between(1, by_ns))
            }
            Rule::Spike { from_ns, until_ns, by_ns } if (from_ns..until_ns).contains(&now_ns) => {
                FrameFate::Delay(by_ns)
            }
            Rule::Cut { from_ns, until_ns, border }
                if (from_ns..until_ns).contains(&now_ns)
                    && (from.0 < border) != (to.0 < border) =>
            {
                FrameFate::Lose
            }
            _ => FrameFate::Pass,
        }
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Rule::Lose { percent } => write!(f, "{percent} % lost"),
            Rule::Repeat { percent, within_ns } => {
                write!(f, "{percent} % repeated within {} us", within_ns / 1000)
            }
            Rule::Reorder { percent, by_ns } => {
                write!(f, "{percent} % late by up to {} us", by_ns / 1000)
            }
            Rule::Spike { from_ns, until_ns, by_ns } => write!(
                f,
                "all late by {} us from {} to {} us",
                by_ns / 1000,
                from_ns / 1000,
                until_ns / 1000
            ),
            Rule::Cut { from_ns, until_ns, border } => write!(
                f,
                "ranks from {border} cut off from {} to {} us",
                from_ns / 1000,
                until_ns / 1000
            ),
        }
    }
}
