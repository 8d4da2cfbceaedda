//! The model: what MPI allows a program to observe, in plain lists.
//!
//! With wildcards several matchings are legal. MPI 5.0 §3.5 has two rules: a message does not match a receive while an
//! older receive that matches is open, and a receive does not match a message while an older matching one of the same
//! sender is pending. So the observed matches are replayed on plain lists of receives and messages, one at a time, each
//! as soon as the rules allow it; any order that they allow will do, since a match only ever makes others possible. If
//! some never become possible, the matching is wrong. Messages to different receives may overtake: a message that was
//! refused for lack of room is still with its sender while a younger one is received.

use std::collections::BTreeMap;

use ferrywire_nic::{Fault, Mode, Outcome, Stats};

use crate::plan::{Message, Plan};
use crate::player::{GUARD, Log, Receive};

/// What has been exercised.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Coverage {
    pub(crate) messages: usize,
    pub(crate) wildcards: usize,
    pub(crate) truncated: usize,
    pub(crate) cancelled: usize,
    pub(crate) collectives: usize,
    /// Counted by the NICs.
    pub(crate) unexpected: u64,
    pub(crate) refused: u64,
    pub(crate) retries: u64,
}

impl Coverage {
    pub(crate) fn add(&mut self, other: Coverage) {
        self.messages += other.messages;
        self.wildcards += other.wildcards;
        self.truncated += other.truncated;
        self.cancelled += other.cancelled;
        self.collectives += other.collectives;
        self.unexpected += other.unexpected;
        self.refused += other.refused;
        self.retries += other.retries;
    }

    /// Adds the statistics of a NIC.
    pub(crate) fn count(&mut self, stats: &Stats) {
        self.unexpected += stats.unexpected;
        self.refused += stats.refused;
        self.retries += stats.retries;
    }
}

/// Violations in what the processes have observed.
pub(crate) fn judge(plan: &Plan, logs: &[Log]) -> (Vec<String>, Coverage) {
    let mut wrong: Vec<String> = logs.iter().flat_map(|log| log.complaints.clone()).collect();
    let mut coverage = Coverage { collectives: plan.collectives.len(), ..Coverage::default() };
    check_numbers(plan, logs, &mut wrong);
    let mut sent: Vec<usize> = logs.iter().flat_map(|log| log.sent.clone()).collect();
    sent.sort_unstable();
    if sent != (0..plan.messages.len()).collect::<Vec<_>>() {
        wrong.push("not every message was sent once".into());
    }
    for (process, log) in (0..).zip(logs) {
        let found: Vec<Option<&Message>> = log
            .receives
            .iter()
            .map(|receive| check_received(plan, process, receive, &mut wrong))
            .collect();
        let mut boxes: BTreeMap<(usize, usize), Vec<Caught>> = BTreeMap::new();
        for (receive, message) in log.receives.iter().zip(found) {
            let end = receive.end.as_ref().map(|end| end.outcome);
            coverage.messages += usize::from(message.is_some());
            let is_wild = receive.pattern.from.is_none() || receive.pattern.tag.is_none();
            coverage.wildcards += usize::from(is_wild && message.is_some());
            coverage.truncated += usize::from(matches!(end, Some(Outcome::Failed(_))));
            coverage.cancelled += usize::from(end == Some(Outcome::Cancelled));
            if let Some(message) = message {
                check_synchronous(message, receive, &logs[message.from as usize], &mut wrong);
            }
            // A receive that was cancelled in time counts as never posted.
            if message.is_some() || !receive.withdrawn {
                let place = (receive.phase, receive.pattern.comm);
                boxes.entry(place).or_default().push(Caught { receive, message });
            }
        }
        for message in plan.messages.iter().filter(|message| message.to == process) {
            let place = (message.phase, message.comm);
            let caught = boxes.get(&place).into_iter().flatten();
            let times = caught.filter(|it| it.message.is_some_and(|m| m.id == message.id)).count();
            if times != 1 {
                wrong.push(format!("message {} came {times} times to rank {process}", message.id));
            }
        }
        for ((phase, comm), caught) in &boxes {
            if let Err(why) = check_order(plan, logs, caught) {
                let place = format!("rank {process}, phase {phase}, communicator {comm}");
                wrong.push(format!("{place}: messages overtook\n    {why}"));
            }
        }
    }
    (wrong, coverage)
}

/// A receive that counts, and the message that it got.
struct Caught<'a> {
    receive: &'a Receive,
    message: Option<&'a Message>,
}

/// Checks that all members have the same number for a communicator, and no process uses a number twice at a time.
fn check_numbers(plan: &Plan, logs: &[Log], wrong: &mut Vec<String>) {
    for (index, comm) in plan.comms.iter().enumerate().skip(1) {
        let mut numbers = comm.members().map(|member| logs[member as usize].numbers.get(&index));
        let first = numbers.next().flatten();
        if first.is_none() || numbers.any(|number| number != first) {
            wrong.push(format!("members of communicator {index} do not agree on its number"));
        }
        for log in comm.members().map(|member| &logs[member as usize]) {
            let mut earlier = log.numbers.range(..index);
            if earlier.any(|(&other, number)| Some(number) == first && plan.overlap(other, index)) {
                wrong.push(format!("the number of communicator {index} was taken"));
            }
        }
    }
}

/// Finds the message that a receive got, if any, and checks its bytes.
fn check_received<'a>(
    plan: &'a Plan,
    process: u32,
    receive: &Receive,
    wrong: &mut Vec<String>,
) -> Option<&'a Message> {
    let mut complain = |what: String| {
        wrong.push(format!("rank {process}, {:?}: {what}", receive.pattern));
        None
    };
    let Some(end) = &receive.end else { return complain("has not ended".into()) };
    let mut expected = receive.into.room(|_| GUARD);
    let places = receive.into.places();
    if end.outcome == Outcome::Cancelled {
        if end.room != expected {
            complain("cancelled, and written to".into());
        }
        return None;
    }
    let in_message = |&place: &i64| end.room.bytes[end.room.at(place)];
    let message = match end.outcome {
        Outcome::Received(received) if received.len == 0 => {
            plan.messages.iter().find(|message| message.tag == received.word.tag())
        }
        _ => {
            let head: Vec<u8> = places.iter().take(8).map(in_message).collect();
            let id = head.try_into().ok().map(u64::from_le_bytes);
            id.and_then(|id| plan.messages.get(usize::try_from(id).ok()?))
        }
    };
    let Some(message) = message else {
        return complain(format!("a message that nobody sent, {:?}", end.outcome));
    };
    let comm = &plan.comms[message.comm];
    let source = comm.rank_of(message.from);
    let (len, room) = (message.elements.bytes(), receive.into.bytes());
    let told = match end.outcome {
        Outcome::Received(received) => {
            received.len == len
                && len <= room
                && (received.word.source(), received.word.tag()) == (source, message.tag)
        }
        Outcome::Failed(Fault::Truncated { word, len: found }) => {
            found == len && len > room && (word.source(), word.tag()) == (source, message.tag)
        }
        _ => false,
    };
    if !told {
        complain(format!("message {} of {len} bytes ended as {:?}", message.id, end.outcome));
    }
    let wanted = message.comm == receive.pattern.comm
        && message.phase == receive.phase
        && message.to == process
        && receive.pattern.matches(source, message.tag);
    if !wanted {
        complain(format!("got message {} from {source}, tag {}", message.id, message.tag));
    }
    for (&place, byte) in places.iter().zip(message.bytes()) {
        let at = expected.at(place);
        expected.bytes[at] = byte;
    }
    if end.room != expected {
        let at = end.room.bytes.iter().zip(&expected.bytes).position(|(a, b)| a != b);
        complain(format!(
            "message {} sent as {} of {:?}, received as {} of {:?}, differs at byte {at:?}, beyond it {}",
            message.id,
            message.elements.count,
            message.elements.layout.datatype,
            receive.into.count,
            receive.into.layout.datatype,
            end.room.strayed.get()
        ));
    }
    Some(message)
}

/// MPI 5.0 §3.4: a synchronous send is over only after a matching receive has been started.
fn check_synchronous(message: &Message, receive: &Receive, sender: &Log, wrong: &mut Vec<String>) {
    if message.mode == Mode::Synchronous
        && sender.synchronous.get(&message.id).is_none_or(|&over| over < receive.posted_at)
    {
        wrong.push(format!("synchronous message {} was over before its receive", message.id));
    }
}

/// Whether these matches are possible together.
fn check_order(plan: &Plan, logs: &[Log], caught: &[Caught]) -> Result<(), String> {
    let source_of = |message: &Message| plan.comms[message.comm].rank_of(message.from);
    let wants = |receive: usize, message: &Message| {
        caught[receive].receive.pattern.matches(source_of(message), message.tag)
    };
    let sent_at = |message: &Message| {
        let sent = &logs[message.from as usize].sent;
        sent.iter().position(|&id| id == message.id).unwrap_or(usize::MAX)
    };
    /// A match that has not been replayed yet.
    struct Left<'a> {
        receive: usize,
        message: &'a Message,
        sent_at: usize,
    }
    let mut open: Vec<usize> = (0..caught.len()).collect();
    let matches = open.iter().filter_map(|&receive| {
        let message = caught[receive].message?;
        Some(Left { receive, message, sent_at: sent_at(message) })
    });
    let mut left: Vec<Left> = matches.collect();
    let older_receive = |open: &[usize], it: &Left| {
        open.iter().copied().find(|&other| other < it.receive && wants(other, it.message))
    };
    let older_message = |left: &[Left], it: &Left| {
        let of_sender = left.iter().filter(|other| other.message.from == it.message.from);
        let mut older = of_sender.filter(|other| other.sent_at < it.sent_at);
        older.find(|other| wants(it.receive, other.message)).map(|other| other.message.id)
    };
    while !left.is_empty() {
        let is_legal =
            |it: &Left| older_receive(&open, it).is_none() && older_message(&left, it).is_none();
        let Some(next) = left.iter().position(is_legal) else {
            let tell = |it: &Left| {
                let receive = caught[it.receive].receive;
                format!(
                    "receive {} (from {:?}, tag {:?}) got message {} (from {}, tag {}), older receive {:?}, older message {:?}",
                    it.receive,
                    receive.pattern.from,
                    receive.pattern.tag,
                    it.message.id,
                    source_of(it.message),
                    it.message.tag,
                    older_receive(&open, it),
                    older_message(&left, it),
                )
            };
            return Err(left.iter().map(tell).collect::<Vec<_>>().join("\n    "));
        };
        let next = left.remove(next);
        open.retain(|&receive| receive != next.receive);
    }
    Ok(())
}
