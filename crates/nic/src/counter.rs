//! Counters, and triggers that fire when they reach a value.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::nic::{Nic, Variant};
use crate::op::{OpState, Owner, Stream};
use crate::port::{Port, StepRef};
use crate::schedule::Schedule;
use crate::slab::Slab;
use crate::types::{Mode, Outcome, Peer, Posted, Region, Span, Ticket};
use crate::word::{Mask, MatchWord};

/// A number that completions raise. Peers raise it by puts into a region that it belongs to:
/// [`Nic::set_region_counters`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Counter(pub(crate) Ticket);

/// What a trigger starts.
#[derive(Clone, Debug)]
pub enum Triggered {
    /// A schedule, as by [`Nic::post_schedule`].
    Schedule {
        /// The schedule.
        schedule: Arc<Schedule>,
        /// Its instance.
        instance: u16,
    },
    /// A send, as by [`Nic::post_send`].
    Send {
        /// The receiver.
        to: Peer,
        /// The match word.
        word: MatchWord,
        /// The bytes, which are read when the trigger fires.
        source: Span,
        /// The mode.
        mode: Mode,
    },
    /// A receive, as by [`Nic::post_receive`].
    Receive {
        /// The only process that can send the message, if there is only one.
        from: Option<Peer>,
        /// The match word.
        word: MatchWord,
        /// The bits of the word that matter.
        mask: Mask,
        /// Where the bytes go.
        into: Span,
    },
    /// A put, as by [`Nic::post_put`].
    Put {
        /// The target.
        to: Peer,
        /// The bytes, which are read when the trigger fires.
        source: Span,
        /// The region of the target.
        region: Region,
        /// Where in the region.
        offset: u64,
        /// A counter of the region to raise.
        notify: Option<u32>,
    },
}

impl Triggered {
    /// The group that it belongs to. A put belongs to none.
    fn group(&self) -> Option<u16> {
        match self {
            Triggered::Schedule { schedule, .. } => Some(schedule.group),
            Triggered::Send { word, .. } | Triggered::Receive { word, .. } => Some(word.group()),
            Triggered::Put { .. } => None,
        }
    }

    /// Whether one peer alone can end it.
    fn is_for_one(&self) -> bool {
        match self {
            Triggered::Schedule { .. } => false,
            Triggered::Send { .. } | Triggered::Put { .. } => true,
            Triggered::Receive { from, .. } => from.is_some(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Counters(Slab<Tally>);

#[derive(Debug, Default)]
struct Tally {
    value: u64,
    triggers: Vec<Trigger>,
}

#[derive(Debug)]
struct Trigger {
    at_least: u64,
    action: TriggerAction,
}

#[derive(Clone, Debug)]
pub(crate) enum TriggerAction {
    /// Ends a wait of the user.
    Complete(Ticket),
    /// Ends a step of a schedule.
    Step(StepRef),
    /// Starts something under the ticket of the trigger.
    Start { what: Triggered, ticket: Ticket },
    /// Calls the module of a group. `counter` is the module's number for it.
    Module { group: u16, counter: u32 },
}

impl Default for Counters {
    fn default() -> Counters {
        Counters(Slab::new())
    }
}

impl Counters {
    /// Drops the triggers of this ticket.
    pub(crate) fn forget_wait(&mut self, waiter: Ticket) {
        self.retain(|action| !matches!(action, TriggerAction::Complete(ticket) | TriggerAction::Start { ticket, .. } if *ticket == waiter));
    }

    /// Drops the triggers of the steps of this run; returns how many there were.
    pub(crate) fn forget_run(&mut self, run: Ticket) -> u16 {
        let mut forgotten = 0;
        self.retain(|action| {
            let waits = matches!(action, TriggerAction::Step(step) if step.run == run);
            forgotten += u16::from(waits);
            !waits
        });
        forgotten
    }

    /// Drops the triggers that would start something under `group`, or only what several peers have to end. Returns
    /// their tickets.
    pub(crate) fn forget_group(&mut self, group: u16, all: bool) -> Vec<Ticket> {
        let mut forgotten = Vec::new();
        self.retain(|action| match action {
            TriggerAction::Start { what, ticket }
                if what.group() == Some(group) && (all || !what.is_for_one()) =>
            {
                forgotten.push(*ticket);
                false
            }
            _ => true,
        });
        forgotten
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let triggers: usize = self.0.iter().map(|(_, tally)| tally.triggers.capacity()).sum();
        self.0.heap_bytes() + triggers * size_of::<Trigger>()
    }

    fn retain(&mut self, mut keep: impl FnMut(&TriggerAction) -> bool) {
        for tally in self.0.iter_mut() {
            tally.triggers.retain(|trigger| keep(&trigger.action));
        }
    }

    /// Sets a trigger. If it has nothing to wait for, or the counter is closed, returns its outcome instead.
    pub(crate) fn set(
        &mut self,
        counter: Counter,
        at_least: u64,
        action: TriggerAction,
    ) -> Option<Outcome> {
        let Some(tally) = self.0.find_mut(counter.0) else { return Some(Outcome::Cancelled) };
        if tally.value >= at_least {
            return Some(Outcome::Done);
        }
        tally.triggers.push(Trigger { at_least, action });
        None
    }
}

impl<V: Variant> Nic<V> {
    /// Opens a counter, at zero.
    pub fn open_counter(&mut self) -> Counter {
        Counter(self.counters.0.claim(Tally::default()))
    }

    /// Closes a counter. The waits and triggers on it are cancelled.
    pub fn close_counter(&mut self, counter: Counter, port: &mut impl Port) {
        let Some(tally) = self.counters.0.release(counter.0) else { return };
        for trigger in tally.triggers {
            match trigger.action {
                TriggerAction::Complete(ticket) | TriggerAction::Start { ticket, .. } => {
                    self.complete(ticket, Outcome::Cancelled, port);
                }
                TriggerAction::Step(step) => self.end_step(step, Outcome::Cancelled, port),
                TriggerAction::Module { .. } => {}
            }
        }
        self.settle(port);
    }

    /// The value of the counter.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters.0.find(counter.0).map_or(0, |tally| tally.value)
    }

    /// Makes an operation raise a counter by one when it ends.
    pub fn count(&mut self, ticket: Ticket, counter: Counter) {
        if let Some(op) = self.ops.find_mut(ticket) {
            op.counter = Some(counter.0);
        }
    }

    /// Raises a counter.
    pub fn raise(&mut self, counter: Counter, by: u64, port: &mut impl Port) {
        self.raise_counter(counter.0, by, port);
        self.settle(port);
    }

    /// Sets a counter, which may lower it. Triggers whose value it reaches fire.
    pub fn set_counter(&mut self, counter: Counter, value: u64, port: &mut impl Port) {
        if let Some(tally) = self.counters.0.find_mut(counter.0) {
            tally.value = value;
        }
        self.raise(counter, 0, port);
    }

    /// Completes when the counter has reached `at_least`.
    pub fn post_wait(&mut self, counter: Counter, at_least: u64) -> Posted {
        let ticket = self.open(Owner::User, None, OpState::Waiting);
        match self.counters.set(counter, at_least, TriggerAction::Complete(ticket)) {
            None => Posted::Pending(ticket),
            Some(outcome) => {
                self.close(ticket);
                Posted::Done(outcome)
            }
        }
    }

    /// Starts `what` when the counter has reached `at_least`, without the caller. Completes as what it starts does.
    pub fn post_trigger(
        &mut self,
        counter: Counter,
        at_least: u64,
        what: Triggered,
        port: &mut impl Port,
    ) -> Ticket {
        let ticket = self.open(Owner::User, None, OpState::Waiting);
        let action = TriggerAction::Start { what: what.clone(), ticket };
        match self.counters.set(counter, at_least, action) {
            None => {}
            Some(Outcome::Done) => self.fired.push_back((ticket, what)),
            Some(outcome) => self.complete(ticket, outcome, port),
        }
        self.settle(port);
        ticket
    }

    /// Starts what a trigger that has fired is for.
    pub(crate) fn fire(&mut self, ticket: Ticket, what: Triggered, port: &mut impl Port) {
        let group = what.group();
        if let Some(fault) = group.and_then(|group| self.ended_under(group, what.is_for_one())) {
            return self.complete(ticket, Outcome::Failed(fault), port);
        }
        let owner = Owner::Trigger(ticket);
        let posted = match what {
            Triggered::Schedule { schedule, instance } => {
                return self.start_run(ticket, schedule, instance, port);
            }
            Triggered::Send { to, word, source, mode } => {
                self.begin_send(owner, to, word, source, mode, port)
            }
            Triggered::Receive { from, word, mask, into } => {
                self.begin_receive(owner, from, word, mask, into, port)
            }
            Triggered::Put { to, source, region, offset, notify } => {
                self.begin_stream(owner, to, source, Stream::Put { region, offset, notify }, port)
            }
        };
        match posted {
            Posted::Done(outcome) => self.complete(ticket, outcome, port),
            Posted::Pending(operation) => {
                if let Some(op) = self.ops.find_mut(ticket) {
                    op.state = OpState::Triggered { operation };
                }
            }
        }
    }

    /// Forgets what a ticket in [`OpState::Waiting`] waits for.
    pub(crate) fn stop_waiting(&mut self, ticket: Ticket) {
        self.counters.forget_wait(ticket);
        self.deferred.retain(|next| next.ticket != ticket);
        self.fired.retain(|(fired, _)| *fired != ticket);
    }

    /// Makes a step wait for a counter, unless it ends at once.
    pub(crate) fn wait_in_step(
        &mut self,
        counter: Counter,
        at_least: u64,
        step: StepRef,
    ) -> Option<Outcome> {
        self.counters.set(counter, at_least, TriggerAction::Step(step))
    }

    pub(crate) fn raise_counter(&mut self, counter: Ticket, by: u64, port: &mut impl Port) {
        let Some(tally) = self.counters.0.find_mut(counter) else { return };
        tally.value = tally.value.saturating_add(by);
        let value = tally.value;
        let fired: Vec<Trigger> =
            tally.triggers.extract_if(.., |trigger| trigger.at_least <= value).collect();
        for trigger in fired {
            match trigger.action {
                TriggerAction::Complete(ticket) => self.complete(ticket, Outcome::Done, port),
                TriggerAction::Step(step) => self.end_step(step, Outcome::Done, port),
                TriggerAction::Module { group, counter } => self.on_module_counter(group, counter),
                // Later: whoever raises the counter may be in the middle of something.
                TriggerAction::Start { what, ticket } => self.fired.push_back((ticket, what)),
            }
        }
    }
}
