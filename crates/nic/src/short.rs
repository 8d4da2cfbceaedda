//! The short way, which most messages take: no operation is opened for them.
//!
//! A message under credit, to a peer that nothing waits for, is over once the rail has it. A receive whose caller does
//! nothing but look for its message is *awaited*: it is in no queue. It is the youngest receive, so a whole message that
//! agrees with it is for it, as long as no older receive waits in its queue pair, and no older message for it. Whatever else
//! happens first makes it an ordinary receive: see [`Nic::post_awaited`]. So matching and order are the same as if it
//! had been posted at once.

use crate::canary::Bug;
use crate::envelope::{Envelope, Kind};
use crate::matcher::{Matcher, Queue};
use crate::nic::{Nic, QueuePair, Variant};
use crate::op::Owner;
use crate::port::{Port, RailId, Sent};
use crate::receive::{cut, outcome_of};
use crate::run::AwaitedRun;
use crate::store::eager_bytes;
use crate::types::{Mode, Outcome, Peer, Posted, Span, Ticket};
use crate::word::{Mask, MatchWord};

/// What has become of an awaited receive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Awaited {
    /// Its message has not come.
    Open,
    /// It is over.
    Over(Outcome),
    /// It is an ordinary receive now.
    Posted(Ticket),
}

impl From<Posted> for Awaited {
    #[inline(always)]
    fn from(posted: Posted) -> Awaited {
        match posted {
            Posted::Done(outcome) => Awaited::Over(outcome),
            Posted::Pending(ticket) => Awaited::Posted(ticket),
        }
    }
}

/// The awaited receive of a NIC.
#[derive(Debug)]
pub(crate) struct AwaitedReceive {
    word: MatchWord,
    mask: Mask,
    into: Span,
    from: Option<Peer>,
    /// The schedule that it is a step of.
    pub(crate) run: Option<AwaitedRun>,
    /// `None` if there is no awaited receive.
    state: Option<Awaited>,
}

impl Default for AwaitedReceive {
    fn default() -> AwaitedReceive {
        let (word, mask) = (MatchWord::default(), Mask::EXACT);
        AwaitedReceive { word, mask, into: Span::EMPTY, from: None, run: None, state: None }
    }
}

impl AwaitedReceive {
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.state == Some(Awaited::Open)
    }

    #[inline(always)]
    pub(crate) fn is_for(&self, word: MatchWord) -> bool {
        self.is_open() && word.agrees(self.word, self.mask)
    }

    pub(crate) fn end(&mut self, awaited: Awaited) {
        self.state = Some(awaited);
    }
}

impl<V: Variant> Nic<V> {
    /// Sends a message that can go out now and is over then: a whole message under credit that nobody has to confirm,
    /// behind no other, on a reliable rail whose peers do not vanish. Nothing else changes. False if it cannot, and then
    /// nothing has happened.
    #[inline(always)]
    pub fn send_at_once(
        &mut self,
        to: Peer,
        word: MatchWord,
        source: Span,
        mode: Mode,
        port: &mut impl Port,
    ) -> bool {
        if mode == Mode::Synchronous {
            return false;
        }
        let queue = self.queue_at(word.group());
        let Some(at) = self.peers.find(to) else { return false };
        let state = &mut self.peers[at];
        let Some(len) = state.whole(source.len, &self.limits) else { return false };
        let bytes = eager_bytes(len);
        if !state.promises.reliable && !V::has(Bug::ShortUnmarked)
            || state.backlog.is_some() && !V::has(Bug::ShortOvertakesBacklog)
            || state.silence.is_some()
        {
            return false;
        }
        // A peer that is down has no lanes.
        let Some(lane) = state.open_lane(queue) else { return false };
        if lane.waiting.is_some() && !V::has(Bug::ShortOvertakesHeld)
            || lane.credit < bytes && !V::has(Bug::ShortUnpaid)
        {
            return false;
        }
        let kind = Kind::Eager { word, secured: true, synchronous: None };
        let envelope = Envelope { job: self.job, marks: None, kind };
        if port.transmit(to, &envelope, source) == Sent::Full {
            return false;
        }
        self.short_of_credit |= lane.spend(bytes, self.limits.credit_bytes);
        state.talking = true;
        state.active_at = port.now();
        self.stats.frames_sent += 1;
        true
    }

    /// Begins to await a message. The caller passes frames to the NIC and looks at [`Nic::awaited`] after each; before
    /// it calls anything else, and soon, it calls [`Nic::post_awaited`]. False if the receive cannot be awaited, or its
    /// message may be here, and then nothing has happened.
    #[inline(always)]
    pub fn await_receive(
        &mut self,
        from: Option<Peer>,
        word: MatchWord,
        mask: Mask,
        into: Span,
    ) -> bool {
        let Some(pair) = self.pair_to_await(word) else { return false };
        if pair.matcher.len(Queue::Unexpected) > 0 && !V::has(Bug::AwaitedSkipsStored) {
            return false;
        }
        self.begin_to_await(from, word, mask, into);
        true
    }

    /// Receives a message if it is here, and otherwise begins to await it, as [`Nic::await_receive`] does. `None` if the
    /// receive cannot be awaited, and then nothing has happened.
    #[inline]
    pub fn receive_or_await(
        &mut self,
        from: Option<Peer>,
        word: MatchWord,
        mask: Mask,
        into: Span,
        port: &mut impl Port,
    ) -> Option<Awaited> {
        if self.await_receive(from, word, mask, into) {
            return Some(Awaited::Open);
        }
        let pair = self.pair_to_await(word)?;
        let Some(item) = pair.matcher.take(word, mask) else {
            self.begin_to_await(from, word, mask, into);
            return Some(Awaited::Open);
        };
        let message = pair.store.headers.ticket_at(item);
        let queue = self.queue_at(word.group());
        let posted = self.receive_at_once(Owner::User, queue, message, into, port);
        self.settle(port);
        Some(posted.into())
    }

    /// The queue pair of a receive, if the receive may be awaited: no older receive can get its message, it need not ask
    /// for a held one, and no module wants it.
    #[inline(always)]
    fn pair_to_await(&mut self, word: MatchWord) -> Option<&mut QueuePair<V::Matcher>> {
        if word.has_module() && !V::has(Bug::AwaitedBeforeModule) {
            return None;
        }
        let queue = self.queue_at(word.group());
        self.queues.get_mut(usize::from(queue)).filter(|pair| {
            (pair.matcher.len(Queue::Posted) == 0 || V::has(Bug::AwaitedOvertakes))
                && pair.refused.is_empty()
                && pair.ended.is_empty()
        })
    }

    #[inline(always)]
    fn begin_to_await(&mut self, from: Option<Peer>, word: MatchWord, mask: Mask, into: Span) {
        debug_assert!(self.awaited.state.is_none(), "one receive is awaited at a time");
        debug_assert!(self.awaited.run.is_none(), "a schedule adds itself afterwards");
        let awaited = &mut self.awaited;
        (awaited.word, awaited.mask, awaited.into, awaited.from) = (word, mask, into, from);
        awaited.state = Some(Awaited::Open);
    }

    /// What has become of the awaited receive. If it is no longer open, it is forgotten.
    #[inline(always)]
    pub fn awaited(&mut self) -> Awaited {
        match self.awaited.state {
            Some(Awaited::Open) => Awaited::Open,
            Some(ended) => {
                self.awaited.state = None;
                ended
            }
            None => unreachable!("no receive is awaited"),
        }
    }

    /// Makes an ordinary receive of the awaited one, if it is open. [`Nic::awaited`] tells what came of it.
    #[inline(never)]
    pub fn post_awaited(&mut self, port: &mut impl Port) {
        if self.awaited.is_open() {
            let AwaitedReceive { word, mask, into, from, .. } = self.awaited;
            self.awaited.state = None;
            let awaited = match self.awaited.run.take() {
                Some(run) => self.post_awaited_step(run, port),
                None => self.begin_receive(Owner::User, from, word, mask, into, port).into(),
            };
            self.awaited.state = Some(awaited);
            self.settle(port);
        }
    }

    /// Handles a whole message that agrees with the awaited receive. No other receive waits in its queue pair.
    #[inline(always)]
    pub(crate) fn on_awaited(
        &mut self,
        from: Peer,
        via: RailId,
        word: MatchWord,
        payload: &[u8],
        port: &mut impl Port,
    ) {
        let Some(at) = self.admit_plain(from, via, port) else { return };
        let queue = self.queue_at(word.group());
        let Ok(len) = u32::try_from(payload.len()) else { unreachable!("frames are short") };
        let bytes = eager_bytes(len);
        if self.pay(at, queue, true, bytes).is_none() {
            return;
        }
        let into = self.awaited.into;
        let outcome = outcome_of(word, len.into(), into.len);
        let part = cut(payload, into.len);
        if !part.is_empty() {
            port.deliver(part, into.first(part.len() as u64));
        }
        self.owe(at, queue, bytes, port);
        match self.awaited.run.take() {
            None => self.awaited.state = Some(Awaited::Over(outcome)),
            Some(run) => {
                self.awaited.state = None;
                self.continue_awaited(run, outcome, port);
            }
        }
    }
}
