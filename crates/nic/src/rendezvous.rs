//! Long messages: offer, grant or read, bytes, done.
//!
//! The sender offers. Once a receive has matched, the receiver either reads the bytes where they
//! are or grants; then the sender writes them, straight into the user's memory if the rail can,
//! in chunks if not. The end is told by a count of bytes, not by one more frame.

use alloc::boxed::Box;

use crate::envelope::Kind;
use crate::nic::{Nic, Variant};
use crate::op::{Putting, State};
use crate::peers::At;
use crate::port::{Port, Promises};
use crate::receive::{Offer, outcome_of};
use crate::types::{Outcome, Peer, Posted, Span, Ticket};

/// Who moves the bytes of a matched offer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mover {
    /// The receiver reads them.
    Receiver,
    /// The sender writes them, when it has a grant.
    Sender,
}

/// The four cases of an offer, where the rail leaves a choice.
///
/// | receive | up to a piece | longer |
/// |---|---|---|
/// | was posted | grant: the sender is still at it, and writes at once | grant: it writes in pieces, others get turns |
/// | came later | read: the sender is busy with something else | grant: it writes in pieces |
fn choose(promises: Promises, was_posted: bool, len: u64, piece_bytes_max: u32) -> Mover {
    match (promises.gets, promises.puts) {
        (false, _) => Mover::Sender,
        (true, false) => Mover::Receiver,
        (true, true) if !was_posted && len <= u64::from(piece_bytes_max) => Mover::Receiver,
        (true, true) => Mover::Sender,
    }
}

impl<V: Variant> Nic<V> {
    /// A receive and an offer have met. If that ends it, the caller closes it.
    pub(crate) fn begin_transfer(
        &mut self,
        at: At,
        ticket: Ticket,
        Offer { word, sender, source }: Offer,
        into: Span,
        was_posted: bool,
        port: &mut impl Port,
    ) -> Posted {
        let outcome = outcome_of(word, source.len, into.len);
        // The shorter of the two sizes is moved.
        let into = into.first(source.len);
        if into.len == 0 {
            self.reply(at, Kind::Done { ticket: sender }, port);
            return Posted::Done(outcome);
        }
        self.meet(at, ticket);
        let state = &self.peers[at];
        match choose(state.promises, was_posted, into.len, self.limits.piece_bytes_max) {
            Mover::Receiver if state.peer == self.me => {
                port.copy(source.first(into.len), into);
                self.reply(at, Kind::Done { ticket: sender }, port);
                return Posted::Done(outcome);
            }
            Mover::Receiver => {
                let peer = state.peer;
                self.op_mut(ticket).state = State::Reading { sender, outcome };
                port.get(peer, source.first(into.len), into, ticket);
            }
            Mover::Sender => {
                let len = source.len;
                self.op_mut(ticket).state = State::Landing { into, left: into.len, word, len };
                self.reply(at, Kind::Grant { ticket: sender, target: ticket, into }, port);
            }
        }
        Posted::Pending(ticket)
    }

    /// A receive now depends on this peer.
    fn meet(&mut self, at: At, ticket: Ticket) {
        let peer = self.peers[at].peer;
        let op = self.op_mut(ticket);
        op.peer = Some(peer);
        if !core::mem::replace(&mut op.met, true) {
            self.peers[at].open += 1;
        }
    }

    /// Our offer has found its receive.
    pub(crate) fn on_grant(
        &mut self,
        at: At,
        ticket: Ticket,
        target: Ticket,
        into: Span,
        port: &mut impl Port,
    ) {
        let puts = self.peers[at].promises.puts;
        let Some(op) = self.op_with(at, ticket) else { return };
        let State::Offered { source, .. } = op.state else {
            self.stats.malformed += 1;
            return;
        };
        let beyond = into.offset.checked_add(into.len).is_none();
        if into.len == 0 || into.len > source.len || beyond {
            self.stats.malformed += 1;
            return;
        }
        let source = source.first(into.len);
        if puts {
            op.state = State::Putting(Box::new(Putting { source, into, target, sent: 0 }));
            self.put_piece(ticket, port);
        } else {
            op.state = State::Writing { source, target, sent: 0, frames_out: 0 };
            self.write(at, ticket, port);
        }
    }

    /// Queues an operation that has bytes to send.
    pub(crate) fn write(&mut self, at: At, ticket: Ticket, port: &mut impl Port) {
        self.peers[at].backlog().writers.push_back(ticket);
        self.pump(at, port);
        self.tend(at);
    }

    fn put_piece(&mut self, ticket: Ticket, port: &mut impl Port) {
        let piece = u64::from(self.limits.piece_bytes_max);
        let op = self.op_mut(ticket);
        let State::Putting(putting) = &op.state else {
            unreachable!("only what is put goes in pieces");
        };
        let Putting { source, into, target, sent } = **putting;
        let len = piece.min(source.len - sent);
        let peer = op.peer.expect("a put has a peer");
        port.put(peer, source.part(sent, len), into.part(sent, len), ticket, target);
    }

    /// A put of ours is over.
    pub fn on_written(&mut self, ticket: Ticket, port: &mut impl Port) {
        let piece = u64::from(self.limits.piece_bytes_max);
        if let Some(op) = self.ops.find_mut(ticket)
            && let State::Putting(putting) = &mut op.state
        {
            putting.sent += piece.min(putting.source.len - putting.sent);
            match putting.sent == putting.source.len {
                true => self.complete(ticket, Outcome::Done, port),
                false => self.put_piece(ticket, port),
            }
        }
        self.settle(port);
    }

    /// A put of `from` has brought `bytes` for a receive of ours.
    pub fn on_landed(&mut self, from: Peer, ticket: Ticket, bytes: u64, port: &mut impl Port) {
        if let Some(at) = self.peers.find(from) {
            self.land(at, ticket, bytes, port);
        }
        self.settle(port);
    }

    /// A read of ours is over.
    pub fn on_read(&mut self, ticket: Ticket, port: &mut impl Port) {
        if let Some(op) = self.ops.find(ticket)
            && let State::Reading { sender, outcome } = op.state
            && let Some(at) = op.peer.and_then(|peer| self.peers.find(peer))
        {
            self.reply(at, Kind::Done { ticket: sender }, port);
            self.complete(ticket, outcome, port);
        }
        self.settle(port);
    }

    /// Bytes that were granted or asked for.
    pub(crate) fn on_chunk(
        &mut self,
        at: At,
        ticket: Ticket,
        offset: u64,
        payload: &[u8],
        port: &mut impl Port,
    ) {
        let len = payload.len() as u64;
        let Some(op) = self.op_with(at, ticket) else { return };
        let State::Landing { into, .. } = op.state else {
            self.stats.malformed += 1;
            return;
        };
        if offset.checked_add(len).is_none_or(|end| end > into.len) {
            self.stats.malformed += 1;
            return;
        }
        port.deliver(payload, into.part(offset, len));
        self.land(at, ticket, len, port);
    }

    /// Counts bytes that are in place; the last of them ends the operation.
    fn land(&mut self, at: At, ticket: Ticket, bytes: u64, port: &mut impl Port) {
        let Some(op) = self.op_with(at, ticket) else { return };
        let State::Landing { into, left, word, len } = &mut op.state else {
            self.stats.malformed += 1;
            return;
        };
        let Some(less) = left.checked_sub(bytes) else {
            self.stats.malformed += 1;
            return;
        };
        *left = less;
        if less == 0 {
            // The span was cut to what comes: it is shorter only if the receive was.
            let outcome = outcome_of(*word, *len, into.len);
            self.complete(ticket, outcome, port);
        }
    }

    /// The other side has all it wanted.
    pub(crate) fn on_done(&mut self, at: At, ticket: Ticket, port: &mut impl Port) {
        let Some(op) = self.op_with(at, ticket) else { return };
        match op.state {
            State::Offered { .. } | State::Streaming(_) => {
                self.complete(ticket, Outcome::Done, port);
            }
            _ => self.stats.malformed += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_cases() {
        let rail = |gets, puts| Promises {
            reliable: true,
            gets,
            puts,
            frame_bytes_max: 4096,
            welcome_bytes: 0,
        };
        let both = rail(true, true);
        assert_eq!(choose(both, true, 100, 1000), Mover::Sender);
        assert_eq!(choose(both, true, 5000, 1000), Mover::Sender);
        assert_eq!(choose(both, false, 100, 1000), Mover::Receiver);
        assert_eq!(choose(both, false, 5000, 1000), Mover::Sender);
        assert_eq!(choose(rail(true, false), true, 5000, 1000), Mover::Receiver);
        assert_eq!(choose(rail(false, true), false, 100, 1000), Mover::Sender);
        assert_eq!(choose(rail(false, false), false, 100, 1000), Mover::Sender);
    }
}
