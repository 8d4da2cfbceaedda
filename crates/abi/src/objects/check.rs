//! Checks that take time or memory, which a program has with `ferry run --check`, or FERRY_CHECK=1 under other launchers.
//!
//! Each rank counts its messages by peer and match word, and describes runs of messages that contain the same in its facts:
//! MPI delivers the messages of such a sequence in order, so the launcher finds out which message was received as what
//! without any help of the messages themselves. A receive is counted at its place in the order in which receives were
//! posted: with MPI_ANY_TAG, they may complete in another.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use ferrywire_host::bootstrap;
use ferrywire_host::facts::RunFact;
use ferrywire_host::nic::{MatchWord, Outcome, Peer, Received, Span};
use ferrywire_mpi::datatype::{Content, Datatype};
use ferrywire_runtime::CallName;
use ferrywire_runtime::words::bytes;

use crate::convert::handle;
use crate::convert::types::MPI_Datatype;
use crate::objects::comm::Comm;
use crate::objects::datatype;
use crate::objects::mistake;
use crate::objects::process;

static IS_ON: AtomicBool = AtomicBool::new(false);

/// Whether the program is checked.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Checks the program if the user wants that. `has_threads`: several threads may make calls at the same time, so that nobody
/// knows the order of messages.
pub(crate) fn begin(has_threads: bool) {
    if std::env::var_os(SETTING).is_none_or(|value| value.is_empty() || value == "0") {
        return;
    }
    IS_ON.store(true, Ordering::Relaxed);
    handle::list_objects();
    let rank = process::running().ok().map(|process| process.rank());
    rank.inspect(|rank| rank.facts().watch());
    let is_fault_tolerant = rank.is_some_and(|rank| rank.is_fault_tolerant());
    if has_threads || is_fault_tolerant {
        lose_count();
    }
}

/// Whether nobody but this rank prints its mistakes: no launcher of ours has started it.
pub(crate) fn prints_mistakes() -> bool {
    is_on() && std::env::var_os(bootstrap::VARIABLE).is_none()
}

/// The setting.
const SETTING: &str = "FERRY_CHECK";

/// The messages of this rank.
struct Messages {
    /// Whether it is known which message is which.
    counted: bool,
    /// The number of the next receive.
    next_receive: u64,
    /// Receives by number, from the first on that is not complete.
    receives: BTreeMap<u64, Option<CountedMessage>>,
    /// The last run of each sequence of messages.
    last: HashMap<(bool, Peer, MatchWord), LastRun>,
}

/// A message that was sent or received.
#[derive(Clone, Copy)]
struct CountedMessage {
    sends: bool,
    name: CallName,
    peer: Peer,
    word: MatchWord,
    content: Content,
}

/// The last run of a sequence of messages.
struct LastRun {
    /// Where it is in the facts.
    at: Option<usize>,
    content: Content,
    /// How many messages there were in the sequence.
    count: u32,
}

static MESSAGES: LazyLock<Mutex<Messages>> = LazyLock::new(|| {
    Mutex::new(Messages {
        counted: true,
        next_receive: 0,
        receives: BTreeMap::new(),
        last: HashMap::new(),
    })
});

fn messages() -> MutexGuard<'static, Messages> {
    MESSAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Messages {
    /// Counts a message, in its order.
    fn count(&mut self, message: CountedMessage) {
        let CountedMessage { sends, name, peer, word, content } = message;
        let Ok(process) = process::running() else { return };
        let facts = process.rank().facts();
        let begin = |from: u32| {
            let (content, to) = (content.bits(), from + 1);
            facts.begin_run(RunFact { sends, name, peer, word, content, from, to })
        };
        let last = self.last.entry((sends, peer, word)).or_insert_with(|| LastRun {
            at: begin(0),
            content,
            count: 0,
        });
        last.count += 1;
        match last.at {
            Some(at) if last.content == content => facts.extend_run(at, last.count),
            _ => *last = LastRun { at: begin(last.count - 1), content, count: last.count },
        }
    }

    /// Counts the receives that are complete and before which none is pending.
    fn settle(&mut self) {
        while let Some(first) = self.receives.first_entry()
            && let Some(message) = *first.get()
        {
            first.remove();
            self.count(message);
        }
        if self.receives.len() > RECEIVES_MAX {
            self.lose_count();
        }
    }

    fn lose_count(&mut self) {
        self.counted = false;
        self.receives.clear();
        if let Ok(process) = process::running() {
            process.rank().facts().lose_runs();
        }
    }
}

/// How many receives may be complete while an earlier one is pending.
const RECEIVES_MAX: usize = 1 << 16;

/// From now on, nobody knows which message of this rank is which.
pub(crate) fn lose_count() {
    messages().lose_count();
}

/// The program is about to leave: what it still waits for does not come.
pub(crate) fn settle_all() {
    let mut messages = messages();
    messages.receives.retain(|_, receive| receive.is_some());
    messages.settle();
}

/// What bytes of a datatype contain.
pub(crate) fn content_of(datatype: MPI_Datatype, bytes: u64) -> Content {
    datatype::find(datatype).map_or(Content::default(), |datatype| datatype.content(bytes))
}

/// Counts a message to another rank.
pub(crate) fn count_sent(
    name: CallName,
    (peer, word): (Peer, MatchWord),
    content: Content,
    comm: &Comm,
) {
    let mut messages = messages();
    if comm.module().is_some() {
        // A module may take any message.
        messages.lose_count();
    }
    if messages.counted {
        messages.count(CountedMessage { sends: true, name, peer, word, content });
    }
}

/// The number of a receive that is about to be posted.
pub(crate) fn count_receive() -> u64 {
    let mut messages = messages();
    let number = messages.next_receive;
    messages.next_receive += 1;
    if messages.counted {
        messages.receives.insert(number, None);
    }
    number
}

/// A receive has got a message.
pub(crate) fn count_received(
    name: CallName,
    number: u64,
    got: &Received,
    content: Content,
    comm: &Comm,
) {
    let mut messages = messages();
    let (word, targets) = (got.word, comm.members.targets());
    if !messages.counted || word.source() >= targets.size() {
        return;
    }
    let peer = targets.peer_of(word.source());
    messages
        .receives
        .insert(number, Some(CountedMessage { sends: false, name, peer, word, content }));
    messages.settle();
}

/// A receive has ended without a message.
pub(crate) fn forget_receive(number: u64) {
    let mut messages = messages();
    messages.receives.remove(&number);
    messages.settle();
}

/// What a receive has got, if anything. Of a message that was too long, only the place in the order counts.
pub(crate) fn end_receive(
    name: CallName,
    number: u64,
    outcome: Outcome,
    datatype: &Datatype,
    comm: &Comm,
) {
    use ferrywire_host::nic::Fault;
    match outcome {
        Outcome::Received(got) => {
            count_received(name, number, &got, datatype.content(got.len), comm);
        }
        Outcome::Failed(Fault::Truncated { word, len }) => {
            let got = Received { word, len };
            count_received(name, number, &got, Content::default(), comm);
        }
        _ => forget_receive(number),
    }
}

/// Memory of the program that an operation uses until it is complete.
struct LentMemory {
    range: Range<u64>,
    /// The call that uses it.
    call: String,
}

/// Memory that is lent, by its start and a number.
struct Lent {
    next: u64,
    read: BTreeMap<(u64, u64), LentMemory>,
    /// What is written does not overlap, unless that has been told.
    written: BTreeMap<(u64, u64), LentMemory>,
}

static LENT: Mutex<Lent> =
    Mutex::new(Lent { next: 0, read: BTreeMap::new(), written: BTreeMap::new() });

/// Names memory that is lent.
pub(crate) struct Loan {
    writes: bool,
    key: (u64, u64),
}

/// Tells if an operation uses memory that another one, which is not complete, writes, or writes memory that it reads. The
/// memory is lent until the result is dropped.
pub(crate) fn lend(span: Span, writes: bool, call: &str) -> Loan {
    let range = span.offset..span.offset.saturating_add(span.len);
    let mut lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
    let before_end = lent.written.range(..(range.end, 0)).next_back();
    let writer = before_end.filter(|(_, other)| common(&range, &other.range) > 0);
    if let Some((_, other)) = writer {
        let (both, pending) = (bytes(common(&range, &other.range)), &other.call);
        let why = match writes {
            true => "writes, too: do the buffers overlap?",
            false => "writes: is MPI_Wait called too late?",
        };
        mistake::tell(&format!(
            "called {call} with {both} of a buffer that its pending {pending} {why}"
        ));
    } else if writes
        && let Some(other) = lent.read.values().find(|other| common(&range, &other.range) > 0)
    {
        let (both, pending) = (bytes(common(&range, &other.range)), &other.call);
        mistake::tell(&format!(
            "called {call} with {both} of a buffer that its pending {pending} still sends: is MPI_Wait called too late?"
        ));
    }
    let key = (range.start, lent.next);
    lent.next += 1;
    let kind = if writes { &mut lent.written } else { &mut lent.read };
    kind.insert(key, LentMemory { range, call: call.into() });
    Loan { writes, key }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = if self.writes { &mut lent.written } else { &mut lent.read };
        kind.remove(&self.key);
    }
}

/// How many bytes two ranges have in common.
fn common(one: &Range<u64>, other: &Range<u64>) -> u64 {
    one.end.min(other.end).saturating_sub(one.start.max(other.start))
}

/// Whether memory that a collective writes is also read by it, or written twice.
pub(crate) fn overlap(lent: &[(Span, bool)]) -> bool {
    let range = |span: &Span| span.offset..span.offset.saturating_add(span.len);
    lent.iter().enumerate().any(|(at, (one, writes))| {
        let mut later = lent[at + 1..].iter();
        later.any(|(other, other_writes)| {
            (*writes || *other_writes) && common(&range(one), &range(other)) > 0
        })
    })
}

/// A number that changes with the bytes, most probably.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let mix =
        |sum: u64, part: u64| (sum ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let sum =
        words.iter().fold(bytes.len() as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, &byte| mix(sum, u64::from(byte) | 1 << 8))
}
