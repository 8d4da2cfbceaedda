//! How peers come and go: first contact, farewell, forgetting, death.

use alloc::vec::Vec;

use crate::envelope::Kind;
use crate::nic::{Nic, Variant};
use crate::op::{Op, State};
use crate::peers::At;
use crate::port::{Port, Promises};
use crate::types::{Fault, Peer, Span, Ticket, Time};

impl<V: Variant> Nic<V> {
    pub(crate) fn lose(&mut self, peer: Peer, port: &mut impl Port) {
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

    /// Whether `peer` is known to be gone.
    #[inline]
    pub fn is_down(&self, peer: Peer) -> bool {
        self.peers.find(peer).is_some_and(|at| self.peers[at].down)
    }

    /// Receives that anybody could have answered end as if only `peer` could, and it is down. For those
    /// who know that nobody will.
    pub fn abandon_wildcards(&mut self, peer: Peer, port: &mut impl Port) {
        let is_open = |op: &Op| op.peer.is_none() && matches!(op.state, State::Posted { .. });
        let open: Vec<Ticket> =
            self.ops.iter().filter(|(_, op)| is_open(op)).map(|(ticket, _)| ticket).collect();
        for ticket in open {
            self.abandon(ticket, Fault::PeerDown(peer), port);
        }
        self.settle(port);
    }

    /// Takes back all that was set aside for a peer.
    fn close_lanes(&mut self, at: At) {
        let peer = self.peers[at].peer;
        for lane in core::mem::take(&mut self.peers[at].lanes) {
            if let Some(pair) = self.queues.get_mut(usize::from(lane.queue)) {
                pair.store.unreserve(lane.reserved + lane.owed);
                pair.refused.retain(|&waiting| waiting != peer);
                pair.inviting = pair.inviting.filter(|&invited| invited != peer);
                pair.searches.forget(peer);
            }
        }
        for pair in &mut self.queues {
            pair.store.disown(peer);
        }
    }

    /// The peer has given back the credit that it had, or has forgotten it: so do we.
    pub(crate) fn begin_anew(&mut self, at: At) {
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
    #[inline(always)]
    pub(crate) fn contact(&mut self, peer: Peer, port: &mut impl Port) -> Result<At, Fault> {
        self.admit(peer, port).ok_or(Fault::PeerDown(peer))
    }

    #[inline(always)]
    pub(crate) fn admit(&mut self, peer: Peer, port: &mut impl Port) -> Option<At> {
        let now = port.now();
        let Some(at) = self.peers.find(peer) else {
            return Some(self.meet_peer(peer, now, port));
        };
        let state = &mut self.peers[at];
        if state.down {
            return None;
        }
        state.active_at = now;
        Some(at)
    }

    #[cold]
    fn meet_peer(&mut self, peer: Peer, now: Time, port: &mut impl Port) -> At {
        self.forget_some(now, port);
        let promises = if peer == self.me { LOOPBACK } else { port.promises(peer) };
        self.peers.add(peer, promises, now)
    }

    /// Looks at a few peers that have rested: says farewell to them, or forgets them.
    fn forget_some(&mut self, now: Time, port: &mut impl Port) {
        for _ in 0..LOOKS_PER_CONTACT {
            let Some(at) = self.peers.next_if_rested(now, &self.limits) else { continue };
            // Whoever is welcome without having met us cannot be met anew: we would not know
            // how much of the first credit it has used.
            if self.peers[at].promises.welcome_bytes > 0 {
                continue;
            }
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
    pub(crate) fn on_farewell(&mut self, at: At, port: &mut impl Port) {
        self.begin_anew(at);
        self.take_leave(at, port);
    }
}

/// How many old peers each new contact looks at. Two: the table shrinks faster than it grows.
const LOOKS_PER_CONTACT: usize = 2;

/// What the rail to ourselves promises.
const LOOPBACK: Promises = Promises {
    reliable: true,
    puts: false,
    gets: true,
    frame_bytes_max: u32::MAX,
    welcome_bytes: 0,
};
