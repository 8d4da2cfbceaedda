//! What a job did and when: `ferry run --trace`, `--stats`, and `ferry report`.
//!
//! | file | what it is |
//! |---|---|
//! | `recording.rs` | makes ranks record, and writes the result when the job is over |
//! | `merge.rs` | makes one timeline of what the ranks have recorded |
//! | `perfetto.rs`, `perfetto/parse.rs` | the timeline as a file for Perfetto, and back |
//! | `stats.rs`, `stats/print.rs` | numbers about a timeline |
//! | `report.rs`, `report/page.html` | a timeline as a page for a browser |

mod merge;
mod perfetto;
mod recording;
mod report;
mod stats;

use ferrywire_host::facts::CallName;

pub(crate) use recording::{NoRecording, Recording, RecordingRequest};
pub(crate) use report::TraceReport;

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

    /// How many events are missing.
    fn dropped(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.dropped).sum()
    }

    /// How many calls there were.
    fn calls(&self) -> u64 {
        self.ranks.iter().flat_map(|rank| &rank.calls).map(|call| call.times).sum()
    }
}
