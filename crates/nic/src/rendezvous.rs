//! Long messages by rendezvous: offer, grant or read, bytes, done.
//!
//! The sender offers. Once a receive has matched, the receiver reads the bytes in place, or grants and the sender
//! writes them, or each moves half: the side that has time. If the rail can do neither, the bytes come in chunks.
//! Where possible a byte count tells the end, not another frame.

use alloc::boxed::Box;

use crate::canary::Bug;
use crate::envelope::Kind;
use crate::nic::{Nic, Variant};
use crate::op::{OpState, Owner, Putting, Sharing};
use crate::peers::At;
use crate::port::{Port, Promises};
use crate::receive::{Offer, outcome_of};
use crate::types::{Key, Outcome, Peer, Posted, Span, Ticket};

/// Which side moves the bytes of a matched offer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mover {
    /// The receiver reads them.
    Receiver,
    /// The sender writes them, after a grant.
    Sender,
    /// The receiver reads the first half while the sender writes the second.
    Both,
}

/// The contents of a grant.
pub(crate) struct Granted {
    pub(crate) target: Ticket,
    pub(crate) into: Span,
    pub(crate) rest: bool,
}

/// Chooses which side moves the bytes, where the rail leaves a choice. `here` and `there` say whether a user thread of
/// the receiver and of the sender waits, and so has a core to spare.
///
/// | | sender waits | sender is away |
/// |---|---|---|
/// | **receiver waits** | both, if the message is long enough; else the receiver | the receiver reads |
/// | **receiver is away** | the sender writes | the receiver reads: it has been woken already |
fn choose(promises: Promises, here: bool, there: bool, len: u64, whole: bool) -> Mover {
    match (promises.gets, promises.puts) {
        (false, _) => Mover::Sender,
        (true, false) => Mover::Receiver,
        (true, true) => match (here, there) {
            (true, true) if whole && len >= SHARED_BYTES_MIN => Mover::Both,
            (false, true) => Mover::Sender,
            _ => Mover::Receiver,
        },
    }
}

/// Below this, sharing the work takes longer than doing it alone. From 32 KB on it takes a sixth less time on a quiet
/// machine, and up to a fifth more on a busy one.
const SHARED_BYTES_MIN: u64 = 16 << 10;

impl<V: Variant> Nic<V> {
    /// Starts the transfer of a matched offer. If that ends the operation, the caller closes it.
    pub(crate) fn begin_transfer(
        &mut self,
        at: At,
        ticket: Ticket,
        Offer { word, sender, source, key }: Offer,
        into: Span,
        port: &mut impl Port,
    ) -> Posted {
        let (into, outcome) = self.modules.outcome(word, source.len, into);
        // The shorter of the two lengths is moved.
        let into = into.first(source.len);
        if into.len == 0 {
            self.reply(at, Kind::Done { ticket: sender }, port);
            return Posted::Done(outcome);
        }
        if self.peers[at].peer == self.me {
            port.copy(source.first(into.len), into);
            self.reply(at, Kind::Done { ticket: sender }, port);
            return Posted::Done(outcome);
        }
        self.meet(at, ticket);
        let state = &self.peers[at];
        let (here, there) = (port.attends(self.me), port.attends(state.peer));
        let promises = Promises { gets: state.promises.gets && key != Key::NONE, ..state.promises };
        match choose(promises, here, there, into.len, into.len == source.len) {
            Mover::Receiver => {
                let peer = state.peer;
                let len = source.len;
                self.op_mut(ticket).state = OpState::Reading { sender, into, word, len };
                port.get(peer, source.first(into.len), key, into, ticket);
                self.begin_read(at, port);
            }
            Mover::Sender => {
                let (len, puts) = (source.len, state.promises.puts);
                let op = self.op_mut(ticket);
                op.state = OpState::Landing { into, left: into.len, word, len };
                // A sender that writes into our memory needs nothing more from us.
                let rests = op.driven && puts && matches!(op.owner, Owner::User);
                op.driven &= !rests;
                self.driven -= usize::from(rests);
                let kind = Kind::Grant { ticket: sender, target: ticket, into, rest: false };
                self.reply(at, kind, port);
            }
            Mover::Both => {
                let peer = state.peer;
                // The grant goes first, so that the sender begins as soon as possible.
                let reading = (into.len / 2) & !63;
                let rest = into.part(reading, into.len - reading);
                let sharing = Sharing { sender, reading, left: into.len, word, into };
                self.op_mut(ticket).state = OpState::Sharing(Box::new(sharing));
                let kind = Kind::Grant { ticket: sender, target: ticket, into: rest, rest: true };
                self.reply(at, kind, port);
                port.get(peer, source.first(reading), key, into.first(reading), ticket);
                self.begin_read(at, port);
            }
        }
        Posted::Pending(ticket)
    }

    /// Makes a receive depend on this peer.
    fn meet(&mut self, at: At, ticket: Ticket) {
        let peer = self.peers[at].peer;
        let op = self.op_mut(ticket);
        op.peer = Some(peer);
        if !core::mem::replace(&mut op.met, true) {
            self.peers[at].open += 1;
        }
    }

    /// Our offer has matched.
    pub(crate) fn on_grant(
        &mut self,
        at: At,
        ticket: Ticket,
        Granted { target, into, rest }: Granted,
        port: &mut impl Port,
    ) {
        let puts = self.peers[at].promises.puts;
        let Some(op) = self.op_with(at, ticket) else { return };
        let OpState::Offered { source, .. } = op.state else {
            return self.on_owed(at, ticket, &Granted { target, into, rest }, port);
        };
        let beyond = into.offset.checked_add(into.len).is_none();
        if into.len == 0 || into.len > source.len || beyond {
            self.stats.malformed += 1;
            return;
        }
        let (source, read) = match rest {
            true => (source, source.len - into.len),
            false => (source.first(into.len), 0),
        };
        let putting =
            Putting { source, read, into, target, sent: 0, is_read: read == 0, owed: false };
        if puts {
            op.state = OpState::Putting(Box::new(putting));
            self.put_piece(ticket, port);
        } else {
            op.state = putting.in_chunks();
            self.write(at, ticket, port);
        }
    }

    /// The receiver cannot read its part after all, and gets it in chunks.
    fn on_owed(&mut self, at: At, ticket: Ticket, granted: &Granted, port: &mut impl Port) {
        let op = self.op_mut(ticket);
        let fits = |read: u64, target: Ticket| {
            !granted.rest && granted.into.len == read && granted.target == target
        };
        match &mut op.state {
            OpState::Putting(putting)
                if !putting.is_read && !putting.owed && fits(putting.read, putting.target) =>
            {
                putting.owed = true;
                if putting.is_written() {
                    op.state = putting.in_chunks();
                    self.write(at, ticket, port);
                }
            }
            OpState::Writing { source, target, sent, read, owed, .. }
                if *read > 0 && !*owed && fits(*read, *target) =>
            {
                *owed = true;
                if *sent == source.len {
                    self.write(at, ticket, port);
                }
            }
            _ => self.stats.malformed += 1,
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
        let OpState::Putting(putting) = &op.state else {
            unreachable!("only what is put goes in pieces");
        };
        let Putting { source, read, into, target, sent, .. } = **putting;
        let len = piece.min(into.len - sent);
        let peer = op.peer.expect("a put has a peer");
        port.put(peer, source.part(read + sent, len), into.part(sent, len), ticket, target);
    }

    /// A put of this NIC is done.
    pub fn on_written(&mut self, ticket: Ticket, port: &mut impl Port) {
        let piece = u64::from(self.limits.piece_bytes_max);
        if let Some(op) = self.ops.find_mut(ticket)
            && let OpState::Putting(putting) = &mut op.state
        {
            putting.sent += piece.min(putting.into.len - putting.sent);
            match (putting.is_written(), putting.is_read, putting.owed) {
                (true, true, _) => self.complete(ticket, Outcome::Done, port),
                (true, false, true) => self.put_in_chunks(ticket, port),
                (true, false, false) => {}
                (false, ..) => self.put_piece(ticket, port),
            }
        }
        self.settle(port);
    }

    /// A put of this NIC failed: the peer's memory is no longer reachable. This piece counts as unwritten, and is
    /// sent in chunks with all that follows.
    pub fn on_put_refused(&mut self, ticket: Ticket, port: &mut impl Port) {
        if let Some(op) = self.ops.find_mut(ticket)
            && let OpState::Putting(putting) = &mut op.state
        {
            if V::has(Bug::StartsOver) {
                putting.sent = 0;
            }
            let at = op.peer.and_then(|peer| self.peers.find(peer)).expect("a put has a peer");
            self.lose_access(at);
            self.put_in_chunks(ticket, port);
        }
        self.settle(port);
    }

    /// Continues a put in chunks.
    fn put_in_chunks(&mut self, ticket: Ticket, port: &mut impl Port) {
        let op = self.op_mut(ticket);
        let OpState::Putting(putting) = &op.state else { return };
        op.state = putting.in_chunks();
        let at = op.peer.and_then(|peer| self.peers.find(peer)).expect("a put has a peer");
        self.write(at, ticket, port);
    }

    /// A read of this NIC failed: the peer's memory is no longer reachable. The peer writes those bytes instead.
    pub fn on_get_refused(&mut self, ticket: Ticket, port: &mut impl Port) {
        if let Some(op) = self.ops.find_mut(ticket)
            && let Some(at) = op.peer.and_then(|peer| self.peers.find(peer))
        {
            let granted = match &op.state {
                &OpState::Reading { sender, into, word, len } => {
                    op.state = OpState::Landing { into, left: into.len, word, len };
                    Some((sender, into))
                }
                OpState::Sharing(sharing) => {
                    let Sharing { sender, reading, left, word, into } = **sharing;
                    op.state = OpState::Landing { into, left, word, len: into.len };
                    Some((sender, into.first(reading)))
                }
                _ => None,
            };
            self.lose_access(at);
            if let Some((sender, into)) = granted {
                self.end_read(at);
                let kind = Kind::Grant { ticket: sender, target: ticket, into, rest: false };
                self.reply(at, kind, port);
            }
        }
        self.settle(port);
    }

    /// Bytes can no longer be moved directly between us and this peer.
    fn lose_access(&mut self, at: At) {
        let promises = &mut self.peers[at].promises;
        (promises.puts, promises.gets) = (false, false);
    }

    /// A put of `from` has written `bytes` for a receive of this NIC.
    pub fn on_landed(&mut self, from: Peer, ticket: Ticket, bytes: u64, port: &mut impl Port) {
        if let Some(at) = self.peers.find(from) {
            self.land(at, ticket, bytes, port);
        }
        self.settle(port);
    }

    /// A read of this NIC is done.
    pub fn on_read(&mut self, ticket: Ticket, port: &mut impl Port) {
        if let Some(op) = self.ops.find(ticket)
            && let Some(at) = op.peer.and_then(|peer| self.peers.find(peer))
        {
            match &op.state {
                &OpState::Reading { sender, into, word, len } => {
                    self.end_read(at);
                    self.reply(at, Kind::Done { ticket: sender }, port);
                    self.complete(ticket, outcome_of(word, len, into.len), port);
                }
                OpState::Sharing(sharing) => {
                    let (sender, bytes) = (sharing.sender, sharing.reading);
                    self.end_read(at);
                    self.reply(at, Kind::Done { ticket: sender }, port);
                    self.land(at, ticket, bytes, port);
                }
                _ => {}
            }
        }
        self.settle(port);
    }

    /// Handles bytes that were granted or requested by a get.
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
        let into = match &op.state {
            OpState::Landing { into, .. } => *into,
            // The sender could not put its half.
            OpState::Sharing(sharing) => sharing.into,
            _ => {
                self.stats.malformed += 1;
                return;
            }
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
        let (left, word, len, room) = match &mut op.state {
            OpState::Landing { into, left, word, len } => (left, *word, *len, into.len),
            OpState::Sharing(sharing) => {
                let Sharing { left, word, into, .. } = &mut **sharing;
                (left, *word, into.len, into.len)
            }
            _ => {
                self.stats.malformed += 1;
                return;
            }
        };
        let Some(less) = left.checked_sub(bytes) else {
            self.stats.malformed += 1;
            return;
        };
        *left = less;
        if less == 0 {
            // The span was cut to the message: it is shorter only if the receive was.
            self.complete(ticket, outcome_of(word, len, room), port);
        }
    }

    /// The other side has all bytes, or all that it wanted to read.
    pub(crate) fn on_done(&mut self, at: At, ticket: Ticket, port: &mut impl Port) {
        let Some(op) = self.op_with(at, ticket) else { return };
        match &mut op.state {
            OpState::Offered { .. } => self.complete(ticket, Outcome::Done, port),
            // A peer that has all bytes has acked all frames; if it has not, a retry still reads the user's bytes.
            OpState::Streaming(stream)
                if stream.frames_out == 0 && stream.sent == stream.source.len =>
            {
                self.complete(ticket, Outcome::Done, port);
            }
            OpState::Putting(putting) if !putting.is_read => {
                putting.is_read = true;
                if putting.is_written() {
                    self.complete(ticket, Outcome::Done, port);
                }
            }
            OpState::Writing { source, sent, frames_out, read, owed: false, .. } if *read > 0 => {
                *read = 0;
                if *frames_out == 0 && *sent == source.len {
                    self.complete(ticket, Outcome::Done, port);
                }
            }
            _ => self.stats.malformed += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::RailId;

    #[test]
    fn whoever_has_time_moves_the_bytes() {
        let rail = |gets, puts| Promises {
            rail: RailId(0),
            reliable: true,
            may_vanish: false,
            gets,
            puts,
            frame_bytes_max: 4096,
            burst_frames_max: 1,
            initial_credit_bytes: 0,
        };
        let both = |here, there| choose(rail(true, true), here, there, 1 << 20, true);
        assert_eq!(both(true, true), Mover::Both);
        assert_eq!(both(true, false), Mover::Receiver);
        assert_eq!(both(false, true), Mover::Sender);
        assert_eq!(both(false, false), Mover::Receiver);
        // Too short to share, or truncated by the receive.
        assert_eq!(choose(rail(true, true), true, true, 100, true), Mover::Receiver);
        assert_eq!(choose(rail(true, true), true, true, 1 << 20, false), Mover::Receiver);
        assert_eq!(choose(rail(true, false), true, true, 1 << 20, true), Mover::Receiver);
        assert_eq!(choose(rail(false, true), true, true, 1 << 20, true), Mover::Sender);
        assert_eq!(choose(rail(false, false), true, true, 1 << 20, true), Mover::Sender);
    }
}
