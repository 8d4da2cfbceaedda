//! Outcomes of operations, and the threads and tasks that wait for them.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;
use std::thread::Thread;

use ferrywire_nic::{Outcome, Ticket};

/// Outcomes that have not been taken yet, and the threads and tasks that wait for outcomes to come. Each ticket index
/// has one slot; the generation tells which operation the slot describes.
#[derive(Default)]
pub(crate) struct Completions {
    slots: Vec<CompletionSlot>,
    /// Outcomes that were not taken before another operation needed their slot.
    late: HashMap<Ticket, Outcome>,
    /// To be woken or dropped once the lock is free, because they may call the library at once.
    pub(crate) to_wake: Vec<Sleeping>,
    /// Operations that continue although their outcomes will not be taken.
    pub(crate) detached: usize,
    /// Completions since the beginning.
    pub(crate) count: u64,
    /// Whether a task has ever waited: the agent has to wake tasks.
    pub(crate) is_watched: bool,
}

struct CompletionSlot {
    generation: u32,
    state: CompletionState,
}

enum CompletionState {
    /// No outcome, no waiter.
    Open,
    Over(Outcome),
    /// A thread or task waits.
    Awaited(Sleeping),
    /// The outcome will not be taken. The value is dropped when the operation is over.
    Detached(Option<Keep>),
}

/// A value that must live until an operation is over.
pub type Keep = Box<dyn Any + Send>;

pub(crate) enum Sleeping {
    Thread(Thread),
    Task(Waker),
    /// A value to drop: it may be the last owner of something that calls the library when dropped.
    Nobody(Keep),
}

impl Sleeping {
    pub(crate) fn wake(self) {
        // This runs user code. A panic in it is contained, so that the others are still woken.
        let _ = catch_unwind(AssertUnwindSafe(|| match self {
            Sleeping::Thread(thread) => thread.unpark(),
            Sleeping::Task(waker) => waker.wake(),
            Sleeping::Nobody(keep) => drop(keep),
        }));
    }
}

impl Completions {
    #[inline]
    pub(crate) fn complete(&mut self, ticket: Ticket, outcome: Outcome) {
        self.count += 1;
        let slot = self.slot(ticket);
        // The common case: no waiter, and no outcome of an earlier operation in the slot.
        if let CompletionState::Open = slot.state {
            slot.generation = ticket.generation();
            slot.state = CompletionState::Over(outcome);
            return;
        }
        self.complete_slowly(ticket, outcome);
    }

    #[inline(never)]
    fn complete_slowly(&mut self, ticket: Ticket, outcome: Outcome) {
        let slot = self.slot(ticket);
        if slot.generation != ticket.generation() {
            return self.replace(ticket, CompletionState::Over(outcome));
        }
        match std::mem::replace(&mut slot.state, CompletionState::Over(outcome)) {
            CompletionState::Open | CompletionState::Over(_) => {}
            CompletionState::Awaited(sleeping) => self.to_wake.push(sleeping),
            // A released schedule continues, so what is kept for it stays.
            kept @ CompletionState::Detached(_) if outcome == Outcome::Released => {
                slot.state = kept
            }
            CompletionState::Detached(keep) => {
                slot.state = CompletionState::Open;
                self.detached -= 1;
                self.to_wake.extend(keep.map(Sleeping::Nobody));
            }
        }
    }

    /// The outcome of an operation, if it is over. It can be taken once.
    #[inline(always)]
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Outcome> {
        let slot = self.slots.get_mut(ticket.index() as usize)?;
        if slot.generation != ticket.generation() {
            return self.take_late(ticket);
        }
        let CompletionState::Over(outcome) = slot.state else { return None };
        // An outcome needs no drop, but other states do: `forget` spares the check.
        std::mem::forget(std::mem::replace(&mut slot.state, CompletionState::Open));
        Some(outcome)
    }

    #[inline]
    fn take_late(&mut self, ticket: Ticket) -> Option<Outcome> {
        // Usually empty, and waiting threads ask again and again.
        if self.late.is_empty() { None } else { self.late.remove(&ticket) }
    }

    /// Wakes `sleeping` when the operation is over.
    pub(crate) fn watch(&mut self, ticket: Ticket, sleeping: Sleeping) {
        self.is_watched |= matches!(sleeping, Sleeping::Task(_));
        let slot = self.slot(ticket);
        if slot.generation == ticket.generation()
            && let (CompletionState::Awaited(Sleeping::Task(old)), Sleeping::Task(new)) =
                (&slot.state, &sleeping)
            && old.will_wake(new)
        {
            return;
        }
        self.replace(ticket, CompletionState::Awaited(sleeping));
    }

    /// Detaches an operation: its outcome will not be taken. `keep` lives until the operation is over.
    pub(crate) fn detach(&mut self, ticket: Ticket, keep: Option<Keep>) {
        match self.take(ticket) {
            None | Some(Outcome::Released) => {
                self.replace(ticket, CompletionState::Detached(keep));
                self.detached += 1;
            }
            // Dropped when the lock is free.
            Some(_) => self.to_wake.extend(keep.map(Sleeping::Nobody)),
        }
    }

    /// Wakes all tasks before their operations are over, because a task that polls may help.
    pub(crate) fn call_tasks(&mut self) {
        for slot in &mut self.slots {
            if let CompletionState::Awaited(Sleeping::Task(_)) = slot.state
                && let CompletionState::Awaited(task) =
                    std::mem::replace(&mut slot.state, CompletionState::Open)
            {
                self.to_wake.push(task);
            }
        }
    }

    /// Gives the slot to `ticket`. An outcome of the previous operation can still be taken.
    fn replace(&mut self, ticket: Ticket, state: CompletionState) {
        let generation = ticket.generation();
        let slot = std::mem::replace(self.slot(ticket), CompletionSlot { generation, state });
        match slot.state {
            CompletionState::Over(outcome) if slot.generation != generation => {
                let before = u64::from(slot.generation) << 32 | u64::from(ticket.index());
                self.late.insert(Ticket::from_bits(before), outcome);
            }
            CompletionState::Awaited(Sleeping::Task(waker)) => {
                self.to_wake.push(Sleeping::Nobody(Box::new(waker)));
            }
            _ => {}
        }
    }

    #[inline]
    fn slot(&mut self, ticket: Ticket) -> &mut CompletionSlot {
        let index = ticket.index() as usize;
        if index >= self.slots.len() {
            self.grow(index);
        }
        &mut self.slots[index]
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        self.slots.resize_with(index + 1, || CompletionSlot {
            generation: 0,
            state: CompletionState::Open,
        });
    }
}
