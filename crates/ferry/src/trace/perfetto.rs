//! A timeline as a trace of Perfetto: a message of protocol buffers that holds packets.
//!
//! Each rank is a process, each of its threads that called MPI a track of it. Calls are slices. A message is a flow from
//! the slice of the call that sent it to a mark where it was received; a collective call is a flow through the slices of
//! its members. The work of the agent is a track of its own, and what the NIC holds are counters.
//!
//! The numbers of fields are those of `protos/perfetto/trace` in the sources of Perfetto, which may never change.

mod parse;
mod proto;

use std::collections::HashMap;
use std::io::{self, Write};

use ferrywire_runtime::call_name::name_of;

use super::{CallDetail, RankTimeline, TimedCall, Timeline};
pub(super) use parse::parse;
use proto::ProtoMessage;

/// Writes a timeline.
pub(super) fn write(timeline: &Timeline, out: &mut impl Write) -> io::Result<()> {
    let mut flows: Vec<HashMap<usize, Vec<u64>>> = vec![HashMap::new(); timeline.ranks.len()];
    let mut marks: Vec<Vec<usize>> = vec![Vec::new(); timeline.ranks.len()];
    for (at, message) in timeline.messages.iter().enumerate() {
        flows[message.from].entry(message.sent_by).or_default().push(flow_of_message(at));
        marks[message.to].push(at);
    }
    for (at, collective) in timeline.collectives.iter().enumerate() {
        for &(rank, call) in &collective.calls {
            flows[rank].entry(call).or_default().push(COLLECTIVES + at as u64);
        }
    }
    for at in 0..timeline.ranks.len() {
        let mut writer = RankWriter { timeline, at, names: HashMap::new(), out: Vec::new() };
        writer.rank(&flows[at], &marks[at]);
        out.write_all(&writer.out)?;
    }
    Ok(())
}

/// Writes the packets of a rank.
struct RankWriter<'a> {
    timeline: &'a Timeline,
    at: usize,
    /// The numbers of texts that have been written already: of events, of annotations and of their values.
    names: HashMap<(u32, String), u64>,
    out: Vec<u8>,
}

/// Something with a time, as it is written.
enum Mark<'a> {
    Begin(usize, &'a TimedCall),
    End(&'a TimedCall),
    Message(usize),
}

impl RankWriter<'_> {
    fn rank(&mut self, flows: &HashMap<usize, Vec<u64>>, messages: &[usize]) {
        let rank = &self.timeline.ranks[self.at];
        self.tracks(rank);
        self.edge(
            "joins",
            rank.start_ns,
            &[("clock_error_ns", Value::Number(rank.clock_error_ns))],
        );
        let mut marks = marks(rank);
        let received = |&at: &usize| (self.timeline.messages[at].received_ns, Mark::Message(at));
        marks.extend(messages.iter().map(received));
        // Stable: an end stays before the beginning that follows it at once.
        marks.sort_by_key(|(at_ns, _)| *at_ns);
        let none = Vec::new();
        for (at_ns, mark) in marks {
            match mark {
                Mark::Begin(index, call) => {
                    self.call(at_ns, call, flows.get(&index).unwrap_or(&none));
                }
                Mark::End(call) => {
                    let mut event = ProtoMessage::default();
                    event.number(TYPE, SLICE_END).number(TRACK, self.track(call.thread));
                    self.event(at_ns, event, ProtoMessage::default());
                }
                Mark::Message(at) => self.message(at_ns, at),
            }
        }
        for span in &rank.agent {
            let mut interned = ProtoMessage::default();
            let mut event = ProtoMessage::default();
            let name = self.intern(EVENT_NAMES, "turns", &mut interned);
            event.number(TYPE, SLICE_BEGIN).number(TRACK, self.track(AGENT)).number(NAME_ID, name);
            self.annotate(&mut event, &mut interned, "turns", &Value::Number(span.turns));
            self.event(span.begin_ns, event, interned);
            let mut event = ProtoMessage::default();
            event.number(TYPE, SLICE_END).number(TRACK, self.track(AGENT));
            self.event(span.end_ns, event, ProtoMessage::default());
        }
        for sample in &rank.depth {
            let held = [(BYTES, sample.unexpected_bytes), (OPERATIONS, sample.operations)];
            for (counter, value) in held {
                let mut event = ProtoMessage::default();
                let track = self.track(counter + sample.plane);
                event.number(TYPE, COUNTER).number(TRACK, track).number(COUNTER_VALUE, value);
                self.event(sample.at_ns, event, ProtoMessage::default());
            }
        }
        let end = if rank.left { "leaves" } else { "ends" };
        let trouble = rank.trouble.clone().unwrap_or_default();
        let notes = [("dropped", Value::Number(rank.dropped)), ("trouble", Value::Text(&trouble))];
        self.edge(end, rank.end_ns, &notes);
    }

    /// Describes the tracks of the rank.
    fn tracks(&mut self, rank: &RankTimeline) {
        let at = self.at as u64;
        let mut process = ProtoMessage::default();
        process.number(1, u64::from(rank.pid)).text(6, &process_name(rank));
        let mut track = ProtoMessage::default();
        track.number(1, self.track(PROCESS)).message(3, &process).number(12, at);
        self.track_packet(&track);
        let mut threads: Vec<u32> = rank.calls.iter().map(|call| call.thread).collect();
        let receivers = self.timeline.messages.iter().filter(|message| message.to == self.at);
        threads.extend(receivers.map(|message| message.thread));
        threads.sort_unstable();
        threads.dedup();
        for thread in threads {
            let name =
                if thread == 1 { "calls".into() } else { format!("calls of thread {thread}") };
            self.child(thread, &name, None);
        }
        if !rank.agent.is_empty() {
            self.child(AGENT, "agent", None);
        }
        let mut planes: Vec<u32> = rank.depth.iter().map(|sample| sample.plane).collect();
        planes.sort_unstable();
        planes.dedup();
        for plane in planes {
            let of = if plane == 0 { String::new() } else { format!(" (plane {plane})") };
            self.child(BYTES + plane, &format!("unexpected bytes{of}"), Some(UNIT_BYTES));
            self.child(OPERATIONS + plane, &format!("open operations{of}"), Some(UNIT_COUNT));
        }
    }

    /// Describes a track below that of the rank: of slices, or a counter.
    fn child(&mut self, sub: u32, name: &str, unit: Option<u64>) {
        let mut track = ProtoMessage::default();
        track.number(1, self.track(sub)).number(5, self.track(PROCESS)).text(2, name);
        if let Some(unit) = unit {
            let mut counter = ProtoMessage::default();
            counter.number(3, unit);
            track.message(8, &counter);
        }
        self.track_packet(&track);
    }

    fn track_packet(&mut self, track: &ProtoMessage) {
        let mut packet = ProtoMessage::default();
        packet.message(TRACK_DESCRIPTOR, track).number(SEQUENCE, self.sequence());
        // The first packet of the sequence says that nothing before it counts.
        if self.out.is_empty() {
            packet.number(SEQUENCE_FLAGS, STATE_CLEARED);
        }
        self.packet(&packet);
    }

    /// A call begins.
    fn call(&mut self, at_ns: u64, call: &TimedCall, flows: &[u64]) {
        let mut interned = ProtoMessage::default();
        let mut event = ProtoMessage::default();
        let name = self.intern(EVENT_NAMES, name_of(call.name), &mut interned);
        event
            .number(TYPE, SLICE_BEGIN)
            .number(TRACK, self.track(call.thread))
            .number(NAME_ID, name);
        flows.iter().for_each(|&flow| event.fixed(FLOWS, flow));
        let timeline = self.timeline;
        let object = |object: Option<usize>| object.map(|at| Value::Text(&timeline.objects[at]));
        let rank = |rank: Option<usize>| rank.map(|at| Value::Number(at as u64));
        let number = |number: u64| Some(Value::Number(number));
        let bytes = call.details.iter().filter_map(CallDetail::bytes).sum();
        let mut notes: Vec<(&str, Option<Value<'_>>)> = Vec::new();
        match call.details.first() {
            None => {}
            Some(&CallDetail::Send { to, tag, object: of, .. }) => {
                notes.push(("to", rank(to)));
                notes.extend([
                    ("tag", number(tag.into())),
                    ("bytes", number(bytes)),
                    ("of", object(of)),
                ]);
            }
            Some(&CallDetail::Receive { from, tag, object: of }) => {
                notes.push(("from", rank(from).or(Some(Value::Text("any")))));
                let tag = tag.map_or(Value::Text("any"), |tag| Value::Number(tag.into()));
                notes.extend([("tag", Some(tag)), ("of", object(of))]);
            }
            Some(&CallDetail::Collective { object: of, nth, root, .. }) => {
                notes.extend([("of", object(of)), ("nth", number(nth.into()))]);
                notes.push(("root", root.and_then(|root| number(root.into()))));
                notes.push(("bytes", number(bytes).filter(|_| bytes > 0)));
            }
            Some(&CallDetail::Other { object: of, peer, count }) => {
                notes.extend([("of", object(of)), ("peer", rank(peer))]);
                notes.push(("count", number(count).filter(|_| count > 0)));
            }
        }
        if call.details.len() > 1 {
            notes.push(("messages", number(call.details.len() as u64)));
        }
        if call.times > 1 {
            notes.extend([("times", number(call.times)), ("inside_ns", number(call.inside_ns))]);
        }
        if call.open {
            notes.push(("ended", Some(Value::Text("no"))));
        }
        for (name, value) in notes {
            if let Some(value) = value {
                self.annotate(&mut event, &mut interned, name, &value);
            }
        }
        self.event(at_ns, event, interned);
    }

    /// A message is received.
    fn message(&mut self, at_ns: u64, at: usize) {
        let message = self.timeline.messages[at];
        let mut interned = ProtoMessage::default();
        let mut event = ProtoMessage::default();
        let name = self.intern(EVENT_NAMES, MESSAGE, &mut interned);
        event.number(TYPE, INSTANT).number(TRACK, self.track(message.thread)).number(NAME_ID, name);
        event.fixed(FLOWS, flow_of_message(at));
        let notes = [
            ("from", Value::Number(message.from as u64)),
            ("tag", Value::Number(message.tag.into())),
            ("bytes", Value::Number(message.bytes)),
            ("sent_ns", Value::Number(message.sent_ns)),
        ];
        for (name, value) in &notes {
            self.annotate(&mut event, &mut interned, name, value);
        }
        if message.moved_ns > 0 {
            let moved = Value::Number(message.moved_ns);
            self.annotate(&mut event, &mut interned, "moved_ns", &moved);
        }
        if let Some(object) = message.object {
            let object = Value::Text(&self.timeline.objects[object]);
            self.annotate(&mut event, &mut interned, "of", &object);
        }
        self.event(at_ns, event, interned);
    }

    /// The rank comes or goes.
    fn edge(&mut self, name: &str, at_ns: u64, notes: &[(&str, Value<'_>)]) {
        let mut interned = ProtoMessage::default();
        let mut event = ProtoMessage::default();
        let name = self.intern(EVENT_NAMES, name, &mut interned);
        event.number(TYPE, INSTANT).number(TRACK, self.track(PROCESS)).number(NAME_ID, name);
        for (name, value) in notes {
            if !matches!(value, Value::Number(0) | Value::Text("")) {
                self.annotate(&mut event, &mut interned, name, value);
            }
        }
        self.event(at_ns, event, interned);
    }

    fn annotate(
        &mut self,
        event: &mut ProtoMessage,
        interned: &mut ProtoMessage,
        name: &str,
        value: &Value<'_>,
    ) {
        let mut note = ProtoMessage::default();
        note.number(1, self.intern(NOTE_NAMES, name, interned));
        match *value {
            Value::Number(number) => note.number(3, number),
            Value::Text(text) => note.number(17, self.intern(NOTE_TEXTS, text, interned)),
        };
        event.message(NOTES, &note);
    }

    /// The number of a text. A text that is new is added to what the packet interns.
    fn intern(&mut self, field: u32, text: &str, interned: &mut ProtoMessage) -> u64 {
        if let Some(&number) = self.names.get(&(field, text.to_owned())) {
            return number;
        }
        let number = self.names.len() as u64 + 1;
        self.names.insert((field, text.to_owned()), number);
        let mut entry = ProtoMessage::default();
        entry.number(1, number).text(2, text);
        interned.message(field, &entry);
        number
    }

    fn event(&mut self, at_ns: u64, event: ProtoMessage, interned: ProtoMessage) {
        let mut packet = ProtoMessage::default();
        packet.number(TIMESTAMP, at_ns).number(SEQUENCE, self.sequence());
        packet.message(TRACK_EVENT, &event).number(SEQUENCE_FLAGS, NEEDS_STATE);
        if !interned.is_empty() {
            packet.message(INTERNED, &interned);
        }
        self.packet(&packet);
    }

    fn packet(&mut self, packet: &ProtoMessage) {
        let mut whole = ProtoMessage::default();
        whole.message(PACKET, packet);
        self.out.extend_from_slice(whole.bytes());
    }

    fn sequence(&self) -> u64 {
        self.at as u64 + 1
    }

    fn track(&self, sub: u32) -> u64 {
        (self.at as u64 + 1) << RANK_SHIFT | u64::from(sub)
    }
}

fn process_name(rank: &RankTimeline) -> String {
    match &rank.host {
        Some(host) => format!("rank {}{ON_HOST}{host}", rank.name),
        None => format!("rank {}", rank.name),
    }
}

/// The value of an annotation.
enum Value<'a> {
    Number(u64),
    Text(&'a str),
}

impl CallDetail {
    /// The bytes that the rank passes to the call.
    pub(super) fn bytes(&self) -> Option<u64> {
        match *self {
            CallDetail::Send { bytes, .. } | CallDetail::Collective { bytes, .. } => Some(bytes),
            CallDetail::Receive { .. } | CallDetail::Other { .. } => None,
        }
    }
}

/// The beginnings and ends of calls, those of each thread in order.
fn marks(rank: &RankTimeline) -> Vec<(u64, Mark<'_>)> {
    let mut marks = Vec::with_capacity(rank.calls.len() * 2);
    let mut open: HashMap<u32, Vec<&TimedCall>> = HashMap::new();
    for (index, call) in rank.calls.iter().enumerate() {
        let stack = open.entry(call.thread).or_default();
        while let Some(last) = stack.pop_if(|last| last.end_ns <= call.begin_ns) {
            marks.push((last.end_ns, Mark::End(last)));
        }
        marks.push((call.begin_ns, Mark::Begin(index, call)));
        stack.push(call);
    }
    for stack in open.into_values() {
        marks.extend(stack.into_iter().rev().map(|call| (call.end_ns, Mark::End(call))));
    }
    marks
}

fn flow_of_message(at: usize) -> u64 {
    at as u64 + 1
}

/// What is between a rank and its host in the name of a process.
const ON_HOST: &str = " on ";
/// The name of the mark where a message is received.
const MESSAGE: &str = "message";
/// The numbers of flows of collectives begin here, far above those of messages.
const COLLECTIVES: u64 = 1 << 40;

/// The lower bits of the number of a track say which of its rank it is: 0, a thread, or one of these.
const RANK_SHIFT: u32 = 24;
const PROCESS: u32 = 0;
const AGENT: u32 = 1 << 20;
const BYTES: u32 = 2 << 20;
const OPERATIONS: u32 = 3 << 20;

// Of Trace and TracePacket.
const PACKET: u32 = 1;
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const INTERNED: u32 = 12;
const SEQUENCE_FLAGS: u32 = 13;
const TRACK_DESCRIPTOR: u32 = 60;
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
// Of InternedData.
const EVENT_NAMES: u32 = 2;
const NOTE_NAMES: u32 = 3;
const NOTE_TEXTS: u32 = 29;
// Of TrackEvent.
const NOTES: u32 = 4;
const TYPE: u32 = 9;
const NAME_ID: u32 = 10;
const TRACK: u32 = 11;
const COUNTER_VALUE: u32 = 30;
const FLOWS: u32 = 47;
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;
// Of CounterDescriptor.
const UNIT_COUNT: u64 = 2;
const UNIT_BYTES: u64 = 3;
