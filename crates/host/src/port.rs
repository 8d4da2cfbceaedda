//! How the NIC acts on the machine: spans become memory, frames go to the rail, transfers wait for their turn.
//!
//! Invariants, cited below by number.
//!   I1. Spans come from the NIC, which has them from [`crate::Driver::submit`]: their bytes are lent.
//!   I2. The NIC asks only for what its protocol permits: a span that is being written is not read.

use std::collections::{HashMap, VecDeque};

use ferrywire_nic::{
    Envelope, Key, Notice, Operator, Outcome, Peer, Port, Progress, Promises, Region, Sent, Span,
    StepRef, Ticket, Time,
};

use crate::claims::Claims;
use crate::completion::Completions;
use crate::memory;
use crate::rail::Rail;
use crate::rails::Rails;
use crate::report::Reports;
use crate::trace;
use crate::transfers::{Direction, Transfer, Transfers};

/// What operators do, as the layer above defines it.
#[derive(Clone, Copy, Debug)]
pub struct Operators {
    /// Combines the first bytes into the second, element by element.
    pub combine: fn(Operator, &[u8], &mut [u8]),
    /// Whether an operator is user-defined. Such an operator runs only on an application thread that is inside a call,
    /// never under the lock of the driver, and may itself call the driver.
    pub is_users: fn(Operator) -> bool,
}

impl Operators {
    /// Operators of which none is user-defined.
    pub fn ours(combine: fn(Operator, &[u8], &mut [u8])) -> Operators {
        Operators { combine, is_users: |_| false }
    }
}

/// How peers change the memory of an open region: atomically also with respect to processes that do not go through this
/// NIC. An address is one of this process, in a piece of the region that is open. Numbers come from a peer, and what makes
/// no sense is ignored.
pub trait RegionAccess: Send {
    /// Writes `bytes` into memory.
    fn store(&self, bytes: &[u8], address: u64);

    /// Combines `bytes` into memory, element by element. `before` gets what was there.
    fn accumulate(&self, operator: Operator, bytes: &[u8], address: u64, before: Option<&mut [u8]>);

    /// Stores `value` in the `width` bytes at the address if they hold `expected`; returns what they held.
    fn compare_swap(&self, address: u64, width: u64, expected: u64, value: u64) -> u64;
}

/// The port of a rank on a machine.
pub struct HostPort {
    pub(crate) rail: Rails,
    pub(crate) completions: Completions,
    pub(crate) transfers: Transfers,
    pub(crate) now: Time,
    pub(crate) timer: Option<Time>,
    /// Peers that the NIC has given up, and that have not been reported.
    pub(crate) silent: Vec<Peer>,
    pub(crate) reductions: Reductions,
    pub(crate) reports: Reports,
    operators: Operators,
    /// How the memory of open regions is changed.
    regions: HashMap<Region, Box<dyn RegionAccess>>,
    /// Memory of the NIC itself.
    claims: Claims,
    born_ns: u64,
    /// The number of the plane.
    plane: u32,
    /// Whether the rank records what it does.
    pub(crate) is_traced: bool,
}

/// Reductions that wait for an application thread.
#[derive(Default)]
pub(crate) struct Reductions {
    queue: VecDeque<Reduction>,
    /// Reductions have come that tasks have not been woken for.
    news: bool,
}

impl Reductions {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn push(&mut self, reduction: Reduction) {
        self.queue.push_back(reduction);
        self.news = true;
    }

    /// The next reduction, for a thread that runs it at once.
    pub(crate) fn pop(&mut self) -> Option<Reduction> {
        let next = self.queue.pop_front();
        self.news &= !self.queue.is_empty();
        next
    }

    /// Whether reductions have come that tasks have not been woken for. Clears the flag.
    #[inline(always)]
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }
}

/// A reduction. Its bytes stay lent until the NIC hears of the step, even if its run has failed.
pub(crate) struct Reduction {
    pub(crate) step: StepRef,
    operator: Operator,
    from: Span,
    into: Span,
    combine: fn(Operator, &[u8], &mut [u8]),
}

impl Reduction {
    /// Runs the user-defined operator.
    pub(crate) fn run(&self) {
        // SAFETY: I1, I2: a run is not over before the NIC has heard of each step that it began.
        let from = unsafe { memory::bytes(self.from) };
        // SAFETY: as above.
        let into = unsafe { memory::bytes_mut(self.into) };
        (self.combine)(self.operator, from, into);
    }
}

/// Nanoseconds of the machine's monotonic clock. It is read in each turn, and `Instant` would take twice as long to yield nanoseconds.
#[inline]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the answer. This clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    #[expect(clippy::cast_sign_loss, reason = "it counts from the start of the machine")]
    let (seconds, rest) = (now.tv_sec as u64, now.tv_nsec as u64);
    seconds * 1_000_000_000 + rest
}

impl HostPort {
    pub(crate) fn new(rail: Rails, operators: Operators, plane: u32) -> HostPort {
        HostPort {
            rail,
            completions: Completions::default(),
            transfers: Transfers::default(),
            now: Time(0),
            timer: None,
            silent: Vec::new(),
            reductions: Reductions::default(),
            reports: Reports::default(),
            operators,
            regions: HashMap::new(),
            claims: Claims::default(),
            born_ns: monotonic_ns(),
            plane,
            is_traced: trace::is_on(),
        }
    }

    /// Says how peers change the memory of a region, before the NIC opens it.
    pub fn open_region(&mut self, region: Region, access: Box<dyn RegionAccess>) {
        self.regions.insert(region, access);
    }

    /// Forgets a region that the NIC has closed.
    pub fn close_region(&mut self, region: Region) {
        self.regions.remove(&region);
    }
}

impl Port for HostPort {
    #[inline(always)]
    fn now(&self) -> Time {
        self.now
    }

    fn promises(&self, peer: Peer) -> Promises {
        self.rail.promises(peer)
    }

    fn attends(&self, peer: Peer) -> bool {
        self.rail.attends(peer)
    }

    #[inline(always)]
    fn transmit(&mut self, to: Peer, envelope: &Envelope, payload: Span) -> Sent {
        // SAFETY: I1, I2.
        let payload = unsafe { memory::bytes(payload) };
        self.rail.send(to, envelope, payload)
    }

    #[inline(always)]
    fn deliver(&mut self, bytes: &[u8], into: Span) {
        // SAFETY: I1, I2.
        unsafe { memory::fill(bytes, into) };
    }

    fn store(&mut self, bytes: &[u8], into: Span) {
        if let Some(access) = self.regions.get(&into.region) {
            access.store(bytes, into.offset);
        }
    }

    fn load(&mut self, from: Span, into: &mut [u8]) {
        // SAFETY: I1, I2.
        into.copy_from_slice(unsafe { memory::bytes(from) });
    }

    fn copy(&mut self, from: Span, into: Span) {
        if from.offset == into.offset {
            return;
        }
        // SAFETY: I1, I2.
        let from = unsafe { memory::bytes(from) };
        // SAFETY: I1, I2: a schedule does not copy between spans that overlap.
        unsafe { memory::fill(from, into) };
    }

    fn reduce(&mut self, step: StepRef, operator: Operator, from: Span, into: Span) -> Progress {
        if (self.operators.is_users)(operator) {
            let combine = self.operators.combine;
            self.reductions.push(Reduction { step, operator, from, into, combine });
            return Progress::Later;
        }
        // SAFETY: I1, I2.
        let from = unsafe { memory::bytes(from) };
        self.accumulate(operator, from, into);
        Progress::Done
    }

    fn accumulate(&mut self, operator: Operator, bytes: &[u8], into: Span) {
        if into.region != memory::MEMORY {
            if let Some(access) = self.regions.get(&into.region) {
                access.accumulate(operator, bytes, into.offset, None);
            }
            return;
        }
        // SAFETY: I1, I2.
        let into = unsafe { memory::bytes_mut(into) };
        (self.operators.combine)(operator, bytes, into);
    }

    fn fetch(&mut self, operator: Operator, bytes: &[u8], into: Span, before: Span) {
        // SAFETY: the NIC has claimed it for this.
        let before = unsafe { memory::bytes_mut(before) };
        before.fill(0);
        if let Some(access) = self.regions.get(&into.region) {
            access.accumulate(operator, bytes, into.offset, Some(before));
        }
    }

    fn compare_swap(&mut self, at: Span, expected: u64, value: u64) -> u64 {
        let access = self.regions.get(&at.region);
        access.map_or(0, |access| access.compare_swap(at.offset, at.len, expected, value))
    }

    fn put(&mut self, to: Peer, from: Span, into: Span, ticket: Ticket, notify: Ticket) {
        let direction = Direction::Write(notify);
        self.transfers.add(Transfer { peer: to, from, into, done: 0, ticket, direction });
    }

    fn expose(&mut self, to: Peer, span: Span, ticket: Ticket) -> Key {
        self.rail.expose(to, span, ticket)
    }

    fn conceal(&mut self, ticket: Ticket) {
        self.rail.conceal(ticket);
    }

    fn get(&mut self, source: Peer, from: Span, key: Key, into: Span, ticket: Ticket) {
        if self.rail.get(source, from, key, into, ticket) {
            return;
        }
        let direction = Direction::Read;
        self.transfers.add(Transfer { peer: source, from, into, done: 0, ticket, direction });
    }

    fn claim(&mut self, bytes: u64) -> Span {
        self.claims.claim(bytes)
    }

    fn release(&mut self, span: Span) {
        self.claims.release(span);
    }

    fn clock(&self) -> Time {
        Time(monotonic_ns() - self.born_ns)
    }

    fn give_up(&mut self, peer: Peer) -> Progress {
        self.silent.push(peer);
        if self.rail.forget(peer) { Progress::Done } else { Progress::Later }
    }

    #[inline]
    fn complete(&mut self, ticket: Ticket, outcome: Outcome) {
        if self.is_traced {
            trace::completed(self.plane, ticket, &outcome);
        }
        self.completions.complete(ticket, outcome);
    }

    #[cold]
    fn report(&mut self, notice: Notice) {
        self.reports.add(notice, monotonic_ns());
    }

    fn arm(&mut self, at: Option<Time>) {
        self.timer = at;
    }
}
