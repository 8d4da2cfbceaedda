//! The program of a rank in a soak: random operations of every kind, and a record of their results.
//!
//! Programs always end. They post receives of all kinds; messages that these leave over are fetched by wildcard
//! receives, and receives that no message will match are cancelled. So every rank finishes, unless a rank has died.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use ferrywire_mpi::collective::{self, Locality, Member, Naming};
use ferrywire_mpi::group::Group;
use ferrywire_nic::{
    Awaited, Counter, Fault, Mask, MatchWord, Mode, Outcome, Peer, Posted, Region, Schedule, Span,
    Ticket, Trap, Variant,
};

use crate::memory::Memory;
use crate::modules::{Errands, Fate, Log, id_of};
use crate::port::{SUM, SUM_LATER, reduce_op};
use crate::random::Random;
use crate::world::{Application, Context};

/// A planned message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Its number; also in its first bytes if it has eight.
    pub id: u64,
    /// The sender.
    pub source: u32,
    /// The receiver.
    pub target: u32,
    /// Its group.
    pub group: u16,
    /// Its tag. Messages shorter than eight bytes have a unique one.
    pub tag: u32,
    /// Its length.
    pub len: u64,
    /// Its send mode.
    pub mode: Mode,
    /// Ranks without which it may not arrive.
    pub needs: Ranks,
}

/// A set of ranks, one bit each: a soak has at most 64.
pub type Ranks = u64;

/// The set of these ranks.
pub fn ranks(some: impl IntoIterator<Item = u32>) -> Ranks {
    some.into_iter().fold(0, |all, rank| all | 1 << rank)
}

impl Message {
    /// Its match word.
    pub fn word(&self) -> MatchWord {
        MatchWord::new(self.group, self.source, self.tag)
    }

    /// Its bytes, which differ from those of any other.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..self.len).map(|at| pattern(self.id, at)).collect();
        if let Some(head) = bytes.first_chunk_mut() {
            *head = self.id.to_le_bytes();
        }
        bytes
    }
}

fn pattern(id: u64, at: u64) -> u8 {
    (id.wrapping_mul(167).wrapping_add(at.wrapping_mul(31)) ^ (at >> 7)).to_le_bytes()[0]
}

/// A planned collective. All ranks take part in all of them.
#[derive(Clone, Copy, Debug)]
pub enum Collective {
    /// No rank leaves before all have entered.
    Barrier,
    /// `len` bytes of `root`.
    Broadcast {
        /// Whose bytes.
        root: u32,
        /// How many.
        len: u64,
    },
    /// Sums at `root`; the others are released early.
    Reduce {
        /// The rank that gets the result.
        root: u32,
        /// How many numbers.
        numbers: u64,
        /// Whether sums come later, as from a user-defined operator on another thread.
        later: bool,
    },
    /// Sums at all ranks.
    Allreduce {
        /// How many numbers.
        numbers: u64,
    },
    /// A block from every rank to `root`.
    Gather {
        /// The rank that gets them.
        root: u32,
        /// Bytes of a block.
        len: u64,
    },
    /// A block from `root` to every rank.
    Scatter {
        /// The rank that has them.
        root: u32,
        /// Bytes of a block.
        len: u64,
    },
    /// A block from every rank to all.
    Allgather {
        /// Bytes of a block.
        len: u64,
    },
    /// A block from every rank to every rank.
    Alltoall {
        /// Bytes of a block.
        len: u64,
    },
}

/// One operation of a program.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// Sends the message with this number.
    Send(u64),
    /// Sends a message that completes only when received, and cancels it.
    SendAndCancel {
        /// The target.
        to: u32,
        /// Its length.
        len: u64,
        /// Cancel immediately, or after a while.
        at_once: bool,
    },
    /// Receives a message that its sender cancels, if it arrives in time.
    ReceiveLate {
        /// The source.
        from: u32,
    },
    /// Posts a receive.
    Receive {
        /// The match word.
        word: MatchWord,
        /// The mask.
        mask: Mask,
        /// Its length.
        room: u64,
    },
    /// Probes, and receives the message found.
    Take {
        /// The match word.
        word: MatchWord,
        /// The mask.
        mask: Mask,
    },
    /// Takes part in the collective with this number.
    Collective(u16),
    /// Writes to the memory of `to`, and reads it back.
    Put {
        /// The target.
        to: u32,
        /// How many bytes.
        len: u64,
    },
    /// Writes out of bounds.
    PutOutside {
        /// The target.
        to: u32,
    },
    /// Adds to a sum at `to`; if the summand is odd, it gets the sum before.
    Accumulate {
        /// The target.
        to: u32,
        /// The summand.
        value: u64,
    },
    /// Increments a number at `to` by compare-and-swap.
    Increment {
        /// The target.
        to: u32,
    },
    /// Loads the module.
    Load,
    /// Does nothing for a while.
    Pause(u64),
}

/// The plan, known to all ranks.
#[derive(Debug)]
pub struct Plan {
    /// Number of ranks.
    pub size: u32,
    /// Groups of point-to-point messages, from zero. Above them: one for messages that are cancelled, one for
    /// collectives.
    pub groups: u16,
    /// All messages, by number.
    pub messages: Vec<Message>,
    /// All collectives, by number.
    pub collectives: Vec<Collective>,
    /// What modules do with messages of their group, which come last, if there are modules.
    pub errands: Option<Arc<Errands>>,
    /// Whether ranks await some of their receives.
    pub awaits: bool,
}

impl Plan {
    /// The group of messages that are cancelled.
    pub fn cancelled_group(&self) -> u16 {
        self.groups
    }

    /// The group of collectives.
    pub fn collective_group(&self) -> u16 {
        self.groups + 1
    }

    /// The group of modules, without the bit that marks it.
    pub fn module_group(&self) -> u16 {
        self.groups + 2
    }

    /// All groups of point-to-point messages.
    pub fn message_groups(&self) -> impl Iterator<Item = u16> + use<> {
        (0..self.groups).chain(self.errands.as_ref().map(|errands| errands.group))
    }

    /// The errands, if modules see this message.
    pub fn errands_of(&self, message: &Message) -> Option<&Errands> {
        self.errands.as_deref().filter(|errands| errands.group == message.group)
    }

    /// What the application learns of a message.
    pub fn fate(&self, message: &Message) -> Fate {
        self.errands_of(message).map_or(Fate::Delivered, |errands| errands.fate(message.id))
    }
}

/// A receive and the message that it got.
#[derive(Clone, Copy, Debug)]
pub struct Match {
    /// Position in the order of posting.
    pub order: u64,
    /// The match word of the receive.
    pub word: MatchWord,
    /// Its mask.
    pub mask: Mask,
    /// The message.
    pub message: u64,
}

/// One-sided operations on one target, as counted by their origin.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effects {
    /// Sum of accumulates: requested, and known to be done.
    pub added: [u64; 2],
    /// Puts that raise a counter: requested, and known to be done.
    pub notified: [u64; 2],
    /// Increments: requested, and known to be done.
    pub incremented: [u64; 2],
}

const ASKED: usize = 0;
const DONE: usize = 1;

/// Offsets in the region that a rank exposes to others.
const SUM_AT: u64 = 0;
const NUMBER_AT: u64 = 8;
const AREAS_AT: u64 = 64;
/// Bytes that each origin may write at each target.
pub const AREA_BYTES: u64 = 2048;

/// A rank's program, its progress, and what it has observed.
pub struct Script {
    me: u32,
    plan: Rc<Plan>,
    tasks: Vec<Task>,
    next: usize,
    random: Random,
    posts: u64,
    pending: BTreeMap<Ticket, Pending>,
    window: Region,
    counter: Option<Counter>,
    busy_areas: BTreeSet<u32>,
    dead: BTreeSet<u32>,
    /// Messages to cancel at the next wake-up.
    regretted: Vec<Ticket>,
    finishing: bool,
    /// Whether it probes repeatedly for what it has not found, and fetches leftovers that way.
    probing: bool,
    /// What it last probed for in vain.
    missed: Option<(MatchWord, Mask)>,
    /// The receive that it awaits.
    awaited: Option<Pending>,
    /// Messages not received yet, for each point-to-point group, by the ranks that they need.
    missing: BTreeMap<u16, BTreeMap<Ranks, u64>>,
    /// The log of our module.
    pub log: Arc<Mutex<Log>>,
    /// Matches, in the order of completion.
    pub matches: Vec<Match>,
    /// Messages, in the order of sending.
    pub sent: Vec<u64>,
    /// One-sided operations, by target.
    pub effects: BTreeMap<u32, Effects>,
    /// Sums before and after each fetch, by target.
    pub fetched: BTreeMap<u32, Vec<[u64; 2]>>,
    /// Number of messages cancelled successfully.
    pub withdrawn: u64,
    /// Messages received before they could be cancelled, by target.
    pub not_withdrawn: BTreeMap<u32, u64>,
    /// Messages received before their sender cancelled them, by source.
    pub got_late: BTreeMap<u32, u64>,
    /// What went wrong.
    pub complaints: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
enum Pending {
    Send,
    Cancelled { to: u32 },
    Late { from: u32 },
    Receive { order: u64, word: MatchWord, mask: Mask, into: Span, any: bool },
    Collective { index: u16, bytes: Span, released: bool },
    Put { to: u32, bytes: Span, notify: bool },
    ReadBack { to: u32, bytes: Span, into: Span },
    Outside,
    Accumulate { to: u32, value: u64 },
    Fetch { to: u32, value: u64, before: Span },
    Increment { to: u32, expected: u64 },
}

impl Script {
    /// The program of rank `me`.
    pub fn new(me: u32, plan: Rc<Plan>, tasks: Vec<Task>, random: Random) -> Script {
        let mut missing: BTreeMap<u16, BTreeMap<Ranks, u64>> =
            plan.message_groups().map(|group| (group, BTreeMap::new())).collect();
        for message in plan.messages.iter().filter(|message| message.target == me) {
            if plan.fate(message) != Fate::Consumed {
                *missing.entry(message.group).or_default().entry(message.needs).or_default() += 1;
            }
        }
        let mut random = random;
        Script {
            me,
            plan,
            tasks,
            next: 0,
            probing: random.percent(10),
            missed: None,
            awaited: None,
            random,
            posts: 0,
            pending: BTreeMap::new(),
            window: Region(0),
            counter: None,
            busy_areas: BTreeSet::new(),
            dead: BTreeSet::new(),
            finishing: false,
            missing,
            log: Arc::default(),
            matches: Vec::new(),
            sent: Vec::new(),
            effects: BTreeMap::new(),
            fetched: BTreeMap::new(),
            withdrawn: 0,
            not_withdrawn: BTreeMap::new(),
            got_late: BTreeMap::new(),
            regretted: Vec::new(),
            complaints: Vec::new(),
        }
    }

    /// Whether it has done everything, and everything has ended.
    pub fn is_finished(&self) -> bool {
        self.finishing
            && self.pending.is_empty()
            && self.missing.keys().all(|&group| self.wanted(group) == 0)
    }

    /// Ranks that it believes to be dead.
    pub fn believed_dead(&self) -> &BTreeSet<u32> {
        &self.dead
    }

    /// What it still waits for, as text.
    pub fn unfinished(&self) -> String {
        format!(
            "task {} of {}{}, pending {:?}, missing {:?}",
            self.next,
            self.tasks.len(),
            if self.finishing { ", finishing" } else { "" },
            self.pending,
            self.missing
        )
    }

    /// The sum, the number and the counter that other ranks have changed.
    pub fn changed<V: Variant>(&self, world: &crate::world::World<V, Script>) -> [u64; 3] {
        let memory = world.memory(Peer(self.me));
        let counter = self.counter.map_or(0, |counter| world.nic(Peer(self.me)).counter(counter));
        [memory.number(self.window, SUM_AT), memory.number(self.window, NUMBER_AT), counter]
    }

    fn open_window<V: Variant>(&mut self, context: &mut Context<'_, V>) {
        let bytes = AREAS_AT + AREA_BYTES * u64::from(self.plan.size);
        self.window = context.port.memory.lend_filled(bytes, 0).region;
        context.nic.open_piece(Span::new(self.window, 0, bytes));
        let counter = context.nic.open_counter();
        context.nic.set_region_counters(self.window, [counter].into());
        self.counter = Some(counter);
    }

    fn perform<V: Variant>(&mut self, task: Task, context: &mut Context<'_, V>) {
        match task {
            Task::Send(id) => self.send(id, context),
            Task::SendAndCancel { to, len, at_once } => {
                self.send_and_cancel(to, len, at_once, context);
            }
            Task::ReceiveLate { from } => self.receive_late(from, context),
            Task::Receive { word, mask, room } => self.receive(word, mask, room, false, context),
            Task::Take { word, mask } => self.take(word, mask, context),
            Task::Collective(index) => self.collective(index, context),
            Task::Put { to, len } => self.put(to, len, context),
            Task::PutOutside { to } => {
                let source = context.port.memory.lend_filled(16, 1);
                let end = AREAS_AT + AREA_BYTES * u64::from(self.plan.size);
                let posted = context.nic.post_put(
                    Peer(to),
                    source,
                    self.window,
                    end - 8,
                    None,
                    context.port,
                );
                self.await_end(posted, Pending::Outside, context);
            }
            Task::Accumulate { to, value } => {
                let source = context.port.memory.lend(value.to_le_bytes().into());
                let source = Span::new(source, 0, 8);
                self.effects.entry(to).or_default().added[ASKED] += value;
                let (to_peer, window, port) = (Peer(to), self.window, &mut *context.port);
                let (posted, pending) = if value % 2 == 1 {
                    let before = port.memory.lend_filled(8, GUARD);
                    let nic = &mut context.nic;
                    let posted = nic.post_fetch(to_peer, source, window, SUM_AT, SUM, before, port);
                    (posted, Pending::Fetch { to, value, before })
                } else {
                    let posted =
                        context.nic.post_accumulate(to_peer, source, window, SUM_AT, SUM, port);
                    (posted, Pending::Accumulate { to, value })
                };
                self.await_end(posted, pending, context);
            }
            Task::Increment { to } => {
                self.effects.entry(to).or_default().incremented[ASKED] += 1;
                self.increment(to, 0, context);
            }
            Task::Load => {
                if let Some(errands) = &self.plan.errands {
                    errands.load(self.me, &self.log, context.nic, context.port);
                }
            }
            Task::Pause(ns) => context.wake_in(ns),
        }
    }

    fn send<V: Variant>(&mut self, id: u64, context: &mut Context<'_, V>) {
        let message = self.plan.messages[usize::try_from(id).expect("a small number")];
        let region = context.port.memory.lend(message.bytes());
        let source = Span::new(region, 0, message.len);
        self.sent.push(id);
        let route = self.plan.errands_of(&message).map(|errands| &errands.errand(id).route);
        let to = Peer(route.map_or(message.target, |route| route[0]));
        let posted = context.nic.post_send(to, message.word(), source, message.mode, context.port);
        self.await_end(posted, Pending::Send, context);
    }

    fn send_and_cancel<V: Variant>(
        &mut self,
        to: u32,
        len: u64,
        at_once: bool,
        context: &mut Context<'_, V>,
    ) {
        let source = context.port.memory.lend_filled(len, 7);
        let word = MatchWord::new(self.plan.cancelled_group(), self.me, 1);
        // A message longer than any eager one must be received to complete, too.
        let mode = if len == LATE_BYTES { Mode::Standard } else { Mode::Synchronous };
        let posted = context.nic.post_send(Peer(to), word, source, mode, context.port);
        self.await_end(posted, Pending::Cancelled { to }, context);
        match posted {
            Posted::Pending(ticket) if at_once => context.nic.cancel(ticket, context.port),
            Posted::Pending(ticket) => self.regretted.push(ticket),
            Posted::Done(_) => {}
        }
    }

    /// Cancels the messages that were sent to be cancelled.
    fn take_back<V: Variant>(&mut self, context: &mut Context<'_, V>) {
        for ticket in std::mem::take(&mut self.regretted) {
            context.nic.cancel(ticket, context.port);
        }
    }

    fn receive_late<V: Variant>(&mut self, from: u32, context: &mut Context<'_, V>) {
        let into = context.port.memory.lend_filled(LATE_BYTES, GUARD);
        let word = MatchWord::new(self.plan.cancelled_group(), from, 1);
        let peer = Some(Peer(from));
        let posted = context.nic.post_receive(peer, word, Mask::EXACT, into, context.port);
        self.await_end(posted, Pending::Late { from }, context);
    }

    fn receive<V: Variant>(
        &mut self,
        word: MatchWord,
        mask: Mask,
        room: u64,
        any: bool,
        context: &mut Context<'_, V>,
    ) {
        let into = context.port.memory.lend_filled(room, GUARD);
        self.posts += 1;
        let only_source = mask == Mask::EXACT || mask == Mask::ANY_TAG;
        let from = only_source.then_some(Peer(word.source()));
        let pending = Pending::Receive { order: self.posts, word, mask, into, any };
        // In half of the runs, the short way and the ordinary one alternate.
        let awaits = self.plan.awaits && self.random.percent(50);
        let awaited = if awaits { context.receive_or_await(from, word, mask, into) } else { None };
        let posted = match awaited {
            Some(Awaited::Open) => {
                self.awaited = Some(pending);
                return;
            }
            Some(Awaited::Over(outcome)) => Posted::Done(outcome),
            Some(Awaited::Posted(ticket)) => Posted::Pending(ticket),
            None => context.nic.post_receive(from, word, mask, into, context.port),
        };
        self.await_end(posted, pending, context);
    }

    fn take<V: Variant>(&mut self, word: MatchWord, mask: Mask, context: &mut Context<'_, V>) {
        let seen = context.nic.probe(word, mask, context.port);
        let Some((ticket, probed)) = context.nic.take(word, mask, context.port) else {
            if seen.is_some() {
                self.complain("a probe saw what could not be taken");
            }
            self.missed = Some((word, mask)).filter(|_| self.probing && !self.finishing);
            return;
        };
        // The first of the two asks for held messages; perhaps only the second sees them.
        if seen.is_some_and(|seen| seen != probed) {
            self.complain("a probe saw something else than was taken");
        }
        let into = context.port.memory.lend_filled(probed.len, GUARD);
        self.posts += 1;
        let posted = context.nic.post_taken(ticket, into, context.port);
        let pending = Pending::Receive { order: self.posts, word, mask, into, any: false };
        self.await_end(posted, pending, context);
    }

    fn collective<V: Variant>(&mut self, index: u16, context: &mut Context<'_, V>) {
        if !self.dead.is_empty() {
            return;
        }
        let (schedule, bytes) = self.schedule(index, context);
        let schedule = Arc::new(schedule);
        let pending = Pending::Collective { index, bytes, released: false };
        let posted = match self.plan.awaits && self.random.percent(50) {
            false => context.nic.post_schedule(schedule, index, context.port),
            true => match context.await_schedule(&schedule, index) {
                Awaited::Over(outcome) => Posted::Done(outcome),
                Awaited::Posted(ticket) => Posted::Pending(ticket),
                Awaited::Open => {
                    self.awaited = Some(pending);
                    return;
                }
            },
        };
        self.await_end(posted, pending, context);
    }

    fn schedule<V: Variant>(&self, index: u16, context: &mut Context<'_, V>) -> (Schedule, Span) {
        let group = Group::whole(self.plan.size);
        let group_id = self.plan.collective_group();
        let me = Member {
            group_id,
            group: &group,
            rank: self.me,
            locality: Locality::Unknown,
            naming: Naming::Ranks,
        };
        let memory = &mut context.port.memory;
        let mut numbers = |count: u64, value: u64| {
            let bytes = (0..count).flat_map(|at| (value + at).to_le_bytes()).collect();
            Span::new(memory.lend(bytes), 0, count * 8)
        };
        match self.plan.collectives[usize::from(index)] {
            Collective::Barrier => (collective::barrier(me), Span::EMPTY),
            Collective::Broadcast { root, len } => {
                let mine = if self.me == root { broadcast_byte(index) } else { GUARD };
                let bytes = memory.lend_filled(len, mine);
                (collective::broadcast(me, root, bytes), bytes)
            }
            Collective::Reduce { root, numbers: count, later } => {
                let bytes = numbers(count, u64::from(self.me) + u64::from(index));
                let reduce_op = reduce_op(if later { SUM_LATER } else { SUM });
                let room = collective::reduce_work_bytes(me, root, reduce_op, bytes.len);
                let work = memory.lend_filled(room, GUARD);
                (collective::reduce(me, root, reduce_op, bytes, work), bytes)
            }
            Collective::Allreduce { numbers: count } => {
                let bytes = numbers(count, u64::from(self.me) + u64::from(index));
                let work = memory.lend_filled(bytes.len, GUARD);
                (collective::allreduce(me, reduce_op(SUM), bytes, bytes, work), bytes)
            }
            Collective::Gather { root, len } => {
                let mine = lend(memory, block_bytes(index, self.me, root, len));
                let all = if self.me == root { len * u64::from(self.plan.size) } else { 0 };
                let all = memory.lend_filled(all, GUARD);
                let work = collective::gather_work_bytes(me, root, len);
                let work = memory.lend_filled(work, GUARD);
                (collective::gather(me, root, mine, all, work), all)
            }
            Collective::Scatter { root, len } => {
                let all = if self.me == root { self.blocks_to_all(index, len) } else { Vec::new() };
                let all = lend(memory, all);
                let mine = memory.lend_filled(len, GUARD);
                let work = collective::scatter_work_bytes(me, root, len);
                let work = memory.lend_filled(work, GUARD);
                (collective::scatter(me, root, all, mine, work), mine)
            }
            Collective::Allgather { len } => {
                let mine = lend(memory, block_bytes(index, self.me, 0, len));
                let all = memory.lend_filled(len * u64::from(self.plan.size), GUARD);
                let work = memory.lend_filled(collective::allgather_work_bytes(me, len), GUARD);
                (collective::allgather(me, mine, all, work), all)
            }
            Collective::Alltoall { len } => {
                let source = lend(memory, self.blocks_to_all(index, len));
                let into = memory.lend_filled(source.len, GUARD);
                (collective::alltoall(me, source, into, Span::EMPTY), into)
            }
        }
    }

    /// Our blocks for all ranks, in rank order.
    fn blocks_to_all(&self, index: u16, len: u64) -> Vec<u8> {
        (0..self.plan.size).flat_map(|to| block_bytes(index, self.me, to, len)).collect()
    }

    /// The blocks of all ranks for `to`, in rank order.
    fn blocks_of_all(&self, index: u16, to: u32, len: u64) -> Vec<u8> {
        (0..self.plan.size).flat_map(|from| block_bytes(index, from, to, len)).collect()
    }

    /// Checks the result of a collective in our memory.
    fn check_collective<V: Variant>(&mut self, index: u16, bytes: Span, context: &Context<'_, V>) {
        let found = context.port.memory.bytes(bytes);
        let size = u64::from(self.plan.size);
        let right = match self.plan.collectives[usize::from(index)] {
            Collective::Barrier => true,
            Collective::Broadcast { .. } => found.iter().all(|&byte| byte == broadcast_byte(index)),
            Collective::Reduce { root, .. } | Collective::Gather { root, .. }
                if root != self.me =>
            {
                true
            }
            Collective::Gather { root, len } => found == self.blocks_of_all(index, root, len),
            Collective::Scatter { root, len } => found == block_bytes(index, root, self.me, len),
            Collective::Allgather { len } => found == self.blocks_of_all(index, 0, len),
            Collective::Alltoall { len } => found == self.blocks_of_all(index, self.me, len),
            Collective::Reduce { .. } | Collective::Allreduce { .. } => {
                found.chunks_exact(8).zip(0..).all(|(chunk, at): (_, u64)| {
                    let sum = size * (size - 1) / 2 + size * (u64::from(index) + at);
                    chunk == sum.to_le_bytes()
                })
            }
        };
        if !right {
            self.complain(&format!("collective {index} has left wrong bytes"));
        }
    }

    fn put<V: Variant>(&mut self, to: u32, len: u64, context: &mut Context<'_, V>) {
        // One at a time, so that the bytes read back are known.
        if !self.busy_areas.insert(to) {
            return;
        }
        let fill = self.random.any().to_le_bytes()[0];
        let bytes = context.port.memory.lend_filled(len, fill);
        let notify = self.random.percent(50);
        if notify {
            self.effects.entry(to).or_default().notified[ASKED] += 1;
        }
        // The region has one counter.
        let counter = notify.then_some(0);
        let offset = AREAS_AT + AREA_BYTES * u64::from(self.me);
        let posted =
            context.nic.post_put(Peer(to), bytes, self.window, offset, counter, context.port);
        self.await_end(posted, Pending::Put { to, bytes, notify }, context);
    }

    fn read_back<V: Variant>(&mut self, to: u32, bytes: Span, context: &mut Context<'_, V>) {
        let into = context.port.memory.lend_filled(bytes.len, GUARD);
        let offset = AREAS_AT + AREA_BYTES * u64::from(self.me);
        let from = Span::new(self.window, offset, bytes.len);
        let posted = context.nic.post_get(Peer(to), from, into, context.port);
        self.await_end(posted, Pending::ReadBack { to, bytes, into }, context);
    }

    fn increment<V: Variant>(&mut self, to: u32, expected: u64, context: &mut Context<'_, V>) {
        let (window, port) = (self.window, &mut *context.port);
        let posted = context.nic.post_compare_swap(
            Peer(to),
            Span::new(window, NUMBER_AT, 8),
            expected,
            expected + 1,
            port,
        );
        self.await_end(posted, Pending::Increment { to, expected }, context);
    }

    fn await_end<V: Variant>(
        &mut self,
        posted: Posted,
        pending: Pending,
        context: &mut Context<'_, V>,
    ) {
        match posted {
            Posted::Done(outcome) => self.conclude(pending, outcome, context),
            Posted::Pending(ticket) => {
                self.pending.insert(ticket, pending);
            }
        }
    }

    fn conclude<V: Variant>(
        &mut self,
        pending: Pending,
        outcome: Outcome,
        context: &mut Context<'_, V>,
    ) {
        match (pending, outcome) {
            (_, Outcome::Failed(Fault::PeerDown(peer))) => {
                // A fault may name a dead peer before `on_peer_down` does: both count.
                self.dead.insert(peer.0);
                if let Pending::Put { to, .. } | Pending::ReadBack { to, .. } = pending {
                    self.busy_areas.remove(&to);
                }
            }
            (Pending::Send, Outcome::Done) => {}
            (Pending::Cancelled { .. }, Outcome::Cancelled) => self.withdrawn += 1,
            (Pending::Cancelled { to }, Outcome::Done) => {
                *self.not_withdrawn.entry(to).or_default() += 1;
            }
            (Pending::Late { from }, Outcome::Received(_)) => {
                *self.got_late.entry(from).or_default() += 1;
            }
            (Pending::Late { .. }, Outcome::Cancelled) if self.finishing => {}
            (
                Pending::Receive { order, word, mask, into, .. },
                Outcome::Received(_) | Outcome::Failed(Fault::Truncated { .. }),
            ) => self.check_received(order, word, mask, into, outcome, context),
            (
                Pending::Receive { order, word, mask, .. },
                Outcome::Failed(Fault::Module { word: ended, trap }),
            ) => self.check_fault(order, word, mask, ended, trap),
            (Pending::Receive { .. }, Outcome::Cancelled) if self.finishing => {}
            (Pending::Collective { index, bytes, .. }, Outcome::Done) => {
                self.check_collective(index, bytes, context);
            }
            (Pending::Collective { .. }, Outcome::Failed(Fault::Abandoned))
                if !self.dead.is_empty() => {}
            (Pending::Put { to, bytes, notify }, Outcome::Done) => {
                self.effects.entry(to).or_default().notified[DONE] += u64::from(notify);
                self.read_back(to, bytes, context);
            }
            (Pending::ReadBack { to, bytes, into }, Outcome::Received(_)) => {
                self.busy_areas.remove(&to);
                let memory = &context.port.memory;
                if memory.bytes(bytes) != memory.bytes(into) {
                    self.complain("a get has read something else than was put");
                }
            }
            (Pending::Outside, Outcome::Failed(Fault::Denied)) => {}
            (Pending::Accumulate { to, value }, Outcome::Done) => {
                self.effects.entry(to).or_default().added[DONE] += value;
            }
            (Pending::Fetch { to, value, before }, Outcome::Received(_)) => {
                self.effects.entry(to).or_default().added[DONE] += value;
                let before = context.port.memory.number(before.region, before.offset);
                self.fetched.entry(to).or_default().push([before, before + value]);
            }
            (Pending::Increment { to, expected }, Outcome::Found(found)) => {
                match found == expected {
                    true => self.effects.entry(to).or_default().incremented[DONE] += 1,
                    false => self.increment(to, found, context),
                }
            }
            (pending, outcome) => self.complain(&format!("{pending:?} ended as {outcome:?}")),
        }
    }

    /// Identifies a received message and checks it.
    fn check_received<V: Variant>(
        &mut self,
        order: u64,
        word: MatchWord,
        mask: Mask,
        into: Span,
        outcome: Outcome,
        context: &Context<'_, V>,
    ) {
        let found = context.port.memory.bytes(into);
        let plan = Rc::clone(&self.plan);
        let id = match outcome {
            Outcome::Received(received) if received.len < 8 => {
                let tiny = plan
                    .messages
                    .iter()
                    .find(|message| message.word() == received.word && message.target == self.me);
                tiny.map(|message| message.id)
            }
            _ => found.first_chunk().map(|head| id_of(u64::from_le_bytes(*head))),
        };
        let index = id.and_then(|id| usize::try_from(id).ok());
        let Some(message) = index.and_then(|index| plan.messages.get(index)) else {
            return self.complain("a message that nobody sent");
        };
        let right = match outcome {
            Outcome::Received(received) => {
                received.word == message.word() && received.len == message.len
            }
            Outcome::Failed(Fault::Truncated { word, len }) => {
                word == message.word() && len == message.len && len > into.len
            }
            _ => false,
        };
        let bytes = match plan.errands_of(message) {
            Some(errands) => errands.delivered_bytes(message),
            None => message.bytes(),
        };
        let fits = bytes.len().min(found.len());
        // Without an early exit the loop is vectorized: this is most of the work of a soak.
        let untouched = found[fits..].iter().fold(true, |all, &byte| all & (byte == GUARD));
        let intact = found[..fits] == bytes[..fits] && untouched;
        let here = message.target == self.me && plan.fate(message) == Fate::Delivered;
        if !right || !intact || !here || !message.word().agrees(word, mask) {
            self.complain(&format!("{message:?} arrived wrong: {outcome:?}, intact {intact}"));
        }
        self.note_match(message, Match { order, word, mask, message: message.id });
    }

    /// Identifies the message that a trap has ended, and checks that this receive would have got it.
    fn check_fault(
        &mut self,
        order: u64,
        word: MatchWord,
        mask: Mask,
        ended: MatchWord,
        trap: Trap,
    ) {
        let plan = Rc::clone(&self.plan);
        let errands = plan.errands.as_ref();
        let message = errands.and_then(|errands| errands.ended(self.me, ended, trap));
        let Some(message) = message.filter(|message| message.word().agrees(word, mask)) else {
            return self.complain(&format!("{ended:?} has ended by {trap:?}, which it should not"));
        };
        self.note_match(message, Match { order, word, mask, message: message.id });
    }

    fn note_match(&mut self, message: &Message, found: Match) {
        let missing = self.missing.entry(message.group).or_default();
        let missing = missing.entry(message.needs).or_default();
        match missing.checked_sub(1) {
            Some(less) => *missing = less,
            None => self.complain(&format!("{message:?} arrived once too often")),
        }
        self.matches.push(found);
    }

    /// After the last task: fetches leftovers, cancels receives that no message will match.
    fn finish<V: Variant>(&mut self, context: &mut Context<'_, V>) {
        for group in self.plan.message_groups() {
            // A probe cannot find a message that a trap has ended.
            let probing = self.probing && group < self.plan.groups;
            // A receive may match at once, so the number wanted changes as we post.
            let word = MatchWord::new(group, 0, 0);
            while !probing && self.open_for_anything(group) < self.wanted(group) {
                self.receive(word, Mask::ANY_BOTH, LONGEST, true, context);
                if self.awaited.is_some() {
                    return;
                }
            }
            if probing && self.wanted(group) > 0 {
                self.take(word, Mask::ANY_BOTH, context);
                context.wake_in(PROBE_NS);
            }
            if self.wanted(group) == 0 {
                self.give_up(group, context);
            }
        }
    }

    fn open_for_anything(&self, group: u16) -> u64 {
        let of_group = |pending: &&Pending| matches!(pending, Pending::Receive { word, any: true, .. } if word.group() == group);
        self.pending.values().filter(of_group).count() as u64
    }

    /// Messages that live ranks still owe us.
    fn wanted(&self, group: u16) -> u64 {
        let dead = ranks(self.dead.iter().copied());
        let missing = self.missing[&group].iter();
        missing.filter(|&(needs, _)| needs & dead == 0).map(|(_, &count)| count).sum()
    }

    fn give_up<V: Variant>(&mut self, group: u16, context: &mut Context<'_, V>) {
        let late = group == self.plan.cancelled_group();
        let of_group = |pending: &Pending| match pending {
            Pending::Receive { word, .. } => word.group() == group,
            Pending::Late { .. } => late,
            _ => false,
        };
        let open: Vec<Ticket> = self
            .pending
            .iter()
            .filter(|(_, pending)| of_group(pending))
            .map(|(&ticket, _)| ticket)
            .collect();
        for ticket in open {
            context.nic.cancel(ticket, context.port);
        }
    }

    fn complain(&mut self, what: &str) {
        self.complaints.push(format!("rank {}: {what}", self.me));
    }
}

impl<V: Variant> Application<V> for Script {
    fn on_wake(&mut self, context: &mut Context<'_, V>) {
        if self.counter.is_none() {
            self.open_window(context);
        }
        self.take_back(context);
        if let Some((word, mask)) = self.missed.take() {
            self.take(word, mask, context);
            if self.missed.is_some() && self.random.percent(90) {
                return context.wake_in(self.random.between(100, 2_000));
            }
        }
        for _ in 0..self.random.between(1, 4) {
            let Some(&task) = self.tasks.get(self.next) else {
                self.take_back(context);
                if !std::mem::replace(&mut self.finishing, true) {
                    self.give_up(self.plan.cancelled_group(), context);
                }
                return self.finish(context);
            };
            self.next += 1;
            self.perform(task, context);
            if matches!(task, Task::Pause(_)) || self.awaited.is_some() {
                return;
            }
        }
        let rest = self.random.between(100, 20_000);
        context.wake_in(rest);
    }

    fn on_awaited(&mut self, posted: Posted, context: &mut Context<'_, V>) {
        let pending = self.awaited.take().expect("it awaits a receive");
        self.await_end(posted, pending, context);
        match self.finishing {
            true => self.finish(context),
            false => context.wake_in(self.random.between(100, 20_000)),
        }
    }

    fn on_complete(&mut self, ticket: Ticket, outcome: Outcome, context: &mut Context<'_, V>) {
        if outcome == Outcome::Released {
            match self.pending.get_mut(&ticket) {
                Some(Pending::Collective { released, .. }) if !*released => *released = true,
                _ => self.complain("released what was not waiting"),
            }
            return;
        }
        match self.pending.remove(&ticket) {
            Some(pending) => self.conclude(pending, outcome, context),
            None => self.complain(&format!("{ticket} completed and nobody waits: {outcome:?}")),
        }
        if self.finishing {
            self.finish(context);
        }
    }

    fn on_peer_down(&mut self, peer: Peer, context: &mut Context<'_, V>) {
        self.dead.insert(peer.0);
        // A collective that lacks a member cannot end.
        let runs: Vec<Ticket> = self
            .pending
            .iter()
            .filter(|(_, pending)| matches!(pending, Pending::Collective { .. }))
            .map(|(&ticket, _)| ticket)
            .collect();
        for ticket in runs {
            context.nic.cancel(ticket, context.port);
        }
        if self.finishing {
            self.finish(context);
        }
    }
}

/// The block from `from` to `to` in a collective, different for each pair.
fn block_bytes(index: u16, from: u32, to: u32, len: u64) -> Vec<u8> {
    let id = u64::from(index) << 16 | u64::from(from) << 8 | u64::from(to);
    (0..len).map(|at| pattern(id, at ^ id)).collect()
}

fn lend(memory: &mut Memory, bytes: Vec<u8>) -> Span {
    let len = bytes.len() as u64;
    Span::new(memory.lend(bytes), 0, len)
}

fn broadcast_byte(index: u16) -> u8 {
    index.to_le_bytes()[0] ^ 0x5a
}

/// Interval between probes.
const PROBE_NS: u64 = 300_000;

/// Fill byte of memory that has not been written to.
const GUARD: u8 = 0xee;

/// A message of this length is never eager.
pub const LATE_BYTES: u64 = 5000;

/// The longest message.
pub const LONGEST: u64 = 40_000;
