//! Makes one timeline of what the ranks have recorded.
//!
//! Messages are not numbered on their way, and need not be: those with the same group, source and tag match in the order
//! in which they were sent, and those that such receives get come in the order in which these were posted
//! (MPI 5.0 §3.5). So the n-th send of a sort is the n-th receive that got one of that sort.

use std::collections::{BTreeMap, HashMap};

use ferrywire_host::facts::{CallFact, CallKind, Members};
use ferrywire_host::trace::{CallRecord, Matched, PartEvent, TracePart};
use ferrywire_mpi::comm::number_of;

use super::{
    AgentSpan, CallDetail, DepthSample, RankTimeline, RecordedPart, TimedCall, Timeline,
    TracedCollective, TracedMessage,
};

/// The match word of messages and their receiver: those that no receive can tell apart.
type Sort = (u64, usize);

/// What is known about a send.
struct SentMessage {
    from: usize,
    call: usize,
    at_ns: u64,
    tag: u32,
    bytes: u64,
    object: Option<usize>,
}

/// What is known about a receive that is over.
struct ReceivedMessage {
    /// The place of its post among all records of the rank.
    order: u64,
    thread: u32,
    at_ns: u64,
    bytes: u64,
}

#[derive(Default)]
struct Merge {
    timeline: Timeline,
    /// The earliest start of a rank.
    zero_ns: u64,
    /// The indices of ranks by their numbers in the job.
    indices: HashMap<u32, usize>,
    /// The objects by their members, number, and how many there were with the same before.
    objects: HashMap<(u64, u16, u32), usize>,
    sent: BTreeMap<Sort, Vec<SentMessage>>,
    received: BTreeMap<Sort, Vec<ReceivedMessage>>,
    collectives: BTreeMap<(usize, u32), Vec<(usize, usize)>>,
}

/// The objects of a rank, by their numbers: from which record on, which object, and its members.
type Births = HashMap<u16, Vec<(u64, usize, Members)>>;

/// Merges what ranks have recorded. Times become those of the clock of the launcher.
pub(super) fn merge(mut parts: Vec<RecordedPart>) -> Timeline {
    parts.sort_by_key(|one| one.part.me);
    let mut errors = Vec::with_capacity(parts.len());
    for RecordedPart { host, part, .. } in &mut parts {
        let clock = host.as_ref().map(|(_, clock)| clock);
        let end_ns = part.events.iter().filter_map(last_ns).chain(part.left_ns).max();
        let end_ns = end_ns.unwrap_or(part.start_ns);
        errors.push(clock.map_or(0, |clock| clock.error_ns(part.start_ns, end_ns)));
        if let Some(clock) = clock {
            part.translate(|ns| clock.launcher_ns(ns));
        }
    }
    let mut merge = Merge {
        zero_ns: parts.iter().map(|one| one.part.start_ns).min().unwrap_or(0),
        indices: parts.iter().enumerate().map(|(at, one)| (one.part.me, at)).collect(),
        ..Merge::default()
    };
    for (at, (RecordedPart { name, host, part }, clock_error_ns)) in
        parts.into_iter().zip(errors).enumerate()
    {
        let rank = merge.rank(at, part);
        let host = host.map(|(host, _)| host);
        merge.timeline.ranks.push(RankTimeline { name, host, clock_error_ns, ..rank });
    }
    merge.join_messages();
    merge.join_collectives();
    merge.timeline
}

impl Merge {
    fn since(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.zero_ns)
    }

    fn rank(&mut self, at: usize, part: TracePart) -> RankTimeline {
        let births = self.births(&part);
        let start_ns = self.since(part.start_ns);
        let last_ns = part.events.iter().filter_map(last_ns).map(|ns| self.since(ns)).max();
        let left_ns = part.left_ns.map(|ns| self.since(ns));
        let end_ns = left_ns.max(last_ns).unwrap_or(start_ns);
        let mut rank = RankTimeline {
            pid: part.pid,
            start_ns,
            end_ns,
            left: left_ns.is_some(),
            dropped: part.dropped,
            trouble: part.error.map(|code| std::io::Error::from_raw_os_error(code).to_string()),
            ..RankTimeline::default()
        };
        let mut open = OpenCalls::default();
        let mut posted: HashMap<(u64, u64), (u64, u32)> = HashMap::new();
        for event in part.events {
            match event {
                PartEvent::Call(call) => {
                    let index = rank.calls.len();
                    rank.calls.push(self.call(&call, end_ns));
                    open.begin(&call, index);
                    self.add(at, &mut rank, index, call.after, &call.fact, &births);
                    if let Some(got) = call.got {
                        self.receive(at, call.number, call.thread, got);
                    }
                }
                PartEvent::Arguments { number, thread, fact } => {
                    if let Some(call) = open.around(thread, number) {
                        self.add(at, &mut rank, call.index, call.after, &fact, &births);
                    }
                }
                PartEvent::Received { number, thread, got } => {
                    self.receive(at, number, thread, got);
                }
                PartEvent::Posted { operation, number, thread } => {
                    posted.insert(operation, (number, thread));
                }
                PartEvent::Completed { operation, got } => {
                    if let Some((order, thread)) = posted.remove(&operation) {
                        self.receive(at, order, thread, got);
                    }
                }
                PartEvent::Depth { plane, at_ns, unexpected_bytes, operations } => {
                    let plane = u32::try_from(plane).unwrap_or(0);
                    let at_ns = self.since(at_ns);
                    rank.depth.push(DepthSample { plane, at_ns, unexpected_bytes, operations });
                }
                PartEvent::Agent { begin_ns, end_ns, turns } => {
                    let (begin_ns, end_ns) = (self.since(begin_ns), self.since(end_ns));
                    rank.agent.push(AgentSpan { begin_ns, end_ns, turns });
                }
                PartEvent::Object { .. } | PartEvent::Name { .. } => {}
            }
        }
        rank
    }

    fn call(&self, call: &CallRecord, rank_end_ns: u64) -> TimedCall {
        let begin_ns = self.since(call.begin_ns);
        let end_ns = call.end_ns.map_or(rank_end_ns, |ns| self.since(ns)).max(begin_ns);
        let (times, inside_ns) = call.polls.unwrap_or((1, end_ns - begin_ns));
        TimedCall {
            thread: call.thread,
            name: call.fact.name,
            begin_ns,
            end_ns,
            open: call.end_ns.is_none(),
            times,
            inside_ns,
            details: Vec::new(),
        }
    }

    /// Adds arguments to a call.
    fn add(
        &mut self,
        at: usize,
        rank: &mut RankTimeline,
        index: usize,
        after: u64,
        fact: &CallFact,
        births: &Births,
    ) {
        // What was described within the call counts: a page describes an object when it is first used.
        let object = |number: u16| {
            let (_, object, _) =
                births.get(&number)?.iter().rev().find(|(born, _, _)| *born < after)?;
            Some(*object)
        };
        let detail = match fact.kind {
            CallKind::Send { to, word, bytes } => {
                let (to, tag, object) = (self.index(to.0), word.tag(), object(number_of(word)));
                if let Some(to) = to {
                    let at_ns = rank.calls[index].begin_ns;
                    let sent = SentMessage { from: at, call: index, at_ns, tag, bytes, object };
                    self.sent.entry((word.bits(), to)).or_default().push(sent);
                }
                CallDetail::Send { to, tag, bytes, object }
            }
            CallKind::Receive { word, any_source, any_tag, .. } => {
                let number = number_of(word);
                let members = births.get(&number).and_then(|births| births.last());
                let from = members.filter(|_| !any_source).and_then(|(_, _, members)| {
                    let beyond = word.source().checked_mul(members.stride)?;
                    let peer = members.first.checked_add(beyond)?;
                    self.index(peer).filter(|_| members.stride != 0 || members.size == 1)
                });
                let tag = (!any_tag).then(|| word.tag());
                CallDetail::Receive { from, tag, object: object(number) }
            }
            CallKind::Collective { object: number, nth, root, bytes, .. } => {
                let object = object(number);
                if let Some(object) = object {
                    let calls = self.collectives.entry((object, nth)).or_default();
                    calls.push((at, index));
                }
                CallDetail::Collective { object, nth, root, bytes }
            }
            CallKind::Other { object: number, peer, count } => {
                let peer = peer.and_then(|peer| self.index(peer.0));
                if (number, peer, count) == (0, None, 0) || rank.calls[index].times > 1 {
                    return;
                }
                // Number 0 is that of calls on no object, too.
                let object = object(number).filter(|_| number != 0);
                CallDetail::Other { object, peer, count }
            }
        };
        rank.calls[index].details.push(detail);
    }

    fn index(&self, peer: u32) -> Option<usize> {
        self.indices.get(&peer).copied()
    }

    fn receive(&mut self, at: usize, order: u64, thread: u32, got: Matched) {
        let at_ns = self.since(got.at_ns);
        let received = ReceivedMessage { order, thread, at_ns, bytes: got.bytes };
        self.received.entry((got.word.bits(), at)).or_default().push(received);
    }

    /// The objects of a rank.
    fn births(&mut self, part: &TracePart) -> Births {
        let mut births = Births::new();
        let mut same: HashMap<(u64, u16), u32> = HashMap::new();
        for event in &part.events {
            match event {
                PartEvent::Object { number, members, record } => {
                    let (number, members) = (*number, *members);
                    let before = same.entry((members.group, number)).or_default();
                    let key = (members.group, number, *before);
                    *before += 1;
                    let names = &mut self.timeline.objects;
                    let object = *self.objects.entry(key).or_insert_with(|| {
                        names.push(format!("communicator {number} of {} ranks", members.size));
                        names.len() - 1
                    });
                    births.entry(number).or_default().push((*record, object, members));
                }
                PartEvent::Name { number, name } if !name.is_empty() => {
                    if let Some((_, object, _)) = births.get(number).and_then(|list| list.last()) {
                        self.timeline.objects[*object].clone_from(name);
                    }
                }
                _ => {}
            }
        }
        births
    }

    /// Finds the send of each message that was received.
    fn join_messages(&mut self) {
        for ((word, to), mut received) in std::mem::take(&mut self.received) {
            let Some(mut sent) = self.sent.remove(&(word, to)) else { continue };
            received.sort_by_key(|one| one.order);
            // Ranks of two communicators that had the same number one after the other.
            sent.sort_by_key(|one| one.at_ns);
            for (sent, received) in sent.into_iter().zip(received) {
                // Where events are missing, the rest cannot be told apart.
                if sent.bytes != received.bytes {
                    break;
                }
                // Clocks of hosts may differ by more than the message took.
                let received_ns = received.at_ns.max(sent.at_ns);
                self.timeline.messages.push(TracedMessage {
                    from: sent.from,
                    to,
                    tag: sent.tag,
                    bytes: sent.bytes,
                    object: sent.object,
                    sent_ns: sent.at_ns,
                    sent_by: sent.call,
                    received_ns,
                    thread: received.thread,
                    moved_ns: received_ns - received.at_ns,
                });
            }
        }
        self.timeline.messages.sort_by_key(|message| message.received_ns);
    }

    fn join_collectives(&mut self) {
        for (_, mut calls) in std::mem::take(&mut self.collectives) {
            calls.sort_by_key(|&call| self.timeline.call(call).begin_ns);
            if calls.len() > 1 {
                self.timeline.collectives.push(TracedCollective { calls });
            }
        }
        let begin_ns = |one: &TracedCollective| one.calls[0];
        let timeline = &mut self.timeline;
        let mut collectives = std::mem::take(&mut timeline.collectives);
        collectives.sort_by_key(|one| timeline.call(begin_ns(one)).begin_ns);
        timeline.collectives = collectives;
    }
}

/// The calls that the threads of a rank are in.
#[derive(Default)]
struct OpenCalls(HashMap<u32, Vec<OpenCall>>);

#[derive(Clone, Copy)]
struct OpenCall {
    /// The number of the first record after it, and its index.
    after: u64,
    index: usize,
}

impl OpenCalls {
    fn begin(&mut self, call: &CallRecord, index: usize) {
        self.around(call.thread, call.number);
        let open = OpenCall { after: call.after, index };
        self.0.entry(call.thread).or_default().push(open);
    }

    /// The call that a thread was in when it made a record.
    fn around(&mut self, thread: u32, number: u64) -> Option<OpenCall> {
        let stack = self.0.entry(thread).or_default();
        while stack.last().is_some_and(|call| call.after <= number) {
            stack.pop();
        }
        stack.last().copied()
    }
}

/// The last moment that a record speaks of.
fn last_ns(event: &PartEvent) -> Option<u64> {
    match event {
        PartEvent::Call(call) => Some(call.end_ns.unwrap_or(call.begin_ns)),
        PartEvent::Received { got, .. } | PartEvent::Completed { got, .. } => Some(got.at_ns),
        PartEvent::Depth { at_ns, .. } => Some(*at_ns),
        PartEvent::Agent { end_ns, .. } => Some(*end_ns),
        _ => None,
    }
}
