//! Reading pages of facts.
//!
//! Invariants, cited below by number.
//!   I1. A page consists of atomics, and any bytes are valid for it.

use std::sync::atomic::{AtomicU8, Ordering};

use ferrywire_nic::{Mask, MatchWord, Peer, Stats};

use super::{
    CALL_BYTES, CALLS, CallName, CallSlot, IN_FLIGHT, KIND_COLLECTIVE, KIND_RECEIVE, KIND_SEND,
    MAGIC, MISTAKES, NOBODY, NONBLOCKING, OBJECTS, OTHER_THREADS, PENDING, Page, PendingSlot, RUNS,
    RUNS_FULL, RunFact, RunSlot, WAITER,
};

/// How far a rank has come.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Stage {
    /// It has joined the job.
    #[default]
    Running,
    /// It is leaving the job.
    Finalizing,
    /// It has left.
    Finalized,
}

/// What the page of a rank says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The number of the rank among all of its job.
    pub me: u32,
    /// How far the rank has come.
    pub stage: Stage,
    /// The last calls, the oldest first.
    pub calls: Vec<CallFact>,
    /// How many calls there were.
    pub calls_made: u32,
    /// Threads that wait in the library.
    pub waiting: u32,
    /// How often a thread has begun to wait.
    pub waits: u32,
    /// When the first of the waiting threads began to wait, by the monotonic clock of the host.
    pub waiting_since_ns: u64,
    /// How often the rank has asked whether something is over.
    pub polls: u32,
    /// By which call it did so last.
    pub poll_name: CallName,
    /// The last call that is recorded only by name, if no other has been made since.
    pub plain: Option<CallName>,
    /// Communicators, windows and files.
    pub objects: Vec<ObjectFact>,
    /// The last answer.
    pub answer: FactsAnswer,
    /// The rank without which a call has failed, and how many calls the rank had made then.
    pub missing: Option<(Peer, u32)>,
    /// The rank that a call could not reach.
    pub unreachable: Option<Peer>,
    /// The text of the last error that the rank has reported, or nothing.
    pub error: String,
    /// Whether that error is a panic.
    pub panicked: bool,
    /// The mistakes that the rank has found, each once.
    pub mistakes: Vec<String>,
    /// How many more there are.
    pub mistakes_unlisted: u32,
    /// Runs of messages, with `--check`.
    pub runs: Vec<RunFact>,
    /// How much these tell.
    pub runs_known: RunsKnown,
}

/// How much the runs of messages of a rank tell.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RunsKnown {
    /// All messages are in them.
    #[default]
    All,
    /// There was no room for some.
    Some,
    /// The rank has lost count of its messages, so they cannot be compared with those of others.
    Nothing,
}

/// What a rank has answered when it was asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FactsAnswer {
    /// The number of the question.
    pub number: u32,
    /// A number that changes whenever the rank does anything that others may notice.
    pub activity: u64,
    /// Frames of the rank may be under way.
    pub in_flight: bool,
    /// Other threads of the process could make calls.
    pub other_threads: bool,
    /// The thread that answered waits, and does nothing else until then.
    pub waiter: bool,
    /// Messages that have arrived and nothing has received, and operations that are not over.
    pub pending: Vec<PendingFact>,
    /// How many more there are.
    pub unlisted: u32,
    /// Bytes of unexpected messages.
    pub unexpected_bytes: u64,
    /// How many there may be.
    pub unexpected_bytes_max: u64,
    /// What the NIC has counted.
    pub counts: NicCounts,
}

/// What the NICs of a rank have counted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct NicCounts {
    /// Frames sent since the rank has joined, including retries and acks.
    pub frames_sent: u64,
    /// Frames that have arrived.
    pub frames_received: u64,
    /// Frames sent again.
    pub retries: u64,
    /// Messages refused for lack of room; their senders keep them, and send them again.
    pub refused: u64,
    /// Messages that no receive was waiting for.
    pub unexpected: u64,
    /// Those that wait now.
    pub unexpected_now: u64,
    /// Receives that wait for messages now.
    pub posted_now: u64,
    /// Sends that are not over now.
    pub sends_now: u64,
    /// Steps of collective calls that are not over now.
    pub steps_now: u64,
}

impl NicCounts {
    /// How many numbers these are.
    pub(super) const LEN: usize = 9;

    /// What NICs have counted so far.
    pub(super) fn of<'a>(all: impl Iterator<Item = &'a Stats>) -> NicCounts {
        let mut counts = NicCounts::default();
        for stats in all {
            counts.frames_sent += stats.frames_sent;
            counts.frames_received += stats.frames_received;
            counts.retries += stats.retries;
            counts.refused += stats.refused;
            counts.unexpected += stats.unexpected;
        }
        counts
    }

    pub(super) fn words(self) -> [u64; NicCounts::LEN] {
        [
            self.frames_sent,
            self.frames_received,
            self.retries,
            self.refused,
            self.unexpected,
            self.unexpected_now,
            self.posted_now,
            self.sends_now,
            self.steps_now,
        ]
    }

    fn from_words(words: [u64; NicCounts::LEN]) -> NicCounts {
        let [frames_sent, frames_received, retries, refused, unexpected, now @ ..] = words;
        let [unexpected_now, posted_now, sends_now, steps_now] = now;
        NicCounts {
            frames_sent,
            frames_received,
            retries,
            refused,
            unexpected,
            unexpected_now,
            posted_now,
            sends_now,
            steps_now,
        }
    }
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallFact {
    /// Which of the calls of the rank it is, counted from 0.
    pub number: u32,
    /// Its name.
    pub name: CallName,
    /// Its arguments.
    pub kind: CallKind,
}

/// The arguments of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CallKind {
    /// It sends a message.
    Send {
        /// The receiver.
        to: Peer,
        /// Group, source and tag.
        word: MatchWord,
        /// The length.
        bytes: u64,
    },
    /// It receives or looks for a message.
    Receive {
        /// Group, source and tag.
        word: MatchWord,
        /// Whether any source will do.
        any_source: bool,
        /// Whether any tag will do.
        any_tag: bool,
        /// Room for the message.
        bytes: u64,
    },
    /// All members of an object make it.
    Collective {
        /// The number of the object.
        object: u16,
        /// Which of the calls on the object it is, counted from 1.
        nth: u32,
        /// Whether it only begins the operation.
        nonblocking: bool,
        /// Which of the calls of its kind on the object it is, counted from 1.
        nth_of_kind: u32,
        /// The root, if it has one.
        root: Option<u32>,
        /// The operator, as its constant, or 0.
        operator: u16,
        /// Bytes, where all members must pass as many, or 0.
        bytes: u64,
        /// The basic types of its data, or 0 if they are not compared.
        content: u32,
    },
    /// Another call.
    Other {
        /// The number of its object.
        object: u16,
        /// The process without which it does not go on.
        peer: Option<Peer>,
        /// How many objects it is about.
        count: u64,
    },
}

/// A communicator, window or file.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectFact {
    /// Its number.
    pub number: u16,
    /// How many calls the rank had made when it was described: earlier ones were on another object with its number.
    pub born: u32,
    /// How many members it has.
    pub size: u32,
    /// Identifies the group of its members.
    pub group: u64,
    /// The first member.
    pub first: u32,
    /// The distance from each member to the next, if it is always the same, else 0.
    pub stride: u32,
    /// How many calls all members have to make were made by this rank.
    pub calls: u32,
    /// Its name, or nothing.
    pub name: String,
}

/// A message or an operation that is not over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PendingFact {
    /// What it is.
    pub kind: ferrywire_nic::PendingKind,
    /// The other side.
    pub peer: Option<Peer>,
    /// Group, source and tag.
    pub word: MatchWord,
    /// Which of these must agree.
    pub mask: Mask,
    /// The length.
    pub bytes: u64,
}

/// The beginning of the page of a rank: enough to see whether it goes on.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Glance {
    /// Changes with each call that is recorded.
    pub calls: u32,
    /// Threads that wait in the library.
    pub waiting: u32,
    /// How often a thread has begun to wait.
    pub waits: u32,
    /// How often the rank has asked whether something is over.
    pub polls: u32,
    /// The number of the last question that the rank has answered.
    pub answered: u32,
}

impl Glance {
    /// Bytes at the beginning of a page.
    pub(crate) const BYTES: usize = std::mem::offset_of!(Page, calls);

    /// Reads the beginning of a page; `None` if the rank has not opened it.
    pub(crate) fn parse(bytes: &[u8; Glance::BYTES]) -> Option<Glance> {
        let word = |at: usize| {
            let word = bytes.get(at..at + 4)?;
            Some(u32::from_ne_bytes(word.try_into().ok()?))
        };
        (word(std::mem::offset_of!(Page, magic))? == MAGIC).then_some(())?;
        Some(Glance {
            calls: word(std::mem::offset_of!(Page, next_call))?,
            waiting: word(std::mem::offset_of!(Page, waiting))?,
            waits: word(std::mem::offset_of!(Page, waits))?,
            polls: word(std::mem::offset_of!(Page, polls))?,
            answered: word(std::mem::offset_of!(Page, answered))?,
        })
    }

    /// Whether nothing has happened since another glance, but that a question may have been answered.
    pub fn is_same(&self, before: &Glance) -> bool {
        let Glance { calls, waiting, waits, polls, answered: _ } = *before;
        (self.calls, self.waiting, self.waits, self.polls) == (calls, waiting, waits, polls)
    }
}

impl Facts {
    /// Reads a page; `None` if the rank has not opened it.
    pub fn parse(bytes: &[u8]) -> Option<Facts> {
        let page = copy_of(bytes)?;
        (page.magic.load(Ordering::Relaxed) == MAGIC).then(|| facts(&page))
    }

    /// The call that was made last.
    pub fn last_call(&self) -> Option<&CallFact> {
        self.calls.last()
    }

    /// What the page says of an object.
    pub fn object(&self, number: u16) -> Option<&ObjectFact> {
        self.objects.iter().find(|object| object.number == number)
    }
}

/// A copy of a page, from bytes.
fn copy_of(bytes: &[u8]) -> Option<Box<Page>> {
    if bytes.len() != size_of::<Page>() {
        return None;
    }
    let mut page: Box<std::mem::MaybeUninit<Page>> = Box::new_uninit();
    let into = page.as_mut_ptr().cast::<u8>();
    // SAFETY: there are as many bytes on both sides, and the page is new.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), into, bytes.len()) };
    // SAFETY: I1.
    Some(unsafe { page.assume_init() })
}

fn facts(page: &Page) -> Facts {
    let load = |word: &std::sync::atomic::AtomicU32| word.load(Ordering::Relaxed);
    let next = load(&page.next_call);
    let calls_made = next / CALL_BYTES;
    let kept = calls_made.min(u32::try_from(CALLS).unwrap_or(u32::MAX));
    let calls = (calls_made.wrapping_sub(kept)..calls_made).filter_map(|number| {
        let slot = &page.calls[number as usize % CALLS];
        Some(CallFact { number, ..call(slot)? })
    });
    let objects = page.objects[..OBJECTS].iter().filter_map(|slot| {
        let number = u16::try_from(load(&slot.number).checked_sub(1)?).ok()?;
        Some(ObjectFact {
            number,
            born: load(&slot.born) / CALL_BYTES,
            size: load(&slot.size),
            group: slot.group.load(Ordering::Relaxed),
            first: load(&slot.first),
            stride: load(&slot.stride),
            calls: load(&slot.calls),
            name: text(&slot.name),
        })
    });
    let flags = load(&page.flags);
    let listed = (load(&page.listed) as usize).min(PENDING);
    let answer = FactsAnswer {
        number: load(&page.answered),
        activity: page.activity.load(Ordering::Relaxed),
        in_flight: flags & IN_FLIGHT != 0,
        other_threads: flags & OTHER_THREADS != 0,
        waiter: flags & WAITER != 0,
        pending: page.pending[..listed].iter().map(pending).collect(),
        unlisted: load(&page.unlisted),
        unexpected_bytes: page.unexpected_bytes.load(Ordering::Relaxed),
        unexpected_bytes_max: page.unexpected_bytes_max.load(Ordering::Relaxed),
        counts: NicCounts::from_words(
            page.counts.each_ref().map(|word| word.load(Ordering::Relaxed)),
        ),
    };
    let runs_used = (load(&page.runs_used) as usize).min(RUNS);
    let listed_mistakes = (load(&page.mistakes_found) as usize).min(MISTAKES);
    let plain = (load(&page.plain_at) == next && load(&page.plain_name) != 0)
        .then(|| name(load(&page.plain_name)));
    Facts {
        me: load(&page.me),
        stage: match load(&page.stage) {
            0 => Stage::Running,
            1 => Stage::Finalizing,
            _ => Stage::Finalized,
        },
        calls: calls.collect(),
        calls_made,
        waiting: load(&page.waiting),
        waits: load(&page.waits),
        waiting_since_ns: page.waiting_since_ns.load(Ordering::Relaxed),
        polls: load(&page.polls),
        poll_name: name(load(&page.poll_name)),
        plain,
        objects: objects.collect(),
        answer,
        missing: load(&page.missing)
            .checked_sub(1)
            .map(|peer| (Peer(peer), load(&page.missing_at) / CALL_BYTES)),
        unreachable: load(&page.unreachable).checked_sub(1).map(Peer),
        error: text(&page.error.0),
        panicked: load(&page.panicked) != 0,
        mistakes: page.mistakes[..listed_mistakes].iter().map(|slot| text(&slot.0)).collect(),
        runs: page.runs[..runs_used].iter().map(run).collect(),
        runs_known: match load(&page.runs_state) {
            0 => RunsKnown::All,
            RUNS_FULL => RunsKnown::Some,
            _ => RunsKnown::Nothing,
        },
        mistakes_unlisted: load(&page.mistakes_found)
            .saturating_sub(u32::try_from(MISTAKES).unwrap_or(u32::MAX)),
    }
}

pub(super) fn call(slot: &CallSlot) -> Option<CallFact> {
    let (word, more) = (slot.word.load(Ordering::Relaxed), slot.more.load(Ordering::Relaxed));
    let bytes = slot.bytes.load(Ordering::Relaxed);
    let side = slot.side.load(Ordering::Relaxed);
    let peer = peer(side);
    let what = slot.what.load(Ordering::Relaxed);
    let object = u16::try_from(word >> 48).unwrap_or(0);
    let low = |word: u64| u32::try_from(word & 0xffff_ffff).unwrap_or(0);
    let kind = match what & 0xff {
        KIND_SEND => CallKind::Send { to: peer?, word: MatchWord::from_bits(word), bytes },
        KIND_RECEIVE => CallKind::Receive {
            word: MatchWord::from_bits(word),
            any_source: side & SOURCE_BITS == 0,
            any_tag: side & TAG_BITS == 0,
            bytes,
        },
        KIND_COLLECTIVE => CallKind::Collective {
            object,
            nth: low(more >> 32),
            nonblocking: side & NONBLOCKING != 0,
            nth_of_kind: side & !NONBLOCKING,
            root: Some(low(more)).filter(|&root| root != NOBODY),
            operator: u16::try_from(word & 0xffff).unwrap_or(0),
            bytes,
            content: low(word >> 16),
        },
        _ => CallKind::Other { object, peer, count: bytes },
    };
    Some(CallFact { number: 0, name: name(what >> 8), kind })
}

/// Bits of the lower half of a mask that are set if the source counts, and if the tag does.
const SOURCE_BITS: u32 = 0xff00_0000;
const TAG_BITS: u32 = 0x00ff_ffff;

fn pending(slot: &PendingSlot) -> PendingFact {
    use ferrywire_nic::PendingKind;
    PendingFact {
        kind: match slot.kind.load(Ordering::Relaxed) {
            0 => PendingKind::Send,
            1 => PendingKind::Receive,
            2 => PendingKind::Step,
            _ => PendingKind::Arrived,
        },
        peer: peer(slot.peer.load(Ordering::Relaxed)),
        word: MatchWord::from_bits(slot.word.load(Ordering::Relaxed)),
        mask: Mask::from_bits(slot.mask.load(Ordering::Relaxed)),
        bytes: slot.bytes.load(Ordering::Relaxed),
    }
}

fn run(slot: &RunSlot) -> RunFact {
    let load = |word: &std::sync::atomic::AtomicU32| word.load(Ordering::Relaxed);
    let what = load(&slot.what);
    RunFact {
        sends: what & 0xff == KIND_SEND,
        name: name(what >> 8),
        peer: Peer(load(&slot.peer)),
        word: MatchWord::from_bits(slot.word.load(Ordering::Relaxed)),
        content: load(&slot.content),
        from: load(&slot.from),
        to: load(&slot.to),
    }
}

fn peer(number: u32) -> Option<Peer> {
    (number != NOBODY).then_some(Peer(number))
}

fn name(number: u32) -> CallName {
    CallName(u16::try_from(number & 0xffff).unwrap_or(0))
}

fn text(bytes: &[AtomicU8]) -> String {
    let bytes = bytes.iter().map(|byte| byte.load(Ordering::Relaxed));
    let bytes: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
