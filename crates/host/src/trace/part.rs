//! Reading the trace of one rank.

use ferrywire_nic::MatchWord;

use super::{
    AGENT, ARGUMENTS, CALL, COMPLETED, Clock, DEPTH, Header, MAGIC, NAME, NAME_BYTES, OBJECT, OPEN,
    POLLS, POSTED, RECEIVE, RECEIVED, Record,
};
use crate::facts::{CallFact, CallSlot, Members};

/// What a rank has recorded.
#[derive(Clone, Debug, Default)]
pub struct TracePart {
    /// The number of the rank among all of its job.
    pub me: u32,
    /// Its process.
    pub pid: u32,
    /// When it joined the job, by the monotonic clock of its host.
    pub start_ns: u64,
    /// When it left, if it did.
    pub left_ns: Option<u64>,
    /// How many records found no room.
    pub dropped: u64,
    /// The error because of which they did not, if it was one.
    pub error: Option<i32>,
    /// What it recorded, in this order.
    pub events: Vec<PartEvent>,
}

/// A record.
#[derive(Clone, Debug, PartialEq)]
pub enum PartEvent {
    /// A call of the program.
    Call(CallRecord),
    /// More arguments of the call that a thread is in.
    Arguments {
        /// The number of the record, which tells which call that is.
        number: u64,
        /// The thread.
        thread: u32,
        /// The arguments.
        fact: CallFact,
    },
    /// What a receive got that was over at once.
    Received {
        /// The number of the record.
        number: u64,
        /// The thread that received.
        thread: u32,
        /// What it got.
        got: Matched,
    },
    /// A receive was posted.
    Posted {
        /// The plane and the ticket of the operation.
        operation: (u64, u64),
        /// The number of the record.
        number: u64,
        /// The thread that posted it.
        thread: u32,
    },
    /// A receive is over.
    Completed {
        /// The plane and the ticket of the operation.
        operation: (u64, u64),
        /// What it got.
        got: Matched,
    },
    /// What the NIC of a plane held.
    Depth {
        /// The plane.
        plane: u64,
        /// When.
        at_ns: u64,
        /// Bytes of messages that nothing had received yet.
        unexpected_bytes: u64,
        /// Operations that were not over.
        operations: u64,
    },
    /// The agent turned the NIC.
    Agent {
        /// From when.
        begin_ns: u64,
        /// Until when.
        end_ns: u64,
        /// In how many turns something happened.
        turns: u64,
    },
    /// Calls on an object follow.
    Object {
        /// Its number.
        number: u16,
        /// Its members.
        members: Members,
        /// The number of the record.
        record: u64,
    },
    /// An object has a name.
    Name {
        /// Its number.
        number: u16,
        /// The name.
        name: String,
    },
}

/// A message that a receive has got.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matched {
    /// When.
    pub at_ns: u64,
    /// Group, source and tag.
    pub word: MatchWord,
    /// The length.
    pub bytes: u64,
}

/// A call of the program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallRecord {
    /// The number of the record.
    pub number: u64,
    /// The number of the first record after the call.
    pub after: u64,
    /// The thread that made it.
    pub thread: u32,
    /// When it began.
    pub begin_ns: u64,
    /// When it ended, if it did.
    pub end_ns: Option<u64>,
    /// If it is many calls that found that something is not over: how many, and how long they took together.
    pub polls: Option<(u64, u64)>,
    /// What its receive got, if it was over when that was.
    pub got: Option<Matched>,
    /// Its name and arguments.
    pub fact: CallFact,
}

/// The clock of a file, and the moments that relate it to nanoseconds.
struct PartClock {
    start_ns: u64,
    start: u64,
    /// Nanoseconds per tick.
    rate: f64,
}

impl PartClock {
    fn ns(&self, time: u64) -> u64 {
        self.start_ns.saturating_add(self.span(time.saturating_sub(self.start)))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "times of a job are far below 2^53"
    )]
    fn span(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.rate).round() as u64
    }
}

/// A moment by the clock of a host and by that of a recording, which may be another. With the moment at which the recording
/// began, it says how fast the one goes by the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecordingClock {
    /// Nanoseconds of the monotonic clock of the host.
    pub ns: u64,
    /// The same moment in the recording.
    pub time: u64,
}

impl RecordingClock {
    /// This moment. `recording` is at least the beginning of one that was written on this host, since that was started.
    pub fn of(recording: &[u8]) -> Option<RecordingClock> {
        let ticks = half(header(recording)?, std::mem::offset_of!(Header, ticks)) != 0;
        let clock = if ticks { Clock::Ticks } else { Clock::Nanoseconds };
        let (ns, time) = clock.pair();
        Some(RecordingClock { ns, time })
    }
}

impl TracePart {
    /// Reads what a rank has written. `clock` is a moment after it has written that.
    pub fn parse(recording: &[u8], clock: RecordingClock) -> Option<TracePart> {
        let header = header(recording)?;
        let start_ns = word(header, std::mem::offset_of!(Header, start_ns));
        let start = word(header, std::mem::offset_of!(Header, start));
        let ticks = half(header, std::mem::offset_of!(Header, ticks)) != 0;
        let rate = match ticks {
            false => 1.0,
            true => {
                #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
                let rate = clock.ns.saturating_sub(start_ns) as f64
                    / clock.time.saturating_sub(start).max(1) as f64;
                rate
            }
        };
        let clock = PartClock { start_ns, start, rate };
        let left = word(header, std::mem::offset_of!(Header, left));
        let error = half(header, std::mem::offset_of!(Header, error));
        let numbered = (0..).zip(recording.as_chunks::<RECORD>().0).skip(1);
        Some(TracePart {
            me: half(header, std::mem::offset_of!(Header, me)),
            pid: half(header, std::mem::offset_of!(Header, pid)),
            start_ns,
            left_ns: (left != 0).then(|| clock.ns(left)),
            dropped: word(header, std::mem::offset_of!(Header, dropped)),
            error: i32::try_from(error).ok().filter(|&error| error != 0),
            events: numbered.filter_map(|(number, raw)| event(number, raw, &clock)).collect(),
        })
    }

    /// Replaces all times by those of another clock.
    pub fn translate(&mut self, to: impl Fn(u64) -> u64) {
        self.start_ns = to(self.start_ns);
        self.left_ns = self.left_ns.map(&to);
        for event in &mut self.events {
            match event {
                PartEvent::Call(call) => {
                    call.begin_ns = to(call.begin_ns);
                    call.end_ns = call.end_ns.map(&to);
                    if let Some(got) = &mut call.got {
                        got.at_ns = to(got.at_ns);
                    }
                }
                PartEvent::Received { got, .. } | PartEvent::Completed { got, .. } => {
                    got.at_ns = to(got.at_ns);
                }
                PartEvent::Depth { at_ns, .. } => *at_ns = to(*at_ns),
                PartEvent::Agent { begin_ns, end_ns, .. } => {
                    (*begin_ns, *end_ns) = (to(*begin_ns), to(*end_ns));
                }
                PartEvent::Arguments { .. }
                | PartEvent::Posted { .. }
                | PartEvent::Object { .. }
                | PartEvent::Name { .. } => {}
            }
        }
    }
}

/// The header of a recording.
fn header(recording: &[u8]) -> Option<&[u8; RECORD]> {
    let header = recording.as_chunks::<RECORD>().0.first()?;
    (word(header, std::mem::offset_of!(Header, magic)) == MAGIC).then_some(header)
}

const RECORD: usize = size_of::<Record>();

fn event(number: u64, raw: &[u8; RECORD], clock: &PartClock) -> Option<PartEvent> {
    let thread = half(raw, std::mem::offset_of!(Record, thread));
    let begin = word(raw, std::mem::offset_of!(Record, begin));
    let end = word(raw, std::mem::offset_of!(Record, end));
    let extra = word(raw, std::mem::offset_of!(Record, extra));
    let slot = std::mem::offset_of!(Record, slot);
    let words = [0, 8, 16].map(|at| word(raw, slot + at));
    let slot = CallSlot::from_words(words, [24, 28].map(|at| half(raw, slot + at)));
    let [bits, more, bytes] = words;
    let got = || Matched { at_ns: clock.ns(begin), word: MatchWord::from_bits(bits), bytes };
    let short = |word: u64| u16::try_from(word).ok();
    let kind = half(raw, std::mem::offset_of!(Record, kind));
    Some(match kind {
        OPEN | CALL | RECEIVE | POLLS => PartEvent::Call(CallRecord {
            number,
            after: if kind == OPEN { u64::MAX } else { extra },
            thread,
            begin_ns: clock.ns(begin),
            end_ns: (kind != OPEN).then(|| clock.ns(end)),
            polls: (kind == POLLS).then(|| (bytes, clock.span(more))),
            got: (kind == RECEIVE).then(|| Matched {
                at_ns: clock.ns(end),
                word: MatchWord::from_bits(bits),
                bytes: more,
            }),
            fact: slot.fact()?,
        }),
        ARGUMENTS => PartEvent::Arguments { number, thread, fact: slot.fact()? },
        RECEIVED => PartEvent::Received { number, thread, got: got() },
        POSTED => PartEvent::Posted { operation: (end, extra), number, thread },
        COMPLETED => PartEvent::Completed { operation: (end, extra), got: got() },
        DEPTH => PartEvent::Depth {
            plane: end,
            at_ns: clock.ns(begin),
            unexpected_bytes: bytes,
            operations: extra,
        },
        AGENT => {
            PartEvent::Agent { begin_ns: clock.ns(begin), end_ns: clock.ns(end), turns: extra }
        }
        OBJECT => {
            let half = |word: u64| u32::try_from(word & 0xffff_ffff).unwrap_or(0);
            let (size, first, stride) = (half(bytes), half(extra >> 32), half(extra));
            let members = Members { size, group: end, first, stride };
            PartEvent::Object { number: short(begin)?, members, record: number }
        }
        NAME => {
            let name: Vec<u8> = [end, extra, bits, more, bytes]
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect();
            let len = name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
            let name = String::from_utf8_lossy(&name[..len]).into_owned();
            PartEvent::Name { number: short(begin)?, name }
        }
        _ => return None,
    })
}

fn word(raw: &[u8; RECORD], at: usize) -> u64 {
    let bytes = raw.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    u64::from_ne_bytes(bytes.unwrap_or_default())
}

fn half(raw: &[u8; RECORD], at: usize) -> u32 {
    let bytes = raw.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    u32::from_ne_bytes(bytes.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_a_trace_or_none() {
        let now = RecordingClock::default();
        assert!(TracePart::parse(&[], now).is_none() && RecordingClock::of(&[]).is_none());
        assert!(TracePart::parse(&[7; 640], now).is_none());
        let mut bytes = vec![255; 640];
        bytes[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        let part = TracePart::parse(&bytes, now).expect("a trace");
        assert!(part.events.is_empty());
        for kind in 0..16_u32 {
            bytes[64..68].copy_from_slice(&kind.to_ne_bytes());
            assert!(TracePart::parse(&bytes, now).is_some());
        }
    }
}
