//! What a rank tells about itself while it runs: a page in the memory that the ranks of its host share.
//!
//! The rank writes its page with plain stores, always, and never reads it for its own purposes. Launchers read it, also
//! when the rank has died. What changes without a call of the rank, such as its queues, is only written when somebody
//! asks: see [`Page::asked`].
//!
//! Names of calls and operators are numbers here; the runtime says what they stand for.
//!
//! Invariants, cited below by number.
//!   I1. A page consists of atomics, and any bytes are valid for it.
//!   I2. The memory of a `FactsPage` is reserved and mapped as long as the value lives.

mod snapshot;

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use ferrywire_nic::{Mask, MatchWord, Nic, Peer, PendingKind};

use crate::port::monotonic_ns;
use crate::sys::map::{self, Map};
pub use snapshot::{
    CallFact, CallKind, Facts, FactsAnswer, Glance, NicCounts, ObjectFact, PendingFact, Stage,
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
/// Calls that a page keeps.
pub const CALLS: usize = 256;
/// Communicators, windows and files that a page describes.
pub const OBJECTS: usize = 64;
/// Messages and operations that an answer lists.
pub const PENDING: usize = 96;
/// Bytes of the name of an object, and of the last error.
const NAME_BYTES: usize = 56;
const ERROR_BYTES: usize = 512;

/// The facts of a rank.
#[repr(C, align(64))]
pub struct Page {
    /// [`MAGIC`] once the rank has opened it.
    magic: AtomicU32,
    /// [`Stage`].
    stage: AtomicU32,
    /// The number of the rank among all of its job.
    me: AtomicU32,
    /// How many calls have been recorded, times [`CALL_BYTES`]; the last ones are in `calls`.
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
    /// What the answer says, as bits: [`IN_FLIGHT`], [`OTHER_THREADS`], [`SEVERAL_PLANES`], [`WAITER`].
    flags: AtomicU32,
    /// Planes that the rank uses.
    planes: AtomicU32,
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
}

/// A call, as it was made.
#[repr(C, align(32))]
struct CallSlot {
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
}

impl Page {
    /// Records a send.
    #[inline(always)]
    pub fn send(&self, name: CallName, to: Peer, word: MatchWord, bytes: u64) {
        if name == CallName::INTERNAL {
            return;
        }
        let slot = self.next_call();
        slot.word.store(word.bits(), Ordering::Relaxed);
        slot.bytes.store(bytes, Ordering::Relaxed);
        slot.side.store(to.0, Ordering::Relaxed);
        slot.what.store(what(name, KIND_SEND), Ordering::Relaxed);
    }

    /// Records a receive or a probe.
    #[inline(always)]
    pub fn receive(&self, name: CallName, word: MatchWord, mask: Mask, bytes: u64) {
        if name == CallName::INTERNAL {
            return;
        }
        let slot = self.next_call();
        slot.word.store(word.bits(), Ordering::Relaxed);
        slot.bytes.store(bytes, Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "only these bits are wanted")]
        slot.side.store(mask.bits() as u32, Ordering::Relaxed);
        slot.what.store(what(name, KIND_RECEIVE), Ordering::Relaxed);
    }

    /// Records a call that all members of an object make. `object` describes the object if the page does not yet.
    #[inline(always)]
    pub fn collective(&self, call: CollectiveCall, object: impl FnOnce() -> Members) {
        let CollectiveCall { name, object: number, root, operator, bytes, nonblocking } = call;
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
        let slot = self.next_call();
        slot.word.store(u64::from(number) << 48 | u64::from(operator), Ordering::Relaxed);
        slot.more.store(u64::from(nth) << 32 | u64::from(root_word), Ordering::Relaxed);
        slot.bytes.store(bytes, Ordering::Relaxed);
        slot.side.store(kind, Ordering::Relaxed);
        slot.what.store(what(name, KIND_COLLECTIVE), Ordering::Relaxed);
    }

    /// Records another call. `peer` is the process without which it does not go on, if there is one, and `object` the
    /// number of its object.
    pub fn call(&self, name: CallName, object: u16, peer: Option<Peer>, count: u64) {
        let slot = self.next_call();
        slot.word.store(u64::from(object) << 48, Ordering::Relaxed);
        slot.more.store(0, Ordering::Relaxed);
        slot.bytes.store(count, Ordering::Relaxed);
        slot.side.store(peer.map_or(NOBODY, |peer| peer.0), Ordering::Relaxed);
        slot.what.store(what(name, KIND_OTHER), Ordering::Relaxed);
    }

    /// Notes that the rank asks whether something is over.
    #[inline(always)]
    pub fn poll(&self, name: CallName) {
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(polls.wrapping_add(1), Ordering::Relaxed);
        self.poll_name.store(name.0.into(), Ordering::Relaxed);
    }

    /// Notes the name of a call that is not recorded otherwise.
    #[inline(always)]
    pub fn plain(&self, name: CallName) {
        self.plain_at.store(self.next_call.load(Ordering::Relaxed), Ordering::Relaxed);
        self.plain_name.store(name.0.into(), Ordering::Relaxed);
    }

    /// The slot of the next call.
    #[inline(always)]
    fn next_call(&self) -> &CallSlot {
        let next = self.next_call.load(Ordering::Relaxed);
        self.next_call.store(next.wrapping_add(CALL_BYTES), Ordering::Relaxed);
        // Counted in bytes, so that this takes one instruction.
        &self.calls[(next / CALL_BYTES) as usize % CALLS]
    }

    /// Describes an object, or renames it.
    pub fn describe(&self, number: u16, name: &str, object: impl FnOnce() -> Members) {
        let place = self.object(number, object);
        set_text(&place.name, name);
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

    /// The rank uses one more plane.
    pub(crate) fn open_plane(&self) {
        self.planes.fetch_add(1, Ordering::Relaxed);
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
        self.error.set(text);
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

    /// Answers: writes what the NIC holds.
    pub(crate) fn answer(&self, nic: &Nic, activity: u64, flags: u32) {
        let mut listed = 0;
        let mut unlisted = 0;
        let mut counts = NicCounts::of(nic.stats());
        nic.show_pending(|pending| {
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
        });
        let words = self.counts.iter().zip(counts.words());
        words.for_each(|(place, word)| place.store(word, Ordering::Relaxed));
        let listed = u32::try_from(listed).unwrap_or(0);
        self.listed.store(listed, Ordering::Relaxed);
        self.unlisted.store(unlisted, Ordering::Relaxed);
        let (held, most) = nic.unexpected_bytes();
        self.unexpected_bytes.store(held, Ordering::Relaxed);
        self.unexpected_bytes_max.store(most, Ordering::Relaxed);
        let calls = u64::from(self.next_call.load(Ordering::Relaxed));
        let waits = u64::from(self.waits.load(Ordering::Relaxed));
        let polls = u64::from(self.polls.load(Ordering::Relaxed));
        self.activity.store(
            activity.wrapping_add(calls << 20).wrapping_add(waits << 40).wrapping_add(polls),
            Ordering::Relaxed,
        );
        let several = self.planes.load(Ordering::Relaxed) > 1;
        let flags = flags | if several { SEVERAL_PLANES } else { 0 };
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
/// The rank uses several planes, of which only the first has answered.
pub(crate) const SEVERAL_PLANES: u32 = 4;
/// The thread that answers waits for something, and does nothing else until then.
pub(crate) const WAITER: u32 = 8;

/// Set in the number of a question that is about the queues and counters only. The answer proves nothing, and takes no
/// look at the other threads of the process.
pub const COUNTS_ONLY: u32 = 1 << 30;

const NOBODY: u32 = u32::MAX;
/// Marks the number of a nonblocking call among those of its kind.
const NONBLOCKING: u32 = 1 << 31;
const MAGIC: u32 = u32::from_le_bytes(*b"fact");

const _: () = {
    assert!(size_of::<CallSlot>() == CALL_BYTES as usize);
    assert!(size_of::<ObjectSlot>() == 96);
    assert!(size_of::<PendingSlot>() == 32);
    assert!(size_of::<Page>() < 24 << 10);
};
