//! The trace of a rank: what it does and when, written to a file of its own while it runs.
//!
//! Nothing is recorded unless the launcher names a folder: see [`VARIABLE`]. Then each call of the program, each message
//! that is received, and what the agent does become records of [`RECORD_BYTES`] in a file that is mapped, so that they
//! stay if the rank is killed. Room is reserved in pieces. Where there is no more, the rank goes on, and what it could not
//! record is counted. The launcher, or the daemon of a host, reads the files in the end: see [`TracePart`].
//!
//! Times are ticks of the processor's counter where the system itself uses that as its clock, else nanoseconds.
//!
//! Invariants, cited below by number.
//!   I1. A file consists of atomics, and any bytes are valid for it.
//!   I2. A piece is reserved before it is mapped, begins at a multiple of the size of a record, and stays mapped for ever.

mod part;

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use ferrywire_nic::{Fault, MatchWord, Outcome, Peer, Received, Ticket};

use crate::facts::{CallName, CallSlot, Members, WatchedCall};
use crate::port::monotonic_ns;
use crate::sys::fork::WipedOnFork;
use crate::sys::map::{self, Map};
pub use part::{CallRecord, Matched, PartEvent, RecordingClock, TracePart};

/// The environment variable in which the launcher says where a rank records what it does: how many bytes it may write, a
/// colon, and a folder.
pub const VARIABLE: &str = "FERRY_TRACE";

/// Bytes of a record, and of the header before the first.
pub const RECORD_BYTES: u64 = size_of::<Record>() as u64;

/// Whether this process records what it does.
static ON: AtomicBool = AtomicBool::new(false);
static TRACE: OnceLock<Trace> = OnceLock::new();

/// The trace of this process.
struct Trace {
    file: File,
    /// Zero in a forked child, which has the pieces of its parent mapped and must not write to them.
    is_ours: WipedOnFork,
    clock: Clock,
    /// The number of the next record.
    next: AtomicU64,
    /// Where the pieces of the file are mapped.
    pieces: Box<[AtomicPtr<Record>]>,
    /// Held while a piece is added.
    growing: Mutex<()>,
    /// A piece could not be added.
    is_full: AtomicBool,
    threads: AtomicU32,
}

/// What a record holds. What the fields mean depends on its kind: see `part.rs`.
#[repr(C, align(32))]
struct Record {
    /// One of the kinds below, or 0: nothing.
    kind: AtomicU32,
    thread: AtomicU32,
    begin: AtomicU64,
    end: AtomicU64,
    extra: AtomicU64,
    slot: CallSlot,
}

/// The first bytes of a file.
#[repr(C, align(32))]
struct Header {
    magic: AtomicU64,
    me: AtomicU32,
    pid: AtomicU32,
    /// The same moment in nanoseconds and by the clock of the records.
    start_ns: AtomicU64,
    start: AtomicU64,
    /// Whether the clock of the records is the counter of the processor.
    ticks: AtomicU32,
    /// The error number because of which records are missing.
    error: AtomicU32,
    /// How many records are missing.
    dropped: AtomicU64,
    /// When the rank left the job, or 0.
    left: AtomicU64,
    _rest: AtomicU64,
}

/// What the times in records are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Clock {
    Ticks,
    Nanoseconds,
}

impl Clock {
    fn choose() -> Clock {
        let source = std::fs::read_to_string(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        );
        match source {
            Ok(source) if cfg!(target_arch = "x86_64") && source.trim() == "tsc" => Clock::Ticks,
            _ => Clock::Nanoseconds,
        }
    }

    #[inline]
    fn now(self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if self == Clock::Ticks {
            // SAFETY: every processor of this architecture has the instruction.
            return unsafe { core::arch::x86_64::_rdtsc() };
        }
        monotonic_ns()
    }

    /// The same moment in nanoseconds and by this clock: the pair between whose halves the least time passed.
    fn pair(self) -> (u64, u64) {
        let pair = || {
            let before = self.now();
            let ns = monotonic_ns();
            (self.now().saturating_sub(before), ns, before)
        };
        let (gap, ns, before) = (0..8).map(|_| pair()).min().unwrap_or_default();
        (ns, before + gap / 2)
    }
}

/// What a thread is recording.
struct ThreadTrace {
    /// The number of the thread, or 0 if it has none yet.
    number: Cell<u32>,
    /// The call that the thread is in.
    call: Cell<Option<&'static Record>>,
    /// The call asks whether something is over, and found that it is not.
    polls: Cell<bool>,
    /// The last call, if it was such a question, and the number of the record after it.
    last_poll: Cell<Option<(&'static Record, u64)>>,
}

thread_local! {
    static THREAD: ThreadTrace = const {
        ThreadTrace {
            number: Cell::new(0),
            call: Cell::new(None),
            polls: Cell::new(false),
            last_poll: Cell::new(None),
        }
    };
}

/// Whether this process records what it does.
#[inline(always)]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Begins to record if the launcher asks for it. `value` is that of [`VARIABLE`].
pub(crate) fn open(value: Option<String>, me: Peer) {
    let Some(value) = value else { return };
    let wanted = value.split_once(':').and_then(|(bytes, path)| Some((bytes.parse().ok()?, path)));
    let Some((bytes_max, path)) = wanted else { return };
    match Trace::open(Path::new(path), bytes_max, me) {
        Ok(trace) => ON.store(TRACE.set(trace).is_ok(), Ordering::Release),
        Err(error) => eprintln!(
            "ferrywire: rank {} is missing in the trace: cannot write {path}: {error}",
            me.0
        ),
    }
}

impl Trace {
    fn open(path: &Path, bytes_max: u64, me: Peer) -> io::Result<Trace> {
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(path)?;
        let pieces = usize::try_from(bytes_max / PIECE_BYTES).unwrap_or(1).max(1);
        let trace = Trace {
            file,
            is_ours: WipedOnFork::new(1)?,
            clock: Clock::choose(),
            next: AtomicU64::new(1),
            pieces: (0..pieces).map(|_| AtomicPtr::default()).collect(),
            growing: Mutex::default(),
            is_full: AtomicBool::new(false),
            threads: AtomicU32::new(0),
        };
        if let Err(error) = trace.add_piece(0) {
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        let header = trace.header();
        let (ns, now) = trace.clock.pair();
        header.me.store(me.0, Ordering::Relaxed);
        header.pid.store(std::process::id(), Ordering::Relaxed);
        header.start_ns.store(ns, Ordering::Relaxed);
        header.start.store(now, Ordering::Relaxed);
        header.ticks.store(u32::from(trace.clock == Clock::Ticks), Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(trace)
    }

    /// Whether this process was forked from the one whose trace it is.
    #[inline]
    fn is_forked(&self) -> bool {
        self.is_ours.load(Ordering::Relaxed) == 0
    }

    fn header(&self) -> &'static Header {
        let first = NonNull::new(self.pieces[0].load(Ordering::Relaxed));
        let first = first.expect("the first piece is mapped when the file is opened");
        // SAFETY: I1 and I2: a header is not longer than a record.
        unsafe { first.cast().as_ref() }
    }

    /// Maps a piece of the file.
    fn add_piece(&self, piece: usize) -> io::Result<()> {
        let at = piece as u64 * PIECE_BYTES;
        match map::reserve(&self.file, at, PIECE_BYTES) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                // The file system cannot reserve, so it is filled.
                let zeros = vec![0; usize::try_from(PIECE_BYTES).unwrap_or(0)];
                self.file.write_all_at(&zeros, at)?;
            }
            reserved => reserved?,
        }
        let map = Map::new(&self.file, at, PIECE_BYTES)?;
        map.populate();
        self.pieces[piece].store(map.start().as_ptr().cast(), Ordering::Release);
        // I2.
        std::mem::forget(map);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn grow(&self, piece: usize) -> Option<*mut Record> {
        let place = self.pieces.get(piece)?;
        if self.is_full.load(Ordering::Relaxed) {
            return None;
        }
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        if place.load(Ordering::Relaxed).is_null()
            && let Err(error) = self.add_piece(piece)
        {
            let code = error.raw_os_error().and_then(|code| u32::try_from(code).ok());
            self.header().error.store(code.unwrap_or(0), Ordering::Relaxed);
            self.is_full.store(true, Ordering::Relaxed);
        }
        Some(place.load(Ordering::Relaxed)).filter(|piece| !piece.is_null())
    }

    /// A new record and its number; `None` if there is no room, or in a forked child.
    #[inline]
    fn claim(&self) -> Option<(&'static Record, u64)> {
        if self.is_forked() {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let piece = usize::try_from(number / RECORDS_PER_PIECE).unwrap_or(usize::MAX);
        let start = self.pieces.get(piece).map(|piece| piece.load(Ordering::Acquire));
        let start = start.filter(|start| !start.is_null()).or_else(|| self.grow(piece));
        let Some(start) = start.and_then(NonNull::new) else {
            self.header().dropped.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let at = usize::try_from(number % RECORDS_PER_PIECE).unwrap_or(0);
        // SAFETY: I2: a piece has so many records.
        let record = unsafe { start.add(at) };
        // SAFETY: I1 and I2.
        Some((unsafe { record.as_ref() }, number))
    }

    fn thread(&self, thread: &ThreadTrace) -> u32 {
        if thread.number.get() == 0 {
            thread.number.set(1 + self.threads.fetch_add(1, Ordering::Relaxed));
        }
        thread.number.get()
    }

    /// Writes a record, except for its kind.
    fn record(&self, kind: u32, fill: impl FnOnce(&Record)) {
        if let Some((record, _)) = self.claim() {
            THREAD.with(|thread| record.thread.store(self.thread(thread), Ordering::Relaxed));
            fill(record);
            // Pairs with the Acquire of the reader, if the rank still runs.
            record.kind.store(kind, Ordering::Release);
        }
    }
}

/// A call that is being recorded: it ends when this is dropped.
#[must_use]
pub struct TracedCall {
    record: Option<(&'static Record, u64)>,
    /// The call around it.
    outer: Option<&'static Record>,
    /// Whether the record says which message the call has received.
    received: bool,
}

impl TracedCall {
    /// A call begins, which is recorded.
    #[cold]
    #[inline(never)]
    pub fn begin(name: CallName) -> TracedCall {
        TracedCall::new(|slot| slot.set_plain(name))
    }

    /// A call with these arguments begins, which is recorded.
    #[inline]
    pub fn begin_with(call: WatchedCall) -> TracedCall {
        TracedCall::new(|slot| slot.copy(call.0))
    }

    #[inline(always)]
    fn new(fill: impl FnOnce(&CallSlot)) -> TracedCall {
        let none = TracedCall { record: None, outer: None, received: false };
        let Some(trace) = TRACE.get() else { return none };
        let record = trace.claim();
        THREAD.with(|thread| {
            if let Some((record, _)) = record {
                record.thread.store(trace.thread(thread), Ordering::Relaxed);
                record.begin.store(trace.clock.now(), Ordering::Relaxed);
                fill(&record.slot);
                record.kind.store(OPEN, Ordering::Release);
            }
            thread.polls.set(false);
            let outer = thread.call.replace(record.map(|(record, _)| record));
            TracedCall { record, outer, received: false }
        })
    }

    /// The call is over when the one receive is that it has posted.
    #[inline]
    pub fn received(&mut self, outcome: Outcome) {
        if let (Some((record, _)), Some(got)) = (self.record, got(outcome)) {
            record.slot.set_received(got.word, got.len);
            self.received = true;
        }
    }

    #[cold]
    #[inline(never)]
    fn end(&self) {
        // A child that was forked within the call does not end it.
        let trace = TRACE.get().filter(|trace| !trace.is_forked());
        let (Some(trace), Some((record, number))) = (trace, self.record) else { return };
        let now = trace.clock.now();
        THREAD.with(|thread| {
            thread.call.set(self.outer);
            let next = trace.next.load(Ordering::Relaxed);
            let polls = thread.polls.replace(false) && next == number + 1;
            if polls && self.add_to_last(trace, thread, now) {
                return;
            }
            record.end.store(now, Ordering::Relaxed);
            record.extra.store(next, Ordering::Relaxed);
            if polls {
                let begin = record.begin.load(Ordering::Relaxed);
                record.slot.set_polls(1, now.saturating_sub(begin));
            }
            let kind = match (polls, self.received) {
                (true, _) => POLLS,
                (false, true) => RECEIVE,
                (false, false) => CALL,
            };
            record.kind.store(kind, Ordering::Release);
            thread.last_poll.set(polls.then_some((record, next)));
        });
    }

    /// Adds a call that found nothing to the last record, if that is of such a call, too: programs may ask a million times
    /// a second.
    fn add_to_last(&self, trace: &Trace, thread: &ThreadTrace, now: u64) -> bool {
        let (Some((record, number)), Some((last, next))) = (self.record, thread.last_poll.get())
        else {
            return false;
        };
        let begin = record.begin.load(Ordering::Relaxed);
        let gap = begin.saturating_sub(last.end.load(Ordering::Relaxed));
        let is_next = next == number && gap < POLLS_GAP && last.slot.is_same_call(&record.slot);
        if !is_next {
            return false;
        }
        record.kind.store(0, Ordering::Relaxed);
        // If another thread has taken the next number, this record stays empty.
        let taken_back =
            trace.next.compare_exchange(number + 1, number, Ordering::Relaxed, Ordering::Relaxed);
        let next = if taken_back.is_ok() { number } else { number + 1 };
        last.end.store(now, Ordering::Relaxed);
        last.slot.add_polls(now.saturating_sub(begin));
        thread.last_poll.set(Some((last, next)));
        true
    }
}

impl Drop for TracedCall {
    #[inline(always)]
    fn drop(&mut self) {
        if self.record.is_some() {
            self.end();
        }
    }
}

/// Records the call in which the rank has joined its job: it began before anything could be recorded.
pub fn joined_in(name: CallName) {
    let Some(trace) = TRACE.get().filter(|_| is_on()) else { return };
    trace.record(CALL, |record| {
        record.slot.set_plain(name);
        record.begin.store(trace.header().start.load(Ordering::Relaxed), Ordering::Relaxed);
        record.end.store(trace.clock.now(), Ordering::Relaxed);
        record.extra.store(trace.next.load(Ordering::Relaxed), Ordering::Relaxed);
    });
}

/// Records the arguments of the call that the thread is in. If it has some already, as `MPI_Startall` has, these are
/// recorded after it.
#[cold]
#[inline(never)]
pub(crate) fn arguments(slot: &CallSlot) {
    let Some(trace) = TRACE.get() else { return };
    let call = THREAD.with(|thread| thread.call.get());
    match call.filter(|call| call.slot.is_plain()) {
        Some(call) => call.slot.copy(slot),
        None => trace.record(ARGUMENTS, |record| record.slot.copy(slot)),
    }
}

/// The call that the thread is in asks whether something is over.
#[cold]
#[inline(never)]
pub(crate) fn polls() {
    THREAD.with(|thread| thread.polls.set(true));
}

/// Records what a receive got that is over at once.
#[cold]
#[inline(never)]
pub fn received(outcome: Outcome) {
    let (Some(trace), Some(got)) = (TRACE.get(), got(outcome)) else { return };
    trace.record(RECEIVED, |record| {
        record.begin.store(trace.clock.now(), Ordering::Relaxed);
        record.slot.set_message(got.word, got.len);
    });
}

/// Records that a receive was posted.
#[cold]
#[inline(never)]
pub(crate) fn posted(plane: u32, ticket: Ticket) {
    let Some(trace) = TRACE.get() else { return };
    trace.record(POSTED, |record| {
        record.extra.store(ticket.bits(), Ordering::Relaxed);
        record.end.store(plane.into(), Ordering::Relaxed);
    });
}

/// Records that an operation is over, if it is a receive.
#[cold]
#[inline(never)]
pub(crate) fn completed(plane: u32, ticket: Ticket, outcome: &Outcome) {
    let (Some(trace), Some(got)) = (TRACE.get(), got(*outcome)) else { return };
    trace.record(COMPLETED, |record| {
        record.begin.store(trace.clock.now(), Ordering::Relaxed);
        record.end.store(plane.into(), Ordering::Relaxed);
        record.extra.store(ticket.bits(), Ordering::Relaxed);
        record.slot.set_message(got.word, got.len);
    });
}

/// The message that a receive has taken.
fn got(outcome: Outcome) -> Option<Received> {
    match outcome {
        Outcome::Received(received) => Some(received),
        Outcome::Failed(Fault::Truncated { word, len }) => Some(Received { word, len }),
        _ => None,
    }
}

/// Records what the NIC holds, if that was not recorded just before. `last` is when it was.
#[cold]
#[inline(never)]
pub(crate) fn depth(plane: u32, unexpected_bytes: u64, operations: u64, last: &mut u64) {
    let Some(trace) = TRACE.get() else { return };
    let now = trace.clock.now();
    if now.saturating_sub(*last) < DEPTH_GAP {
        return;
    }
    *last = now;
    trace.record(DEPTH, |record| {
        record.begin.store(now, Ordering::Relaxed);
        record.end.store(plane.into(), Ordering::Relaxed);
        record.extra.store(operations, Ordering::Relaxed);
        record.slot.set_message(MatchWord::from_bits(0), unexpected_bytes);
    });
}

/// Records an object whose calls are recorded from now on.
pub(crate) fn object(number: u16, members: &Members) {
    let Some(trace) = TRACE.get() else { return };
    trace.record(OBJECT, |record| {
        let Members { size, group, first, stride } = *members;
        record.begin.store(number.into(), Ordering::Relaxed);
        record.end.store(group, Ordering::Relaxed);
        record.extra.store(u64::from(first) << 32 | u64::from(stride), Ordering::Relaxed);
        record.slot.set_message(MatchWord::from_bits(0), size.into());
    });
}

/// Records the name of an object.
pub(crate) fn name(number: u16, name: &str) {
    let Some(trace) = TRACE.get() else { return };
    let mut bytes = [0; NAME_BYTES];
    name.bytes().zip(&mut bytes).for_each(|(byte, place)| *place = byte);
    let word = |at: usize| {
        let word = bytes.get(at * 8..at * 8 + 8).and_then(|word| word.try_into().ok());
        u64::from_le_bytes(word.unwrap_or_default())
    };
    trace.record(NAME, |record| {
        record.begin.store(number.into(), Ordering::Relaxed);
        record.end.store(word(0), Ordering::Relaxed);
        record.extra.store(word(1), Ordering::Relaxed);
        record.slot.set_words([word(2), word(3), word(4)]);
    });
}

/// The rank has left its job.
pub(crate) fn leave() {
    if let Some(trace) = TRACE.get() {
        trace.header().left.store(trace.clock.now(), Ordering::Relaxed);
    }
}

/// What the agent does between two naps.
#[derive(Default)]
pub(crate) struct AgentWork {
    /// Since when it turns, and how often something happened.
    since: u64,
    turns: u64,
}

impl AgentWork {
    /// A turn of the agent begins.
    pub(crate) fn begin(&mut self) {
        if is_on() && self.turns == 0 {
            self.since = TRACE.get().map_or(0, |trace| trace.clock.now());
        }
    }

    /// Something happened in a turn.
    pub(crate) fn happened(&mut self) {
        self.turns += u64::from(is_on());
    }

    /// The agent is about to sleep.
    pub(crate) fn end(&mut self) {
        let turns = std::mem::take(&mut self.turns);
        let Some(trace) = TRACE.get().filter(|_| turns > 0) else { return };
        let since = self.since;
        trace.record(AGENT, |record| {
            record.begin.store(since, Ordering::Relaxed);
            record.end.store(trace.clock.now(), Ordering::Relaxed);
            record.extra.store(turns, Ordering::Relaxed);
        });
    }
}

/// A call that has not ended.
const OPEN: u32 = 1;
/// A call: `begin`, `end`, and in `extra` the number of the next record when it ended.
const CALL: u32 = 2;
/// Calls that found that something is not over.
const POLLS: u32 = 3;
/// More arguments of the call that the thread is in.
const ARGUMENTS: u32 = 4;
/// A call that was over when its receive was: `slot` says which message it got, and has the length of that in `more`.
const RECEIVE: u32 = 5;
/// What a receive got that the call that the thread is in has posted.
const RECEIVED: u32 = 6;
/// A receive that was posted, by its ticket, and its end.
const POSTED: u32 = 7;
const COMPLETED: u32 = 8;
/// What the NIC holds.
const DEPTH: u32 = 9;
/// What the agent did.
const AGENT: u32 = 10;
/// An object, and its name.
const OBJECT: u32 = 11;
const NAME: u32 = 12;

const MAGIC: u64 = u64::from_le_bytes(*b"ferrtrc1");
/// How much is reserved at a time.
const PIECE_BYTES: u64 = 256 << 10;
const RECORDS_PER_PIECE: u64 = PIECE_BYTES / RECORD_BYTES;
const NAME_BYTES: usize = 40;
/// Ticks between two questions that are recorded as one, and between two records of what the NIC holds: some tens of
/// microseconds.
const POLLS_GAP: u64 = 100_000;
const DEPTH_GAP: u64 = 50_000;

const _: () = {
    assert!(RECORD_BYTES == 64);
    assert!(size_of::<Header>() as u64 == RECORD_BYTES);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_does_not_write_into_the_trace_of_its_parent() {
        let path = std::env::temp_dir().join(format!("ferry-trace-fork-{}", std::process::id()));
        let trace = Trace::open(&path, PIECE_BYTES, Peer(3)).expect("a trace");
        let write = |begin| {
            trace.record(AGENT, |record| record.begin.store(begin, Ordering::Relaxed));
        };
        write(1);
        // SAFETY: the child only writes to memory, and exits.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "{}", io::Error::last_os_error());
        if pid == 0 {
            write(2);
            // SAFETY: it takes a number.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: a null pointer asks for nothing back.
        assert_eq!(unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) }, pid);
        let events = || {
            let bytes = std::fs::read(&path).expect("a file");
            let clock = RecordingClock::of(&bytes).expect("a recording");
            TracePart::parse(&bytes, clock).expect("a recording")
        };
        assert_eq!((events().events.len(), events().dropped), (1, 0));
        write(3);
        assert_eq!(events().events.len(), 2);
        std::fs::remove_file(&path).expect("it is removed");
    }
}
