//! The port of a NIC in a machine: moves the bytes, and records what was asked for, in order.

use std::collections::BTreeSet;
use std::rc::Rc;

use ferrywire_mpi::operation;
use ferrywire_nic::{
    Envelope, Key, Operator, Outcome, Peer, Port, Progress, Promises, RailId, Region, Sent, Span,
    StepRef, Ticket, Time,
};

use super::Machine;
use crate::memory::Memory;

/// The port of a NIC in a [`super::Cluster`].
#[derive(Debug)]
pub(super) struct MachinePort {
    me: Peer,
    machine: Rc<Machine>,
    pub(super) memory: Memory,
    /// Regions in the memory of the NIC; all others are in that of the host.
    claimed: BTreeSet<Region>,
    pub(super) now: Time,
    pub(super) armed: Option<Time>,
    pub(super) deeds: Vec<Deed>,
}

/// What a NIC has asked its port for.
#[derive(Debug)]
pub(super) enum Deed {
    /// Bytes moved between the memories of host and NIC.
    Move(u64),
    /// Bytes combined.
    Reduce(u64),
    Frame {
        to: Peer,
        bytes: Box<[u8]>,
        payload: u64,
        from_host: bool,
    },
    Put {
        to: Peer,
        bytes: Box<[u8]>,
        into: Span,
        ticket: Ticket,
        notify: Ticket,
    },
    Complete(Ticket, Outcome),
}

impl MachinePort {
    pub(super) fn new(me: Peer, machine: Rc<Machine>) -> MachinePort {
        MachinePort {
            me,
            machine,
            memory: Memory::default(),
            claimed: BTreeSet::new(),
            now: Time(0),
            armed: None,
            deeds: Vec::new(),
        }
    }

    fn is_host(&self, span: Span) -> bool {
        span.len > 0 && !self.claimed.contains(&span.region)
    }

    fn note_move(&mut self, from_host: bool, into_host: bool, bytes: u64) {
        if from_host || into_host {
            self.deeds.push(Deed::Move(bytes));
        }
    }
}

impl Port for MachinePort {
    fn now(&self) -> Time {
        self.now
    }

    fn promises(&self, peer: Peer) -> Promises {
        match peer == self.me {
            true => Promises { rail: RailId(u8::MAX), puts: false, ..self.machine.wire.promises },
            false => self.machine.wire.promises,
        }
    }

    fn attends(&self, _: Peer) -> bool {
        false
    }

    fn transmit(&mut self, to: Peer, envelope: &Envelope, payload: Span) -> Sent {
        let mut head = [0; Envelope::BYTES_MAX];
        let len = envelope.emit(&mut head);
        let bytes = [&head[..len], self.memory.bytes(payload)].concat().into();
        let from_host = self.is_host(payload);
        self.deeds.push(Deed::Frame { to, bytes, payload: payload.len, from_host });
        Sent::Away
    }

    fn deliver(&mut self, bytes: &[u8], into: Span) {
        self.note_move(false, self.is_host(into), into.len);
        self.memory.bytes_mut(into).copy_from_slice(bytes);
    }

    fn load(&mut self, from: Span, into: &mut [u8]) {
        self.note_move(self.is_host(from), false, from.len);
        into.copy_from_slice(self.memory.bytes(from));
    }

    fn copy(&mut self, from: Span, into: Span) {
        self.note_move(self.is_host(from), self.is_host(into), from.len);
        let bytes = self.memory.bytes(from).to_vec();
        self.memory.bytes_mut(into).copy_from_slice(&bytes);
    }

    fn reduce(&mut self, _: StepRef, operator: Operator, from: Span, into: Span) -> Progress {
        let bytes = self.memory.bytes(from).to_vec();
        self.accumulate(operator, &bytes, into);
        Progress::Done
    }

    fn accumulate(&mut self, operator: Operator, bytes: &[u8], into: Span) {
        self.deeds.push(Deed::Reduce(into.len));
        operation::combine(operator, bytes, self.memory.bytes_mut(into));
    }

    fn compare_swap(&mut self, _: Span, _: u64, _: u64) -> u64 {
        unreachable!("no document compares and swaps")
    }

    fn put(&mut self, to: Peer, from: Span, into: Span, ticket: Ticket, notify: Ticket) {
        let bytes = self.memory.bytes(from).into();
        self.deeds.push(Deed::Put { to, bytes, into, ticket, notify });
    }

    fn expose(&mut self, _: Peer, _: Span, _: Ticket) -> Key {
        Key::NONE
    }

    fn conceal(&mut self, _: Ticket) {}

    fn get(&mut self, _: Peer, _: Span, _: Key, _: Span, _: Ticket) {
        unreachable!("these rails promise no gets")
    }

    fn claim(&mut self, bytes: u64) -> Span {
        let span = self.memory.lend_filled(bytes, 0);
        self.claimed.insert(span.region);
        span
    }

    fn release(&mut self, span: Span) {
        self.claimed.remove(&span.region);
        self.memory.take_back(span.region);
    }

    fn complete(&mut self, ticket: Ticket, outcome: Outcome) {
        self.deeds.push(Deed::Complete(ticket, outcome));
    }

    fn arm(&mut self, at: Option<Time>) {
        assert!(
            at.is_none() || !self.machine.wire.promises.reliable,
            "a NIC arms no timer on rails that lose nothing"
        );
        self.armed = at;
    }
}
