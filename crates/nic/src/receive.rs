//! The receiver's side: arrivals, unexpected messages, refusals, credit.

use crate::canary::Bug;
use crate::envelope::Kind;
use crate::lane::{Lane, NO_FLOOR};
use crate::matcher::{Arrival, Item, Matcher, Post, Queue};
use crate::nic::{Nic, QueuePair, Variant};
use crate::op::{Op, OpState, Owner};
use crate::peers::At;
use crate::port::{Notice, Port};
use crate::store::{Body, HEADER_BYTES, Store, Stored, eager_bytes};
use crate::types::{Fault, Key, Outcome, Peer, Posted, Received, Span, Ticket};
use crate::word::{Mask, MatchWord};

/// A message that a probe has found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Probed {
    /// The sender.
    pub from: Peer,
    /// Its match word.
    pub word: MatchWord,
    /// Its length in bytes.
    pub len: u64,
}

impl Probed {
    /// What a probe sees of a message. One that a trap has ended has lost its bytes.
    fn of(from: Peer, word: MatchWord, len: u64) -> Probed {
        Probed { from, word: word.to_match(), len: if word.is_ended() { 0 } else { len } }
    }
}

/// A message that arrives whole: its match word, whether its room was reserved, and the send to notify when it
/// matches.
#[derive(Clone, Copy)]
pub(crate) struct Whole {
    pub(crate) word: MatchWord,
    pub(crate) secured: bool,
    pub(crate) synchronous: Option<Ticket>,
}

/// A message whose bytes are still with its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) word: MatchWord,
    pub(crate) sender: Ticket,
    pub(crate) source: Span,
    pub(crate) key: Key,
}

impl<V: Variant> Nic<V> {
    /// Receives a message that agrees with `word` under `mask` into `into`. `from` names the only process that can
    /// send it, if there is only one: if that process dies, the receive fails.
    pub fn post_receive(
        &mut self,
        from: Option<Peer>,
        word: MatchWord,
        mask: Mask,
        into: Span,
        port: &mut impl Port,
    ) -> Posted {
        let posted = self.begin_receive(Owner::User, from, word, mask, into, port);
        self.settle(port);
        posted
    }

    pub(crate) fn begin_receive(
        &mut self,
        owner: Owner,
        from: Option<Peer>,
        word: MatchWord,
        mask: Mask,
        into: Span,
        port: &mut impl Port,
    ) -> Posted {
        let queue = self.queue_of(word.group());
        // The matcher comes first, so that the operation is written only once.
        let index = self.ops.next_index();
        let pair = &mut self.queues[usize::from(queue)];
        let cell = match pair.matcher.post(word, mask, index) {
            Post::Matched(item) => {
                let message = pair.store.headers.ticket_at(item);
                return self.receive_at_once(owner, queue, message, into, port);
            }
            Post::Waiting(cell) => cell,
        };
        pair.searches.on_receive(word, mask);
        let special = !pair.refused.is_empty() | !pair.ended.is_empty();
        let state = OpState::Posted { into, queue, cell };
        let driven = state.needs_driving(owner, self.limits.eager_bytes_max);
        self.driven += usize::from(driven);
        let op = Op { owner, peer: from, met: false, exposed: false, driven, counter: None, state };
        let ticket = self.ops.claim(op);
        if let Some(peer) = from
            && self.is_down(peer)
        {
            return self.fail_receive(ticket, Fault::PeerDown(peer));
        }
        if special {
            if let Some(fault) = self.ended_under(word.group(), from.is_some()) {
                return self.fail_receive(ticket, fault);
            }
            self.invite_for_receive(queue, sole_holder(from, word), port);
        }
        Posted::Pending(ticket)
    }

    /// Completes a receive with a message from the store.
    #[inline(never)]
    pub(crate) fn receive_at_once(
        &mut self,
        owner: Owner,
        queue: u16,
        message: Ticket,
        into: Span,
        port: &mut impl Port,
    ) -> Posted {
        if let Some(outcome) = self.receive_whole(queue, message, into, port) {
            return Posted::Done(outcome);
        }
        let ticket = self.open(owner, None, OpState::Taken { queue, message });
        let posted = self.receive_offered(ticket, queue, message, into, port);
        if matches!(posted, Posted::Done(_)) {
            self.close(ticket);
        }
        posted
    }

    /// Receives and drops all messages that wait in a group.
    pub(crate) fn discard(&mut self, group: u16, port: &mut impl Port) {
        let queue = self.queue_of(group);
        let anything = MatchWord::new(group, 0, 0);
        let next = |nic: &mut Self| {
            let pair = &mut nic.queues[usize::from(queue)];
            let item = pair.matcher.take(anything, Mask::ANY_BOTH)?;
            Some(pair.store.headers.ticket_at(item))
        };
        while let Some(message) = next(self) {
            self.receive_at_once(Owner::Nobody, queue, message, Span::EMPTY, port);
        }
    }

    /// Ends a posted receive that nothing can match: its peer is down, or its group has ended.
    #[cold]
    fn fail_receive(&mut self, ticket: Ticket, fault: Fault) -> Posted {
        self.unpost(ticket);
        self.close(ticket);
        Posted::Done(Outcome::Failed(fault))
    }

    /// Takes a receive out of the posted queue.
    pub(crate) fn unpost(&mut self, ticket: Ticket) {
        let OpState::Posted { queue, cell, .. } = self.op_mut(ticket).state else {
            unreachable!("only a posted receive is unposted");
        };
        self.queues[usize::from(queue)].matcher.remove_receive(cell);
    }

    /// The oldest message that a receive would get now, if any. A message held by its sender for lack of room is
    /// found too, but only by a later probe.
    pub fn probe(&mut self, word: MatchWord, mask: Mask, port: &mut impl Port) -> Option<Probed> {
        let queue = self.queue_of(word.group());
        let QueuePair { matcher, store, .. } = &mut self.queues[usize::from(queue)];
        if let Some(item) = matcher.probe(word, mask) {
            return Some(probed(store, item));
        }
        self.probe_held(queue, word, mask, port)
    }

    /// Takes the oldest message that a receive would get now, so that no other receive can match it.
    /// [`Nic::post_taken`] receives it. Held messages are found as by [`Nic::probe`].
    pub fn take(
        &mut self,
        word: MatchWord,
        mask: Mask,
        port: &mut impl Port,
    ) -> Option<(Ticket, Probed)> {
        let queue = self.queue_of(word.group());
        let QueuePair { matcher, store, .. } = &mut self.queues[usize::from(queue)];
        if let Some(item) = matcher.take(word, mask) {
            let seen = probed(store, item);
            let message = store.headers.ticket_at(item);
            store.headers.find_mut(message)?.cell = None;
            return Some((self.open(Owner::User, None, OpState::Taken { queue, message }), seen));
        }
        let seen = self.probe_held(queue, word, mask, port)?;
        let ticket = self.open(Owner::User, None, OpState::Waiting);
        self.await_held(ticket, queue, seen.from, seen.word, port);
        self.settle(port);
        Some((ticket, seen))
    }

    /// What a probe has seen among held messages. Begins the search if there is none.
    fn probe_held(
        &mut self,
        queue: u16,
        word: MatchWord,
        mask: Mask,
        port: &mut impl Port,
    ) -> Option<Probed> {
        let pair = &mut self.queues[usize::from(queue)];
        if pair.refused.is_empty() {
            return None;
        }
        let seen = pair.searches.seen(word, mask);
        if pair.searches.begin(word, mask) {
            self.invite_for_receive(queue, None, port);
            self.settle(port);
        }
        seen
    }

    /// Posts a receive for a taken message that has not arrived yet, and invites its sender.
    fn await_held(
        &mut self,
        ticket: Ticket,
        queue: u16,
        from: Peer,
        word: MatchWord,
        port: &mut impl Port,
    ) {
        let word = word.to_match();
        let pair = &mut self.queues[usize::from(queue)];
        pair.searches.on_receive(word, Mask::EXACT);
        let Post::Waiting(cell) = pair.matcher.post(word, Mask::EXACT, ticket.index) else {
            unreachable!("what is held is not stored");
        };
        self.op_mut(ticket).state = OpState::Taking { from, queue, cell };
        self.invite_for_receive(queue, sole_holder(Some(from), word), port);
    }

    /// Receives a message that [`Nic::take`] has taken, under the same ticket.
    pub fn post_taken(&mut self, ticket: Ticket, into: Span, port: &mut impl Port) -> Posted {
        let state = self.ops.find(ticket).map(|op| &op.state);
        let posted = match state {
            Some(&OpState::Taken { queue, message }) => {
                match self.receive_whole(queue, message, into, port) {
                    Some(outcome) => Posted::Done(outcome),
                    None => self.receive_offered(ticket, queue, message, into, port),
                }
            }
            Some(&OpState::Taking { from, queue, cell }) => {
                let op = self.op_mut(ticket);
                op.state = OpState::Posted { into, queue, cell };
                op.peer = Some(from);
                if self.is_down(from) {
                    self.fail_receive(ticket, Fault::PeerDown(from))
                } else {
                    Posted::Pending(ticket)
                }
            }
            Some(&OpState::TakenOffer { from, offer }) => {
                match self.peers.find(from).filter(|&at| !self.peers[at].down) {
                    Some(at) => self.begin_transfer(at, ticket, offer, into, port),
                    None => Posted::Done(Outcome::Failed(Fault::PeerDown(from))),
                }
            }
            _ => panic!("{ticket} is not a taken message"),
        };
        if matches!(posted, Posted::Done(_)) {
            self.close(ticket);
        }
        self.settle(port);
        posted
    }

    /// Handles a whole message.
    ///
    /// `MODULE` says whether it may come from a module, and `PAID` whether its credit has been taken. The caller
    /// knows both at compile time.
    #[inline(always)]
    pub(crate) fn on_eager<const MODULE: bool, const PAID: bool>(
        &mut self,
        at: At,
        whole: Whole,
        payload: &[u8],
        port: &mut impl Port,
    ) {
        let Whole { word, secured, synchronous } = whole;
        let queue = self.queue_of(word.group());
        let Ok(len) = u32::try_from(payload.len()) else { unreachable!("frames are short") };
        let bytes = eager_bytes(len);
        let arrival = self.arrive::<MODULE, PAID>(at, queue, word, secured, bytes, |store| {
            Body::Whole { len, synchronous, payload: store.fill(payload) }
        });
        let Some(Arrival::Matched(item)) = arrival else {
            return self.conclude(at, queue, (word, len.into()), secured, bytes, arrival, port);
        };
        let end = |ticket, op: &Op| match op.state {
            OpState::Posted { into, .. } => {
                debug_assert!(
                    !op.met,
                    "a posted receive is not counted among the operations of a peer"
                );
                Some((ticket, into, op.owner, op.counter, op.driven))
            }
            _ => None,
        };
        let Some((ticket, into, owner, counter, driven)) = self.ops.discard_at(item, end) else {
            return self.take_whole(at, self.ops.ticket_at(item), whole, payload, port);
        };
        self.driven -= usize::from(driven);
        // The answer goes first: the sender learns that the message was accepted, then that it has matched.
        self.conclude(at, queue, (word, len.into()), secured, bytes, arrival, port);
        if let Some(sender) = synchronous {
            self.reply(at, Kind::Matched { ticket: sender }, port);
        }
        let (into, outcome) = match MODULE {
            true => self.modules.outcome(word, payload.len() as u64, into),
            false => (into, outcome_of(word, payload.len() as u64, into.len)),
        };
        let bytes = cut(payload, into.len);
        if !bytes.is_empty() {
            port.deliver(bytes, into.first(bytes.len() as u64));
        }
        self.tell(ticket, owner, counter, outcome, port);
    }

    /// Handles a whole message with the word of a held message that a matched probe waits for: the held one was
    /// cancelled. The new one is stored, or refused if there is no room.
    #[cold]
    fn take_whole(
        &mut self,
        at: At,
        ticket: Ticket,
        Whole { word, secured, synchronous }: Whole,
        payload: &[u8],
        port: &mut impl Port,
    ) {
        let OpState::Taking { .. } = self.op_mut(ticket).state else {
            unreachable!("what matches is posted");
        };
        let from = self.peers[at].peer;
        let queue = self.queue_of(word.group());
        let len = u32::try_from(payload.len()).expect("frames are short");
        let store = &mut self.queues[usize::from(queue)].store;
        if !secured && store.room() < eager_bytes(len) {
            self.refuse(at, queue, (word, len.into()), port);
            return self.await_held(ticket, queue, from, word, port);
        }
        let body = Body::Whole { len, synchronous, payload: store.fill(payload) };
        let message = store.keep(Stored { from, word, body, secured, cell: None });
        self.peers[at].stored += 1;
        self.op_mut(ticket).state = OpState::Taken { queue, message };
        if !secured {
            self.accept(at, queue, port);
        }
    }

    /// Shows a refused message to the searches.
    fn show_to_probe(&mut self, at: At, queue: u16, word: MatchWord, len: u64) {
        let seen = Probed::of(self.peers[at].peer, word, len);
        let swept_for = self.peers[at].lane(queue).swept_for;
        let searches = &mut self.queues[usize::from(queue)].searches;
        searches.show(seen, swept_for);
    }

    /// Handles an offer: the header of a message whose bytes are still with its sender.
    pub(crate) fn on_offer(
        &mut self,
        at: At,
        offer: Offer,
        secured: bool,
        first: bool,
        port: &mut impl Port,
    ) {
        // Reading the span must not overflow.
        let beyond = offer.source.offset.checked_add(offer.source.len).is_none();
        if beyond && !V::has(Bug::OfferUnchecked) {
            self.stats.malformed += 1;
            return;
        }
        let Offer { word, sender, source, key } = offer;
        let queue = self.queue_of(word.group());
        if first {
            // The sweep begins with the oldest held message: nothing can be overtaken any more.
            let lane = self.peers[at].lane(queue);
            lane.floor = NO_FLOOR;
            lane.invited = false;
            lane.swept_for = self.queues[usize::from(queue)].searches.last;
        }
        let arrival = self.arrive::<true, false>(at, queue, word, secured, HEADER_BYTES, |_| {
            Body::Offered { ticket: sender, source, key }
        });
        if arrival == Some(Arrival::Refused) {
            self.show_to_probe(at, queue, word, source.len);
        }
        // The answer goes first: the sender learns that the message was accepted, then that it is granted.
        self.conclude(at, queue, (word, source.len), secured, HEADER_BYTES, arrival, port);
        if let Some(Arrival::Matched(item)) = arrival {
            let ticket = self.ops.ticket_at(item);
            let into = match self.op_mut(ticket).state {
                OpState::Posted { into, .. } => into,
                OpState::Taking { .. } => {
                    let from = self.peers[at].peer;
                    self.op_mut(ticket).state = OpState::TakenOffer { from, offer };
                    return;
                }
                _ => unreachable!("what matches is posted"),
            };
            let met = self.begin_transfer(at, ticket, offer, into, port);
            if let Posted::Done(outcome) = met {
                self.complete(ticket, outcome, port);
            }
        }
    }

    /// Matches a message, or else stores or refuses it. `None` if it claims credit that it does not have.
    #[inline(always)]
    fn arrive<const MODULE: bool, const PAID: bool>(
        &mut self,
        at: At,
        queue: u16,
        word: MatchWord,
        secured: bool,
        bytes: u32,
        body: impl FnOnce(&mut Store) -> Body,
    ) -> Option<Arrival> {
        let from = self.peers[at].peer;
        let lane = match PAID {
            true => self.peers[at].lane(queue),
            false => self.pay(at, queue, secured, bytes)?,
        };
        let floor = if V::has(Bug::FloorIgnored) { NO_FLOOR } else { lane.floor };
        let in_order = lane.floor == NO_FLOOR;
        let QueuePair { matcher, store, .. } = &mut self.queues[usize::from(queue)];
        let mut kept = None;
        let wanted = if MODULE { word.to_match() } else { word };
        let arrival = matcher.arrive(wanted, floor, || {
            if !(secured || in_order && store.room() >= bytes) {
                return None;
            }
            let message = keep(store, from, word, secured, body);
            kept = Some(message);
            Some(message.index)
        });
        if let (Arrival::Waiting(cell), Some(message)) = (arrival, kept) {
            let stored = store.headers.find_mut(message).expect("just kept");
            stored.cell = Some(cell);
            self.peers[at].stored += 1;
            self.stats.unexpected += 1;
        }
        Some(arrival)
    }

    /// Deducts a message from the credit of its sender. `None` if it claims credit that it does not have.
    #[inline(always)]
    pub(crate) fn pay(
        &mut self,
        at: At,
        queue: u16,
        secured: bool,
        bytes: u32,
    ) -> Option<&mut Lane> {
        let lane = self.peers[at].lane(queue);
        if lane.unmet > 0 {
            self.queues[usize::from(queue)].store.widen(lane.unmet);
            lane.reserved += core::mem::take(&mut lane.unmet);
        }
        if secured {
            let paid = lane.floor == NO_FLOOR && lane.reserved >= bytes;
            if !paid {
                self.stats.malformed += 1;
                return None;
            }
            lane.reserved -= bytes;
        }
        Some(lane)
    }

    /// Accounts for the credit of an arrival, and answers a message that came without credit.
    #[inline(always)]
    #[expect(
        clippy::too_many_arguments,
        reason = "all of them describe one message, and are known apart"
    )]
    fn conclude(
        &mut self,
        at: At,
        queue: u16,
        message: (MatchWord, u64),
        secured: bool,
        bytes: u32,
        arrival: Option<Arrival>,
        port: &mut impl Port,
    ) {
        match (secured, arrival) {
            (_, None) | (true, Some(Arrival::Waiting(_) | Arrival::Refused)) => {}
            (true, Some(Arrival::Matched(_))) => self.owe(at, queue, bytes, port),
            (false, Some(Arrival::Refused)) => self.refuse(at, queue, message, port),
            (false, Some(Arrival::Matched(_) | Arrival::Waiting(_))) => {
                self.accept(at, queue, port);
            }
        }
    }

    /// Accepts a message without credit. The answer carries some credit for the next.
    fn accept(&mut self, at: At, queue: u16, port: &mut impl Port) {
        let peer = self.peers[at].peer;
        self.queues[usize::from(queue)].searches.forget(peer);
        let credit = self.give_credit(at, queue);
        self.reply(at, Kind::Answer { queue, accepted: true, wanted: false, credit }, port);
    }

    /// Refuses a message (receiver not ready): the sender holds it and what follows it, for this queue pair only.
    /// The first such message is reported, with its length.
    fn refuse(&mut self, at: At, queue: u16, (word, len): (MatchWord, u64), port: &mut impl Port) {
        self.stats.refused += 1;
        let peer = self.peers[at].peer;
        let pair = &mut self.queues[usize::from(queue)];
        let lane = self.peers[at].lane(queue);
        lane.floor = lane.floor.min(pair.matcher.next_age());
        let first = !core::mem::replace(&mut lane.refused, true);
        if first {
            pair.refused.push_back(peer);
            port.report(Notice::Overflow { from: peer, word, len });
            // Messages refused now are not part of a sweep, and not all of them are shown to probes.
            lane.swept_for = 0;
        }
        if pair.inviting == Some(peer) {
            pair.inviting = None;
        }
        let searching = pair.searches.is_on();
        let wanted = searching || pair.matcher.len(Queue::Posted) > 0;
        self.reply(at, Kind::Answer { queue, accepted: false, wanted, credit: 0 }, port);
        if first && searching {
            self.invite(peer, queue, port);
        }
        self.invite_for_room(queue, port);
    }

    /// The peer no longer holds messages for this queue pair.
    pub(crate) fn on_vacant(&mut self, at: At, queue: u16, port: &mut impl Port) {
        let peer = self.peers[at].peer;
        let queue = self.queue_of(queue);
        let lane = self.peers[at].lane(queue);
        lane.floor = NO_FLOOR;
        lane.refused = false;
        lane.invited = false;
        let pair = &mut self.queues[usize::from(queue)];
        pair.refused.retain(|&waiting| waiting != peer);
        pair.inviting = pair.inviting.filter(|&invited| invited != peer);
        pair.searches.forget(peer);
        self.invite_for_room(queue, port);
    }

    /// If there is room, invites the peer that has waited longest.
    #[inline(always)]
    pub(crate) fn invite_for_room(&mut self, queue: u16, port: &mut impl Port) {
        if !self.queues[usize::from(queue)].refused.is_empty() {
            self.invite_next(queue, port);
        }
    }

    #[inline(never)]
    fn invite_next(&mut self, queue: u16, port: &mut impl Port) {
        let pair = &mut self.queues[usize::from(queue)];
        if pair.store.room() < HEADER_BYTES || pair.inviting.is_some() {
            return;
        }
        let Some(peer) = pair.refused.pop_front() else { return };
        pair.refused.push_back(peer);
        pair.inviting = Some(peer);
        self.invite(peer, queue, port);
    }

    /// Invites the peers that hold messages, or only `from`, because a receive or probe found nothing in the store.
    ///
    /// A sweep under way may show messages that this receive will get in the next sweep, so the rest of it is not
    /// shown to probes.
    #[inline(never)]
    fn invite_for_receive(&mut self, queue: u16, from: Option<Peer>, port: &mut impl Port) {
        for turn in 0..self.queues[usize::from(queue)].refused.len() {
            let peer = self.queues[usize::from(queue)].refused[turn];
            if from.is_none_or(|from| from == peer) {
                if let Some(at) = self.peers.find(peer)
                    && !V::has(Bug::ShownTwice)
                {
                    self.peers[at].lane(queue).swept_for = 0;
                }
                self.invite(peer, queue, port);
            }
        }
    }

    fn invite(&mut self, peer: Peer, queue: u16, port: &mut impl Port) {
        let Some(at) = self.peers.find(peer) else { return };
        if !core::mem::replace(&mut self.peers[at].lane(queue).invited, true) {
            self.stats.invited += 1;
            self.reply(at, Kind::Invite { queue }, port);
        }
    }

    pub(crate) fn invite_everywhere(&mut self, port: &mut impl Port) {
        for queue in 0..self.limits.queues.min(u16::try_from(self.queues.len()).unwrap_or(0)) {
            self.invite_for_room(queue, port);
        }
    }

    /// Reserved room of a peer is free again. It goes back to the peer in large portions, or to peers whose
    /// messages were refused, if there are any.
    #[inline(always)]
    pub(crate) fn owe(&mut self, at: At, queue: u16, bytes: u32, port: &mut impl Port) {
        let pair = &mut self.queues[usize::from(queue)];
        let lane = self.peers[at].lane(queue);
        lane.owed += bytes;
        if !pair.refused.is_empty() || lane.owed >= self.limits.credit_bytes / 2 {
            self.give_back(at, queue, port);
        }
    }

    #[inline(never)]
    fn give_back(&mut self, at: At, queue: u16, port: &mut impl Port) {
        let pair = &mut self.queues[usize::from(queue)];
        let lane = self.peers[at].lane(queue);
        let bytes = core::mem::take(&mut lane.owed);
        if pair.refused.is_empty() {
            lane.reserved += bytes;
            self.reply(at, Kind::Credit { queue, bytes }, port);
        } else {
            pair.store.unreserve(bytes);
            self.invite_for_room(queue, port);
        }
    }

    /// Credit for an answer: what we owe, and a first portion if there is room.
    fn give_credit(&mut self, at: At, queue: u16) -> u32 {
        let portion = self.limits.credit_bytes;
        let pair = &mut self.queues[usize::from(queue)];
        let lane = self.peers[at].lane(queue);
        if lane.refused || !pair.refused.is_empty() {
            return 0;
        }
        let mut credit = core::mem::take(&mut lane.owed);
        // At least half of the free room stays for senders without credit.
        if lane.reserved + credit < portion / 2 && pair.store.room() >= 2 * portion {
            pair.store.reserve(portion);
            credit += portion;
        }
        lane.reserved += credit;
        credit
    }
}

/// Stores a message that no receive waits for.
#[inline(never)]
fn keep(
    store: &mut Store,
    from: Peer,
    word: MatchWord,
    secured: bool,
    body: impl FnOnce(&mut Store) -> Body,
) -> Ticket {
    let body = body(store);
    store.keep(Stored { from, word, body, secured, cell: None })
}

/// The only peer that may hold a message for a receive from `from`, if there is one: a message that modules have
/// forwarded is held by the last of them.
fn sole_holder(from: Option<Peer>, word: MatchWord) -> Option<Peer> {
    from.filter(|_| !word.has_module())
}

/// The outcome of a receive with `room` bytes for a message of `len` bytes.
#[inline]
pub(crate) fn outcome_of(word: MatchWord, len: u64, room: u64) -> Outcome {
    match len > room {
        true => Outcome::Failed(Fault::Truncated { word, len }),
        false => Outcome::Received(Received { word, len }),
    }
}

/// The first `room` bytes of `bytes`.
#[inline]
pub(crate) fn cut(bytes: &[u8], room: u64) -> &[u8] {
    match usize::try_from(room) {
        Ok(room) if room < bytes.len() => &bytes[..room],
        _ => bytes,
    }
}

fn probed(store: &Store, item: Item) -> Probed {
    let message = store.headers.find(store.headers.ticket_at(item)).expect("a queued message");
    Probed::of(message.from, message.word, message.len())
}
