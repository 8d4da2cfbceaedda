//! The NIC: what enters, where it branches, what it keeps.
//!
//! Read [`Nic::on_frame`] and [`Nic::absorb`] for the receive path, [`Nic::post_send`] (in
//! `send.rs`) for the send path. The other files do what these decide.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::hash::BuildHasherDefault;

use hashbrown::HashMap;

use crate::canary::Bug;
use crate::counter::Counters;
use crate::envelope::{Envelope, Kind, Marks};
use crate::limits::Limits;
use crate::matcher::{Indexed, Matcher, Queue};
use crate::op::{Op, Owner, State};
use crate::peers::{At, Mix, Outgoing, Peers};
use crate::port::{Port, Promises, Seal, Sent, StepRef};
use crate::run::Run;
use crate::search::Search;
use crate::slab::Slab;
use crate::store::{Audit, Store};
use crate::types::{Fault, Outcome, Peer, Region, Span, Ticket, Time};
use crate::window::{Place, Window};

/// What a NIC is made of. Production code uses [`Standard`]; tests use others to compare matchers
/// and to plant bugs, at no cost to the one in use.
pub trait Variant {
    /// How messages find receives.
    type Matcher: Matcher;
    /// A bug planted on purpose, to see that the checks find it.
    const BUG: Option<Bug> = None;
}

/// The variant in use.
#[derive(Clone, Copy, Debug)]
pub struct Standard;

impl Variant for Standard {
    type Matcher = Indexed;
}

/// A network interface for one rank.
///
/// Its methods are of three kinds. `post_*` and `cancel`: the user asks. `on_*`: the world tells.
/// The rest only look. Every one that may act takes a [`Port`] to act through, and returns
/// without waiting for anything.
pub struct Nic<V: Variant = Standard> {
    pub(crate) me: Peer,
    pub(crate) job: u32,
    pub(crate) limits: Limits,
    pub(crate) peers: Peers,
    pub(crate) queues: Vec<QueuePair<V::Matcher>>,
    pub(crate) ops: Slab<Op>,
    pub(crate) runs: Slab<Run>,
    pub(crate) counters: Counters,
    pub(crate) regions: HashMap<Region, u64, BuildHasherDefault<Mix>>,
    /// Frames to ourselves: a rail that needs no world.
    pub(crate) loopback: VecDeque<(Kind, Box<[u8]>)>,
    /// Steps of schedules whose time has come.
    pub(crate) ready: VecDeque<StepRef>,
    deadlines: BTreeSet<(Time, Peer)>,
    armed: Option<Time>,
    epochs: u32,
    early_bytes: usize,
    pub(crate) stats: Stats,
}

/// A posted queue, an unexpected queue, and the room that the latter lives in.
pub(crate) struct QueuePair<M> {
    pub(crate) matcher: M,
    pub(crate) store: Store,
    /// Peers that hold messages for this pair, the longest-waiting first.
    pub(crate) refused: VecDeque<Peer>,
    /// The one of them that has been invited to use free room.
    pub(crate) inviting: Option<Peer>,
    /// What a probe looks for among the messages that they hold.
    pub(crate) search: Search,
}

/// What a NIC has seen. Counted, never logged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Frames handed to a rail, retries and acks included.
    pub frames_sent: u64,
    /// Frames of our job that arrived.
    pub frames_received: u64,
    /// Frames of another job, or with a broken seal.
    pub foreign: u64,
    /// Frames that made no sense.
    pub malformed: u64,
    /// Frames that had been here before.
    pub repeats: u64,
    /// Frames sent again.
    pub retries: u64,
    /// Messages that no receive was waiting for.
    pub unexpected: u64,
    /// Messages that found no room.
    pub refused: u64,
    /// Sweeps asked for.
    pub invited: u64,
    /// Peers declared down.
    pub downs: u64,
    /// Peers forgotten.
    pub forgotten: u64,
}

/// What a NIC holds right now, for those who look for leaks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Holdings {
    /// Operations in progress, schedules among them.
    pub tickets: usize,
    /// Schedules in progress.
    pub runs: usize,
    /// Receives in posted queues.
    pub posted: usize,
    /// Messages in unexpected queues.
    pub unexpected: usize,
    /// Timers that are armed.
    pub timers: usize,
    /// Frames that wait for room.
    pub backlog: usize,
    /// Bytes of frames that came before their turn.
    pub early_bytes: usize,
    /// Bytes set aside, counted by those for whom they are.
    pub promised: u32,
    /// Each queue pair's store, counted.
    pub stores: Vec<Audit>,
}

impl<V: Variant> Nic<V> {
    /// The NIC of the process `me` of `job`. It allocates nothing before it is used.
    pub fn new(me: Peer, job: u32, limits: Limits) -> Nic<V> {
        assert!(limits.queues > 0, "at least one queue pair");
        assert!((1..=64).contains(&limits.frames_in_flight_max), "an ack reaches 64 frames");
        assert!(limits.idle_ns_max > limits.silence_ns_max, "a retry must not outlive its epoch");
        Nic {
            me,
            job,
            limits,
            peers: Peers::default(),
            queues: Vec::new(),
            ops: Slab::new(),
            runs: Slab::new(),
            counters: Counters::default(),
            regions: HashMap::default(),
            loopback: VecDeque::new(),
            ready: VecDeque::new(),
            deadlines: BTreeSet::new(),
            armed: None,
            epochs: 0,
            early_bytes: 0,
            stats: Stats::default(),
        }
    }

    /// The receive path. Every frame of every rail enters here and nowhere else.
    pub fn on_frame(&mut self, from: Peer, seal: Seal, raw: &[u8], port: &mut impl Port) {
        // The job is looked at before anything else: what is not ours makes no state.
        if Envelope::job_of(raw) != Some(self.job) || seal == Seal::Broken {
            self.stats.foreign += 1;
            return;
        }
        let Some((envelope, payload)) = Envelope::parse(raw) else {
            self.stats.malformed += 1;
            return;
        };
        let Some(at) = self.admit(from, port) else { return };
        self.stats.frames_received += 1;
        match (envelope.marks, self.peers[at].promises.reliable) {
            (None, true) => {
                self.absorb(at, envelope.kind, payload, port);
            }
            (Some(marks), false) => self.on_windowed(at, &marks, &envelope, payload, raw, port),
            _ => self.stats.malformed += 1,
        }
        self.settle(port);
    }

    /// A frame that is whole, ours, and in order.
    pub(crate) fn absorb(&mut self, at: At, kind: Kind, payload: &[u8], port: &mut impl Port) {
        self.peers[at].peer_talking = kind != Kind::Farewell;
        match kind {
            Kind::Ack => {}
            Kind::Eager { word, secured, synchronous } => {
                self.on_eager(at, word, secured, synchronous, payload, port);
            }
            Kind::Offer { word, secured, first, ticket, source } => {
                self.on_offer(at, word, secured, first, ticket, source, port);
            }
            Kind::Answer { queue, accepted, wanted, credit } => {
                self.on_answer(at, queue, accepted, wanted, credit, port);
            }
            Kind::Credit { queue, bytes } => self.on_credit(at, queue, bytes),
            Kind::Invite { queue } => self.on_invite(at, queue, port),
            Kind::Vacant { queue } => self.on_vacant(at, queue, port),
            Kind::Farewell => self.on_farewell(at, port),
            Kind::Matched { ticket } => self.on_matched(at, ticket, port),
            Kind::Grant { ticket, target, into } => self.on_grant(at, ticket, target, into, port),
            Kind::Chunk { ticket, offset } => self.on_chunk(at, ticket, offset, payload, port),
            Kind::Done { ticket } => self.on_done(at, ticket, port),
            Kind::Withdraw { ticket, word } => self.on_withdraw(at, ticket, word, port),
            Kind::Withdrawn { ticket } => self.on_withdrawn(at, ticket, port),
            Kind::Put { ticket, region, offset, last, notify } => {
                let into = Span::new(region, offset, payload.len() as u64);
                self.on_put(at, ticket, into, last, notify, payload, port);
            }
            Kind::Get { ticket, from } => self.on_get(at, ticket, from, port),
            Kind::Accumulate { ticket, region, offset, last, operator } => {
                let into = Span::new(region, offset, payload.len() as u64);
                self.on_accumulate(at, ticket, into, last, operator, payload, port);
            }
            Kind::Swap { ticket, region, offset, expected, value } => {
                let word = Span::new(region, offset, 8);
                self.on_swap(at, ticket, word, expected, value, port);
            }
            Kind::Found { ticket, value } => self.on_found(at, ticket, value, port),
            Kind::Denied { ticket } => self.on_denied(at, ticket, port),
        }
    }

    /// A frame of a rail that loses, repeats or reorders.
    fn on_windowed(
        &mut self,
        at: At,
        marks: &Marks,
        envelope: &Envelope,
        payload: &[u8],
        raw: &[u8],
        port: &mut impl Port,
    ) {
        let now = port.now();
        if self.window(at, now).is_new_epoch(marks) {
            self.early_bytes -= self.window(at, now).begin_epoch(marks.epoch);
            self.begin_anew(at);
        }
        self.on_marks(at, marks, now, port);
        if envelope.kind != Kind::Ack {
            let place = match self.window(at, now).place(marks) {
                Place::Repeat if V::BUG == Some(Bug::RepeatAccepted) => {
                    self.absorb(at, envelope.kind, payload, port);
                    Place::Repeat
                }
                place => place,
            };
            match place {
                Place::Next => self.absorb_in_order(at, envelope.kind, payload, port),
                Place::Early => self.keep_early(at, marks.sequence, raw, now),
                Place::Repeat | Place::Stray => self.stats.repeats += 1,
            }
            // A repeat is acknowledged once more: our first ack may be what was lost.
            let limits = &self.limits;
            let window = self.peers[at].window.as_mut();
            if window.is_some_and(|window| window.owes_ack(place != Place::Next, now, limits)) {
                self.send_ack(at, port);
            }
        }
        self.pump(at, port);
        self.tend(at);
    }

    fn absorb_in_order(&mut self, at: At, kind: Kind, payload: &[u8], port: &mut impl Port) {
        let now = port.now();
        // Counted before it is taken: a reply to it acks it too.
        let mut early = self.window(at, now).advance();
        self.absorb(at, kind, payload, port);
        while let Some(raw) = early {
            self.early_bytes -= raw.len();
            let (envelope, payload) = Envelope::parse(&raw).expect("it was parsed when it came");
            early = self.window(at, now).advance();
            self.absorb(at, envelope.kind, payload, port);
        }
    }

    /// A frame before its turn waits if there is room; if not, it comes again.
    fn keep_early(&mut self, at: At, sequence: u32, raw: &[u8], now: Time) {
        if self.early_bytes + raw.len() <= self.limits.early_bytes_max as usize {
            self.early_bytes += raw.len();
            self.window(at, now).keep_early(sequence, raw);
        }
    }

    /// The ack in a frame: what has arrived is settled, what seems lost goes again.
    fn on_marks(&mut self, at: At, marks: &Marks, now: Time, port: &mut impl Port) {
        let mut marks = *marks;
        if V::BUG == Some(Bug::AckForgets) && marks.also != 0 {
            marks.ack = marks.ack.wrapping_add(1);
        }
        let mut settled: Vec<Ticket> = Vec::new();
        let Some(window) = self.peers[at].window.as_mut() else { return };
        window.on_ack(&marks, now, &self.limits, |ticket| settled.push(ticket));
        for ticket in settled {
            self.on_sent(ticket, port);
        }
        self.retry(at, now, port);
    }

    fn retry(&mut self, at: At, now: Time, port: &mut impl Port) {
        let state = &mut self.peers[at];
        let Some(window) = state.window.as_mut() else { return };
        while let Some(flight) = window.next_retry(now, &self.limits) {
            let marks = Some(window.marks(flight.sequence));
            let envelope = Envelope { job: self.job, marks, kind: flight.kind };
            self.stats.retries += 1;
            self.stats.frames_sent += 1;
            if port.transmit(state.peer, &envelope, flight.payload) == Sent::Full {
                break;
            }
        }
    }

    fn send_ack(&mut self, at: At, port: &mut impl Port) {
        let state = &mut self.peers[at];
        let Some(window) = state.window.as_mut() else { return };
        let marks = Some(window.ack_marks());
        let envelope = Envelope { job: self.job, marks, kind: Kind::Ack };
        self.stats.frames_sent += 1;
        // If the rail is full the ack is lost, as it might be anyway: the peer will ask again.
        let _ = port.transmit(state.peer, &envelope, Span::EMPTY);
    }

    /// Time has come to the moment that [`Port::arm`] asked for.
    pub fn on_timer(&mut self, port: &mut impl Port) {
        let now = port.now();
        self.armed = None;
        while let Some(&(at, peer)) = self.deadlines.first() {
            if at > now {
                break;
            }
            self.deadlines.pop_first();
            let Some(at) = self.peers.find(peer) else { continue };
            let Some(window) = self.peers[at].window.as_mut() else { continue };
            window.listed = None;
            if window.is_hopeless(now, &self.limits) {
                self.lose(peer, port);
                continue;
            }
            if window.ack_is_due(now) {
                self.send_ack(at, port);
            }
            self.retry(at, now, port);
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

    /// Somebody who knows says that `peer` is gone. Everything open with it ends with a fault,
    /// and so does whatever is posted to it from now on.
    pub fn on_peer_down(&mut self, peer: Peer, port: &mut impl Port) {
        self.lose(peer, port);
        self.settle(port);
    }

    fn lose(&mut self, peer: Peer, port: &mut impl Port) {
        let at = match self.peers.find(peer) {
            Some(at) => at,
            None => self.peers.add(peer, port.promises(peer), port.now()),
        };
        let state = &mut self.peers[at];
        if core::mem::replace(&mut state.down, true) {
            return;
        }
        self.stats.downs += 1;
        state.backlog = None;
        if let Some(window) = state.window.take() {
            self.early_bytes -= window.early_bytes();
            if let Some(listed) = window.listed {
                self.deadlines.remove(&(listed, peer));
            }
        }
        self.close_lanes(at);
        self.drop_offers_of(peer);
        let orphans: Vec<Ticket> =
            self.ops.iter().filter(|(_, op)| op.peer == Some(peer)).map(|(t, _)| t).collect();
        for ticket in orphans {
            self.abandon(ticket, Fault::PeerDown(peer), port);
        }
        self.invite_everywhere(port);
    }

    /// Takes back all that was set aside for a peer.
    fn close_lanes(&mut self, at: At) {
        let peer = self.peers[at].peer;
        for lane in core::mem::take(&mut self.peers[at].lanes) {
            if let Some(pair) = self.queues.get_mut(usize::from(lane.queue)) {
                pair.store.unreserve(lane.reserved + lane.owed);
                pair.refused.retain(|&waiting| waiting != peer);
                pair.inviting = pair.inviting.filter(|&invited| invited != peer);
                pair.search.forget(peer);
            }
        }
        for pair in &mut self.queues {
            pair.store.disown(peer);
        }
    }

    /// The peer has given back the credit that it had, or has forgotten it: so do we.
    fn begin_anew(&mut self, at: At) {
        let peer = self.peers[at].peer;
        for lane in &mut self.peers[at].lanes {
            if let Some(pair) = self.queues.get_mut(usize::from(lane.queue)) {
                pair.store.unreserve(lane.reserved + lane.owed);
            }
            lane.reserved = 0;
            lane.owed = 0;
        }
        for pair in &mut self.queues {
            pair.store.disown(peer);
        }
    }

    /// The peer with whom something is to be exchanged: met before, or met now.
    pub(crate) fn contact(&mut self, peer: Peer, port: &mut impl Port) -> Result<At, Fault> {
        self.admit(peer, port).ok_or(Fault::PeerDown(peer))
    }

    #[inline]
    fn admit(&mut self, peer: Peer, port: &mut impl Port) -> Option<At> {
        let now = port.now();
        let Some(at) = self.peers.find(peer) else {
            self.forget_some(now, port);
            let promises = if peer == self.me { LOOPBACK } else { port.promises(peer) };
            return Some(self.peers.add(peer, promises, now));
        };
        let state = &mut self.peers[at];
        if state.down {
            return None;
        }
        state.active_at = now;
        Some(at)
    }

    /// Looks at a few peers that have rested: says farewell to them, or forgets them.
    fn forget_some(&mut self, now: Time, port: &mut impl Port) {
        for _ in 0..LOOKS_PER_CONTACT {
            let Some(at) = self.peers.next_if_rested(now, &self.limits) else { continue };
            if self.peers[at].is_forgettable() {
                self.close_lanes(at);
                self.peers.forget(at);
                self.stats.forgotten += 1;
            } else {
                self.peers[at].active_at = now;
                self.take_leave(at, port);
            }
        }
    }

    /// Gives all credit back, if we want nothing of the peer.
    fn take_leave(&mut self, at: At, port: &mut impl Port) {
        let state = &mut self.peers[at];
        if !state.talking || !state.is_at_rest() || state.peer == self.me {
            return;
        }
        for lane in &mut state.lanes {
            lane.credit = 0;
            lane.established = false;
        }
        self.send(at, Kind::Farewell, Span::EMPTY, None, port);
    }

    /// The peer wants nothing for now. If we do not either, it shall know.
    fn on_farewell(&mut self, at: At, port: &mut impl Port) {
        self.begin_anew(at);
        self.take_leave(at, port);
    }

    fn window(&mut self, at: At, now: Time) -> &mut Window {
        let epochs = &mut self.epochs;
        self.peers[at].window.get_or_insert_with(|| {
            *epochs += 1;
            Box::new(Window::new(*epochs, now))
        })
    }

    /// Sends a frame to a peer, now or as soon as its rail has room, replies before requests.
    pub(crate) fn send(
        &mut self,
        at: At,
        kind: Kind,
        payload: Span,
        ticket: Option<Ticket>,
        port: &mut impl Port,
    ) {
        // Whoever is dead needs no answer, and a window to it would only tick.
        if self.peers[at].down {
            return;
        }
        let outgoing = Outgoing { kind, payload, ticket };
        if self.peers[at].backlog.is_some() || !self.transmit(at, outgoing, port) {
            let backlog = self.peers[at].backlog();
            let line = if kind.is_reply() { &mut backlog.replies } else { &mut backlog.requests };
            line.push_back(outgoing);
            self.pump(at, port);
        }
        self.tend(at);
    }

    pub(crate) fn reply(&mut self, at: At, kind: Kind, port: &mut impl Port) {
        self.send(at, kind, Span::EMPTY, None, port);
    }

    /// Puts one frame on the rail; false if there is no room on it or in the window.
    #[inline]
    fn transmit(&mut self, at: At, outgoing: Outgoing, port: &mut impl Port) -> bool {
        let Outgoing { kind, payload, ticket } = outgoing;
        let state = &mut self.peers[at];
        if state.peer == self.me {
            let mut bytes = alloc::vec![0; usize::try_from(payload.len).expect("a frame")];
            port.load(payload, &mut bytes);
            self.loopback.push_back((kind, bytes.into()));
        } else if state.promises.reliable {
            let envelope = Envelope { job: self.job, marks: None, kind };
            if port.transmit(state.peer, &envelope, payload) == Sent::Full {
                return false;
            }
            state.talking = kind != Kind::Farewell;
            self.stats.frames_sent += 1;
        } else {
            return self.launch(at, outgoing, port);
        }
        if let Some(ticket) = ticket {
            self.on_sent(ticket, port);
        }
        true
    }

    /// Puts one frame on a rail that needs a window.
    fn launch(&mut self, at: At, outgoing: Outgoing, port: &mut impl Port) -> bool {
        let Outgoing { kind, payload, ticket } = outgoing;
        let now = port.now();
        self.window(at, now);
        let state = &mut self.peers[at];
        let window = state.window.as_mut().expect("just made");
        if !window.has_room(&self.limits) {
            return false;
        }
        if !state.talking && window.is_acked() {
            // The peer has our farewell and may have forgotten us since.
            self.epochs += 1;
            window.renew(self.epochs);
        }
        state.talking = kind != Kind::Farewell;
        let marks = Some(window.launch(kind, payload, ticket, now, &self.limits));
        self.stats.frames_sent += 1;
        // A full rail is a lost frame: it goes again.
        let _ = port.transmit(state.peer, &Envelope { job: self.job, marks, kind }, payload);
        true
    }

    /// Sends what waits for a peer, as far as there is room.
    pub(crate) fn pump(&mut self, at: At, port: &mut impl Port) {
        while let Some(backlog) = self.peers[at].backlog.as_mut() {
            let writers_turn = backlog.requests.is_empty() || !backlog.writer_had_turn;
            if let Some(&reply) = backlog.replies.front() {
                if !self.transmit(at, reply, port) {
                    return;
                }
                self.peers[at].backlog().replies.pop_front();
            } else if let Some(&writer) = backlog.writers.front()
                && writers_turn
            {
                let Some(more) = self.write_chunk(at, writer, port) else { return };
                let backlog = self.peers[at].backlog();
                backlog.writer_had_turn = true;
                backlog.writers.pop_front();
                if more {
                    backlog.writers.push_back(writer);
                }
            } else if let Some(&request) = backlog.requests.front() {
                if !self.transmit(at, request, port) {
                    return;
                }
                let backlog = self.peers[at].backlog();
                backlog.writer_had_turn = false;
                backlog.requests.pop_front();
            } else {
                self.peers[at].backlog = None;
            }
        }
    }

    /// Sends one frame of a writer; none if there was no room.
    fn write_chunk(&mut self, at: At, writer: Ticket, port: &mut impl Port) -> Option<bool> {
        let room = self.payload_bytes_max(at).into();
        // The operation may be over: its peer is what it was, but it has been abandoned.
        let Some(op) = self.ops.find_mut(writer) else { return Some(false) };
        let Some((outgoing, more)) = op.state.next_chunk(writer, room) else { return Some(false) };
        if self.transmit(at, outgoing, port) {
            return Some(more);
        }
        if let Some(op) = self.ops.find_mut(writer) {
            op.state.unsend(outgoing.payload.len);
        }
        None
    }

    /// The longest payload that a frame to this peer can have.
    pub(crate) fn payload_bytes_max(&self, at: At) -> u32 {
        self.peers[at].promises.frame_bytes_max - ENVELOPE_BYTES_MAX
    }

    /// Sees that the clock knows the window's next deadline.
    pub(crate) fn tend(&mut self, at: At) {
        let state = &mut self.peers[at];
        let Some(window) = state.window.as_mut() else { return };
        let deadline = window.deadline();
        if window.listed == deadline {
            return;
        }
        if let Some(listed) = window.listed {
            self.deadlines.remove(&(listed, state.peer));
        }
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, state.peer));
        }
        window.listed = deadline;
    }

    /// Does what the last event has made possible: frames to ourselves, steps of schedules.
    pub(crate) fn settle(&mut self, port: &mut impl Port) {
        loop {
            if let Some((kind, payload)) = self.loopback.pop_front() {
                let me = self.me;
                if let Some(at) = self.admit(me, port) {
                    self.absorb(at, kind, &payload, port);
                }
            } else if let Some(step) = self.ready.pop_front() {
                self.start_step(step, port);
            } else {
                break;
            }
        }
        let wanted = self.deadlines.first().map(|&(at, _)| at);
        if wanted != self.armed {
            self.armed = wanted;
            port.arm(wanted);
        }
    }

    /// The queue pair that serves a group.
    #[inline]
    pub(crate) fn queue_of(&mut self, group: u16) -> u16 {
        let queue = group % self.limits.queues;
        self.open_queue(queue);
        queue
    }

    #[inline]
    fn open_queue(&mut self, queue: u16) {
        while self.queues.len() <= usize::from(queue) {
            self.queues.reserve_exact(1);
            self.queues.push(QueuePair {
                matcher: V::Matcher::default(),
                store: Store::new(self.limits.unexpected_bytes_max),
                refused: VecDeque::new(),
                inviting: None,
                search: Search::default(),
            });
        }
    }

    /// Opens an operation.
    pub(crate) fn open(&mut self, owner: Owner, at: Option<At>, state: State) -> Ticket {
        let peer = at.map(|at| {
            self.peers[at].open += 1;
            self.peers[at].peer
        });
        self.ops.claim(Op { owner, peer, met: at.is_some(), counter: None, state })
    }

    /// Ends an operation, and tells its owner.
    pub(crate) fn complete(&mut self, ticket: Ticket, outcome: Outcome, port: &mut impl Port) {
        let Some(op) = self.close(ticket) else { return };
        if let Some(counter) = op.counter {
            self.raise_counter(counter, 1, port);
        }
        match op.owner {
            Owner::User => port.complete(ticket, outcome),
            Owner::Step(step) => self.end_step(step, outcome, port),
            Owner::Nobody => {}
        }
    }

    /// Ends an operation of which nobody needs to be told.
    pub(crate) fn close(&mut self, ticket: Ticket) -> Option<Op> {
        let op = self.ops.release(ticket)?;
        if op.met
            && let Some(at) = op.peer.and_then(|peer| self.peers.find(peer))
        {
            self.peers[at].open -= 1;
        }
        Some(op)
    }

    /// The operation `ticket`, if it is one with this peer: a peer cannot name another's.
    pub(crate) fn op_with(&mut self, at: At, ticket: Ticket) -> Option<&mut Op> {
        let peer = self.peers[at].peer;
        let op = self.ops.find_mut(ticket).filter(|op| op.peer == Some(peer));
        if op.is_none() {
            self.stats.malformed += 1;
        }
        op
    }

    /// Who this NIC is.
    pub fn me(&self) -> Peer {
        self.me
    }

    /// What it has seen.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Peers that it knows.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// What it holds right now.
    pub fn holdings(&self) -> Holdings {
        let depth = |queue| self.queues.iter().map(|pair| pair.matcher.len(queue)).sum();
        let backlogs = self.peers.iter().filter_map(|state| state.backlog.as_ref());
        Holdings {
            tickets: self.ops.live(),
            runs: self.runs.live(),
            posted: depth(Queue::Posted),
            unexpected: depth(Queue::Unexpected),
            timers: self.deadlines.len(),
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

    /// Whether what it holds for others stays within its limits. True, always; those who look for
    /// bugs may ask after every step.
    pub fn is_within_budget(&self) -> bool {
        self.early_bytes <= self.limits.early_bytes_max as usize
            && self.queues.iter().all(|pair| pair.store.is_within_budget())
    }

    /// Bytes of memory that this NIC takes, its own value included.
    pub fn footprint(&self) -> usize {
        let queues = self.queues.iter().map(|pair| {
            pair.matcher.heap_bytes()
                + pair.store.heap_bytes()
                + pair.refused.capacity() * size_of::<Peer>()
        });
        size_of::<Self>()
            + self.peers.heap_bytes()
            + self.queues.capacity() * size_of::<QueuePair<V::Matcher>>()
            + queues.sum::<usize>()
            + self.ops.heap_bytes()
            + self.runs.heap_bytes()
            + self.runs.iter().map(|(_, run)| run.heap_bytes()).sum::<usize>()
            + self.counters.heap_bytes()
            + self.ready.capacity() * size_of::<StepRef>()
            + self.loopback.capacity() * size_of::<(Kind, Box<[u8]>)>()
            + self.deadlines.len() * 2 * size_of::<(Time, Peer)>()
    }
}

const ENVELOPE_BYTES_MAX: u32 = 72;

const _: () = assert!(ENVELOPE_BYTES_MAX as usize == Envelope::BYTES_MAX);

/// How many old peers each new contact looks at. Two: the table shrinks faster than it grows.
const LOOKS_PER_CONTACT: usize = 2;

/// What the rail to ourselves promises.
const LOOPBACK: Promises =
    Promises { reliable: true, puts: false, gets: true, frame_bytes_max: u32::MAX };
