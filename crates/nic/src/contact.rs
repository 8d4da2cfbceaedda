//! How peers come and go: first contact, farewell, forgetting, failure.

use alloc::vec::Vec;

use crate::canary::Bug;
use crate::envelope::Kind;
use crate::matcher::{Matcher, Queue};
use crate::nic::{Ended, Nic, Variant};
use crate::op::{Op, OpState};
use crate::peers::At;
use crate::port::{Port, RailId};
use crate::types::{Fault, Outcome, Peer, Span, Ticket, Time};
use crate::word::MatchWord;

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
        if let Some(reliability) = state.reliability.take() {
            self.early_bytes -= reliability.early_bytes();
        }
        state.silence = None;
        if let Some(listed) = state.listed.take() {
            self.deadlines.remove(listed, peer);
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

    /// Whether `peer` is known to be down.
    #[inline]
    pub fn is_down(&self, peer: Peer) -> bool {
        self.peers.find(peer).is_some_and(|at| self.peers[at].down)
    }

    /// Ends all wildcard receives and all waits for counters as if only `peer`, now down, could have matched or raised
    /// them. For a caller that knows that no peer will.
    pub fn abandon_unbound(&mut self, peer: Peer, port: &mut impl Port) {
        let is_open = |op: &Op| {
            op.peer.is_none() && matches!(op.state, OpState::Posted { .. } | OpState::Waiting)
        };
        let open: Vec<Ticket> =
            self.ops.iter().filter(|(_, op)| is_open(op)).map(|(ticket, _)| ticket).collect();
        for ticket in open {
            self.abandon(ticket, Fault::PeerDown(peer), port);
        }
        self.settle(port);
    }

    /// Ends with `fault` what waits for several peers under `group`: schedules, and wildcard receives. Until
    /// [`Nic::mend`], such operations end with `fault` if they would have to wait. For a caller that knows that
    /// one of the peers will not answer.
    pub fn end_shared(&mut self, group: u16, fault: Fault, port: &mut impl Port) {
        self.note_ended(group, fault, false);
        self.end_triggers(group, fault, false, port);
        self.end_runs(group, fault, port);
        for ticket in self.posted_under(group) {
            if self.ops.find(ticket).is_some_and(|op| op.peer.is_none()) {
                self.abandon(ticket, fault, port);
            }
        }
        self.settle(port);
    }

    /// Ends everything open under `group`: with `fault`, or by cancelling it. What has already matched runs to its
    /// end. Until [`Nic::forget_group`], operations end with `fault` if they would have to wait.
    pub fn end_group(&mut self, group: u16, fault: Fault, port: &mut impl Port) {
        self.note_ended(group, fault, true);
        self.end_triggers(group, fault, true, port);
        self.end_runs(group, fault, port);
        for ticket in self.posted_under(group) {
            self.abandon(ticket, fault, port);
        }
        let is_open = |op: &Op| match &op.state {
            OpState::InLane(message) => message.word.group() == group,
            OpState::Offered { word, .. } => word.group() == group,
            OpState::Flying { synchronous: Some(word) } | OpState::Accepted { word } => {
                word.group() == group
            }
            _ => false,
        };
        let open: Vec<Ticket> =
            self.ops.iter().filter(|(_, op)| is_open(op)).map(|(ticket, _)| ticket).collect();
        for ticket in open {
            match &mut self.op_mut(ticket).state {
                // The rail still needs the bytes. The send ends when they are away, without waiting for a match.
                OpState::Flying { synchronous } => *synchronous = None,
                OpState::Accepted { .. } => self.abandon(ticket, fault, port),
                _ => self.begin_cancel(ticket, port),
            }
        }
        self.settle(port);
    }

    /// Lets operations with several peers wait again under `group`.
    pub fn mend(&mut self, group: u16) {
        self.ended_of(group).retain(|ended| ended.group != group || ended.all);
    }

    /// Forgets that `group` has ended: its id may be reused.
    pub fn forget_group(&mut self, group: u16) {
        self.ended_of(group).retain(|ended| ended.group != group);
    }

    /// Why a receive of `word` from `from`, or from any peer, could never match; `None` if it could.
    pub fn hopeless(&self, word: MatchWord, from: Option<Peer>) -> Option<Fault> {
        let down = from.filter(|&peer| self.is_down(peer)).map(Fault::PeerDown);
        down.or_else(|| self.ended_under(word.group(), from.is_some()))
    }

    /// Why an operation cannot wait under `group`, with one peer or with several; `None` if it can.
    pub(crate) fn ended_under(&self, group: u16, for_one: bool) -> Option<Fault> {
        let pair = self.queues.get(usize::from(self.queue_at(group)))?;
        let is_it = |ended: &&Ended| ended.group == group && (ended.all || !for_one);
        pair.ended.iter().find(is_it).map(|ended| ended.fault)
    }

    fn note_ended(&mut self, group: u16, fault: Fault, all: bool) {
        let known = self.ended_of(group);
        if all {
            known.retain(|ended| ended.group != group);
        }
        if !known.iter().any(|ended| ended.group == group) {
            known.push(Ended { group, fault, all });
        }
    }

    fn ended_of(&mut self, group: u16) -> &mut Vec<Ended> {
        let queue = self.queue_of(group);
        &mut self.queues[usize::from(queue)].ended
    }

    /// Ends the triggers that would start something under `group`, or only what several peers have to end.
    fn end_triggers(&mut self, group: u16, fault: Fault, all: bool, port: &mut impl Port) {
        for ticket in self.counters.forget_group(group, all) {
            self.complete(ticket, Outcome::Failed(fault), port);
        }
    }

    fn end_runs(&mut self, group: u16, fault: Fault, port: &mut impl Port) {
        let open: Vec<Ticket> =
            self.runs.iter().filter(|(_, run)| run.group() == group).map(|(at, _)| at).collect();
        let deferred = self.deferred.iter().filter(|next| next.group() == group);
        let deferred: Vec<Ticket> = deferred.map(|next| next.ticket).collect();
        self.deferred.retain(|next| next.group() != group);
        for ticket in deferred {
            self.complete(ticket, Outcome::Failed(fault), port);
        }
        for run in open {
            self.fail_run(run, fault, port);
        }
    }

    /// The receives in the posted queue of a group. Those of schedules have left it: `end_runs` comes first.
    fn posted_under(&self, group: u16) -> Vec<Ticket> {
        let Some(pair) = self.queues.get(usize::from(self.queue_at(group))) else {
            return Vec::new();
        };
        let mut items = Vec::new();
        pair.matcher.dump(Queue::Posted, |entry| {
            if entry.word.group() == group {
                items.push(entry.item);
            }
        });
        let is_posted = |ticket: &Ticket| {
            self.ops.find(*ticket).is_some_and(|op| matches!(op.state, OpState::Posted { .. }))
        };
        items.into_iter().map(|item| self.ops.ticket_at(item)).filter(is_posted).collect()
    }

    /// Takes back all credit of a peer.
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

    /// Takes back the credit of a peer that has given it back or forgotten it.
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

    /// The entry of a peer to communicate with, which is added if necessary.
    #[inline(always)]
    pub(crate) fn contact(&mut self, peer: Peer, port: &mut impl Port) -> Result<At, Fault> {
        self.admit(peer, port).ok_or(Fault::PeerDown(peer))
    }

    /// The sender of a frame that came by `via`. A frame that claims to come from a peer that another rail reaches
    /// creates no state.
    #[inline(always)]
    pub(crate) fn admit_by(&mut self, via: RailId, peer: Peer, port: &mut impl Port) -> Option<At> {
        let rail = match self.peers.find(peer) {
            Some(at) => self.peers[at].promises.rail,
            None => port.promises(peer).rail,
        };
        if rail != via && !V::has(Bug::ForgedSource) {
            self.stats.foreign += 1;
            return None;
        }
        self.admit(peer, port)
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
        if V::has(Bug::ForgetsUnderWay) {
            self.forget_some(LOOKS_PER_CONTACT, 0, port);
        } else {
            self.newcomers += 1;
        }
        self.peers.add(peer, port.promises(peer), now)
    }

    /// Checks a few old peers for each new one.
    pub(crate) fn look_at_old_peers(&mut self, port: &mut impl Port) {
        let newcomers = core::mem::take(&mut self.newcomers);
        self.forget_some(newcomers.saturating_mul(LOOKS_PER_CONTACT), newcomers as usize, port);
    }

    /// Checks a few idle peers, other than the newcomers: says farewell to them, or forgets them. This moves other
    /// peers within the table, so only `settle` calls it, when no position is in use.
    fn forget_some(&mut self, looks: u32, newcomers: usize, port: &mut impl Port) {
        let now = port.now();
        for _ in 0..looks {
            let Some(at) = self.peers.next_if_rested(newcomers, now, &self.limits) else {
                continue;
            };
            // A peer with initial credit cannot be met anew: we would not know how much of that credit it has
            // used.
            if self.peers[at].promises.initial_credit_bytes > 0 {
                continue;
            }
            if self.peers[at].is_forgettable() {
                self.close_lanes(at);
                self.peers.forget(at, newcomers);
                self.stats.forgotten += 1;
            } else {
                self.peers[at].active_at = now;
                self.take_leave(at, port);
            }
        }
    }

    /// Says farewell, giving all credit back, if we want nothing from the peer.
    fn take_leave(&mut self, at: At, port: &mut impl Port) {
        let state = &mut self.peers[at];
        if !state.talking || !state.is_at_rest() {
            return;
        }
        for lane in &mut state.lanes {
            lane.credit = 0;
            lane.established = false;
        }
        self.send(at, Kind::Farewell, Span::EMPTY, None, port);
    }

    /// The peer wants nothing for now. If we do not either, we say farewell too.
    pub(crate) fn on_farewell(&mut self, at: At, port: &mut impl Port) {
        self.begin_anew(at);
        self.take_leave(at, port);
    }
}

/// How many old peers each new contact checks. With two, the table shrinks faster than it grows.
const LOOKS_PER_CONTACT: u32 = 2;
