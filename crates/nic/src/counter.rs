//! Counters, and triggers that fire when they reach a value.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::nic::{Nic, Variant};
use crate::op::{OpState, Owner};
use crate::port::{Port, StepRef};
use crate::schedule::Schedule;
use crate::slab::Slab;
use crate::types::{Outcome, Posted, Ticket};

/// A number that completions raise. Peers name it by its [`Counter::index`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Counter(pub(crate) Ticket);

impl Counter {
    /// The number by which peers name the counter.
    pub const fn index(self) -> u32 {
        self.0.index
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
    /// Begins a schedule.
    Start { schedule: Arc<Schedule>, instance: u16, ticket: Ticket },
    /// Calls the module of a group. `counter` is the module's number for it.
    Module { group: u16, counter: u32 },
}

impl Default for Counters {
    fn default() -> Counters {
        Counters(Slab::new())
    }
}

impl Counters {
    pub(crate) fn at(&self, index: u32) -> Option<Ticket> {
        self.0.iter().map(|(ticket, _)| ticket).find(|ticket| ticket.index == index)
    }

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

    /// Starts `schedule` when the counter has reached `at_least`, without the caller.
    pub fn post_trigger(
        &mut self,
        counter: Counter,
        at_least: u64,
        schedule: Arc<Schedule>,
        instance: u16,
        port: &mut impl Port,
    ) -> Ticket {
        let ticket = self.open(Owner::User, None, OpState::Waiting);
        let action = TriggerAction::Start { schedule: Arc::clone(&schedule), instance, ticket };
        match self.counters.set(counter, at_least, action) {
            None => {}
            Some(Outcome::Done) => self.start_run(ticket, schedule, instance, port),
            Some(outcome) => self.complete(ticket, outcome, port),
        }
        self.settle(port);
        ticket
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
                TriggerAction::Start { schedule, instance, ticket } => {
                    self.start_run(ticket, schedule, instance, port);
                }
            }
        }
    }
}
