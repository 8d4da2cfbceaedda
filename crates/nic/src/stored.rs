//! How messages leave the store: received, withdrawn by their senders, or dropped with them.

use crate::canary::Bug;
use crate::envelope::Kind;
use crate::matcher::Matcher;
use crate::nic::{Nic, Variant};
use crate::peers::At;
use crate::port::Port;
use crate::receive::{Offer, cut};
use crate::store::{Body, Room, Store};
use crate::types::{Fault, Outcome, Peer, Posted, Span, Ticket};
use crate::word::MatchWord;

impl<V: Variant> Nic<V> {
    /// Receives a message whose bytes are in the store; `None` if they are still with its sender. No operation is
    /// needed for it, and the header is read where it is.
    #[inline(always)]
    pub(crate) fn receive_whole(
        &mut self,
        queue: u16,
        message: Ticket,
        into: Span,
        port: &mut impl Port,
    ) -> Option<Outcome> {
        let Nic { queues, modules, .. } = self;
        let Store { headers, fragments, .. } = &mut queues[usize::from(queue)].store;
        let (room, len, synchronous, outcome) =
            headers.discard_at(message.index, |_, stored| match stored.body {
                Body::Offered { .. } => None,
                Body::Whole { len, synchronous, ref payload } => {
                    let (into, outcome) = modules.outcome(stored.word, len.into(), into);
                    payload.drain(len, fragments, |offset, bytes| {
                        let bytes = cut(bytes, into.len.saturating_sub(offset));
                        if !bytes.is_empty() {
                            port.deliver(bytes, into.part(offset, bytes.len() as u64));
                        }
                    });
                    Some((stored.room(), len, synchronous, outcome))
                }
            })?;
        if let Some(ticket) = synchronous
            && let Some(at) = self.peers.find(room.from)
        {
            self.reply(at, Kind::Matched { ticket }, port);
        }
        let leak = V::has(Bug::BudgetLeak) && u64::from(len) > into.len;
        if !leak {
            self.free_stored(queue, room, port);
        }
        Some(outcome)
    }

    /// Receives an offered message. If that ends the operation, the caller closes it.
    #[inline(never)]
    pub(crate) fn receive_offered(
        &mut self,
        ticket: Ticket,
        queue: u16,
        message: Ticket,
        into: Span,
        port: &mut impl Port,
    ) -> Posted {
        let store = &mut self.queues[usize::from(queue)].store;
        let stored = store.headers.release(message).expect("a matched message is stored");
        let Body::Offered { ticket: sender, source, key } = stored.body else {
            unreachable!("a whole message needs no operation");
        };
        let posted = match self.peers.find(stored.from) {
            Some(at) if !self.peers[at].down => {
                let offer = Offer { word: stored.word, sender, source, key };
                self.begin_transfer(at, ticket, offer, into, port)
            }
            _ => Posted::Done(Outcome::Failed(Fault::PeerDown(stored.from))),
        };
        let leak = V::has(Bug::BudgetLeak) && stored.len() > into.len;
        if !leak {
            self.free_stored(queue, stored.room(), port);
        }
        posted
    }

    /// Gives back the room of a message that has left the store.
    #[inline(always)]
    fn free_stored(&mut self, queue: u16, room: Room, port: &mut impl Port) {
        let from = self.peers.find(room.from);
        if let Some(at) = from {
            self.peers[at].stored -= 1;
        }
        let store = &mut self.queues[usize::from(queue)].store;
        match from.filter(|_| room.secured) {
            Some(at) => {
                let first =
                    || self.peers.iter().next().and_then(|state| self.peers.find(state.peer));
                let astray = if V::has(Bug::CreditAstray) { first() } else { None };
                store.give_back(room.bytes);
                self.owe(astray.unwrap_or(at), queue, room.bytes, port);
            }
            None => store.forget(room.bytes),
        }
        self.invite_for_room(queue, port);
    }

    /// Drops the offers of a dead peer. Its whole messages can still be received.
    pub(crate) fn drop_offers_of(&mut self, peer: Peer) {
        for pair in &mut self.queues {
            let dead: alloc::vec::Vec<_> = pair
                .store
                .headers
                .iter()
                .filter(|(_, message)| message.from == peer && message.is_offer())
                .filter_map(|(ticket, message)| message.cell.map(|cell| (ticket, cell)))
                .collect();
            for (ticket, cell) in dead {
                pair.matcher.remove_message(cell);
                if let Some(stored) = pair.store.headers.release(ticket) {
                    pair.store.forget(stored.bytes());
                    if let Some(at) = self.peers.find(peer) {
                        self.peers[at].stored -= 1;
                    }
                }
            }
        }
    }

    /// The sender withdraws a message. If it has matched, it is too late, and there is no reply: the match itself
    /// tells the sender.
    pub(crate) fn on_withdraw(
        &mut self,
        at: At,
        ticket: Ticket,
        word: MatchWord,
        port: &mut impl Port,
    ) {
        let peer = self.peers[at].peer;
        let queue = self.queue_of(word.group());
        let pair = &mut self.queues[usize::from(queue)];
        let found = pair.store.headers.iter().find_map(|(slot, message)| {
            let sender = match message.body {
                Body::Offered { ticket, .. } => Some(ticket),
                Body::Whole { synchronous, .. } => synchronous,
            };
            let cell = message.cell?;
            (message.from == peer && sender == Some(ticket)).then_some((slot, cell))
        });
        let Some((slot, cell)) = found else {
            if V::has(Bug::WithdrawnTooLate) {
                self.reply(at, Kind::Withdrawn { ticket }, port);
            }
            return;
        };
        pair.matcher.remove_message(cell);
        let stored = pair.store.headers.release(slot).expect("just found");
        if let Body::Whole { len, ref payload, .. } = stored.body {
            payload.drain(len, &mut pair.store.fragments, |_, _| {});
        }
        self.reply(at, Kind::Withdrawn { ticket }, port);
        self.free_stored(queue, stored.room(), port);
    }
}
