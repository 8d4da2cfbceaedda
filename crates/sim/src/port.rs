//! The port of a simulated NIC.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use ferrywire_mpi::collective::ReduceOp;
use ferrywire_mpi::operation;
use ferrywire_nic::{
    Envelope, Key, Kind, Operator, Outcome, Peer, Port, Progress, Promises, Region, Sent, Span,
    StepRef, Ticket, Time,
};

use crate::fabric::Fabric;
use crate::memory::Memory;
use crate::windows::lock::WindowLock;

/// The port of a simulated NIC: records what the NIC asks for; the world carries it out when the NIC returns.
#[derive(Debug)]
pub struct SimPort {
    me: Peer,
    /// The memory of this rank's application.
    pub memory: Memory,
    fabric: Rc<Fabric>,
    pub(crate) now: Time,
    pub(crate) armed: Option<Time>,
    pub(crate) listed: Option<Time>,
    /// Frames on reliable rails that have not been received, by target.
    pub(crate) rings: HashMap<Peer, u32>,
    pub(crate) full: BTreeSet<Peer>,
    /// Peers that were sent something, or that the rail had no room for, since the world last looked.
    pub(crate) spoken_to: Vec<Peer>,
    /// Peers that the NIC has given up since.
    pub(crate) given_up: Vec<Peer>,
    pub(crate) actions: Vec<Action>,
    pub(crate) completions: Vec<(Ticket, Outcome)>,
    pub(crate) copied: u64,
    /// Regions that are locks of windows.
    pub(crate) locks: BTreeMap<Region, WindowLock>,
    /// Spans that the NIC has claimed and not released.
    pub(crate) claimed: u32,
    /// Spans that peers may read, by the bits of their tickets.
    pub(crate) exposed: HashMap<u64, Span>,
}

#[derive(Debug)]
pub(crate) enum Action {
    Frame { to: Peer, bytes: Box<[u8]> },
    Put { to: Peer, bytes: Box<[u8]>, into: Span, ticket: Ticket, notify: Ticket },
    Get { source: Peer, from: Span, key: Key, into: Span, ticket: Ticket },
    Reduce { step: StepRef },
}

impl SimPort {
    pub(crate) fn new(me: Peer, fabric: Rc<Fabric>) -> SimPort {
        SimPort {
            me,
            memory: Memory::default(),
            fabric,
            now: Time(0),
            armed: None,
            listed: None,
            rings: HashMap::new(),
            full: BTreeSet::new(),
            spoken_to: Vec::new(),
            given_up: Vec::new(),
            actions: Vec::new(),
            completions: Vec::new(),
            copied: 0,
            locks: BTreeMap::new(),
            claimed: 0,
            exposed: HashMap::new(),
        }
    }
}

/// An operator of the simulation: adds numbers of eight bytes.
pub const SUM: Operator = Operator(0);
/// Like [`SUM`], but its result comes later, as if a user-defined operator ran on another thread.
pub const SUM_LATER: Operator = Operator(1);
/// A non-commutative operator: composes functions of the form ax + b, with a and b in four bytes each; the source is
/// applied last.
pub const COMPOSE: Operator = Operator(2);
/// Like [`COMPOSE`], but its result comes later. All other operators are those of `mpi`.
pub const COMPOSE_LATER: Operator = Operator(3);

impl Port for SimPort {
    fn now(&self) -> Time {
        self.now
    }

    fn promises(&self, peer: Peer) -> Promises {
        self.fabric.link(self.me, peer).promises
    }

    fn attends(&self, peer: Peer) -> bool {
        // Varies with time; the NIC must work with either answer.
        (self.now.0 >> 7 ^ u64::from(peer.0)) & 1 == 0
    }

    fn transmit(&mut self, to: Peer, envelope: &Envelope, payload: Span) -> Sent {
        if !matches!(envelope.kind, Kind::Ack | Kind::Farewell) {
            self.spoken_to.push(to);
        }
        if let Some(most) = self.fabric.ring_frames_max
            && self.promises(to).reliable
        {
            let frames = self.rings.entry(to).or_default();
            if *frames >= most {
                self.full.insert(to);
                return Sent::Full;
            }
            *frames += 1;
        }
        let mut head = [0; Envelope::BYTES_MAX];
        let len = envelope.emit(&mut head);
        let payload = self.memory.bytes(payload);
        assert!(
            len + payload.len() <= self.promises(to).burst_bytes_max() as usize,
            "a frame must fit its rail"
        );
        let bytes = [&head[..len], payload].concat().into();
        self.actions.push(Action::Frame { to, bytes });
        Sent::Away
    }

    fn deliver(&mut self, bytes: &[u8], into: Span) {
        self.copied += into.len;
        self.memory.bytes_mut(into).copy_from_slice(bytes);
    }

    fn load(&mut self, from: Span, into: &mut [u8]) {
        self.copied += from.len;
        into.copy_from_slice(self.memory.bytes(from));
    }

    fn copy(&mut self, from: Span, into: Span) {
        self.copied += from.len;
        let bytes = self.memory.bytes(from).to_vec();
        self.memory.bytes_mut(into).copy_from_slice(&bytes);
    }

    fn reduce(&mut self, step: StepRef, operator: Operator, from: Span, into: Span) -> Progress {
        let bytes = self.memory.bytes(from).to_vec();
        self.accumulate(operator, &bytes, into);
        if matches!(operator, SUM_LATER | COMPOSE_LATER) {
            self.actions.push(Action::Reduce { step });
            return Progress::Later;
        }
        Progress::Done
    }

    fn accumulate(&mut self, operator: Operator, bytes: &[u8], into: Span) {
        self.copied += into.len;
        match operator {
            SUM | SUM_LATER => self.memory.add(bytes, into),
            COMPOSE | COMPOSE_LATER => compose(bytes, self.memory.bytes_mut(into)),
            _ => operation::combine(operator, bytes, self.memory.bytes_mut(into)),
        }
    }

    fn fetch(&mut self, operator: Operator, bytes: &[u8], into: Span, before: Span) {
        if let Some(lock) = self.locks.get_mut(&into.region) {
            let answer = lock.answer(bytes);
            return self.memory.bytes_mut(before).copy_from_slice(&answer);
        }
        self.copy(into, before);
        self.accumulate(operator, bytes, into);
    }

    fn compare_swap(&mut self, at: Span, expected: u64, value: u64) -> u64 {
        let held = self.memory.bytes_mut(at);
        let mut found = [0; 8];
        found[..held.len()].copy_from_slice(held);
        if found == expected.to_le_bytes() {
            held.copy_from_slice(&value.to_le_bytes()[..held.len()]);
        }
        u64::from_le_bytes(found)
    }

    fn put(&mut self, to: Peer, from: Span, into: Span, ticket: Ticket, notify: Ticket) {
        let bytes = self.memory.bytes(from).into();
        self.actions.push(Action::Put { to, bytes, into, ticket, notify });
    }

    fn expose(&mut self, _: Peer, span: Span, ticket: Ticket) -> Key {
        // Some memory cannot be exposed.
        if span.len % 7 == 3 {
            return Key::NONE;
        }
        let known = *self.exposed.entry(ticket.bits()).or_insert(span);
        assert_eq!(known, span, "a ticket has one span");
        Key(ticket.bits())
    }

    fn conceal(&mut self, ticket: Ticket) {
        let span = self.exposed.remove(&ticket.bits());
        assert!(span.is_some(), "{ticket} is concealed once, and was exposed");
    }

    fn get(&mut self, source: Peer, from: Span, key: Key, into: Span, ticket: Ticket) {
        self.actions.push(Action::Get { source, from, key, into, ticket });
    }

    fn claim(&mut self, bytes: u64) -> Span {
        self.claimed += 1;
        self.memory.lend_filled(bytes, 0)
    }

    fn release(&mut self, span: Span) {
        self.claimed -= 1;
        self.memory.take_back(span.region);
    }

    fn give_up(&mut self, peer: Peer) -> Progress {
        self.given_up.push(peer);
        Progress::Done
    }

    fn complete(&mut self, ticket: Ticket, outcome: Outcome) {
        self.completions.push((ticket, outcome));
    }

    fn arm(&mut self, at: Option<Time>) {
        self.armed = at;
    }
}

/// An operator of the simulation, as collectives take it.
pub fn reduce_op(operator: Operator) -> ReduceOp {
    let commutative = matches!(operator, SUM | SUM_LATER);
    ReduceOp { operator, element_bytes: 8, commutative }
}

/// The function of [`COMPOSE`].
pub fn compose(source: &[u8], into: &mut [u8]) {
    let (source, _) = source.as_chunks::<4>();
    let (into, _) = into.as_chunks_mut::<4>();
    for (outer, inner) in source.chunks_exact(2).zip(into.chunks_exact_mut(2)) {
        let [a, b] = [outer[0], outer[1]].map(u32::from_le_bytes);
        let [c, d] = [inner[0], inner[1]].map(u32::from_le_bytes);
        inner[0] = a.wrapping_mul(c).to_le_bytes();
        inner[1] = a.wrapping_mul(d).wrapping_add(b).to_le_bytes();
    }
}
