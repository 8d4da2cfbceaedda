//! Reads the traces that `ferry run --trace` has written, and no others.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use ferrywire_host::facts::CallName;
use ferrywire_runtime::call_name;

use super::proto::{ProtoField, ProtoReader};
use super::{
    AGENT, BYTES, COLLECTIVES, COUNTER_VALUE, EVENT_NAMES, FLOWS, INTERNED, MESSAGE, NAME_ID,
    NOTE_NAMES, NOTE_TEXTS, NOTES, ON_HOST, OPERATIONS, PACKET, PROCESS, RANK_SHIFT, TIMESTAMP,
    TRACK, TRACK_DESCRIPTOR, TRACK_EVENT, TYPE,
};
use crate::trace::{
    AgentSpan, CallDetail, DepthSample, RankTimeline, TimedCall, Timeline, TracedCollective,
    TracedMessage,
};

/// The file is not a trace of ours.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct NotATrace;

impl fmt::Display for NotATrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is not a trace that ferry run --trace has written, or is not whole")
    }
}

/// A part of a slice: a call or a turn of the agent.
struct OpenSlice {
    /// Its index among the calls of the rank, or among what the agent did.
    index: usize,
}

#[derive(Default)]
struct Parser {
    timeline: Timeline,
    objects: HashMap<String, usize>,
    /// The texts of each rank.
    texts: Vec<HashMap<(u32, u64), String>>,
    open: HashMap<u64, Vec<OpenSlice>>,
    /// The rank and call from which a flow of a message comes.
    senders: HashMap<u64, (usize, usize)>,
    received: Vec<(u64, TracedMessage)>,
    collectives: BTreeMap<u64, Vec<(usize, usize)>>,
}

/// An event on a track.
#[derive(Default)]
struct Event {
    kind: u64,
    track: u64,
    name: u64,
    counter: u64,
    flows: Vec<u64>,
    notes: HashMap<String, NoteValue>,
}

#[derive(Clone, Debug)]
enum NoteValue {
    Number(u64),
    Text(String),
}

/// Reads a trace.
pub(crate) fn parse(bytes: &[u8]) -> Result<Timeline, NotATrace> {
    let mut parser = Parser::default();
    let mut packets = ProtoReader(bytes);
    for (field, packet) in packets.by_ref() {
        if field != PACKET {
            return Err(NotATrace);
        }
        parser.packet(packet.bytes()).ok_or(NotATrace)?;
    }
    let is_ours = parser.timeline.ranks.iter().any(|rank| !rank.name.is_empty());
    if !packets.is_at_end() || !is_ours {
        return Err(NotATrace);
    }
    Ok(parser.end())
}

impl Parser {
    fn packet(&mut self, bytes: &[u8]) -> Option<()> {
        let (mut at_ns, mut sequence) = (0, 0);
        let (mut track, mut event, mut interned) = (None, None, None);
        for (field, value) in ProtoReader(bytes) {
            match field {
                TIMESTAMP => at_ns = value.number(),
                super::SEQUENCE => sequence = value.number(),
                TRACK_DESCRIPTOR => track = Some(value.bytes()),
                TRACK_EVENT => event = Some(value.bytes()),
                INTERNED => interned = Some(value.bytes()),
                _ => {}
            }
        }
        let at = usize::try_from(sequence.checked_sub(1)?).ok().filter(|&at| at < RANKS_MAX)?;
        while self.timeline.ranks.len() <= at {
            self.timeline.ranks.push(RankTimeline::default());
            self.texts.push(HashMap::new());
        }
        for (field, value) in interned.map(ProtoReader).into_iter().flatten() {
            let (number, text) = entry(value.bytes());
            self.texts[at].insert((field, number), text);
        }
        if let Some(track) = track {
            self.track(at, track);
        }
        match event {
            Some(event) => self.event(at, at_ns, event),
            None => Some(()),
        }
    }

    fn track(&mut self, at: usize, bytes: &[u8]) {
        for (field, value) in ProtoReader(bytes).filter(|&(field, _)| field == 3) {
            debug_assert_eq!(field, 3, "only the process is of interest");
            for (field, value) in ProtoReader(value.bytes()) {
                let rank = &mut self.timeline.ranks[at];
                match field {
                    1 => rank.pid = u32::try_from(value.number()).unwrap_or(0),
                    6 => (rank.name, rank.host) = name_and_host(&value.text()),
                    _ => {}
                }
            }
        }
    }

    fn event(&mut self, at: usize, at_ns: u64, bytes: &[u8]) -> Option<()> {
        let event = self.fields(at, bytes);
        if event.track >> RANK_SHIFT != at as u64 + 1 {
            return None;
        }
        let sub = u32::try_from(event.track & ((1 << RANK_SHIFT) - 1)).ok()?;
        let name = self.texts[at].get(&(EVENT_NAMES, event.name)).cloned().unwrap_or_default();
        let rank = &mut self.timeline.ranks[at];
        match (event.kind, sub) {
            (super::INSTANT, PROCESS) => match name.as_str() {
                "joins" => {
                    rank.start_ns = at_ns;
                    rank.clock_error_ns = event.number("clock_error_ns").unwrap_or(0);
                }
                _ => {
                    rank.end_ns = at_ns;
                    rank.left = name == "leaves";
                    rank.dropped = event.number("dropped").unwrap_or(0);
                    rank.trouble = event.text("trouble");
                }
            },
            (super::INSTANT, thread) if name == MESSAGE => {
                let from = usize::try_from(event.number("from")?).ok()?;
                let object = self.object(&event);
                let message = TracedMessage {
                    from,
                    to: at,
                    tag: u32::try_from(event.number("tag")?).ok()?,
                    bytes: event.number("bytes")?,
                    object,
                    sent_ns: event.number("sent_ns")?,
                    sent_by: 0,
                    received_ns: at_ns,
                    thread,
                    moved_ns: event.number("moved_ns").unwrap_or(0),
                };
                self.received.push((*event.flows.first()?, message));
            }
            (super::SLICE_BEGIN, AGENT) => {
                let turns = event.number("turns").unwrap_or(0);
                rank.agent.push(AgentSpan { begin_ns: at_ns, end_ns: at_ns, turns });
                let index = rank.agent.len() - 1;
                self.open.entry(event.track).or_default().push(OpenSlice { index });
            }
            (super::SLICE_BEGIN, thread) => self.call(at, at_ns, thread, &name, &event),
            (super::SLICE_END, sub) => {
                let slice = self.open.get_mut(&event.track)?.pop()?;
                if sub == AGENT {
                    rank.agent.get_mut(slice.index)?.end_ns = at_ns;
                } else {
                    let call = rank.calls.get_mut(slice.index)?;
                    call.end_ns = at_ns;
                    if call.inside_ns == u64::MAX {
                        call.inside_ns = at_ns.saturating_sub(call.begin_ns);
                    }
                }
            }
            (super::COUNTER, sub) if sub >= OPERATIONS => {
                let plane = sub - OPERATIONS;
                let is_of = |sample: &&mut DepthSample| sample.plane == plane;
                if let Some(sample) = rank.depth.iter_mut().rev().find(is_of) {
                    sample.operations = event.counter;
                }
            }
            (super::COUNTER, sub) => {
                let (plane, unexpected_bytes) = (sub.checked_sub(BYTES)?, event.counter);
                rank.depth.push(DepthSample { plane, at_ns, unexpected_bytes, operations: 0 });
            }
            _ => {}
        }
        Some(())
    }

    fn call(&mut self, at: usize, at_ns: u64, thread: u32, name: &str, event: &Event) {
        let object = self.object(event);
        let rank = |name: &str| usize::try_from(event.number(name)?).ok();
        let short = |name: &str| u32::try_from(event.number(name)?).ok();
        let bytes = event.number("bytes").unwrap_or(0);
        let has = |name: &str| event.notes.contains_key(name);
        let detail = if let Some(nth) = short("nth") {
            Some(CallDetail::Collective { object, nth, root: short("root"), bytes })
        } else if has("from") {
            Some(CallDetail::Receive { from: rank("from"), tag: short("tag"), object })
        } else if has("tag") {
            let tag = short("tag").unwrap_or(0);
            Some(CallDetail::Send { to: rank("to"), tag, bytes, object })
        } else if has("of") || has("peer") || has("count") {
            let count = event.number("count").unwrap_or(0);
            Some(CallDetail::Other { object, peer: rank("peer"), count })
        } else {
            None
        };
        let calls = &mut self.timeline.ranks[at].calls;
        let index = calls.len();
        calls.push(TimedCall {
            thread,
            name: number_of_name(name),
            begin_ns: at_ns,
            end_ns: at_ns,
            open: has("ended"),
            times: event.number("times").unwrap_or(1),
            inside_ns: event.number("inside_ns").unwrap_or(u64::MAX),
            details: detail.into_iter().collect(),
        });
        self.open.entry(event.track).or_default().push(OpenSlice { index });
        for &flow in &event.flows {
            match flow < COLLECTIVES {
                true => drop(self.senders.insert(flow, (at, index))),
                false => self.collectives.entry(flow).or_default().push((at, index)),
            }
        }
    }

    fn object(&mut self, event: &Event) -> Option<usize> {
        let name = event.text("of")?;
        let known = &mut self.timeline.objects;
        Some(*self.objects.entry(name.clone()).or_insert_with(|| {
            known.push(name);
            known.len() - 1
        }))
    }

    fn fields(&self, at: usize, bytes: &[u8]) -> Event {
        let mut event = Event::default();
        for (field, value) in ProtoReader(bytes) {
            match field {
                TYPE => event.kind = value.number(),
                TRACK => event.track = value.number(),
                NAME_ID => event.name = value.number(),
                COUNTER_VALUE => event.counter = value.number(),
                FLOWS => event.flows.push(value.number()),
                NOTES => event.notes.extend(self.note(at, value)),
                _ => {}
            }
        }
        event
    }

    fn note(&self, at: usize, value: ProtoField<'_>) -> Option<(String, NoteValue)> {
        let text = |field, number| self.texts[at].get(&(field, number)).cloned();
        let (mut name, mut found) = (None, None);
        for (field, value) in ProtoReader(value.bytes()) {
            match field {
                1 => name = text(NOTE_NAMES, value.number()),
                3 => found = Some(NoteValue::Number(value.number())),
                17 => found = text(NOTE_TEXTS, value.number()).map(NoteValue::Text),
                _ => {}
            }
        }
        Some((name?, found?))
    }

    fn end(mut self) -> Timeline {
        for rank in &mut self.timeline.ranks {
            let open = rank.calls.iter_mut().filter(|call| call.inside_ns == u64::MAX);
            open.for_each(|call| call.inside_ns = 0);
        }
        for (flow, mut message) in self.received {
            if message.from < self.timeline.ranks.len() {
                let sender = self.senders.get(&flow).filter(|sender| sender.0 == message.from);
                message.sent_by = sender.map_or(0, |sender| sender.1);
                self.timeline.messages.push(message);
            }
        }
        self.timeline.messages.sort_by_key(|message| message.received_ns);
        for (_, mut calls) in self.collectives {
            calls.sort_by_key(|&call| self.timeline.call(call).begin_ns);
            self.timeline.collectives.push(TracedCollective { calls });
        }
        self.timeline
    }
}

impl Event {
    fn number(&self, name: &str) -> Option<u64> {
        match self.notes.get(name)? {
            NoteValue::Number(number) => Some(*number),
            NoteValue::Text(_) => None,
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.notes.get(name)? {
            NoteValue::Text(text) => Some(text.clone()),
            NoteValue::Number(_) => None,
        }
    }
}

/// The rank in the name of a process, and its host, if that is there.
fn name_and_host(text: &str) -> (String, Option<String>) {
    let name = text.trim_start_matches("rank ");
    match name.split_once(ON_HOST) {
        Some((name, host)) => (name.to_owned(), Some(host.to_owned())),
        None => (name.to_owned(), None),
    }
}

/// The number and the text of something that is interned.
fn entry(bytes: &[u8]) -> (u64, String) {
    let (mut number, mut text) = (0, String::new());
    for (field, value) in ProtoReader(bytes) {
        match field {
            1 => number = value.number(),
            2 => text = value.text(),
            _ => {}
        }
    }
    (number, text)
}

fn number_of_name(name: &str) -> CallName {
    match call_name::c_name(name) {
        CallName::INTERNAL => call_name::rust_name(name),
        found => found,
    }
}

/// More ranks than any trace has.
const RANKS_MAX: usize = 1 << 20;
