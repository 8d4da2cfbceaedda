//! The world: virtual time, a heap of events, and ranks that are values.
//!
//! One thread, one seed, and virtual time only: the same seed gives the same history, event by event. The world moves
//! frames and bytes and calls the NIC; it never matches, orders or retries anything. The program of a rank is an
//! [`Application`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::rc::Rc;
use std::sync::Arc;

use ferrywire_nic::{
    Awaited, Envelope, Key, Kind, Limits, Mask, MatchWord, Nic, Outcome, Peer, Posted, RailId,
    Schedule, Seal, Span, StepRef, Ticket, Time, Variant,
};

use crate::fabric::{Fabric, FrameFate, Rule};
use crate::memory::Memory;
use crate::port::{Action, SimPort};
use crate::random::Random;
use crate::trace;

/// The program of a rank: posts operations and is told when they end.
pub trait Application<V: Variant> {
    /// Called at the start, and when a timer of [`Context::wake_in`] expires.
    fn on_wake(&mut self, context: &mut Context<'_, V>);

    /// An operation has ended.
    fn on_complete(&mut self, ticket: Ticket, outcome: Outcome, context: &mut Context<'_, V>);

    /// A peer is dead, and all ranks have been told.
    fn on_peer_down(&mut self, peer: Peer, context: &mut Context<'_, V>);

    /// The receive of [`Context::receive_or_await`], or the schedule of [`Context::await_schedule`], is over, or has been
    /// posted.
    fn on_awaited(&mut self, _posted: Posted, _context: &mut Context<'_, V>) {
        unreachable!("this application awaits nothing");
    }
}

/// What an application can access while it runs.
pub struct Context<'a, V: Variant> {
    /// Its NIC.
    pub nic: &'a mut Nic<V>,
    /// The port of the NIC, with the rank's memory.
    pub port: &'a mut SimPort,
    wake_in: Option<u64>,
    awaits: bool,
}

impl<V: Variant> Context<'_, V> {
    /// Asks for [`Application::on_wake`] after `ns`.
    pub fn wake_in(&mut self, ns: u64) {
        self.wake_in = Some(ns);
    }

    /// Runs a schedule, of which receives may be awaited. If one is, the application does nothing else until
    /// [`Application::on_awaited`].
    pub fn await_schedule(&mut self, schedule: &Arc<Schedule>, instance: u16) -> Awaited {
        let awaited = self.nic.await_schedule(schedule, instance, self.port);
        self.awaits = awaited == Awaited::Open;
        awaited
    }

    /// Receives a message if it is here, or awaits it, if the NIC allows it. While the receive is open, the application
    /// does nothing else until [`Application::on_awaited`].
    pub fn receive_or_await(
        &mut self,
        from: Option<Peer>,
        word: MatchWord,
        mask: Mask,
        into: Span,
    ) -> Option<Awaited> {
        let awaited = self.nic.receive_or_await(from, word, mask, into, self.port);
        self.awaits = awaited == Some(Awaited::Open);
        awaited
    }
}

/// A function that is called with each event of a world, as text.
pub type Trace = Box<dyn FnMut(&str)>;

/// A world of ranks that run `A` on NICs of variant `V`.
pub struct World<V: Variant, A> {
    fabric: Rc<Fabric>,
    /// Faults on frames.
    pub rules: Vec<Rule>,
    /// Time from a death until all ranks know of it.
    pub detection_ns: u64,
    /// How much later some ranks may learn of it than others.
    pub detection_spread_ns: u64,
    /// Percentage of puts and gets after which the peer's memory is unreachable.
    pub refused_percent: u64,
    /// Pairs of a rank and a peer whose memory it can no longer reach.
    unreachable: BTreeSet<(Peer, Peer)>,
    /// Ranks that have fallen silent, of which no rank is told.
    silent: BTreeSet<Peer>,
    /// Since when a rank has been waiting for a sign of life from a silent one.
    waits: BTreeMap<(Peer, Peer), Time>,
    /// How long it may.
    silence_ns_max: u64,
    /// Ranks given up too early or too late.
    pub(crate) complaints: Vec<String>,
    /// Called with each event as it happens, so a panic loses nothing.
    pub trace: Option<Trace>,
    ranks: Vec<Rank<V, A>>,
    random: Random,
    now: Time,
    events: BinaryHeap<Reverse<Entry>>,
    order: u64,
    handled: u64,
}

/// One rank.
struct Rank<V: Variant, A> {
    nic: Nic<V>,
    application: A,
    port: SimPort,
    life: Life,
    /// When its processor and its egress are free again.
    busy_until: u64,
    egress_until: u64,
    /// Whether a turn of its NIC is scheduled to continue pending work.
    turning: bool,
    /// Whether its application awaits a receive.
    awaits: bool,
    /// Events that arrived while it was stopped.
    deferred: Vec<Event>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Life {
    Alive,
    Stopped,
    Dead,
}

struct Entry {
    at: Time,
    order: u64,
    event: Event,
}

enum Event {
    Frame {
        from: Peer,
        to: Peer,
        bytes: Box<[u8]>,
    },
    /// A forged frame.
    Forged {
        from: Peer,
        to: Peer,
        via: RailId,
        bytes: Box<[u8]>,
    },
    Wake {
        rank: Peer,
    },
    Timer {
        rank: Peer,
        at: Time,
    },
    Room {
        rank: Peer,
        peer: Peer,
    },
    /// Bytes of a put arrive.
    Landed {
        from: Peer,
        to: Peer,
        bytes: Box<[u8]>,
        into: Span,
        notify: Ticket,
    },
    Written {
        rank: Peer,
        ticket: Ticket,
    },
    /// A get reaches the memory that it reads.
    Fetch {
        by: Peer,
        source: Peer,
        from: Span,
        key: Key,
        into: Span,
        ticket: Ticket,
    },
    /// A put or get finds that the memory is no longer reachable.
    Refused {
        rank: Peer,
        ticket: Ticket,
        put: bool,
    },
    Fetched {
        by: Peer,
        bytes: Box<[u8]>,
        into: Span,
        ticket: Ticket,
    },
    Reduced {
        rank: Peer,
        step: StepRef,
    },
    /// A NIC continues pending work.
    Turn {
        rank: Peer,
    },
    /// A rank has looked for its awaited receive for long enough.
    StopLooking {
        rank: Peer,
    },
    Kill {
        rank: Peer,
    },
    /// A rank falls silent: it is dead, and no rank is told.
    Vanish {
        rank: Peer,
    },
    /// The launcher misses a rank that has fallen silent.
    Missed {
        rank: Peer,
    },
    Stop {
        rank: Peer,
    },
    Resume {
        rank: Peer,
    },
    Down {
        rank: Peer,
        peer: Peer,
    },
}

impl<V: Variant, A: Application<V>> World<V, A> {
    /// A world of ranks, one for each application, all with the same limits.
    pub fn new(
        seed: u64,
        fabric: Fabric,
        limits: &Limits,
        applications: impl IntoIterator<Item = A>,
    ) -> World<V, A> {
        let fabric = Rc::new(fabric);
        let ranks = (0..)
            .zip(applications)
            .map(|(me, application)| Rank {
                nic: Nic::new(Peer(me), JOB, limits.clone()),
                application,
                port: SimPort::new(Peer(me), Rc::clone(&fabric)),
                life: Life::Alive,
                busy_until: 0,
                egress_until: 0,
                turning: false,
                awaits: false,
                deferred: Vec::new(),
            })
            .collect();
        World {
            fabric,
            rules: Vec::new(),
            detection_ns: 1_000_000,
            detection_spread_ns: 0,
            refused_percent: 0,
            unreachable: BTreeSet::new(),
            silent: BTreeSet::new(),
            waits: BTreeMap::new(),
            silence_ns_max: limits.silence_ns_max + limits.ask_ns + PAUSED_NS_MAX,
            complaints: Vec::new(),
            trace: None,
            ranks,
            random: Random::new(seed).split(1),
            now: Time(0),
            events: BinaryHeap::new(),
            order: 0,
            handled: 0,
        }
    }

    /// Wakes every application now.
    pub fn begin(&mut self) {
        for rank in 0..self.size() {
            self.push(self.now, Event::Wake { rank: Peer(rank) });
        }
    }

    /// Kills a rank at a future moment.
    pub fn kill_at(&mut self, ns: u64, rank: Peer) {
        self.push(Time(ns), Event::Kill { rank });
    }

    /// Makes a rank fall silent at a future moment: it is dead, and frames and reads end nowhere. Ranks learn of it when
    /// one of them has given it up, or much later.
    pub fn vanish_at(&mut self, ns: u64, rank: Peer) {
        self.push(Time(ns), Event::Vanish { rank });
        self.push(Time(ns + 2 * self.silence_ns_max), Event::Missed { rank });
    }

    /// Delivers a forged frame to `to` on the rail `via`, as if it came from `from`.
    pub fn forge_at(&mut self, ns: u64, from: Peer, to: Peer, via: RailId, kind: Kind) {
        let mut head = [0; Envelope::BYTES_MAX];
        let len = Envelope { job: JOB, marks: None, kind }.emit(&mut head);
        let bytes = head[..len].into();
        self.push(Time(ns), Event::Forged { from, to, via, bytes });
    }

    /// Stops a rank between two future moments.
    pub fn stop_between(&mut self, from_ns: u64, until_ns: u64, rank: Peer) {
        self.push(Time(from_ns), Event::Stop { rank });
        self.push(Time(until_ns), Event::Resume { rank });
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        u32::try_from(self.ranks.len()).expect("ranks are counted in 32 bits")
    }

    /// The virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Number of events so far.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Whether a rank has been killed.
    pub fn is_dead(&self, rank: Peer) -> bool {
        self.rank(rank).life == Life::Dead
    }

    /// The NIC of a rank.
    pub fn nic(&self, rank: Peer) -> &Nic<V> {
        &self.rank(rank).nic
    }

    /// The application of a rank.
    pub fn application(&self, rank: Peer) -> &A {
        &self.rank(rank).application
    }

    /// The memory of a rank.
    pub fn memory(&self, rank: Peer) -> &Memory {
        &self.rank(rank).port.memory
    }

    /// Spans of memory that the NIC of a rank has claimed for itself.
    pub fn claimed(&self, rank: Peer) -> u32 {
        self.rank(rank).port.claimed
    }

    /// Credit of a rank at a peer before first contact, in each queue pair.
    pub fn initial_credit_bytes(&self, from: Peer, to: Peer) -> u32 {
        self.fabric.link(from, to).promises.initial_credit_bytes
    }

    /// Number of spans that peers may read at a rank.
    pub fn exposed(&self, rank: Peer) -> usize {
        self.rank(rank).port.exposed.len()
    }

    /// Performs the next event and returns the rank that it happened to. None if there are no more events.
    pub fn step(&mut self) -> Option<Peer> {
        let Reverse(entry) = self.events.pop()?;
        self.now = entry.at;
        self.handled += 1;
        let rank = entry.event.rank();
        self.happen(rank, entry.event);
        Some(rank)
    }

    /// Performs events until there are none.
    pub fn run_until_quiet(&mut self) {
        while self.step().is_some() {}
    }

    /// Runs `what` on `rank` now.
    pub fn act<T>(&mut self, rank: Peer, what: impl FnOnce(&mut A, &mut Context<'_, V>) -> T) -> T {
        self.stop_looking(rank);
        let result = self.on_rank(rank, |state, context| what(state, context));
        self.after(rank);
        result
    }

    fn happen(&mut self, rank: Peer, event: Event) {
        match event {
            Event::Resume { .. } => return self.resume(rank),
            Event::Kill { .. } => return self.kill(rank),
            Event::Vanish { .. } => return self.vanish(rank),
            Event::Missed { .. } => return self.announce(rank),
            _ => {}
        }
        match self.rank(rank).life {
            Life::Dead => return self.mark_down(&event),
            Life::Stopped => return self.rank_mut(rank).deferred.push(event),
            Life::Alive => {}
        }
        // Whoever awaits a receive passes frames to its NIC and calls nothing else.
        if !matches!(event, Event::Frame { .. } | Event::Forged { .. }) {
            self.stop_looking(rank);
        }
        match event {
            Event::Frame { from, to, bytes } => {
                if self.fabric.link(from, to).promises.reliable {
                    self.leave_ring(from, to);
                }
                // Sent before its sender fell silent, it may settle what the rank waits for.
                self.waits.remove(&(to, from));
                self.note_frame("takes", from, to, &bytes);
                let link = self.fabric.link(from, to);
                let (via, busy) = (link.promises.rail, link.busy_ns(bytes.len() as u64));
                let now = self.now.0;
                let receiver = self.rank_mut(to);
                receiver.busy_until = receiver.busy_until.max(now) + busy;
                self.on_rank(to, |_, context| {
                    context.nic.on_frame(from, via, Seal::Intact, &bytes, context.port);
                });
            }
            Event::Forged { from, to, via, bytes } => {
                self.note_frame("takes, forged,", from, to, &bytes);
                self.on_rank(to, |_, context| {
                    context.nic.on_frame(from, via, Seal::Intact, &bytes, context.port);
                });
            }
            Event::Wake { rank } => self.on_rank(rank, |application, context| {
                application.on_wake(context);
            }),
            Event::Timer { rank, at } => {
                // A timer that has been rearmed since does not fire.
                if self.rank(rank).port.armed == Some(at) {
                    let port = &mut self.rank_mut(rank).port;
                    port.armed = None;
                    port.listed = None;
                    self.on_rank(rank, |_, context| context.nic.on_timer(context.port));
                }
            }
            Event::Room { rank, peer } => {
                self.on_rank(rank, |_, context| context.nic.on_room(peer, context.port));
            }
            Event::Landed { from, to, bytes, into, notify } => {
                self.on_rank(to, |_, context| {
                    context.port.memory.bytes_mut(into).copy_from_slice(&bytes);
                    context.nic.on_landed(from, notify, into.len, context.port);
                });
            }
            Event::Written { rank, ticket } => {
                self.on_rank(rank, |_, context| context.nic.on_written(ticket, context.port));
            }
            Event::Refused { rank, ticket, put } => {
                self.on_rank(rank, |_, context| match put {
                    true => context.nic.on_put_refused(ticket, context.port),
                    false => context.nic.on_get_refused(ticket, context.port),
                });
            }
            Event::Fetch { by, source, from, key, into, ticket } => {
                let Rank { nic, port, .. } = self.rank(source);
                if port.exposed.get(&key.0).is_none_or(|span| from != span.first(from.len)) {
                    // A peer that is given up reads nothing more. All others read only what is exposed.
                    assert!(nic.is_down(by), "{by:?} reads what {source:?} has not exposed to it");
                    return;
                }
                let bytes: Box<[u8]> = self.memory(source).bytes(from).into();
                let link = *self.fabric.link(source, by);
                let at = self.now.after(link.latency_ns + link.busy_ns(from.len));
                self.push(at, Event::Fetched { by, bytes, into, ticket });
            }
            Event::Fetched { by, bytes, into, ticket } => {
                self.on_rank(by, |_, context| {
                    context.port.memory.bytes_mut(into).copy_from_slice(&bytes);
                    context.nic.on_read(ticket, context.port);
                });
            }
            Event::Reduced { rank, step } => {
                self.on_rank(rank, |_, context| context.nic.on_reduced(step, context.port));
            }
            Event::Turn { rank } => {
                self.rank_mut(rank).turning = false;
                self.on_rank(rank, |_, context| context.nic.on_turn(context.port));
            }
            // It has stopped above.
            Event::StopLooking { .. } => {}
            Event::Stop { rank } => {
                self.note(|| format!("rank {} stops", rank.0));
                self.rank_mut(rank).life = Life::Stopped;
                return;
            }
            Event::Down { rank, peer } => {
                self.check_wait(rank, peer);
                self.on_rank(rank, |application, context| {
                    context.nic.on_peer_down(peer, context.port);
                    application.on_peer_down(peer, context);
                });
            }
            Event::Resume { .. }
            | Event::Kill { .. }
            | Event::Vanish { .. }
            | Event::Missed { .. } => unreachable!("handled above"),
        }
        self.after(rank);
    }

    fn kill(&mut self, rank: Peer) {
        self.note(|| format!("rank {} dies", rank.0));
        self.rank_mut(rank).life = Life::Dead;
        self.tell_all(rank);
    }

    fn vanish(&mut self, rank: Peer) {
        self.note(|| format!("rank {} falls silent", rank.0));
        if !self.is_dead(rank) {
            self.rank_mut(rank).life = Life::Dead;
            self.silent.insert(rank);
        }
    }

    /// Tells all ranks of a silent one, once.
    fn announce(&mut self, rank: Peer) {
        if self.silent.remove(&rank) {
            self.tell_all(rank);
        }
    }

    /// Checks what the NIC of a rank has made of silence: only the dead are given up.
    fn check_given_up(&mut self, rank: Peer) {
        let now = self.now;
        for peer in std::mem::take(&mut self.rank_mut(rank).port.spoken_to) {
            // It may have spoken before it was told.
            if self.silent.contains(&peer) && !self.rank(rank).nic.is_down(peer) {
                self.waits.entry((rank, peer)).or_insert(now);
            }
        }
        for peer in std::mem::take(&mut self.rank_mut(rank).port.given_up) {
            self.note(|| format!("rank {} gives up {}", rank.0, peer.0));
            self.check_wait(rank, peer);
            if self.is_dead(peer) {
                self.announce(peer);
            } else {
                self.complaints.push(format!("rank {} gave up {}, which lives", rank.0, peer.0));
            }
        }
    }

    /// Checks that a rank has not waited too long for a silent one, which it has now given up or is told of.
    fn check_wait(&mut self, rank: Peer, peer: Peer) {
        if let Some(since) = self.waits.remove(&(rank, peer)) {
            let waited = self.now.since(since);
            if waited > self.silence_ns_max {
                let (rank, peer) = (rank.0, peer.0);
                self.complaints.push(format!("rank {rank} waited {waited} ns for {peer}"));
            }
        }
    }

    fn tell_all(&mut self, rank: Peer) {
        let at = self.now.after(self.detection_ns);
        for other in (0..self.size()).map(Peer).filter(|&other| other != rank) {
            let later = match self.detection_spread_ns {
                0 => 0,
                spread => self.random.below(spread),
            };
            self.push(at.after(later), Event::Down { rank: other, peer: rank });
        }
    }

    fn resume(&mut self, rank: Peer) {
        if self.rank(rank).life == Life::Stopped {
            self.note(|| format!("rank {} goes on", rank.0));
            self.rank_mut(rank).life = Life::Alive;
            for event in std::mem::take(&mut self.rank_mut(rank).deferred) {
                self.happen(rank, event);
            }
        }
    }

    /// Runs `what` on a rank as soon as its processor is free.
    fn on_rank<T>(&mut self, rank: Peer, what: impl FnOnce(&mut A, &mut Context<'_, V>) -> T) -> T {
        let costs = self.fabric.costs;
        let now = self.now;
        let state = self.rank_mut(rank);
        let start = now.0.max(state.busy_until) + costs.event_ns;
        state.port.now = Time(start);
        state.port.copied = 0;
        let Rank { nic, port, application, .. } = state;
        let mut context = Context { nic, port, wake_in: None, awaits: false };
        let result = what(application, &mut context);
        let Context { wake_in, awaits, .. } = context;
        state.busy_until = start + state.port.copied * costs.byte_ps / 1000;
        if let Some(ns) = wake_in {
            let at = Time(self.rank(rank).busy_until).after(ns);
            self.push(at, Event::Wake { rank });
        }
        if awaits {
            self.rank_mut(rank).awaits = true;
            let at = Time(self.rank(rank).busy_until).after(self.random.between(100, LOOKS_NS_MAX));
            self.push(at, Event::StopLooking { rank });
        }
        result
    }

    /// Tells the application what has become of its awaited receive, unless that is still open.
    fn look_at_awaited(&mut self, rank: Peer) {
        if !self.rank(rank).awaits {
            return;
        }
        let posted = match self.rank_mut(rank).nic.awaited() {
            Awaited::Open => return,
            Awaited::Over(outcome) => Posted::Done(outcome),
            Awaited::Posted(ticket) => Posted::Pending(ticket),
        };
        self.rank_mut(rank).awaits = false;
        self.note(|| format!("rank {} awaited: {posted:?}", rank.0));
        self.on_rank(rank, |application, context| application.on_awaited(posted, context));
    }

    /// Posts the awaited receive of a rank, if there is one, and what the application awaits next.
    fn stop_looking(&mut self, rank: Peer) {
        while self.rank(rank).awaits {
            self.on_rank(rank, |_, context| context.nic.post_awaited(context.port));
            self.look_at_awaited(rank);
        }
    }

    /// Carries out what a rank's NIC has asked for, and tells its application what has completed.
    fn after(&mut self, rank: Peer) {
        self.check_given_up(rank);
        self.look_at_awaited(rank);
        loop {
            let actions = std::mem::take(&mut self.rank_mut(rank).port.actions);
            for action in actions {
                self.carry_out(rank, action);
            }
            let completions = std::mem::take(&mut self.rank_mut(rank).port.completions);
            if completions.is_empty() {
                break;
            }
            for (ticket, outcome) in completions {
                // The application may post operations.
                self.stop_looking(rank);
                self.note(|| format!("rank {} {ticket} {}", rank.0, trace::outcome(outcome)));
                self.on_rank(rank, |application, context| {
                    application.on_complete(ticket, outcome, context);
                });
            }
        }
        self.list_timer(rank);
        if self.rank(rank).nic.is_busy() && !self.rank(rank).turning {
            self.rank_mut(rank).turning = true;
            self.push(Time(self.rank(rank).busy_until.max(self.now.0)), Event::Turn { rank });
        }
    }

    /// Schedules the rank's timer, unless it is scheduled already.
    fn list_timer(&mut self, rank: Peer) {
        let port = &mut self.rank_mut(rank).port;
        if port.armed != port.listed {
            port.listed = port.armed;
            if let Some(at) = port.armed {
                self.push(at.max(self.now), Event::Timer { rank, at });
            }
        }
    }

    fn carry_out(&mut self, rank: Peer, action: Action) {
        match action {
            Action::Frame { to, bytes } => self.send_frame(rank, to, bytes),
            Action::Put { to, bytes, into, ticket, notify } => {
                let at = self.arrival(rank, to, bytes.len() as u64);
                if self.is_refused(rank, to) {
                    return self.push(at, Event::Refused { rank, ticket, put: true });
                }
                self.push(at, Event::Written { rank, ticket });
                self.push(at, Event::Landed { from: rank, to, bytes, into, notify });
            }
            Action::Get { source, from, key, into, ticket } => {
                let at = self.arrival(rank, source, 0);
                if self.is_refused(rank, source) {
                    return self.push(at, Event::Refused { rank, ticket, put: false });
                }
                self.push(at, Event::Fetch { by: rank, source, from, key, into, ticket });
            }
            Action::Reduce { step } => {
                let at = self.now.after(self.random.between(1, 5_000));
                self.push(at, Event::Reduced { rank, step });
            }
        }
    }

    /// Whether `rank` cannot reach the memory of `peer`; once true, it stays true.
    fn is_refused(&mut self, rank: Peer, peer: Peer) -> bool {
        if self.refused_percent > 0 && self.random.percent(self.refused_percent) {
            self.unreachable.insert((rank, peer));
        }
        self.unreachable.contains(&(rank, peer))
    }

    fn send_frame(&mut self, from: Peer, to: Peer, bytes: Box<[u8]>) {
        self.note_frame("sends", from, to, &bytes);
        let at = self.arrival(from, to, bytes.len() as u64);
        if self.fabric.link(from, to).promises.reliable {
            return self.push(at, Event::Frame { from, to, bytes });
        }
        let mut late = 0;
        for rule in 0..self.rules.len() {
            match self.rules[rule].judge(from, to, self.now.0, &mut self.random) {
                FrameFate::Pass => {}
                FrameFate::Lose => return self.note_frame("loses", from, to, &bytes),
                FrameFate::Repeat(after) => {
                    let again = at.after(after);
                    self.push(again, Event::Frame { from, to, bytes: bytes.clone() });
                }
                FrameFate::Delay(by) => late += by,
            }
        }
        self.push(at.after(late), Event::Frame { from, to, bytes });
    }

    /// Arrival time of bytes that leave now. They queue at the sender's egress, unless they are for the sender, and at
    /// the receiver's processor.
    fn arrival(&mut self, from: Peer, to: Peer, bytes: u64) -> Time {
        let link = *self.fabric.link(from, to);
        let costs = self.fabric.costs;
        let sender = self.rank_mut(from);
        sender.busy_until += costs.frame_ns;
        if from == to {
            return Time(sender.busy_until);
        }
        let leaves = sender.busy_until.max(sender.egress_until) + link.busy_ns(bytes);
        sender.egress_until = leaves;
        Time(leaves + link.latency_ns)
    }

    /// Takes a frame out of its ring, which may have been full.
    fn leave_ring(&mut self, from: Peer, to: Peer) {
        let port = &mut self.rank_mut(from).port;
        let Some(frames) = port.rings.get_mut(&to) else { return };
        *frames -= 1;
        if port.full.remove(&to) {
            // The sender may look only later, and send something before it does.
            let at = self.now.after(self.random.below(ROOM_NS_MAX));
            self.push(at, Event::Room { rank: from, peer: to });
        }
    }

    /// Frees the place in the ring of a frame that reaches a dead rank, unless its whole host is gone.
    fn mark_down(&mut self, event: &Event) {
        if let Event::Frame { from, to, .. } = event
            && !self.silent.contains(to)
            && self.fabric.link(*from, *to).promises.reliable
        {
            self.leave_ring(*from, *to);
        }
    }

    fn push(&mut self, at: Time, event: Event) {
        self.order += 1;
        self.events.push(Reverse(Entry { at, order: self.order, event }));
    }

    fn rank(&self, rank: Peer) -> &Rank<V, A> {
        &self.ranks[rank.0 as usize]
    }

    fn rank_mut(&mut self, rank: Peer) -> &mut Rank<V, A> {
        &mut self.ranks[rank.0 as usize]
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace(&format!("{:>14.3} us  {}", self.now.0 as f64 / 1000.0, line()));
        }
    }

    fn note_frame(&mut self, verb: &str, from: Peer, to: Peer, bytes: &[u8]) {
        self.note(|| {
            let (who, other, way) = match verb {
                "takes" | "takes, forged," => (to.0, from.0, "from"),
                _ => (from.0, to.0, "to"),
            };
            let what = Envelope::parse(bytes).map(|(e, payload)| trace::frame(&e, payload.len()));
            format!("rank {who} {verb} {way} {other}: {}", what.unwrap_or_default())
        });
    }
}

impl Event {
    /// The rank that the event happens to.
    fn rank(&self) -> Peer {
        match *self {
            Event::Frame { to, .. } | Event::Forged { to, .. } | Event::Landed { to, .. } => to,
            Event::Fetch { source, .. } => source,
            Event::Fetched { by, .. } => by,
            Event::Wake { rank }
            | Event::Timer { rank, .. }
            | Event::Room { rank, .. }
            | Event::Written { rank, .. }
            | Event::Refused { rank, .. }
            | Event::Reduced { rank, .. }
            | Event::Turn { rank }
            | Event::StopLooking { rank }
            | Event::Kill { rank }
            | Event::Vanish { rank }
            | Event::Missed { rank }
            | Event::Stop { rank }
            | Event::Resume { rank }
            | Event::Down { rank, .. } => rank,
        }
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// For how long a rank may be stopped, or a network disturbed, while its peers wait for a silent one.
const PAUSED_NS_MAX: u64 = 1_000_000_000;

/// How late a sender may see that there is room again.
const ROOM_NS_MAX: u64 = 5_000;

/// How long a rank looks for an awaited receive.
const LOOKS_NS_MAX: u64 = 100_000;

/// The job of all simulated ranks.
const JOB: u32 = 0x6665_7272;
