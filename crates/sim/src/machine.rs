//! A machine: what the parts of a computer and its network cost, and a cluster of such computers.
//!
//! A [`crate::world::World`] asks whether the NIC is right, so its times are random and its rails fail. A [`Cluster`]
//! asks how long the NIC takes, so nothing in it is random or fails, but for frames that links lose: each rank has a host
//! processor, which runs a program, and a NIC that runs on a processor of its own or inside the host's calls; a bus lies
//! between them, and links between NICs. Both run the production NIC, and neither has any protocol of its own.
//!
//! [`today`] reads machines of today from files, and [`growth`] runs operations on more and more of their ranks.

mod cache;
pub mod check;
mod cluster;
pub mod growth;
mod port;
pub mod today;
mod topology;

pub use cache::Cache;
pub use cluster::{Cluster, HostProgram, Moment, Operation};
pub use topology::{Path, Topology};

use ferrywire_nic::{Promises, RailId};
use serde::{Deserialize, Serialize};

/// What each part of a machine costs, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Machine {
    /// What runs the NIC.
    pub runner: Runner,
    /// The host: a call that posts something, until the NIC can be told.
    pub call_ns: f64,
    /// The host: from seeing that what it waits for is over until the call has returned.
    pub reap_ns: f64,
    /// From the host's write until the NIC sees it.
    pub doorbell_ns: f64,
    /// From the NIC's write until the host sees it.
    pub notice_ns: f64,
    /// What the NIC does itself.
    pub nic: NicCosts,
    /// How bytes move between the memories of host and NIC.
    pub bus: BusCosts,
    /// The links between NICs.
    pub wire: WireCosts,
    /// What matching costs.
    pub matching: MatchingCosts,
}

/// What runs the NIC.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// A processor of its own, always.
    Processor,
    /// The host's processor, while the program is in a call.
    Calls,
    /// The same; and a signal, which costs this much, interrupts the program for frames of a schedule that the NIC
    /// has open.
    CallsAndSignals(f64),
}

/// What the NIC's own work costs, apart from matching.
#[derive(Clone, Copy, Debug, Default)]
pub struct NicCosts {
    /// A command of the host to send, or to run a schedule.
    pub send_ns: f64,
    /// A command of the host to receive.
    pub receive_ns: f64,
    /// A frame that has arrived.
    pub frame_in_ns: f64,
    /// A frame, until it leaves.
    pub frame_out_ns: f64,
    /// A frame, after it has left.
    pub frame_gone_ns: f64,
    /// More, until it leaves, for a grant.
    pub grant_ns: f64,
    /// A direct write into the memory of a peer, until it begins.
    pub put_ns: f64,
    /// The end of such a write, at either side.
    pub put_end_ns: f64,
    /// A completion.
    pub completion_ns: f64,
    /// Whether the NIC sends what modules send one by one, each when the one before has been acknowledged.
    pub one_by_one: bool,
    /// A run of a module, and each unit of its fuel.
    pub module: Linear,
    /// Combining bytes.
    pub reduce: Linear,
}

/// How bytes move between the memories of host and NIC.
#[derive(Clone, Copy, Debug)]
pub enum BusCosts {
    /// The processor that runs the NIC copies them.
    Copy(Linear),
    /// A DMA engine moves them, one transfer at a time, beside the processor.
    Dma(Linear),
}

/// The links between NICs.
#[derive(Clone, Debug)]
pub struct WireCosts {
    /// What a rail promises to the NIC.
    pub promises: Promises,
    /// Bytes of a header on this network, in place of our envelope.
    pub header_bytes: u64,
    /// The way of a frame, once it has left.
    pub path: Path,
    /// For the bytes of a frame: the cheapest of these, a curve that bends down.
    pub bytes: Vec<Linear>,
}

/// What matching costs, besides the rest of a command or frame.
#[derive(Clone, Debug, Default)]
pub struct MatchingCosts {
    /// An entry that software compares, if it is in the cache.
    pub entry_ns: f64,
    /// The memory behind the cache, if the queues may be longer than it.
    pub memory: Option<MemoryCosts>,
    /// A lookup in an associative unit.
    pub look_ns: f64,
    /// Entering and leaving its insert mode.
    pub insert_mode_ns: f64,
    /// Filling a cell.
    pub insert_ns: f64,
}

/// The memory behind a cache.
#[derive(Clone, Debug)]
pub struct MemoryCosts {
    /// The cache.
    pub cache: Cache,
    /// Bytes of a queue entry.
    pub entry_bytes: f64,
    /// A miss. The processor compares one entry while it fetches the next, so an entry takes the longer of the two.
    pub miss_ns: f64,
}

/// A cost that grows with a number, such as bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Linear {
    /// Of anything at all.
    pub fixed_ns: f64,
    /// Of each.
    pub each_ns: f64,
}

impl Linear {
    /// Costs nothing.
    pub const FREE: Linear = Linear { fixed_ns: 0.0, each_ns: 0.0 };

    /// The line of these two numbers.
    pub const fn new(fixed_ns: f64, each_ns: f64) -> Linear {
        Linear { fixed_ns, each_ns }
    }

    /// The line through two points.
    pub fn through((x, y): (f64, f64), (other_x, other_y): (f64, f64)) -> Linear {
        let each_ns = (other_y - y) / (other_x - x);
        Linear { fixed_ns: y - x * each_ns, each_ns }
    }

    /// The cost of `count`.
    pub fn of(self, count: u64) -> f64 {
        self.fixed_ns + count as f64 * self.each_ns
    }
}

impl Machine {
    /// The least time of a frame with this payload, from the NIC that sends it to the end of the work of the one that
    /// receives it: no collective has a round that takes less.
    pub fn round_ns(&self, payload: u64) -> f64 {
        let path = &self.wire.path;
        let moving = match self.bus {
            BusCosts::Copy(cost) | BusCosts::Dma(cost) if payload > 0 => 2.0 * cost.of(payload),
            BusCosts::Copy(_) | BusCosts::Dma(_) => 0.0,
        };
        let nics = self.nic.frame_out_ns + self.nic.frame_in_ns;
        nics + moving + self.wire.busy_ns(payload) + path.fixed_ns + path.hop_ns
    }

    /// The least time between two messages that a rank sends, all with this payload.
    pub fn send_gap_ns(&self, payload: u64) -> f64 {
        (self.nic.frame_out_ns + self.nic.frame_gone_ns).max(self.wire.busy_ns(payload))
    }

    /// The least time between two messages of a rank that sends as many as it receives, all with this payload.
    pub fn gap_ns(&self, payload: u64) -> f64 {
        let nic = self.nic.frame_out_ns + self.nic.frame_gone_ns + self.nic.frame_in_ns;
        nic.max(self.wire.busy_ns(payload))
    }
}

impl WireCosts {
    /// How long a frame with this payload occupies its link.
    pub fn busy_ns(&self, payload: u64) -> f64 {
        let bytes = self.header_bytes + payload;
        self.bytes.iter().map(|line| line.of(bytes)).reduce(f64::min).unwrap_or(0.0)
    }

    /// How long it takes from the end of one link to the end of the last.
    pub fn latency_ns(&self, from: u32, to: u32) -> f64 {
        self.path.fixed_ns + f64::from(self.path.topology.hops(from, to)) * self.path.hop_ns
    }
}

/// A rail that loses nothing, with frames of this length.
pub const fn reliable(frame_bytes_max: u32, puts: bool) -> Promises {
    Promises {
        rail: RailId(0),
        reliable: true,
        may_vanish: false,
        puts,
        gets: false,
        frame_bytes_max,
        burst_frames_max: 1,
        initial_credit_bytes: 1 << 20,
    }
}

/// The nearest whole number of a size or a time, none of which is negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` ends at the bounds"
)]
pub(crate) fn rounded(value: f64) -> u64 {
    value.round() as u64
}
