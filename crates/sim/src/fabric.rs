//! The modelled network: what a frame costs on its way, and what may happen to it.

use ferrywire_nic::{Peer, Promises};

use crate::random::Random;

/// How ranks are connected and what things cost.
#[derive(Clone, Debug)]
pub struct Fabric {
    /// Ranks on one node. They reach each other by the local rail, others by the remote one.
    pub ranks_per_node: u32,
    /// Within a node.
    pub local: Link,
    /// Between nodes.
    pub remote: Link,
    /// What a node's own work costs.
    pub costs: Costs,
    /// Frames that a reliable rail holds from one rank to another; the next finds it full.
    pub ring_frames_max: Option<u32>,
}

/// One kind of rail.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// What it promises to the NIC.
    pub promises: Promises,
    /// From the last byte out to the last byte in.
    pub latency_ns: u64,
    /// What one byte adds, in picoseconds, at the sender and at the receiver.
    pub byte_ps: u64,
}

/// What a rank's processor spends.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// For each event that it handles.
    pub event_ns: u64,
    /// For each frame that it sends.
    pub frame_ns: u64,
    /// For each byte that it copies, in picoseconds.
    pub byte_ps: u64,
}

impl Fabric {
    /// The rail between two ranks.
    pub fn link(&self, from: Peer, to: Peer) -> &Link {
        match from.0 / self.ranks_per_node == to.0 / self.ranks_per_node {
            true => &self.local,
            false => &self.remote,
        }
    }
}

impl Link {
    /// How long its bytes keep the rail busy.
    pub fn busy_ns(&self, bytes: u64) -> u64 {
        bytes * self.byte_ps / 1000
    }
}

/// What a rule does to a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FrameFate {
    /// Nothing.
    Pass,
    /// It never arrives.
    Lose,
    /// It arrives again, this much later.
    Repeat(u64),
    /// It arrives this much later, and others may overtake it.
    Delay(u64),
}

/// Something that happens to frames on rails that promise nothing.
#[derive(Clone, Debug)]
pub enum Rule {
    /// So many of a hundred are lost.
    Lose {
        /// Of a hundred.
        percent: u64,
    },
    /// So many of a hundred arrive again, up to `within_ns` later.
    Repeat {
        /// Of a hundred.
        percent: u64,
        /// At most this much later.
        within_ns: u64,
    },
    /// So many of a hundred are late by up to `by_ns`: others overtake them.
    Reorder {
        /// Of a hundred.
        percent: u64,
        /// At most this much.
        by_ns: u64,
    },
    /// Everything sent between the two moments is late by `by_ns`.
    Spike {
        /// The first moment.
        from_ns: u64,
        /// The last.
        until_ns: u64,
        /// How late.
        by_ns: u64,
    },
    /// Between the two moments nothing passes between ranks below `border` and the others.
    Cut {
        /// The first moment.
        from_ns: u64,
        /// When it heals.
        until_ns: u64,
        /// The first rank of the other side.
        border: u32,
    },
}

impl Rule {
    /// What this rule does to a frame that is sent now.
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
