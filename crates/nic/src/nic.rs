//! The NIC: entry points, dispatch, state.
//!
//! Read [`Nic::on_frame`] and `Nic::absorb` for the receive path, [`Nic::post_send`] (in `send.rs`) for the send
//! path. The other files do what these decide.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hash::BuildHasherDefault;

use hashbrown::HashMap;

use crate::canary::Bug;
use crate::copies::Copies;
use crate::counter::{Counters, Triggered};
use crate::deadlines::Deadlines;
use crate::envelope::{Envelope, Kind};
use crate::hooks::Modules;
use crate::limits::Limits;
use crate::matcher::{Indexed, Matcher, Queue};
use crate::onesided::{OpenRegion, Piece};
use crate::op::{Closed, Op, OpState, Owner};
use crate::peers::{At, Mix, PeerState, Peers};
use crate::port::{Port, RailId, Seal, StepRef};
use crate::receive::{Offer, Whole};
use crate::rendezvous::Granted;
use crate::run::{Deferred, OpenRuns, Ready, Run};
use crate::search::Searches;
use crate::short::AwaitedReceive;
use crate::slab::Slab;
use crate::store::{Audit, Store};
use crate::types::{Fault, Outcome, Peer, Region, Span, Ticket};
use crate::word::MatchWord;

/// Compile-time choices of a NIC. Production code uses [`Standard`]; tests use others to compare matchers and to
/// plant bugs, at no cost to the standard one.
pub trait Variant {
    /// Matches messages with receives.
    type Matcher: Matcher;

    /// Whether this variant has `bug`, planted to check that the tests find it.
    fn has(_bug: Bug) -> bool {
        false
    }
}

/// The variant for production.
#[derive(Clone, Copy, Debug)]
pub struct Standard;

impl Variant for Standard {
    type Matcher = Indexed;
}

/// A network interface for one rank.
///
/// There are three kinds of method. `post_*` and `cancel`: the user asks. `on_*`: the world tells. The rest only
/// look. Every method that may act takes a [`Port`] to act through, and returns without waiting.
pub struct Nic<V: Variant = Standard> {
    pub(crate) me: Peer,
    pub(crate) job: u32,
    pub(crate) limits: Limits,
    pub(crate) peers: Peers,
    pub(crate) queues: Vec<QueuePair<V::Matcher>>,
    pub(crate) ops: Slab<Op>,
    pub(crate) runs: Slab<Run>,
    /// The `needs` of a finished run, reused by the next.
    pub(crate) spare_needs: Vec<u16>,
    pub(crate) counters: Counters,
    pub(crate) modules: Modules,
    pub(crate) regions: HashMap<Region, OpenRegion, BuildHasherDefault<Mix>>,
    /// Triggers that have fired, and have not started anything yet.
    pub(crate) fired: VecDeque<(Ticket, Triggered)>,
    /// Steps of schedules that may start.
    pub(crate) ready: Ready,
    /// Open runs, and the runs deferred until one of them ends.
    pub(crate) open_runs: OpenRuns,
    pub(crate) deferred: VecDeque<Deferred>,
    /// Consult steps that could not answer yet.
    pub(crate) undecided: Vec<StepRef>,
    pub(crate) deadlines: Deadlines,
    /// Tickets settled by the current ack. Kept here so that an ack allocates nothing.
    pub(crate) settled: Vec<Ticket>,
    pub(crate) copies: Copies,
    /// New peers for which old peers have not been checked yet. They are the last entries of the table.
    pub(crate) newcomers: u32,
    /// Operations that need driving: see [`Nic::needs_driving`].
    pub(crate) driven: usize,
    /// Credit with a peer is running out: see [`Nic::is_short_of_credit`].
    pub(crate) short_of_credit: bool,
    pub(crate) epochs: u32,
    pub(crate) early_bytes: usize,
    /// The receive that the caller looks for.
    pub(crate) awaited: AwaitedReceive,
    pub(crate) stats: Stats,
}

/// A posted queue, an unexpected queue, and the store of the latter.
pub(crate) struct QueuePair<M> {
    pub(crate) matcher: M,
    pub(crate) store: Store,
    /// Peers that hold messages for this pair, longest-waiting first.
    pub(crate) refused: VecDeque<Peer>,
    /// The peer among them that has been invited to use free room.
    pub(crate) inviting: Option<Peer>,
    /// What probes look for among the held messages.
    pub(crate) searches: Searches,
    /// Groups of this pair that have ended, for all operations or only for those with several peers.
    pub(crate) ended: Vec<Ended>,
}

/// A group in which operations may no longer wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) group: u16,
    pub(crate) fault: Fault,
    /// Operations with a single peer have ended too.
    pub(crate) all: bool,
}

/// Counters of a NIC. It counts, and never logs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Frames handed to a rail, including retries and acks.
    pub frames_sent: u64,
    /// Frames of our job that arrived.
    pub frames_received: u64,
    /// Frames of another job, with a broken seal, or by a rail that does not lead to their sender.
    pub foreign: u64,
    /// Frames that are invalid.
    pub malformed: u64,
    /// Frames that had already arrived.
    pub repeats: u64,
    /// Frames sent again.
    pub retries: u64,
    /// Frames sent or received that only acknowledge others, or ask for a sign of life: a peer may get them while
    /// nothing happens.
    pub signs: u64,
    /// Messages that no receive was waiting for.
    pub unexpected: u64,
    /// Messages refused for lack of room.
    pub refused: u64,
    /// Invites sent.
    pub invited: u64,
    /// Peers declared down.
    pub downs: u64,
    /// Peers forgotten.
    pub forgotten: u64,
}

/// What a NIC holds right now, for leak checks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Holdings {
    /// Operations in progress, including schedules.
    pub tickets: usize,
    /// Operations that [`Nic::needs_driving`] counts.
    pub driven: usize,
    /// Schedules in progress.
    pub runs: usize,
    /// Receives in posted queues.
    pub posted: usize,
    /// Messages in unexpected queues.
    pub unexpected: usize,
    /// Timers that are armed.
    pub timers: usize,
    /// Messages in flight from memory of the NIC: sent by modules, or copied.
    pub kept: usize,
    /// Frames sent and not acknowledged.
    pub unacked: usize,
    /// Frames that wait for room.
    pub backlog: usize,
    /// Bytes of early frames.
    pub early_bytes: usize,
    /// Bytes reserved for peers, summed over their lanes.
    pub promised: u32,
    /// An audit of each queue pair's store.
    pub stores: Vec<Audit>,
}

/// Credit between two peers in one queue pair, as one of them sees it. For checks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Credit {
    /// Bytes that the peer has reserved for us.
    pub held: u32,
    /// Bytes that we have reserved for the peer, and that it may use.
    pub given: u32,
    /// Bytes that we have reserved for the peer, and that it does not know of yet.
    pub owed: u32,
}

impl<V: Variant> Nic<V> {
    /// Creates the NIC of process `me` of `job`. It allocates nothing until it is used.
    pub fn new(me: Peer, job: u32, limits: Limits) -> Nic<V> {
        assert!(limits.queues.is_power_of_two(), "queue pairs are a power of two");
        let ahead_max = 1..=crate::reliability::AHEAD_MAX;
        assert!(ahead_max.contains(&limits.frames_in_flight_max.into()), "more are never kept");
        assert!(limits.ask_ns < limits.silence_ns_max, "a peer is asked before it is given up");
        assert!(limits.idle_ns_max > limits.silence_ns_max, "a retry must not outlive its epoch");
        Nic {
            me,
            job,
            limits,
            peers: Peers::default(),
            queues: Vec::new(),
            ops: Slab::new(),
            runs: Slab::new(),
            spare_needs: Vec::new(),
            counters: Counters::default(),
            modules: Modules::default(),
            regions: HashMap::default(),
            fired: VecDeque::new(),
            ready: Ready::default(),
            open_runs: OpenRuns::default(),
            deferred: VecDeque::new(),
            undecided: Vec::new(),
            deadlines: Deadlines::default(),
            settled: Vec::new(),
            copies: Copies::new(),
            newcomers: 0,
            driven: 0,
            short_of_credit: false,
            epochs: 0,
            early_bytes: 0,
            awaited: AwaitedReceive::default(),
            stats: Stats::default(),
        }
    }

    /// The receive path: every frame of every rail enters here. The frame claims to be from `from`, and came by
    /// the rail `via`.
    pub fn on_frame(
        &mut self,
        from: Peer,
        via: RailId,
        seal: Seal,
        raw: &[u8],
        port: &mut impl Port,
    ) {
        if seal == Seal::Intact
            && let Some((word, payload)) = Envelope::parse_plain(raw, self.job)
        {
            return match self.awaited.is_for(word) {
                true => self.on_awaited(from, via, word, payload, port),
                false => self.on_plain(from, via, word, payload, port),
            };
        }
        if self.awaited.is_open() && !V::has(Bug::AwaitedMissesOffer) {
            self.post_awaited(port);
        }
        // The job is checked before anything else: a foreign frame creates no state.
        if Envelope::job_of(raw) != Some(self.job) || seal == Seal::Broken {
            self.stats.foreign += 1;
            return;
        }
        let Some((envelope, payload)) = Envelope::parse(raw) else {
            self.stats.malformed += 1;
            return;
        };
        let Some(at) = self.admit_by(via, from, port) else { return };
        self.stats.frames_received += 1;
        match (envelope.marks, self.peers[at].promises.reliable) {
            (None, true) => {
                self.absorb(at, envelope.kind, payload, port);
            }
            (Some(marks), false) => self.on_sequenced(at, &marks, &envelope, payload, raw, port),
            _ => self.stats.malformed += 1,
        }
        self.settle(port);
    }

    /// Handles a whole message under credit on a reliable rail: most frames.
    #[inline]
    fn on_plain(
        &mut self,
        from: Peer,
        via: RailId,
        word: MatchWord,
        payload: &[u8],
        port: &mut impl Port,
    ) {
        let Some(at) = self.admit_plain(from, via, port) else { return };
        self.on_whole(at, Whole { word, secured: true, synchronous: None }, payload, port);
        self.settle(port);
    }

    /// Finds the peer that a whole message under credit, without marks, comes from. `None` if its rail has to mark
    /// frames.
    #[inline(always)]
    pub(crate) fn admit_plain(
        &mut self,
        from: Peer,
        via: RailId,
        port: &mut impl Port,
    ) -> Option<At> {
        let at = self.admit_by(via, from, port)?;
        self.stats.frames_received += 1;
        let state = &mut self.peers[at];
        if !state.promises.reliable {
            self.stats.malformed += 1;
            return None;
        }
        state.peer_talking = true;
        state.heard = true;
        Some(at)
    }

    /// Handles a whole message, for a receive or for a module.
    #[inline(always)]
    fn on_whole(&mut self, at: At, whole: Whole, payload: &[u8], port: &mut impl Port) {
        match whole.word.has_module() {
            false => self.on_eager::<false, false>(at, whole, payload, port),
            true => self.on_called(at, whole, payload, port),
        }
    }

    /// Handles a valid frame, in order.
    #[inline(never)]
    pub(crate) fn absorb(&mut self, at: At, kind: Kind, payload: &[u8], port: &mut impl Port) {
        let state = &mut self.peers[at];
        state.peer_talking = !matches!(kind, Kind::Farewell);
        state.heard = true;
        match kind {
            Kind::Ack => self.on_ack(at),
            Kind::Ask => self.on_ask(at, port),
            Kind::Eager { word, secured, synchronous } => {
                self.on_whole(at, Whole { word, secured, synchronous }, payload, port);
            }
            Kind::Offer { word, secured, first, ticket, source, key } => {
                let offer = Offer { word, sender: ticket, source, key };
                match word.has_module() {
                    false => self.on_offer(at, offer, secured, first, port),
                    true => self.on_offer_called(at, offer, secured, first, port),
                }
            }
            Kind::Answer { queue, accepted, wanted, credit } => {
                self.on_answer(at, queue, accepted, wanted, credit, port);
            }
            Kind::Credit { queue, bytes } => self.on_credit(at, queue, bytes),
            Kind::Invite { queue } => self.on_invite(at, queue, port),
            Kind::Vacant { queue } => self.on_vacant(at, queue, port),
            Kind::Farewell => self.on_farewell(at, port),
            Kind::Matched { ticket } => self.on_matched(at, ticket, port),
            Kind::Grant { ticket, target, into, rest } => {
                self.on_grant(at, ticket, Granted { target, into, rest }, port);
            }
            Kind::Chunk { ticket, offset } => self.on_chunk(at, ticket, offset, payload, port),
            Kind::Done { ticket } => self.on_done(at, ticket, port),
            Kind::Withdraw { ticket, word } => self.on_withdraw(at, ticket, word, port),
            Kind::Withdrawn { ticket } => self.on_withdrawn(at, ticket, port),
            Kind::Put { ticket, region, offset, last, notify } => {
                let into = Span::new(region, offset, payload.len() as u64);
                self.on_put(at, Piece { ticket, into, last }, notify, payload, port);
            }
            Kind::Get { ticket, from } => self.on_get(at, ticket, from, port),
            Kind::Accumulate { ticket, region, offset, last, operator } => {
                let into = Span::new(region, offset, payload.len() as u64);
                self.on_accumulate(at, Piece { ticket, into, last }, operator, payload, port);
            }
            Kind::Fetch { ticket, region, offset, operator } => {
                let into = Span::new(region, offset, payload.len() as u64);
                self.on_fetch(at, ticket, into, operator, payload, port);
            }
            Kind::Swap { ticket, region, offset, width, expected, value } => {
                let word = Span::new(region, offset, width.into());
                self.on_swap(at, ticket, word, expected, value, port);
            }
            Kind::Found { ticket, value } => self.on_found(at, ticket, value, port),
            Kind::Denied { ticket } => self.on_denied(at, ticket, port),
        }
    }

    /// The time that [`Port::arm`] asked for has come.
    pub fn on_timer(&mut self, port: &mut impl Port) {
        let now = port.now();
        self.deadlines.on_timer();
        while let Some(peer) = self.deadlines.pop(now) {
            let Some(at) = self.peers.find(peer) else { continue };
            self.peers[at].listed = None;
            self.look_after(at, now, port);
            self.look_after_frames(at, now, port);
            self.tend(at);
        }
        self.settle(port);
    }

    /// The rail to `peer` has room again.
    pub fn on_room(&mut self, peer: Peer, port: &mut impl Port) {
        if let Some(at) = self.peers.find(peer) {
            self.pump(at, port);
            self.tend(at);
        }
        self.settle(port);
    }

    /// `peer` is known to be gone. Everything open with it ends with a fault, and so does everything posted to it
    /// later.
    pub fn on_peer_down(&mut self, peer: Peer, port: &mut impl Port) {
        self.lose(peer, port);
        self.settle(port);
    }

    /// Whether work is left that depends on no event: then [`Nic::on_turn`] should be called soon.
    #[inline(always)]
    pub fn is_busy(&self) -> bool {
        !(self.ready.is_empty()
            && self.fired.is_empty()
            && self.modules.is_idle()
            && self.newcomers == 0)
    }

    /// Continues the work that is left, so that the caller could do other work in between.
    pub fn on_turn(&mut self, port: &mut impl Port) {
        self.settle(port);
    }

    /// Does the work that the last event has made possible: steps of schedules, checks of old peers,
    /// modules. Every `At` of the caller is invalid afterwards.
    #[inline(always)]
    pub(crate) fn settle(&mut self, port: &mut impl Port) {
        if self.is_busy() || self.deadlines.have_changed() {
            self.settle_slowly(port);
        }
    }

    #[inline(never)]
    fn settle_slowly(&mut self, port: &mut impl Port) {
        self.modules.begin_turn();
        // A module may make itself due again, so the runs of a turn are bounded.
        while self.modules.may_run() {
            if let Some(step) = self.ready.pop() {
                self.start_step(step, port);
            } else if let Some((ticket, what)) = self.fired.pop_front() {
                self.fire(ticket, what, port);
            } else if self.newcomers > 0 {
                self.look_at_old_peers(port);
            } else if !self.run_due(port) {
                break;
            }
        }
        if let Some(first) = self.deadlines.take_change() {
            port.arm(first);
        }
    }

    /// The queue pair of a group, which is opened if necessary.
    #[inline]
    pub(crate) fn queue_of(&mut self, group: u16) -> u16 {
        let queue = self.queue_at(group);
        if self.queues.len() <= usize::from(queue) {
            self.open_queue(queue);
        }
        queue
    }

    /// The number of the queue pair of a group. The pairs are a power of two, so a mask does for the modulo.
    #[inline]
    pub(crate) fn queue_at(&self, group: u16) -> u16 {
        group & (self.limits.queues - 1)
    }

    #[cold]
    fn open_queue(&mut self, queue: u16) {
        while self.queues.len() <= usize::from(queue) {
            self.queues.reserve_exact(1);
            self.queues.push(QueuePair {
                matcher: V::Matcher::default(),
                store: Store::new(self.limits.unexpected_bytes_max),
                refused: VecDeque::new(),
                inviting: None,
                searches: Searches::default(),
                ended: Vec::new(),
            });
        }
    }

    /// Opens an operation.
    pub(crate) fn open(&mut self, owner: Owner, at: Option<At>, state: OpState) -> Ticket {
        let peer = at.map(|at| {
            self.peers[at].open += 1;
            self.peers[at].peer
        });
        let driven = state.needs_driving(owner, self.limits.eager_bytes_max);
        self.driven += usize::from(driven);
        let met = at.is_some();
        self.ops.claim(Op { owner, peer, met, exposed: false, driven, counter: None, state })
    }

    /// Ends an operation and tells its owner.
    pub(crate) fn complete(&mut self, ticket: Ticket, outcome: Outcome, port: &mut impl Port) {
        if let Some(Closed { owner, counter, exposed }) = self.close(ticket) {
            if exposed {
                port.conceal(ticket);
            }
            self.tell(ticket, owner, counter, outcome, port);
        }
    }

    /// Tells the owner of a closed operation how it ended.
    #[inline(always)]
    pub(crate) fn tell(
        &mut self,
        ticket: Ticket,
        owner: Owner,
        counter: Option<Ticket>,
        outcome: Outcome,
        port: &mut impl Port,
    ) {
        if let Some(counter) = counter {
            self.raise_counter(counter, 1, port);
        }
        match owner {
            Owner::User => port.complete(ticket, outcome),
            Owner::Step(step) => self.end_step(step, outcome, port),
            Owner::Module(group) => self.on_module_received(group, outcome),
            Owner::Kept(kept) => self.on_kept(kept, outcome, port),
            Owner::Copied(copied) => self.on_copied(copied, port),
            Owner::Trigger(ticket) => self.complete(ticket, outcome, port),
            Owner::Nobody => {}
        }
    }

    /// Ends an operation without telling its owner.
    #[inline(always)]
    pub(crate) fn close(&mut self, ticket: Ticket) -> Option<Closed> {
        let last = |op: &Op| {
            let Op { owner, counter, exposed, .. } = *op;
            (Closed { owner, counter, exposed }, op.peer.filter(|_| op.met), op.driven)
        };
        let (closed, met, driven) = self.ops.discard(ticket, last)?;
        self.driven -= usize::from(driven);
        if let Some(at) = met.and_then(|peer| self.peers.find(peer)) {
            self.peers[at].open -= 1;
        }
        Some(closed)
    }

    /// The operation `ticket`, if it is with this peer: a peer cannot name the operations of another.
    pub(crate) fn op_with(&mut self, at: At, ticket: Ticket) -> Option<&mut Op> {
        let peer = self.peers[at].peer;
        let op = self.ops.find_mut(ticket).filter(|op| op.peer == Some(peer));
        if op.is_none() {
            self.stats.malformed += 1;
        }
        op
    }

    /// The process that this NIC belongs to.
    pub fn me(&self) -> Peer {
        self.me
    }

    /// Whether an operation is in progress or a region is open, so that the driver has to listen for frames.
    #[inline]
    pub fn is_expecting(&self) -> bool {
        self.ops.live() > 0 || !self.regions.is_empty()
    }

    /// Operations in progress.
    #[inline]
    pub fn operations(&self) -> usize {
        self.ops.live()
    }

    /// Whether an operation in progress may need more of this NIC than to take the bytes of a frame: a long receive, a
    /// schedule, a one-sided operation. A peer may wait for it.
    #[inline]
    pub fn needs_driving(&self) -> bool {
        self.driven > 0
    }

    /// Whether the credit with a peer has begun to run out since [`Nic::note_credit_taken`]: then the driver should take what has
    /// arrived before the next send. A program that only sends looks at nothing else, and its next message would have to
    /// wait for an answer although its credit has been given back.
    #[inline]
    pub fn is_short_of_credit(&self) -> bool {
        self.short_of_credit
    }

    /// The driver is about to take what has arrived.
    pub fn note_credit_taken(&mut self) {
        self.short_of_credit = false;
    }

    /// The limits given at creation.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Number of peers in the table.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// Counts what the NIC holds right now.
    pub fn holdings(&self) -> Holdings {
        let depth = |queue| self.queues.iter().map(|pair| pair.matcher.len(queue)).sum();
        let backlogs = self.peers.iter().filter_map(|state| state.backlog.as_ref());
        Holdings {
            tickets: self.ops.live(),
            driven: self.driven,
            runs: self.runs.live(),
            posted: depth(Queue::Posted),
            unexpected: depth(Queue::Unexpected),
            timers: self.deadlines.len(),
            kept: self.modules.kept() + self.copies.count(),
            unacked: self.peers.iter().map(PeerState::unacked).sum(),
            backlog: backlogs.map(|b| b.replies.len() + b.requests.len() + b.writers.len()).sum(),
            early_bytes: self.early_bytes,
            promised: self
                .peers
                .iter()
                .flat_map(|state| &state.lanes)
                .map(|lane| lane.reserved + lane.owed)
                .sum(),
            stores: self.queues.iter().map(|pair| pair.store.audit()).collect(),
        }
    }

    /// The credit between this NIC and `peer` in a queue pair; `None` if neither has used the pair.
    pub fn credit(&self, peer: Peer, queue: u16) -> Option<Credit> {
        let state = &self.peers[self.peers.find(peer)?];
        let lane = state.lanes.iter().find(|lane| lane.queue == queue)?;
        let given = lane.unmet + lane.reserved;
        Some(Credit { held: lane.credit, given, owed: lane.owed })
    }

    /// Whether what the NIC holds for others is within its limits. Always true; checks may call it after every
    /// step.
    pub fn is_within_budget(&self) -> bool {
        self.early_bytes <= self.limits.early_bytes_max as usize
            && self.queues.iter().all(|pair| pair.store.is_within_budget())
    }

    /// Bytes of memory that this NIC takes, including its own value.
    pub fn footprint(&self) -> usize {
        let queues = self.queues.iter().map(|pair| {
            pair.matcher.heap_bytes()
                + pair.store.heap_bytes()
                + pair.refused.capacity() * size_of::<Peer>()
                + pair.searches.heap_bytes()
                + pair.ended.capacity() * size_of::<Ended>()
        });
        size_of::<Self>()
            + self.peers.heap_bytes()
            + self.queues.capacity() * size_of::<QueuePair<V::Matcher>>()
            + queues.sum::<usize>()
            + self.ops.heap_bytes()
            + self.runs.heap_bytes()
            + self.runs.iter().map(|(_, run)| run.heap_bytes()).sum::<usize>()
            + self.spare_needs.capacity() * size_of::<u16>()
            + self.counters.heap_bytes()
            + self.modules.heap_bytes()
            + self.ready.heap_bytes()
            + self.open_runs.heap_bytes()
            + self.deferred.capacity() * size_of::<Deferred>()
            + self.undecided.capacity() * size_of::<StepRef>()
            + self.deadlines.heap_bytes()
    }
}
