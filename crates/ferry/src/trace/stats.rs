//! Numbers about a timeline: who spent how long in MPI, and why.

mod print;

use std::collections::{BTreeMap, HashMap};

use ferrywire_runtime::call_name::name_of;
use serde::Serialize;

use super::{TimedCall, Timeline};
pub(super) use print::{bytes, time};

/// What `--stats` prints, and what it writes as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Statistics {
    /// From the start of the first rank to the end of the last.
    pub(super) run_ns: u64,
    pub(super) calls: u64,
    pub(super) messages: u64,
    pub(super) message_bytes: u64,
    /// By how much the times of two hosts may be wrong together, if the job had several.
    pub(super) clock_error_ns: Option<u64>,
    /// Events that are missing, since there was no room for them.
    pub(super) missing_events: u64,
    pub(super) ranks: Vec<RankStats>,
    pub(super) by_call: Vec<CallStats>,
    /// How many messages have how many bytes at most.
    pub(super) sizes: Vec<SizeStats>,
    pub(super) late_senders: LateStats,
    pub(super) collectives: ImbalanceStats,
    /// Those with the most bytes first.
    pub(super) pairs: Vec<PairStats>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct RankStats {
    pub(super) rank: String,
    /// Where it ran, if the job had several hosts.
    pub(super) host: Option<String>,
    pub(super) run_ns: u64,
    /// Of the thread that was in MPI for the longest time.
    pub(super) mpi_ns: u64,
    pub(super) calls: u64,
    pub(super) sent_messages: u64,
    pub(super) sent_bytes: u64,
    pub(super) received_messages: u64,
    pub(super) received_bytes: u64,
    pub(super) agent_ns: u64,
    pub(super) unexpected_bytes_max: u64,
    /// How long it waited for messages that were sent after it had begun to wait.
    pub(super) late_senders_ns: u64,
    /// How long it waited for others that came later to collective calls.
    pub(super) imbalance_ns: u64,
    /// It did not leave the job in order.
    pub(super) ended_early: bool,
    pub(super) missing_events: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CallStats {
    pub(super) call: &'static str,
    pub(super) calls: u64,
    pub(super) total_ns: u64,
    pub(super) max_ns: u64,
    pub(super) bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct SizeStats {
    pub(super) bytes_max: u64,
    pub(super) messages: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct LateStats {
    pub(super) total_ns: u64,
    pub(super) messages: u64,
    pub(super) pairs: Vec<LatePair>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct LatePair {
    pub(super) sender: String,
    pub(super) receiver: String,
    pub(super) lost_ns: u64,
    pub(super) messages: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct ImbalanceStats {
    pub(super) calls: u64,
    pub(super) total_ns: u64,
    /// Those in which the most time was lost, by call and object.
    pub(super) by_call: Vec<CollectiveStats>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CollectiveStats {
    pub(super) call: &'static str,
    pub(super) object: String,
    pub(super) calls: u64,
    /// How long all members together waited for the last to come.
    pub(super) lost_ns: u64,
    /// The mean time from the first that came to the last.
    pub(super) spread_mean_ns: u64,
    pub(super) spread_max_ns: u64,
    /// The rank that came last most often, and how often.
    pub(super) last_rank: String,
    pub(super) last_times: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct PairStats {
    pub(super) from: String,
    pub(super) to: String,
    /// The same as indices.
    #[serde(skip)]
    pub(super) at: (usize, usize),
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

/// What collective calls of one name on one object have in common.
#[derive(Default)]
struct Spread {
    calls: u64,
    lost_ns: u64,
    sum_ns: u64,
    max_ns: u64,
    last: HashMap<usize, u64>,
}

impl Statistics {
    pub(super) fn of(timeline: &Timeline) -> Statistics {
        let mut ranks: Vec<RankStats> =
            (0..timeline.ranks.len()).map(|at| RankStats::of(timeline, at)).collect();
        let mut pairs: BTreeMap<(usize, usize), (u64, u64)> = BTreeMap::new();
        let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
        for message in &timeline.messages {
            let (from, to) = (message.from, message.to);
            ranks[from].sent_messages += 1;
            ranks[from].sent_bytes += message.bytes;
            ranks[to].received_messages += 1;
            ranks[to].received_bytes += message.bytes;
            let pair = pairs.entry((from, to)).or_default();
            *pair = (pair.0 + 1, pair.1 + message.bytes);
            *sizes.entry(size_class(message.bytes)).or_default() += 1;
        }
        let name = |at: usize| timeline.ranks[at].name.clone();
        let pair = |(at, (messages, bytes)): ((usize, usize), (u64, u64))| {
            let (from, to) = (name(at.0), name(at.1));
            PairStats { from, to, at, messages, bytes }
        };
        let mut pairs: Vec<PairStats> = pairs.into_iter().map(pair).collect();
        pairs.sort_by_key(|pair| std::cmp::Reverse((pair.bytes, pair.messages)));
        let size = |(class, messages): (u32, u64)| SizeStats { bytes_max: limit(class), messages };
        Statistics {
            run_ns: timeline.end_ns(),
            calls: timeline.calls(),
            messages: timeline.messages.len() as u64,
            message_bytes: timeline.messages.iter().map(|message| message.bytes).sum(),
            clock_error_ns: timeline.clock_error_ns(),
            missing_events: timeline.dropped(),
            by_call: by_call(timeline),
            sizes: sizes.into_iter().map(size).collect(),
            late_senders: late_senders(timeline, &mut ranks),
            collectives: imbalance(timeline, &mut ranks),
            pairs,
            ranks,
        }
    }

    /// The pairs as indices of ranks, with their messages and bytes.
    pub(super) fn matrix(&self) -> Vec<(usize, usize, u64, u64)> {
        let entry = |pair: &PairStats| (pair.at.0, pair.at.1, pair.messages, pair.bytes);
        self.pairs.iter().map(entry).collect()
    }
}

impl RankStats {
    fn of(timeline: &Timeline, at: usize) -> RankStats {
        let rank = &timeline.ranks[at];
        let mut by_thread: HashMap<u32, u64> = HashMap::new();
        let mut until: HashMap<u32, u64> = HashMap::new();
        for call in &rank.calls {
            // A call within a call of the same thread is counted with that.
            let until = until.entry(call.thread).or_default();
            if call.begin_ns >= *until {
                *by_thread.entry(call.thread).or_default() += call.inside_ns;
            }
            *until = (*until).max(call.end_ns);
        }
        RankStats {
            rank: rank.name.clone(),
            host: rank.host.clone(),
            run_ns: rank.end_ns - rank.start_ns,
            mpi_ns: by_thread.into_values().max().unwrap_or(0),
            calls: rank.calls.iter().map(|call| call.times).sum(),
            sent_messages: 0,
            sent_bytes: 0,
            received_messages: 0,
            received_bytes: 0,
            agent_ns: rank.agent.iter().map(|span| span.end_ns - span.begin_ns).sum(),
            unexpected_bytes_max: rank
                .depth
                .iter()
                .map(|sample| sample.unexpected_bytes)
                .max()
                .unwrap_or(0),
            late_senders_ns: 0,
            imbalance_ns: 0,
            ended_early: !rank.left,
            missing_events: rank.dropped,
        }
    }
}

fn by_call(timeline: &Timeline) -> Vec<CallStats> {
    let mut calls: HashMap<u16, CallStats> = HashMap::new();
    for call in timeline.ranks.iter().flat_map(|rank| &rank.calls) {
        let stats = calls.entry(call.name.0).or_insert_with(|| CallStats {
            call: name_of(call.name),
            calls: 0,
            total_ns: 0,
            max_ns: 0,
            bytes: 0,
        });
        stats.calls += call.times;
        stats.total_ns += call.inside_ns;
        if call.times == 1 {
            stats.max_ns = stats.max_ns.max(call.inside_ns);
        }
        stats.bytes += call.details.iter().filter_map(super::CallDetail::bytes).sum::<u64>();
    }
    let mut calls: Vec<CallStats> = calls.into_values().collect();
    calls.sort_by_key(|stats| (std::cmp::Reverse(stats.total_ns), stats.call));
    calls
}

/// How long receivers waited in calls for messages whose senders came later.
fn late_senders(timeline: &Timeline, ranks: &mut [RankStats]) -> LateStats {
    // Several messages that one call waits for are late together: the last counts.
    let mut worst: BTreeMap<(usize, usize), (u64, usize)> = BTreeMap::new();
    let mut finder = CallFinder::new(timeline);
    for message in &timeline.messages {
        let Some(index) = finder.around(message.to, message.thread, message.received_ns) else {
            continue;
        };
        let call = &timeline.ranks[message.to].calls[index];
        if message.sent_ns > call.begin_ns && message.from != message.to {
            let lost = message.sent_ns.min(call.end_ns) - call.begin_ns;
            let entry = worst.entry((message.to, index)).or_default();
            *entry = (*entry).max((lost, message.from));
        }
    }
    let mut pairs: BTreeMap<(usize, usize), (u64, u64)> = BTreeMap::new();
    for ((to, _), (lost, from)) in worst {
        let pair = pairs.entry((from, to)).or_default();
        *pair = (pair.0 + lost, pair.1 + 1);
        ranks[to].late_senders_ns += lost;
    }
    let name = |at: usize| timeline.ranks[at].name.clone();
    let pair = |((from, to), (lost_ns, messages)): ((usize, usize), (u64, u64))| LatePair {
        sender: name(from),
        receiver: name(to),
        lost_ns,
        messages,
    };
    let mut pairs: Vec<LatePair> = pairs.into_iter().map(pair).collect();
    pairs.sort_by_key(|pair| std::cmp::Reverse(pair.lost_ns));
    LateStats {
        total_ns: pairs.iter().map(|pair| pair.lost_ns).sum(),
        messages: pairs.iter().map(|pair| pair.messages).sum(),
        pairs,
    }
}

/// Finds the call that a thread was in at a time.
struct CallFinder<'a> {
    /// The calls of each thread, as indices, in the order in which they began.
    calls: HashMap<(usize, u32), Vec<usize>>,
    timeline: &'a Timeline,
}

impl CallFinder<'_> {
    fn new(timeline: &Timeline) -> CallFinder<'_> {
        let mut calls: HashMap<(usize, u32), Vec<usize>> = HashMap::new();
        for (at, rank) in timeline.ranks.iter().enumerate() {
            for (index, call) in rank.calls.iter().enumerate() {
                calls.entry((at, call.thread)).or_default().push(index);
            }
        }
        CallFinder { calls, timeline }
    }

    fn around(&mut self, rank: usize, thread: u32, at_ns: u64) -> Option<usize> {
        let calls = self.calls.get(&(rank, thread))?;
        let call = |index: usize| -> &TimedCall { &self.timeline.ranks[rank].calls[index] };
        let after = calls.partition_point(|&index| call(index).begin_ns <= at_ns);
        let index = *calls.get(after.checked_sub(1)?)?;
        (call(index).end_ns >= at_ns).then_some(index)
    }
}

/// How long members of collective calls waited for the last to come.
fn imbalance(timeline: &Timeline, ranks: &mut [RankStats]) -> ImbalanceStats {
    let mut spreads: BTreeMap<(&'static str, Option<usize>), Spread> = BTreeMap::new();
    for collective in &timeline.collectives {
        let begin_ns = |&call: &(usize, usize)| timeline.call(call).begin_ns;
        let (Some(first), Some(last)) = (collective.calls.first(), collective.calls.last()) else {
            continue;
        };
        let last_ns = begin_ns(last);
        let call = timeline.call(*last);
        let object = call.details.iter().find_map(super::CallDetail::object);
        let spread = spreads.entry((name_of(call.name), object)).or_default();
        for one in &collective.calls {
            let call = timeline.call(*one);
            let lost = last_ns.min(call.end_ns).saturating_sub(call.begin_ns);
            spread.lost_ns += lost;
            ranks[one.0].imbalance_ns += lost;
        }
        let width = last_ns - begin_ns(first);
        spread.calls += 1;
        spread.sum_ns += width;
        spread.max_ns = spread.max_ns.max(width);
        *spread.last.entry(last.0).or_default() += 1;
    }
    let stats = |((call, object), spread): ((&'static str, Option<usize>), Spread)| {
        let last = spread.last.iter().max_by_key(|&(&rank, &times)| (times, rank));
        let (rank, times) = last.map_or((0, 0), |(&rank, &times)| (rank, times));
        CollectiveStats {
            call,
            object: object.map(|at| timeline.objects[at].clone()).unwrap_or_default(),
            calls: spread.calls,
            lost_ns: spread.lost_ns,
            spread_mean_ns: spread.sum_ns / spread.calls.max(1),
            spread_max_ns: spread.max_ns,
            last_rank: timeline.ranks[rank].name.clone(),
            last_times: times,
        }
    };
    let mut by_call: Vec<CollectiveStats> = spreads.into_iter().map(stats).collect();
    by_call.sort_by_key(|stats| std::cmp::Reverse(stats.lost_ns));
    ImbalanceStats {
        calls: by_call.iter().map(|stats| stats.calls).sum(),
        total_ns: by_call.iter().map(|stats| stats.lost_ns).sum(),
        by_call,
    }
}

impl super::CallDetail {
    /// The object that the call is about.
    fn object(&self) -> Option<usize> {
        use super::CallDetail;
        match *self {
            CallDetail::Send { object, .. }
            | CallDetail::Receive { object, .. }
            | CallDetail::Collective { object, .. }
            | CallDetail::Other { object, .. } => object,
        }
    }
}

/// Lengths are counted in classes, each four times as wide as that before.
fn size_class(bytes: u64) -> u32 {
    (0..CLASSES).find(|&class| bytes <= limit(class)).unwrap_or(CLASSES)
}

/// The longest message of a class.
fn limit(class: u32) -> u64 {
    match class {
        0 => 0,
        CLASSES => u64::MAX,
        class => 8 << (2 * (class - 1)),
    }
}

/// Up to 2 GiB, and one for what is longer.
const CLASSES: u32 = 16;
