//! What a rank tells about itself while it runs: a page in the memory that the ranks of its host share.
//!
//! The rank writes its page with plain stores, always, and never reads it for its own purposes. Launchers read it, also
//! when the rank has died. What changes without a call of the rank, such as its queues, is only written when somebody
//! asks, which is a number in its page.
//!
//! Names of calls and operators are numbers here; the runtime says what they stand for.
//!
//! Invariants, cited below by number.
//!   I1. A page consists of atomics, and any bytes are valid for it.
//!   I2. The memory of a `FactsPage` is reserved and mapped as long as the value lives.

mod slot;
mod snapshot;

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use ferrywire_nic::{Mask, MatchWord, Nic, Peer, Pending, PendingKind};

use crate::error_code::shortened;
use crate::port::monotonic_ns;
use crate::sys::map::{self, Map};
use crate::trace;
pub use snapshot::{
    CallFact, CallKind, Facts, FactsAnswer, Glance, NicCounts, ObjectFact, PendingFact, RunsKnown,
    Stage,
};

/// The number of a call's name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CallName(pub u16);

impl CallName {
    /// A call of the library itself, which is not recorded.
    pub const INTERNAL: CallName = CallName(0);
}

/// Bytes of a page.
pub const FACTS_BYTES: u64 = size_of::<Page>() as u64;

/// Bytes of a call.
const CALL_BYTES: u32 = 32;
/// Set in `next_call` if the rank is watched: calls look at that number in any case.
const WATCHED: u32 = 1;
/// Calls that a page keeps.
pub const CALLS: usize = 256;
/// Communicators, windows and files that a page describes.
pub const OBJECTS: usize = 64;
/// Messages and operations that an answer lists.
pub const PENDING: usize = 96;
/// Bytes of the name of an object, and of the last error.
const NAME_BYTES: usize = 56;
const ERROR_BYTES: usize = 512;
/// Mistakes that a page keeps, and bytes of each.
pub const MISTAKES: usize = 12;
const MISTAKE_BYTES: usize = 320;
/// Messages in a row that a page describes together: see [`RunFact`].
pub const RUNS: usize = 192;

/// The facts of a rank.
#[repr(C, align(64))]
pub struct Page {
    /// [`MAGIC`] once the rank has opened it.
    magic: AtomicU32,
    /// [`Stage`].
    stage: AtomicU32,
    /// The number of the rank among all of its job.
    me: AtomicU32,
    /// How many calls have been recorded, times [`CALL_BYTES`]; the last ones are in `calls`. The lowest bit is [`WATCHED`].
    next_call: AtomicU32,
    /// Threads of the rank that wait in the library.
    waiting: AtomicU32,
    /// How often a thread has begun to wait.
    waits: AtomicU32,
    /// How often the rank has asked whether something is over, and by which call it did so last.
    polls: AtomicU32,
    poll_name: AtomicU32,
    /// The last call that is not recorded with its arguments, and `next_call` at that time.
    plain_name: AtomicU32,
    plain_at: AtomicU32,
    /// The number of the last question, written by whoever asks, and of the last answer.
    asked: AtomicU32,
    answered: AtomicU32,
    /// What the answer says, as bits: [`IN_FLIGHT`], [`OTHER_THREADS`], [`WAITER`].
    flags: AtomicU32,
    /// The rank without which a call has failed, and 1; else 0. And `next_call` at that time.
    missing: AtomicU32,
    missing_at: AtomicU32,
    /// The rank that could not be reached, and 1; else 0.
    unreachable: AtomicU32,
    /// Entries of `pending` in the answer, and those that found no room.
    listed: AtomicU32,
    unlisted: AtomicU32,
    /// When the first of the waiting threads began to wait.
    waiting_since_ns: AtomicU64,
    /// A number that changes whenever the rank does anything that others may notice.
    activity: AtomicU64,
    /// Bytes of unexpected messages, and how many there may be.
    unexpected_bytes: AtomicU64,
    unexpected_bytes_max: AtomicU64,
    calls: [CallSlot; CALLS],
    objects: [ObjectSlot; OBJECTS],
    pending: [PendingSlot; PENDING],
    error: Text<ERROR_BYTES>,
    /// What the NIC has counted, as [`NicCounts`] says.
    counts: [AtomicU64; NicCounts::LEN],
    /// How often the rank has found a mistake of the program, and the first ones of them, each once.
    mistakes_found: AtomicU32,
    /// Whether `error` is the text of a panic.
    panicked: AtomicU32,
    mistakes: [Text<MISTAKE_BYTES>; MISTAKES],
    /// With `--check`: runs of messages, and how many of them are in use; [`RUNS_UNKNOWN`] if the rank has lost count.
    runs_used: AtomicU32,
    runs_state: AtomicU32,
    runs: [RunSlot; RUNS],
}

/// Messages in a row.
#[repr(C, align(32))]
struct RunSlot {
    word: AtomicU64,
    peer: AtomicU32,
    /// Name and kind of the call.
    what: AtomicU32,
    content: AtomicU32,
    from: AtomicU32,
    to: AtomicU32,
}

/// A call, as it was made.
#[repr(C, align(32))]
pub(crate) struct CallSlot {
    /// The match word of a message; of other calls, the number of the object, shifted as its group.
    word: AtomicU64,
    /// Of a collective call: its number and root.
    more: AtomicU64,
    bytes: AtomicU64,
    /// The receiver of a message, or [`NOBODY`]. Of a receive, the lower half of its mask, which tells whether source and
    /// tag count. Of a collective call, its number among those of its kind.
    side: AtomicU32,
    /// Name and kind.
    what: AtomicU32,
}

/// A call that was recorded in a rank that is watched: see [`Page::watch`].
#[derive(Clone, Copy)]
#[must_use]
pub struct WatchedCall<'a>(pub(crate) &'a CallSlot);

impl WatchedCall<'_> {
    /// Adds its arguments to the trace, if there is one, as those of the call that the thread is in.
    #[cold]
    #[inline(never)]
    pub fn trace(self) {
        trace::arguments(self.0);
    }
}

/// A communicator, window or file.
#[repr(C, align(32))]
struct ObjectSlot {
    /// Its number and 1, or 0.
    number: AtomicU32,
    /// Whether it is freed, so that its number may be that of another.
    freed: AtomicU32,
    /// `next_call` when it was described: earlier calls were on another object with its number.
    born: AtomicU32,
    size: AtomicU32,
    /// Where its members are among all processes, if the distance from each to the next is the same, else 0.
    first: AtomicU32,
    stride: AtomicU32,
    /// Identifies the group of its members.
    group: AtomicU64,
    /// Collective calls on it, and how many of them were nonblocking.
    calls: AtomicU32,
    nonblocking: AtomicU32,
    name: [AtomicU8; NAME_BYTES],
}

/// A message or an operation that is not over.
#[repr(C, align(32))]
struct PendingSlot {
    word: AtomicU64,
    mask: AtomicU64,
    bytes: AtomicU64,
    peer: AtomicU32,
    kind: AtomicU32,
}

/// A text that ends with a zero byte, or where there is no more room.
#[repr(C)]
struct Text<const N: usize>([AtomicU8; N]);

impl<const N: usize> Text<N> {
    fn set(&self, text: &str) {
        set_text(&self.0, text);
    }

    /// Whether the text is this one, as far as there is room.
    fn is(&self, text: &str) -> bool {
        let bytes = text.bytes().chain(std::iter::once(0));
        self.0.iter().zip(bytes).all(|(place, byte)| place.load(Ordering::Relaxed) == byte)
    }
}

fn set_text(bytes: &[AtomicU8], text: &str) {
    let new = text.bytes().chain(std::iter::repeat(0));
    bytes.iter().zip(new).for_each(|(place, byte)| place.store(byte, Ordering::Relaxed));
}

/// The call of a rank on a communicator, window or file that all members make.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CollectiveCall {
    /// The name of the call.
    pub name: CallName,
    /// The number of the object.
    pub object: u16,
    /// The root, if it has one.
    pub root: Option<u32>,
    /// The operator, as its constant; 0 if there is none, or if the program has defined it.
    pub operator: u16,
    /// Bytes, where all members must pass as many; else 0.
    pub bytes: u64,
    /// Whether the call only begins it. Calls of both kinds are counted apart, since they never meet each other.
    pub nonblocking: bool,
    /// The basic types of its data, where all members must pass the same and that is checked; else 0.
    pub content: u32,
}

impl Page {
    /// From now on, whoever records a call is told that it is watched: it is traced or checked.
    pub fn watch(&self) {
        self.next_call.fetch_or(WATCHED, Ordering::Relaxed);
    }

    /// Records a send.
    #[inline(always)]
    pub fn send(
        &self,
        name: CallName,
        to: Peer,
        word: MatchWord,
        bytes: u64,
    ) -> Option<WatchedCall<'_>> {
        if name == CallName::INTERNAL {
            return None;
        }
        let (slot, is_watched) = self.next_call();
        slot.word.store(word.bits(), Ordering::Relaxed);
        slot.bytes.store(bytes, Ordering::Relaxed);
        slot.side.store(to.0, Ordering::Relaxed);
        slot.what.store(what(name, KIND_SEND), Ordering::Relaxed);
        is_watched.then_some(WatchedCall(slot))
    }

    /// Records a receive or a probe.
    #[inline(always)]
    pub fn receive(
        &self,
        name: CallName,
        word: MatchWord,
        mask: Mask,
        bytes: u64,
    ) -> Option<WatchedCall<'_>> {
        if name == CallName::INTERNAL {
            return None;
        }
        let (slot, is_watched) = self.next_call();
        slot.word.store(word.bits(), Ordering::Relaxed);
        slot.bytes.store(bytes, Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "only these bits are wanted")]
        slot.side.store(mask.bits() as u32, Ordering::Relaxed);
        slot.what.store(what(name, KIND_RECEIVE), Ordering::Relaxed);
        is_watched.then_some(WatchedCall(slot))
    }

    /// Records a call that all members of an object make. `object` describes the object if the page does not yet.
    #[inline(always)]
    pub fn collective(&self, call: CollectiveCall, object: impl FnOnce() -> Members) {
        let CollectiveCall { name, object: number, root, operator, bytes, nonblocking, content } =
            call;
        let place = self.object(number, object);
        let nth = place.calls.load(Ordering::Relaxed) + 1;
        place.calls.store(nth, Ordering::Relaxed);
        let root_word = root.unwrap_or(NOBODY);
        let kind = match nonblocking {
            false => nth - place.nonblocking.load(Ordering::Relaxed),
            true => {
                let nth = place.nonblocking.load(Ordering::Relaxed) + 1;
                place.nonblocking.store(nth, Ordering::Relaxed);
                nth | NONBLOCKING
            }
        };
        let (slot, is_watched) = self.next_call();
        let what_all_pass = u64::from(content) << 16 | u64::from(operator);
        slot.word.store(u64::from(number) << 48 | what_all_pass, Ordering::Relaxed);
        slot.more.store(u64::from(nth) << 32 | u64::from(root_word), Ordering::Relaxed);
        slot.bytes.store(bytes, Ordering::Relaxed);
        slot.side.store(kind, Ordering::Relaxed);
        slot.what.store(what(name, KIND_COLLECTIVE), Ordering::Relaxed);
        if is_watched {
            WatchedCall(slot).trace();
        }
    }

    /// Records another call. `peer` is the process without which it does not go on, if there is one, and `object` the
    /// number of its object.
    pub fn call(&self, name: CallName, object: u16, peer: Option<Peer>, count: u64) {
        let (slot, is_watched) = self.next_call();
        slot.word.store(u64::from(object) << 48, Ordering::Relaxed);
        slot.more.store(0, Ordering::Relaxed);
        slot.bytes.store(count, Ordering::Relaxed);
        slot.side.store(peer.map_or(NOBODY, |peer| peer.0), Ordering::Relaxed);
        slot.what.store(what(name, KIND_OTHER), Ordering::Relaxed);
        if is_watched {
            WatchedCall(slot).trace();
        }
    }

    /// Notes that the rank asks whether something is over.
    #[inline(always)]
    pub fn poll(&self, name: CallName) {
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(polls.wrapping_add(1), Ordering::Relaxed);
        self.poll_name.store(name.0.into(), Ordering::Relaxed);
        if self.next_call.load(Ordering::Relaxed) & WATCHED != 0 {
            trace::polls();
        }
    }

    /// Notes the name of a call that is not recorded otherwise.
    #[inline(always)]
    pub fn plain(&self, name: CallName) {
        self.plain_at.store(self.next_call.load(Ordering::Relaxed), Ordering::Relaxed);
        self.plain_name.store(name.0.into(), Ordering::Relaxed);
    }

    /// The slot of the next call, and whether it is watched.
    #[inline(always)]
    fn next_call(&self) -> (&CallSlot, bool) {
        let next = self.next_call.load(Ordering::Relaxed);
        self.next_call.store(next.wrapping_add(CALL_BYTES), Ordering::Relaxed);
        // Counted in bytes, so that this takes one instruction.
        (&self.calls[(next / CALL_BYTES) as usize % CALLS], next & WATCHED != 0)
    }

    /// Describes an object, or renames it.
    pub fn describe(&self, number: u16, name: &str, object: impl FnOnce() -> Members) {
        let place = self.object(number, object);
        set_text(&place.name, name);
        if trace::is_on() {
            trace::name(number, name);
        }
    }

    /// The slot of an object. One that an older object has is taken: its calls are no longer counted.
    #[inline(always)]
    fn object(&self, number: u16, object: impl FnOnce() -> Members) -> &ObjectSlot {
        let place = &self.objects[usize::from(number) % OBJECTS];
        let is_known = place.number.load(Ordering::Relaxed) == u32::from(number) + 1
            && place.freed.load(Ordering::Relaxed) == 0;
        if !is_known {
            self.take(place, number, object());
        }
        place
    }

    #[cold]
    #[inline(never)]
    fn take(&self, place: &ObjectSlot, number: u16, members: Members) {
        if trace::is_on() {
            trace::object(number, &members);
        }
        let Members { size, group, first, stride } = members;
        place.number.store(0, Ordering::Relaxed);
        place.born.store(self.next_call.load(Ordering::Relaxed), Ordering::Relaxed);
        place.freed.store(0, Ordering::Relaxed);
        place.size.store(size, Ordering::Relaxed);
        place.first.store(first, Ordering::Relaxed);
        place.stride.store(stride, Ordering::Relaxed);
        place.group.store(group, Ordering::Relaxed);
        place.calls.store(0, Ordering::Relaxed);
        place.nonblocking.store(0, Ordering::Relaxed);
        set_text(&place.name, "");
        place.number.store(u32::from(number) + 1, Ordering::Release);
    }

    /// Forgets an object that is freed: its number may become that of another.
    pub fn forget(&self, number: u16) {
        let place = &self.objects[usize::from(number) % OBJECTS];
        if place.number.load(Ordering::Relaxed) == u32::from(number) + 1 {
            place.freed.store(1, Ordering::Relaxed);
        }
    }

    fn begin_wait(&self) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) == 0 {
            self.waiting_since_ns.store(monotonic_ns(), Ordering::Relaxed);
        }
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    fn end_wait(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// How far the rank has come.
    pub fn enter(&self, stage: Stage) {
        self.stage.store(stage as u32, Ordering::Relaxed);
    }

    /// Records that a call failed because a rank is gone.
    pub(crate) fn miss(&self, peer: Peer) {
        self.missing.store(peer.0 + 1, Ordering::Relaxed);
        self.missing_at.store(self.next_call.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Records that a rank could not be reached.
    pub(crate) fn note_unreachable(&self, peer: Peer) {
        self.unreachable.store(peer.0 + 1, Ordering::Relaxed);
    }

    /// Keeps the text of an error that the rank has reported.
    pub fn fail(&self, text: &str) {
        self.error.set(&shortened(text, ERROR_BYTES));
    }

    /// Keeps the text of a panic. The rank may end of it.
    pub fn panic(&self, text: &str) {
        self.error.set(text);
        self.panicked.store(1, Ordering::Relaxed);
    }

    /// Keeps the text of a mistake of the program that does not stop it. It begins with a verb, whose subject is the rank.
    /// Returns false if it is known.
    #[cold]
    pub fn mistake(&self, text: &str) -> bool {
        if self.mistakes.iter().any(|known| known.is(text)) {
            return false;
        }
        let nth = self.mistakes_found.fetch_add(1, Ordering::Relaxed) as usize;
        if let Some(place) = self.mistakes.get(nth) {
            place.set(text);
        }
        true
    }

    /// Describes messages in a row. Returns where, for [`Page::extend_run`]; `None` if there is no more room.
    pub fn begin_run(&self, run: RunFact) -> Option<usize> {
        let RunFact { sends, name, peer, word, content, from, to } = run;
        let at = self.runs_used.load(Ordering::Relaxed);
        let Some(slot) = self.runs.get(at as usize) else {
            self.runs_state.fetch_max(RUNS_FULL, Ordering::Relaxed);
            return None;
        };
        slot.word.store(word.bits(), Ordering::Relaxed);
        slot.peer.store(peer.0, Ordering::Relaxed);
        let kind = if sends { KIND_SEND } else { KIND_RECEIVE };
        slot.what.store(what(name, kind), Ordering::Relaxed);
        slot.content.store(content, Ordering::Relaxed);
        slot.from.store(from, Ordering::Relaxed);
        slot.to.store(to, Ordering::Relaxed);
        self.runs_used.store(at + 1, Ordering::Relaxed);
        Some(at as usize)
    }

    /// One more message is like those of a run.
    pub fn extend_run(&self, at: usize, to: u32) {
        if let Some(slot) = self.runs.get(at) {
            slot.to.store(to, Ordering::Relaxed);
        }
    }

    /// From now on, nobody knows which message of this rank is which.
    pub fn lose_runs(&self) {
        self.runs_state.fetch_max(RUNS_UNKNOWN, Ordering::Relaxed);
    }

    /// Where the number of the question is in a page.
    pub(crate) const fn asked_at() -> u64 {
        std::mem::offset_of!(Page, asked) as u64
    }

    /// Whether somebody has asked and has no answer yet.
    pub(crate) fn is_asked(&self) -> bool {
        // Pairs with the Release of whoever asks.
        self.asked.load(Ordering::Acquire) != self.answered.load(Ordering::Relaxed)
    }

    /// Whether the question that is not answered yet is about more than [`COUNTS_ONLY`].
    pub(crate) fn asks_for_proof(&self) -> bool {
        self.asked.load(Ordering::Relaxed) & COUNTS_ONLY == 0
    }

    /// Whether a thread of the rank waits in the library.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Answers: writes what the NICs of the rank hold.
    pub(crate) fn answer(&self, nics: &[&Nic], activity: u64, flags: u32) {
        let mut listed = 0;
        let mut unlisted = 0;
        let mut counts = NicCounts::of(nics.iter().map(|nic| nic.stats()));
        let mut show = |pending: Pending| {
            match pending.kind {
                PendingKind::Arrived => counts.unexpected_now += 1,
                PendingKind::Receive => counts.posted_now += 1,
                PendingKind::Send => counts.sends_now += 1,
                PendingKind::Step => counts.steps_now += 1,
            }
            let Some(slot) = self.pending.get(listed) else {
                unlisted += 1;
                return;
            };
            slot.word.store(pending.word.bits(), Ordering::Relaxed);
            slot.mask.store(pending.mask.bits(), Ordering::Relaxed);
            slot.bytes.store(pending.bytes, Ordering::Relaxed);
            slot.peer.store(pending.peer.map_or(NOBODY, |peer| peer.0), Ordering::Relaxed);
            slot.kind.store(pending_kind(pending.kind), Ordering::Relaxed);
            listed += 1;
        };
        nics.iter().for_each(|nic| nic.show_pending(&mut show));
        let words = self.counts.iter().zip(counts.words());
        words.for_each(|(place, word)| place.store(word, Ordering::Relaxed));
        let listed = u32::try_from(listed).unwrap_or(0);
        self.listed.store(listed, Ordering::Relaxed);
        self.unlisted.store(unlisted, Ordering::Relaxed);
        // Of the NIC that is nearest to its limit.
        let bytes = nics.iter().map(|nic| nic.unexpected_bytes());
        let (held, most) = bytes.min_by_key(|(held, most)| most - held).unwrap_or_default();
        self.unexpected_bytes.store(held, Ordering::Relaxed);
        self.unexpected_bytes_max.store(most, Ordering::Relaxed);
        let calls = u64::from(self.next_call.load(Ordering::Relaxed));
        let waits = u64::from(self.waits.load(Ordering::Relaxed));
        let polls = u64::from(self.polls.load(Ordering::Relaxed));
        self.activity.store(
            activity.wrapping_add(calls << 20).wrapping_add(waits << 40).wrapping_add(polls),
            Ordering::Relaxed,
        );
        self.flags.store(flags, Ordering::Relaxed);
        // Pairs with the Acquire of whoever reads the answer.
        self.answered.store(self.asked.load(Ordering::Relaxed), Ordering::Release);
    }
}

/// A thread that sleeps in the library until it has what it waits for.
pub struct Waiting<'a>(&'a Page);

impl Waiting<'_> {
    /// The thread is about to sleep.
    pub fn begin(page: &Page) -> Waiting<'_> {
        page.begin_wait();
        Waiting(page)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.end_wait();
    }
}

/// Messages in a row between two ranks, under one match word, that contain the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RunFact {
    /// Whether the rank sends them.
    pub sends: bool,
    /// The call that sends or receives the first.
    pub name: CallName,
    /// The other side.
    pub peer: Peer,
    /// Group, source and tag.
    pub word: MatchWord,
    /// The basic types in them, as a number; 0 if they are not compared.
    pub content: u32,
    /// The number of the first among all messages under this match word, and that after the last.
    pub from: u32,
    /// See `from`.
    pub to: u32,
}

/// The members of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Members {
    /// How many there are.
    pub size: u32,
    /// A number that only objects with the same members have, most probably.
    pub group: u64,
    /// The first member.
    pub first: u32,
    /// The distance from each member to the next, if it is always the same, else 0.
    pub stride: u32,
}

/// The page of this process.
#[derive(Clone)]
pub(crate) struct FactsPage {
    page: NonNull<Page>,
    /// Keeps the memory.
    _memory: Arc<Map>,
}

// SAFETY: I1.
unsafe impl Send for FactsPage {}
// SAFETY: I1.
unsafe impl Sync for FactsPage {}

impl FactsPage {
    /// Opens a page at this place of a file. If there is no memory for it, the page is one that nobody else sees.
    pub(crate) fn open(file: &File, at: u64, me: Peer) -> io::Result<FactsPage> {
        let shared =
            map::reserve(file, at, FACTS_BYTES).and_then(|()| Map::new(file, at, FACTS_BYTES));
        let bytes = usize::try_from(FACTS_BYTES).unwrap_or(usize::MAX);
        let memory = Arc::new(shared.or_else(|_| Map::wiped_on_fork(bytes))?);
        let page: NonNull<Page> = memory.start().cast();
        assert!(page.is_aligned(), "pages of facts begin at pages of memory");
        let facts = FactsPage { page, _memory: memory };
        facts.me.store(me.0, Ordering::Relaxed);
        facts.magic.store(MAGIC, Ordering::Release);
        Ok(facts)
    }
}

impl std::ops::Deref for FactsPage {
    type Target = Page;

    #[inline(always)]
    fn deref(&self) -> &Page {
        // SAFETY: I1 and I2.
        unsafe { self.page.as_ref() }
    }
}

const fn what(name: CallName, kind: u32) -> u32 {
    (name.0 as u32) << 8 | kind
}

fn pending_kind(kind: PendingKind) -> u32 {
    match kind {
        PendingKind::Send => 0,
        PendingKind::Receive => 1,
        PendingKind::Step => 2,
        PendingKind::Arrived => 3,
    }
}

const KIND_SEND: u32 = 0;
const KIND_RECEIVE: u32 = 1;
const KIND_COLLECTIVE: u32 = 2;
const KIND_OTHER: u32 = 3;

/// Frames of the rank may be under way.
pub(crate) const IN_FLIGHT: u32 = 1;
/// Other threads of the process could make calls.
pub(crate) const OTHER_THREADS: u32 = 2;
/// The thread that answers waits for something, and does nothing else until then.
pub(crate) const WAITER: u32 = 4;

/// Set in the number of a question that is about the queues and counters only. The answer proves nothing, and takes no
/// look at the other threads of the process.
pub const COUNTS_ONLY: u32 = 1 << 30;
/// There was no room for a run.
const RUNS_FULL: u32 = 1;
/// Nobody knows which message is which.
const RUNS_UNKNOWN: u32 = 2;

const NOBODY: u32 = u32::MAX;
/// Marks the number of a nonblocking call among those of its kind.
const NONBLOCKING: u32 = 1 << 31;
const MAGIC: u32 = u32::from_le_bytes(*b"fact");

const _: () = {
    assert!(size_of::<CallSlot>() == CALL_BYTES as usize);
    assert!(size_of::<ObjectSlot>() == 96);
    assert!(size_of::<PendingSlot>() == 32);
    assert!(size_of::<RunSlot>() == 32);
    assert!(size_of::<Page>() <= 32 << 10);
};
