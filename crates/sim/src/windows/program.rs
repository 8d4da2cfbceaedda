//! The program of a rank with a window: makes its accesses as the runtime does between hosts, and checks what they
//! find.
//!
//! Puts and accumulates are posted, and are complete after a flush; all others are waited for. A lock that is not free
//! is asked for again. A rank that knows of a death goes on until it would have to wait for all ranks, or for a lock
//! that is not free, and stops there: what it has done is a beginning of what was planned.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use ferrywire_mpi::collective::{self, Locality, Member, Naming};
use ferrywire_mpi::group::Group;
use ferrywire_nic::{Fault, Operator, Outcome, Peer, Posted, Region, Span, Ticket, Variant};

use super::lock::{self, GRANTED, Hold, REQUEST_BYTES, WindowLock};
use super::plan::{
    Accessing, CELL_ROOM, Cell, PlannedAccess, RECORD_AT, RECORD_BYTES, WINDOW_BYTES, WindowPlan,
    WindowStep, adding,
};
use crate::memory::Memory;
use crate::world::{Application, Context};

/// A sum before and after an access.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct FetchedSum {
    /// Whose cell.
    pub target: u32,
    /// The cell.
    pub cell: Cell,
    /// What was there.
    pub before: u64,
    /// What the access has made of it.
    pub after: u64,
}

/// A rank's program, its progress, and what it has observed.
pub struct WindowProgram {
    me: u32,
    plan: Rc<WindowPlan>,
    next: usize,
    is_open: bool,
    /// What the next step has to wait for.
    wait: Wait,
    in_flight: BTreeMap<Ticket, InFlight>,
    held: BTreeSet<u32>,
    dead: BTreeSet<u32>,
    fences: u16,
    patience_ns: u64,
    /// Whether it has given up because of a death.
    stopped: bool,
    /// Accesses that it has begun to make.
    pub asked: BTreeSet<usize>,
    /// Accesses that are complete.
    pub completed: BTreeSet<usize>,
    /// Sums that it has fetched.
    pub fetched: Vec<FetchedSum>,
    /// Locks that it has taken.
    pub locks: u64,
    /// Locks that it has asked for again.
    pub retried_locks: u64,
    /// What went wrong.
    pub complaints: Vec<String>,
}

/// What the next step of a program has to wait for.
#[derive(Clone, Copy, Debug)]
enum Wait {
    /// Nothing.
    Ready,
    /// An operation that the program waits for.
    Operation,
    /// The moment to ask for a lock again.
    Lock(u32, Hold),
    /// The end of a pause.
    Pause,
}

/// An operation that has not ended.
#[derive(Clone, Copy, Debug)]
enum InFlight {
    /// It ends before the next flush.
    Write {
        access: usize,
    },
    /// The program waits for what it finds.
    Read {
        access: usize,
        into: Span,
    },
    /// The program waits for the result of an attempt to increment a cell.
    Attempt {
        access: usize,
        expected: u64,
    },
    Acquire {
        target: u32,
        hold: Hold,
        answer: Span,
    },
    Release {
        target: u32,
        answer: Span,
    },
    Fence,
}

/// The window of each rank, and its lock.
pub const WINDOW: Region = Region(0);
/// The lock of the window.
pub const LOCK: Region = Region(1);
/// The group of all ranks.
pub const GROUP: u16 = 0;

/// How long a rank waits before it asks for a lock again.
const PATIENCE_NS_MIN: u64 = 20_000;
const PATIENCE_NS_MAX: u64 = 1_000_000;

impl WindowProgram {
    /// The program of rank `me`.
    pub fn new(me: u32, plan: Rc<WindowPlan>) -> WindowProgram {
        WindowProgram {
            me,
            plan,
            next: 0,
            is_open: false,
            wait: Wait::Ready,
            in_flight: BTreeMap::new(),
            held: BTreeSet::new(),
            dead: BTreeSet::new(),
            fences: 0,
            patience_ns: PATIENCE_NS_MIN,
            stopped: false,
            asked: BTreeSet::new(),
            completed: BTreeSet::new(),
            fetched: Vec::new(),
            locks: 0,
            retried_locks: 0,
            complaints: Vec::new(),
        }
    }

    /// Whether it has done everything, or stopped, and everything has ended.
    pub fn is_finished(&self) -> bool {
        (self.stopped || self.next == self.steps().len()) && self.in_flight.is_empty()
    }

    /// Ranks that it believes to be dead.
    pub fn believed_dead(&self) -> &BTreeSet<u32> {
        &self.dead
    }

    /// What it still waits for, as text.
    pub fn unfinished(&self) -> String {
        let (next, wait, in_flight) = (self.next, self.wait, &self.in_flight);
        format!("step {next} of {}, {wait:?}, in flight {in_flight:?}", self.steps().len())
    }

    fn steps(&self) -> &[WindowStep] {
        &self.plan.programs[self.me as usize]
    }

    fn open_window<V: Variant>(&mut self, context: &mut Context<'_, V>) {
        let window = context.port.memory.lend_filled(WINDOW_BYTES, 0);
        let register = context.port.memory.lend_filled(REQUEST_BYTES, 0);
        assert_eq!([window.region, register.region], [WINDOW, LOCK], "all ranks know the regions");
        context.port.locks.insert(LOCK, WindowLock::default());
        context.nic.open_piece(window);
        context.nic.open_piece(register);
        self.is_open = true;
    }

    /// Performs steps until one has to wait.
    fn advance<V: Variant>(&mut self, context: &mut Context<'_, V>) {
        while matches!(self.wait, Wait::Ready) && !self.stopped {
            let Some(&step) = self.steps().get(self.next) else { return };
            if !self.perform(step, context) {
                return;
            }
        }
    }

    /// Performs a step. Returns false if it cannot begin yet.
    fn perform<V: Variant>(&mut self, step: WindowStep, context: &mut Context<'_, V>) -> bool {
        match step {
            WindowStep::Fence if !self.in_flight.is_empty() => return false,
            WindowStep::Flush(target) | WindowStep::Unlock(target, _) if self.writes_to(target) => {
                return false;
            }
            WindowStep::Fence if !self.dead.is_empty() => {
                self.stopped = true;
                return false;
            }
            _ => {}
        }
        self.next += 1;
        match step {
            WindowStep::Fence => self.fence(context),
            WindowStep::Check(round) => self.check_window(round, &context.port.memory),
            WindowStep::Lock(target, hold) => self.ask_lock(target, hold, context),
            WindowStep::Unlock(target, hold) => {
                if self.held.remove(&target) {
                    let (posted, answer) = self.request(target, lock::release(hold), context);
                    self.await_end(posted, InFlight::Release { target, answer }, context);
                }
            }
            WindowStep::Flush(_) => {}
            WindowStep::Access(access) => self.access(access, context),
            WindowStep::Pause(ns) => {
                self.wait = Wait::Pause;
                context.wake_in(ns);
            }
        }
        true
    }

    /// Whether writes to a rank are in flight.
    fn writes_to(&self, target: u32) -> bool {
        self.in_flight.values().any(|operation| match *operation {
            InFlight::Write { access } => self.plan.accesses[access].target == target,
            _ => false,
        })
    }

    fn fence<V: Variant>(&mut self, context: &mut Context<'_, V>) {
        let group = Group::whole(self.plan.size);
        let me = Member {
            group_id: GROUP,
            group: &group,
            rank: self.me,
            locality: Locality::Unknown,
            naming: Naming::Ranks,
        };
        let schedule = Arc::new(collective::barrier(me));
        self.fences += 1;
        let posted = context.nic.post_schedule(schedule, self.fences, context.port);
        self.await_end(posted, InFlight::Fence, context);
    }

    fn ask_lock<V: Variant>(&mut self, target: u32, hold: Hold, context: &mut Context<'_, V>) {
        let (posted, answer) = self.request(target, lock::acquire(hold), context);
        self.await_end(posted, InFlight::Acquire { target, hold, answer }, context);
    }

    /// Sends a request to the lock of a rank. Returns where the answer goes.
    fn request<V: Variant>(
        &self,
        target: u32,
        code: u64,
        context: &mut Context<'_, V>,
    ) -> (Posted, Span) {
        let (nic, port) = (&mut *context.nic, &mut *context.port);
        let request = lend(&mut port.memory, &code.to_le_bytes());
        let answer = port.memory.lend_filled(REQUEST_BYTES, 0);
        // The lock decides what a request means, so any operator will do.
        let posted = nic.post_fetch(Peer(target), request, LOCK, 0, Operator(0), answer, port);
        (posted, answer)
    }

    fn access<V: Variant>(&mut self, access: usize, context: &mut Context<'_, V>) {
        let plan = Rc::clone(&self.plan);
        let PlannedAccess { target, locked, what, .. } = &plan.accesses[access];
        if *locked && !self.held.contains(target) {
            // The target is dead.
            return;
        }
        let to = Peer(*target);
        if !matches!(what, Accessing::Update) {
            self.asked.insert(access);
        }
        let (nic, port) = (&mut *context.nic, &mut *context.port);
        let (posted, operation) = match what {
            Accessing::Put { at, bytes } => {
                let source = lend(&mut port.memory, bytes);
                (nic.post_put(to, source, WINDOW, *at, None, port), InFlight::Write { access })
            }
            Accessing::Accumulate { at, operator, bytes } => {
                let source = lend(&mut port.memory, bytes);
                let posted = nic.post_accumulate(to, source, WINDOW, *at, *operator, port);
                (posted, InFlight::Write { access })
            }
            Accessing::Add { cell, value, fetch: false } => {
                let source = lend(&mut port.memory, &value.to_le_bytes()).first(cell.width());
                let posted =
                    nic.post_accumulate(to, source, WINDOW, cell.offset(), adding(*cell), port);
                (posted, InFlight::Write { access })
            }
            Accessing::Get { at, expected } => {
                let into = room_for(&mut port.memory, expected.len() as u64);
                let from = Span::new(WINDOW, *at, into.len);
                (nic.post_get(to, from, into, port), InFlight::Read { access, into })
            }
            Accessing::Update | Accessing::Look => {
                let into = room_for(&mut port.memory, RECORD_BYTES);
                let from = Span::new(WINDOW, RECORD_AT, RECORD_BYTES);
                (nic.post_get(to, from, into, port), InFlight::Read { access, into })
            }
            Accessing::Fetch { at, operator, bytes, .. } => {
                let source = lend(&mut port.memory, bytes);
                let into = room_for(&mut port.memory, source.len);
                let posted = nic.post_fetch(to, source, WINDOW, *at, *operator, into, port);
                (posted, InFlight::Read { access, into })
            }
            Accessing::Add { cell, value, fetch: true } => {
                let source = lend(&mut port.memory, &value.to_le_bytes()).first(cell.width());
                let into = room_for(&mut port.memory, source.len);
                let (at, operator) = (cell.offset(), adding(*cell));
                let posted = nic.post_fetch(to, source, WINDOW, at, operator, into, port);
                (posted, InFlight::Read { access, into })
            }
            Accessing::Swap { at, width, compare, value, .. } => {
                let word = Span::new(WINDOW, *at, *width);
                let posted = nic.post_compare_swap(to, word, *compare, *value, port);
                (posted, InFlight::Attempt { access, expected: *compare })
            }
            Accessing::Increment { cell } => {
                return self.increment(access, to, *cell, 0, context);
            }
        };
        self.await_end(posted, operation, context);
    }

    fn increment<V: Variant>(
        &mut self,
        access: usize,
        to: Peer,
        cell: Cell,
        expected: u64,
        context: &mut Context<'_, V>,
    ) {
        let word = Span::new(WINDOW, cell.offset(), cell.width());
        let posted = context.nic.post_compare_swap(to, word, expected, expected + 1, context.port);
        self.await_end(posted, InFlight::Attempt { access, expected }, context);
    }

    fn await_end<V: Variant>(
        &mut self,
        posted: Posted,
        operation: InFlight,
        context: &mut Context<'_, V>,
    ) {
        if !matches!(operation, InFlight::Write { .. }) {
            self.wait = Wait::Operation;
        }
        match posted {
            Posted::Done(outcome) => self.conclude(operation, outcome, context),
            Posted::Pending(ticket) => {
                self.in_flight.insert(ticket, operation);
            }
        }
    }

    fn conclude<V: Variant>(
        &mut self,
        operation: InFlight,
        outcome: Outcome,
        context: &mut Context<'_, V>,
    ) {
        if !matches!(operation, InFlight::Write { .. }) {
            self.wait = Wait::Ready;
        }
        match (operation, outcome) {
            (InFlight::Fence, Outcome::Failed(Fault::PeerDown(_) | Fault::Abandoned)) => {
                // The fence has been cancelled because of a death, or has failed because of one.
                if let Outcome::Failed(Fault::PeerDown(peer)) = outcome {
                    self.dead.insert(peer.0);
                }
                self.stopped = true;
                if self.dead.is_empty() {
                    self.complain("a fence has failed, and all ranks live");
                }
            }
            (_, Outcome::Failed(Fault::PeerDown(peer))) => {
                self.dead.insert(peer.0);
            }
            (InFlight::Fence, Outcome::Done) => {}
            (InFlight::Write { access }, Outcome::Done) => {
                self.completed.insert(access);
            }
            (InFlight::Read { access, into }, Outcome::Received(_)) => {
                self.check_read(access, into, context);
            }
            (InFlight::Attempt { access, expected }, Outcome::Found(found)) => {
                self.check_attempt(access, expected, found, context);
            }
            (InFlight::Acquire { target, hold, answer }, Outcome::Received(_)) => {
                if context.port.memory.number(answer.region, 0) == GRANTED {
                    self.held.insert(target);
                    self.locks += 1;
                    self.patience_ns = PATIENCE_NS_MIN;
                    return;
                }
                // The lock may be one that a dead rank has left locked.
                if !self.dead.is_empty() {
                    self.stopped = true;
                    return;
                }
                self.wait = Wait::Lock(target, hold);
                context.wake_in(self.patience_ns);
                self.patience_ns = (self.patience_ns * 2).min(PATIENCE_NS_MAX);
            }
            (InFlight::Release { target, answer }, Outcome::Received(_)) => {
                if context.port.memory.number(answer.region, 0) != GRANTED {
                    self.complain(&format!("the lock of rank {target} was not held"));
                }
            }
            (operation, outcome) => self.complain(&format!("{operation:?} ended as {outcome:?}")),
        }
    }

    /// Checks what an access has read. An update goes on with a put.
    fn check_read<V: Variant>(&mut self, access: usize, into: Span, context: &mut Context<'_, V>) {
        let plan = Rc::clone(&self.plan);
        let PlannedAccess { target, round, what, .. } = &plan.accesses[access];
        let (before, after) = (plan.model(*target, *round), plan.model(*target, *round + 1));
        let found = context.port.memory.bytes(into);
        match what {
            Accessing::Get { expected, .. } | Accessing::Fetch { expected, .. } => {
                if let Some(at) = found.iter().zip(expected).position(|(one, other)| one != other) {
                    let (found, expected) = (found[at], expected[at]);
                    self.complain(&format!(
                        "access {access} to rank {target} has found {found} at {at}, not {expected}"
                    ));
                }
            }
            Accessing::Add { cell, value, .. } => {
                let found = number(found);
                let sums = before.cells[cell.index()]..=after.cells[cell.index()] - value;
                if !sums.contains(&found) {
                    self.complain(&format!(
                        "access {access} to {cell:?} of rank {target} has found {found}, not one of {sums:?}"
                    ));
                }
                let (target, cell) = (*target, *cell);
                self.fetched.push(FetchedSum { target, cell, before: found, after: found + value });
            }
            Accessing::Update | Accessing::Look => {
                let mut numbers = found.chunks_exact(8).map(number);
                let first = numbers.next().unwrap_or_default();
                let torn = numbers.any(|other| other != first);
                let update = matches!(what, Accessing::Update);
                let records = before.record..=after.record - u64::from(update);
                if torn || !records.contains(&first) {
                    self.complain(&format!(
                        "access {access} has found a record of {first} at rank {target}{}, not of one of {records:?}",
                        if torn { " and of other numbers" } else { "" }
                    ));
                }
                if update {
                    return self.write_record(access, Peer(*target), first + 1, context);
                }
            }
            _ => self.complain(&format!("access {access} has read, which it should not")),
        }
        self.completed.insert(access);
    }

    fn write_record<V: Variant>(
        &mut self,
        access: usize,
        to: Peer,
        value: u64,
        context: &mut Context<'_, V>,
    ) {
        self.asked.insert(access);
        let numbers = RECORD_BYTES / 8;
        let bytes: Vec<u8> = (0..numbers).flat_map(|_| value.to_le_bytes()).collect();
        let source = lend(&mut context.port.memory, &bytes);
        let posted = context.nic.post_put(to, source, WINDOW, RECORD_AT, None, context.port);
        self.await_end(posted, InFlight::Write { access }, context);
    }

    fn check_attempt<V: Variant>(
        &mut self,
        access: usize,
        tried: u64,
        found: u64,
        context: &mut Context<'_, V>,
    ) {
        let plan = Rc::clone(&self.plan);
        let PlannedAccess { target, what, .. } = &plan.accesses[access];
        match what {
            Accessing::Increment { cell } if found != tried => {
                return self.increment(access, Peer(*target), *cell, found, context);
            }
            Accessing::Swap { expected, .. } if found != *expected => self.complain(&format!(
                "access {access} to rank {target} has found {found}, not {expected}"
            )),
            _ => {}
        }
        self.completed.insert(access);
    }

    /// Compares our window with the model after a round.
    fn check_window(&mut self, round: usize, memory: &Memory) {
        let plan = Rc::clone(&self.plan);
        let model = plan.model(self.me, round);
        let blocks = memory.bytes(Span::new(WINDOW, 0, model.blocks.len() as u64));
        if let Some(at) = blocks.iter().zip(&model.blocks).position(|(one, other)| one != other) {
            let (found, expected) = (blocks[at], model.blocks[at]);
            self.complain(&format!(
                "after round {round}, byte {at} of the window is {found}, not {expected}"
            ));
        }
        for cell in Cell::all() {
            let (found, expected) = (cell_value(memory, cell), model.cells[cell.index()]);
            if found != Some(expected) {
                self.complain(&format!(
                    "after round {round}, {cell:?} is {found:?}, not {expected}"
                ));
            }
        }
        let record = record(memory);
        if let Some(found) = record.iter().find(|&&found| found != model.record) {
            let expected = model.record;
            self.complain(&format!("after round {round}, the record has {found}, not {expected}"));
        }
    }

    fn complain(&mut self, what: &str) {
        self.complaints.push(format!("rank {}: {what}", self.me));
    }
}

impl<V: Variant> Application<V> for WindowProgram {
    fn on_wake(&mut self, context: &mut Context<'_, V>) {
        if !self.is_open {
            self.open_window(context);
        }
        match self.wait {
            Wait::Lock(target, hold) if self.dead.is_empty() => {
                self.retried_locks += 1;
                self.ask_lock(target, hold, context);
            }
            Wait::Lock(..) => self.stopped = true,
            Wait::Pause => self.wait = Wait::Ready,
            Wait::Ready | Wait::Operation => {}
        }
        self.advance(context);
    }

    fn on_complete(&mut self, ticket: Ticket, outcome: Outcome, context: &mut Context<'_, V>) {
        match self.in_flight.remove(&ticket) {
            Some(operation) => self.conclude(operation, outcome, context),
            None => self.complain(&format!("{ticket} completed and nobody waits: {outcome:?}")),
        }
        self.advance(context);
    }

    fn on_peer_down(&mut self, peer: Peer, context: &mut Context<'_, V>) {
        self.dead.insert(peer.0);
        // A fence that lacks a rank cannot end.
        let fence = self.in_flight.iter().find(|(_, what)| matches!(what, InFlight::Fence));
        if let Some((&ticket, _)) = fence {
            context.nic.cancel(ticket, context.port);
        }
        self.advance(context);
    }
}

/// The value of a cell. None if the bytes around it have changed.
pub fn cell_value(memory: &Memory, cell: Cell) -> Option<u64> {
    let room = memory.bytes(Span::new(WINDOW, cell.room(), CELL_ROOM));
    let width = usize::try_from(cell.width()).expect("a word");
    let (before, rest) = room.split_at(width);
    let (held, after) = rest.split_at(width);
    before.iter().chain(after).all(|&byte| byte == 0).then(|| number(held))
}

/// The numbers of a record.
pub fn record(memory: &Memory) -> Vec<u64> {
    memory.bytes(Span::new(WINDOW, RECORD_AT, RECORD_BYTES)).chunks_exact(8).map(number).collect()
}

/// The number in up to eight bytes.
pub fn number(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(wide)
}

fn lend(memory: &mut Memory, bytes: &[u8]) -> Span {
    Span::new(memory.lend(bytes.to_vec()), 0, bytes.len() as u64)
}

fn room_for(memory: &mut Memory, len: u64) -> Span {
    memory.lend_filled(len, 0xee)
}
