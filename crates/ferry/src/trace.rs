//! What a job did and when: `ferry run --trace`, `--stats`, and `ferry report`.
//!
//! | file | what it is |
//! |---|---|
//! | `recording.rs` | makes ranks record, and writes the result when the job is over |
//! | `collected.rs` | keeps what other hosts send of the recordings of their ranks |
//! | `clock.rs` | relates the clocks of hosts |
//! | `merge.rs` | makes one timeline of what the ranks have recorded |
//! | `perfetto.rs`, `perfetto/parse.rs` | the timeline as a file for Perfetto, and back |
//! | `stats.rs`, `stats/print.rs` | numbers about a timeline |
//! | `report.rs`, `report/page.html` | a timeline as a page for a browser |

mod clock;
mod collected;
mod merge;
mod perfetto;
mod recording;
mod report;
mod stats;

use std::collections::BTreeMap;

use ferrywire_host::facts::CallName;
use ferrywire_host::trace::TracePart;

pub(crate) use clock::{ClockComparison, ClockExchange, HostClock};
pub(crate) use collected::HostRecordings;
pub(crate) use recording::{
    NoRecording, Recording, RecordingFolder, RecordingRequest, remove_folder,
};
pub(crate) use report::TraceReport;

/// What a rank has recorded.
pub(crate) struct RecordedPart {
    /// What the rank is called.
    name: String,
    /// Its host and the clock of that, if the job has several.
    host: Option<(String, HostClock)>,
    part: TracePart,
}

/// What all ranks of a job did. Times are in nanoseconds since the first of them joined it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timeline {
    ranks: Vec<RankTimeline>,
    messages: Vec<TracedMessage>,
    collectives: Vec<TracedCollective>,
    /// The names of communicators, windows and files.
    objects: Vec<String>,
}

/// What a rank did.
#[derive(Clone, Debug, Default, PartialEq)]
struct RankTimeline {
    /// What it is called.
    name: String,
    /// Where it ran, and by how much its times may be wrong by the clock of the launcher, if the job had several hosts.
    host: Option<String>,
    clock_error_ns: u64,
    pid: u32,
    start_ns: u64,
    end_ns: u64,
    /// It left the job in order.
    left: bool,
    /// How many events are missing, and why.
    dropped: u64,
    trouble: Option<String>,
    /// In the order in which they began.
    calls: Vec<TimedCall>,
    agent: Vec<AgentSpan>,
    depth: Vec<DepthSample>,
}

/// A call, or several in a row that asked in vain whether something is over.
#[derive(Clone, Debug, PartialEq)]
struct TimedCall {
    thread: u32,
    name: CallName,
    begin_ns: u64,
    end_ns: u64,
    /// The job ended before the call did.
    open: bool,
    /// How many calls it stands for.
    times: u64,
    /// How long the rank was inside.
    inside_ns: u64,
    details: Vec<CallDetail>,
}

/// The arguments of a call. Ranks and objects are indices in the timeline.
#[derive(Clone, Copy, Debug, PartialEq)]
enum CallDetail {
    Send { to: Option<usize>, tag: u32, bytes: u64, object: Option<usize> },
    Receive { from: Option<usize>, tag: Option<u32>, object: Option<usize> },
    Collective { object: Option<usize>, nth: u32, root: Option<u32>, bytes: u64 },
    Other { object: Option<usize>, peer: Option<usize>, count: u64 },
}

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TracedMessage {
    from: usize,
    to: usize,
    tag: u32,
    bytes: u64,
    object: Option<usize>,
    /// When the call began that sent it, and its index among the calls of the sender.
    sent_ns: u64,
    sent_by: usize,
    /// When it was received, and the thread that asked for it.
    received_ns: u64,
    thread: u32,
    /// How much earlier it was received by the clocks of the hosts, if that was before it was sent.
    moved_ns: u64,
}

/// A call that the members of an object made together: each member and its call, in the order in which they came.
#[derive(Clone, Debug, PartialEq)]
struct TracedCollective {
    calls: Vec<(usize, usize)>,
}

/// The agent turned the NIC of a plane, and in so many turns something happened.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AgentSpan {
    begin_ns: u64,
    end_ns: u64,
    turns: u64,
}

/// What the NIC of a plane held.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DepthSample {
    plane: u32,
    at_ns: u64,
    unexpected_bytes: u64,
    operations: u64,
}

impl Timeline {
    /// When the last rank left.
    fn end_ns(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.end_ns).max().unwrap_or(0)
    }

    fn call(&self, (rank, call): (usize, usize)) -> &TimedCall {
        &self.ranks[rank].calls[call]
    }

    /// By how much the times of ranks on two different hosts may be wrong together. `None` if all ran on one host.
    fn clock_error_ns(&self) -> Option<u64> {
        let mut hosts: BTreeMap<&str, u64> = BTreeMap::new();
        for rank in &self.ranks {
            let error_ns = hosts.entry(rank.host.as_deref()?).or_default();
            *error_ns = (*error_ns).max(rank.clock_error_ns);
        }
        let mut errors: Vec<u64> = hosts.into_values().collect();
        errors.sort_unstable();
        let two = errors.split_off(errors.len().checked_sub(2)?);
        Some(two.iter().sum())
    }

    /// How many events are missing.
    fn dropped(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.dropped).sum()
    }

    /// How many calls there were.
    fn calls(&self) -> u64 {
        self.ranks.iter().flat_map(|rank| &rank.calls).map(|call| call.times).sum()
    }
}
