//! What has ended, and who waits for it.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;
use std::thread::Thread;

use ferrywire_nic::{Outcome, Ticket};

/// Outcomes that nobody has asked for yet, and those who wait for outcomes that are to come. One
/// slot for each index of a ticket; the generation tells whether it speaks of the same one.
#[derive(Default)]
pub(crate) struct Completions {
    slots: Vec<CompletionSlot>,
    /// Outcomes whose slot another operation needed before anybody asked for them.
    late: HashMap<Ticket, Outcome>,
    /// Those to wake as soon as nobody holds the lock: they may call us at once.
    pub(crate) to_wake: Vec<Sleeping>,
    /// Operations that go on though nobody will ask how they ended.
    pub(crate) detached: usize,
    /// Completions since the beginning.
    pub(crate) count: u64,
}

struct CompletionSlot {
    generation: u32,
    state: CompletionState,
}

enum CompletionState {
    /// Nobody has said anything.
    Open,
    Over(Outcome),
    /// Somebody wants to be woken.
    Awaited(Sleeping),
    /// Nobody will ask. What was kept for it is let go when it is over.
    Detached(Option<Keep>),
}

/// Something that must live until an operation is over.
pub type Keep = Box<dyn Any + Send>;

pub(crate) enum Sleeping {
    Thread(Thread),
    Task(Waker),
    /// Something to let go: it may be the last hold on what calls us when it goes.
    Nobody(Keep),
}

impl Sleeping {
    pub(crate) fn wake(self) {
        // Code of the user's. If it panics, that is the user's affair, and we have others to wake.
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
        // Nobody has said anything of it, nor waits for word of the one before: most often.
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
            // A released schedule goes on, and so does what is kept for it.
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

    /// How the operation ended, if it has. It is told once.
    #[inline]
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Outcome> {
        let slot = self.slots.get_mut(ticket.index() as usize)?;
        if slot.generation != ticket.generation() {
            return self.take_late(ticket);
        }
        let CompletionState::Over(outcome) = slot.state else { return None };
        // An outcome has nothing to let go, which is worth saying: some states have.
        std::mem::forget(std::mem::replace(&mut slot.state, CompletionState::Open));
        Some(outcome)
    }

    #[inline]
    fn take_late(&mut self, ticket: Ticket) -> Option<Outcome> {
        // Mostly there are none, and whoever waits asks again and again.
        if self.late.is_empty() { None } else { self.late.remove(&ticket) }
    }

    /// Wakes `sleeping` when the operation is over.
    pub(crate) fn watch(&mut self, ticket: Ticket, sleeping: Sleeping) {
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

    /// Nobody will ask for the outcome. `keep` lives until the operation is over.
    pub(crate) fn detach(&mut self, ticket: Ticket, keep: Option<Keep>) {
        match self.take(ticket) {
            None | Some(Outcome::Released) => {
                self.replace(ticket, CompletionState::Detached(keep));
                self.detached += 1;
            }
            // Dropped when nobody holds the lock.
            Some(_) => self.to_wake.extend(keep.map(Sleeping::Nobody)),
        }
    }

    /// Wakes all tasks, though what they wait for is not over: whoever polls may help.
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

    /// Gives the slot to `ticket`. What was said of the one before may still be asked for.
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
