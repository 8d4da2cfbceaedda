//! The sender's side: choosing the protocol of a message, holding messages, cancelling.

use alloc::boxed::Box;

use crate::canary::Bug;
use crate::envelope::Kind;
use crate::lane::HeldMessages;
use crate::limits::Limits;
use crate::nic::{Nic, Variant};
use crate::op::{InLane, OpState, Owner};
use crate::peers::At;
use crate::port::{Port, Promises};
use crate::store::{HEADER_BYTES, eager_bytes};
use crate::types::{Fault, Key, Mode, Outcome, Peer, Posted, Span, Ticket};
use crate::word::MatchWord;

/// The terms on which a message is offered.
struct Terms {
    secured: bool,
    first: bool,
}

impl<V: Variant> Nic<V> {
    /// Sends the bytes of `source` to `to`.
    #[inline(always)]
    pub fn post_send(
        &mut self,
        to: Peer,
        word: MatchWord,
        source: Span,
        mode: Mode,
        port: &mut impl Port,
    ) -> Posted {
        // This leaves nothing to settle.
        if self.send_at_once(to, word, source, mode, port) {
            return Posted::Done(Outcome::Done);
        }
        let posted = self.begin_send_slowly(Owner::User, to, word, source, mode, port);
        self.settle(port);
        posted
    }

    #[inline(always)]
    pub(crate) fn begin_send(
        &mut self,
        owner: Owner,
        to: Peer,
        word: MatchWord,
        source: Span,
        mode: Mode,
        port: &mut impl Port,
    ) -> Posted {
        match self.send_at_once(to, word, source, mode, port) {
            true => Posted::Done(Outcome::Done),
            false => self.begin_send_slowly(owner, to, word, source, mode, port),
        }
    }

    /// Sends a message that cannot go out at once.
    #[inline(never)]
    fn begin_send_slowly(
        &mut self,
        owner: Owner,
        to: Peer,
        word: MatchWord,
        source: Span,
        mode: Mode,
        port: &mut impl Port,
    ) -> Posted {
        let at = match self.contact(to, port) {
            Ok(at) => at,
            Err(fault) => return Posted::Done(Outcome::Failed(fault)),
        };
        let queue = self.queue_of(word.group());
        let synchronous = mode == Mode::Synchronous;
        let state = &mut self.peers[at];
        let eager_bytes_max = eager_bytes_max(&state.promises, &self.limits, mode);
        let whole = u32::try_from(source.len).ok().filter(|&len| len <= eager_bytes_max);
        let eager = whole.is_some();
        if !state.promises.reliable && eager && !synchronous && self.may_copy(owner, source.len) {
            return self.send_copy(to, word, source, port);
        }
        let state = &mut self.peers[at];
        let bytes = whole.map_or(HEADER_BYTES, eager_bytes);
        let lane = state.lane(queue);
        if lane.waiting.is_some() || lane.credit < bytes {
            let offered = !eager;
            let message =
                InLane { word, source, queue, synchronous, offered, away: false, cancelled: false };
            return self.send_unsecured(owner, at, message, port);
        }
        self.short_of_credit |= lane.spend(bytes, self.limits.credit_bytes);
        if !eager {
            if let Some(fault) = self.ended_under(word.group(), true) {
                return self.unsend(at, queue, bytes, fault);
            }
            let ticket = self.open(owner, Some(at), OpState::Offered { word, source });
            self.offer(at, ticket, word, source, Terms { secured: true, first: false }, port);
            return Posted::Pending(ticket);
        }
        if synchronous && let Some(fault) = self.ended_under(word.group(), true) {
            return self.unsend(at, queue, bytes, fault);
        }
        let state = OpState::Flying { synchronous: synchronous.then_some(word) };
        let ticket = self.open(owner, Some(at), state);
        let kind = Kind::Eager { word, secured: true, synchronous: synchronous.then_some(ticket) };
        self.send_eager(at, kind, source, ticket, port)
    }

    /// Undoes a send that would have to wait in a group that has ended.
    #[cold]
    fn unsend(&mut self, at: At, queue: u16, bytes: u32, fault: Fault) -> Posted {
        self.peers[at].lane(queue).credit += bytes;
        Posted::Done(Outcome::Failed(fault))
    }

    /// Sends a message under credit. On a reliable rail it completes at once, unless the rail is full or a receive
    /// must match first.
    #[inline]
    fn send_eager(
        &mut self,
        at: At,
        kind: Kind,
        source: Span,
        ticket: Ticket,
        port: &mut impl Port,
    ) -> Posted {
        // An operation that ends before its ticket is known is not reported.
        let owner = core::mem::replace(&mut self.op_mut(ticket).owner, Owner::Nobody);
        self.send(at, kind, source, Some(ticket), port);
        match self.ops.find_mut(ticket) {
            None => Posted::Done(Outcome::Done),
            Some(op) => {
                op.owner = owner;
                Posted::Pending(ticket)
            }
        }
    }

    /// Sends a message without credit: it stays ours until it is answered.
    #[inline(never)]
    fn send_unsecured(
        &mut self,
        owner: Owner,
        at: At,
        message: InLane,
        port: &mut impl Port,
    ) -> Posted {
        let InLane { word, source, queue, synchronous, offered, .. } = message;
        if let Some(fault) = self.ended_under(word.group(), true) {
            return Posted::Done(Outcome::Failed(fault));
        }
        let ticket = self.open(owner, Some(at), OpState::InLane(message));
        let lane = self.peers[at].lane(queue);
        let waiting = lane.waiting.get_or_insert_with(|| Box::new(HeldMessages::default()));
        waiting.push(ticket);
        if waiting.holding {
            self.sweep(at, queue, port);
        } else if !offered {
            let synchronous = synchronous.then_some(ticket);
            let kind = Kind::Eager { word, secured: false, synchronous };
            self.send(at, kind, source, Some(ticket), port);
        } else {
            self.offer(at, ticket, word, source, Terms { secured: false, first: false }, port);
        }
        Posted::Pending(ticket)
    }

    /// Offers a message, which stays here until it matches, and exposes its bytes if the rail can read them.
    fn offer(
        &mut self,
        at: At,
        ticket: Ticket,
        word: MatchWord,
        source: Span,
        Terms { secured, first }: Terms,
        port: &mut impl Port,
    ) {
        let state = &self.peers[at];
        let key = match state.promises.gets {
            true => port.expose(state.peer, source, ticket),
            false => Key::NONE,
        };
        // The bytes may have been exposed before, when the rail could still read them.
        self.op_mut(ticket).exposed |= key != Key::NONE;
        let kind = Kind::Offer { word, secured, first, ticket, source, key };
        self.send(at, kind, Span::EMPTY, None, port);
    }

    /// Credit comes back. Before an answer it is from before our farewell, and the receiver has taken it back
    /// since.
    pub(crate) fn on_credit(&mut self, at: At, queue: u16, bytes: u32) {
        let queue = self.queue_at(queue);
        let lane = self.peers[at].lane(queue);
        if lane.established {
            lane.credit = lane.credit.saturating_add(bytes);
        }
    }

    /// The rail no longer needs the bytes of a frame.
    pub(crate) fn on_sent(&mut self, ticket: Ticket, port: &mut impl Port) {
        let Some(op) = self.ops.find_mut(ticket) else { return };
        let mut outcome = Outcome::Done;
        let over = match &mut op.state {
            OpState::Flying { synchronous: None } => true,
            OpState::Flying { synchronous: Some(word) } => {
                op.state = OpState::Accepted { word: *word };
                false
            }
            OpState::InLane(message) => {
                message.away = true;
                false
            }
            OpState::Writing { source, sent, frames_out, read, .. } => {
                *frames_out -= 1;
                *frames_out == 0 && *sent == source.len && *read == 0
            }
            OpState::Streaming(stream) => {
                stream.frames_out -= 1;
                outcome = Outcome::Failed(Fault::Denied);
                stream.denied && stream.frames_out == 0
            }
            _ => false,
        };
        if over {
            self.complete(ticket, outcome, port);
        }
    }

    /// The receiver has accepted or refused the oldest message that we sent without credit.
    pub(crate) fn on_answer(
        &mut self,
        at: At,
        queue: u16,
        accepted: bool,
        wanted: bool,
        credit: u32,
        port: &mut impl Port,
    ) {
        let queue = self.queue_at(queue);
        let waiting = self.peers[at].lane(queue).waiting.as_ref();
        let answered = waiting.and_then(|waiting| waiting.unanswered()).and_then(|ticket| {
            let OpState::InLane(message) = self.op_mut(ticket).state else {
                unreachable!("what waits in a lane is in it");
            };
            // A peer that answers a frame has acked it; if it has not, a retry still reads the user's bytes.
            (message.offered || message.away).then_some((ticket, message))
        });
        let Some((ticket, message)) = answered else {
            self.stats.malformed += 1;
            return;
        };
        let lane = self.peers[at].lane(queue);
        lane.established = true;
        lane.credit = lane.credit.saturating_add(credit);
        if let Some(waiting) = &mut lane.waiting {
            waiting.on_answer(accepted, wanted);
        }
        match (accepted, message) {
            (true, InLane { offered: true, word, source, cancelled, .. }) => {
                self.op_mut(ticket).state = OpState::Offered { word, source };
                if cancelled {
                    self.withdraw(at, ticket, word, port);
                }
            }
            (true, InLane { synchronous: true, word, cancelled, .. }) => {
                self.op_mut(ticket).state = OpState::Accepted { word };
                if cancelled {
                    self.withdraw(at, ticket, word, port);
                }
            }
            (true, _) => self.complete(ticket, Outcome::Done, port),
            (false, InLane { cancelled: true, .. }) => self.drop_held(at, queue, ticket, port),
            (false, _) => {}
        }
        self.sweep(at, queue, port);
    }

    pub(crate) fn on_invite(&mut self, at: At, queue: u16, port: &mut impl Port) {
        let queue = self.queue_at(queue);
        if let Some(waiting) = self.peers[at].lane(queue).waiting.as_mut() {
            waiting.on_invite();
        }
        self.sweep(at, queue, port);
    }

    /// Offers held messages again, in order, as far as the receiver may want them.
    fn sweep(&mut self, at: At, queue: u16, port: &mut impl Port) {
        let in_flight_max = usize::from(self.limits.sweep_frames_max);
        loop {
            let Some(waiting) = self.peers[at].lane(queue).waiting.as_mut() else { return };
            if waiting.is_empty() {
                break;
            }
            let Some((ticket, first)) = waiting.next(in_flight_max) else { return };
            let OpState::InLane(message) = &mut self.op_mut(ticket).state else {
                unreachable!("what waits in a lane is in it");
            };
            message.offered = true;
            let InLane { word, source, .. } = *message;
            self.offer(at, ticket, word, source, Terms { secured: false, first }, port);
        }
        let held = self.peers[at].lane(queue).is_holding();
        self.peers[at].lane(queue).waiting = None;
        if held {
            self.send(at, Kind::Vacant { queue }, Span::EMPTY, None, port);
        }
    }

    /// A synchronous message has matched.
    pub(crate) fn on_matched(&mut self, at: At, ticket: Ticket, port: &mut impl Port) {
        let Some(op) = self.op_with(at, ticket) else { return };
        match op.state {
            OpState::Accepted { .. } => self.complete(ticket, Outcome::Done, port),
            // Including messages in flight: a peer that answers a frame has acked it.
            _ => self.stats.malformed += 1,
        }
    }

    /// Cancels an operation, if it is not too late. It completes either way: as cancelled, or as it would have
    /// without this call.
    pub fn cancel(&mut self, ticket: Ticket, port: &mut impl Port) {
        self.begin_cancel(ticket, port);
        self.settle(port);
    }

    pub(crate) fn begin_cancel(&mut self, ticket: Ticket, port: &mut impl Port) {
        let Some(op) = self.ops.find_mut(ticket) else { return };
        let peer = op.peer;
        match &mut op.state {
            OpState::Posted { .. } => {
                self.unpost(ticket);
                if V::has(Bug::TicketLeak) {
                    self.op_mut(ticket).state = OpState::Accepted { word: MatchWord::default() };
                    return port.complete(ticket, Outcome::Cancelled);
                }
                self.complete(ticket, Outcome::Cancelled, port);
            }
            OpState::InLane(message) => {
                message.cancelled = true;
                let queue = message.queue;
                let at = peer.and_then(|peer| self.peers.find(peer)).expect("a lane has a peer");
                self.drop_held(at, queue, ticket, port);
                self.sweep(at, queue, port);
            }
            OpState::Accepted { .. } | OpState::Flying { synchronous: Some(_) }
                if V::has(Bug::CancelIgnored) => {}
            OpState::Offered { word, .. }
            | OpState::Accepted { word }
            | OpState::Flying { synchronous: Some(word) } => {
                let word = *word;
                let at = peer.and_then(|peer| self.peers.find(peer)).expect("a message has a peer");
                self.withdraw(at, ticket, word, port);
            }
            OpState::Running { run } => {
                let run = *run;
                self.fail_run(run, Fault::Abandoned, port);
            }
            OpState::Waiting => {
                self.stop_waiting(ticket);
                self.complete(ticket, Outcome::Cancelled, port);
            }
            OpState::Triggered { operation } => {
                let operation = *operation;
                self.begin_cancel(operation, port);
            }
            _ => {}
        }
    }

    /// Cancels a message in a lane. If it is on its way, its answer decides.
    fn drop_held(&mut self, at: At, queue: u16, ticket: Ticket, port: &mut impl Port) {
        let waiting = self.peers[at].lane(queue).waiting.as_mut();
        if waiting.is_some_and(|waiting| waiting.remove(ticket)) {
            self.complete(ticket, Outcome::Cancelled, port);
        }
    }

    fn withdraw(&mut self, at: At, ticket: Ticket, word: MatchWord, port: &mut impl Port) {
        self.send(at, Kind::Withdraw { ticket, word }, Span::EMPTY, None, port);
    }

    pub(crate) fn on_withdrawn(&mut self, at: At, ticket: Ticket, port: &mut impl Port) {
        // A message that is withdrawn twice is confirmed once, and then its ticket is gone.
        let Some(op) = self.op_with(at, ticket) else { return };
        if matches!(op.state, OpState::Offered { .. } | OpState::Accepted { .. }) {
            self.complete(ticket, Outcome::Cancelled, port);
        }
    }

    /// Ends an operation that can no longer end by itself.
    pub(crate) fn abandon(&mut self, ticket: Ticket, fault: Fault, port: &mut impl Port) {
        match self.ops.find(ticket).map(|op| &op.state) {
            Some(OpState::Posted { .. }) => self.unpost(ticket),
            Some(OpState::Waiting) => self.stop_waiting(ticket),
            _ => {}
        }
        self.complete(ticket, Outcome::Failed(fault), port);
    }

    /// The operation `ticket`, which must be open.
    #[inline]
    pub(crate) fn op_mut(&mut self, ticket: Ticket) -> &mut crate::op::Op {
        self.ops.find_mut(ticket).expect("the operation is open")
    }
}

/// The longest message sent whole on a rail with these promises. A ready send guarantees a posted receive, so it
/// may fill a frame.
#[inline]
fn eager_bytes_max(promises: &Promises, limits: &Limits, mode: Mode) -> u32 {
    let frame = promises.payload_bytes_max();
    match mode {
        Mode::Ready => frame.min(READY_BYTES_MAX),
        Mode::Standard | Mode::Synchronous => frame.min(limits.eager_bytes_max),
    }
}

/// The guarantee of a ready send may be wrong: then its bytes must fit the store.
const READY_BYTES_MAX: u32 = 64 << 10;
