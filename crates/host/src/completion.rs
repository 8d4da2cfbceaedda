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
    slots: Vec<Slot>,
    /// Outcomes that nobody had asked for when the index of their ticket was used again.
    aside: HashMap<u64, Outcome>,
    /// Those to wake, and what to drop, as soon as nobody holds the lock: they may call us at once.
    pub(crate) to_wake: Vec<Sleeping>,
    /// Operations that go on though nobody will ask how they ended.
    pub(crate) detached: usize,
    /// Completions since the beginning.
    pub(crate) count: u64,
}

struct Slot {
    generation: u32,
    state: State,
}

enum State {
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
    /// Nobody any more; what is left is dropped.
    Nobody(Keep),
}

impl Sleeping {
    /// Calls code of the application, which must not hold the lock. A panic there has been reported,
    /// and ends here: others have to be woken, too.
    pub(crate) fn wake(self) {
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
        if slot.generation != ticket.generation() {
            return self.set(ticket, State::Over(outcome));
        }
        match std::mem::replace(&mut slot.state, State::Over(outcome)) {
            State::Open | State::Over(_) => {}
            State::Awaited(sleeping) => self.to_wake.push(sleeping),
            // A released schedule goes on, and so does what is kept for it.
            kept @ State::Detached(_) if outcome == Outcome::Released => slot.state = kept,
            State::Detached(keep) => {
                slot.state = State::Open;
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
            return self.aside.remove(&ticket.bits());
        }
        let State::Over(outcome) = slot.state else { return None };
        slot.state = State::Open;
        Some(outcome)
    }

    /// Wakes `sleeping` when the operation is over.
    pub(crate) fn watch(&mut self, ticket: Ticket, sleeping: Sleeping) {
        self.set(ticket, State::Awaited(sleeping));
    }

    /// Nobody will ask for the outcome. `keep` lives until the operation is over.
    pub(crate) fn detach(&mut self, ticket: Ticket, keep: Option<Keep>) {
        let aside = self.aside.remove(&ticket.bits());
        let slot = self.slot(ticket);
        let over = aside.is_some_and(|outcome| outcome != Outcome::Released)
            || slot.generation == ticket.generation()
                && matches!(slot.state, State::Over(outcome) if outcome != Outcome::Released);
        if over {
            self.to_wake.extend(keep.map(Sleeping::Nobody));
            if aside.is_none() {
                self.set(ticket, State::Open);
            }
            return;
        }
        self.detached += 1;
        self.set(ticket, State::Detached(keep));
    }

    /// An outcome that is in the way is put aside; a waker or something kept is dropped later: it
    /// belongs to the application, and may call us.
    fn set(&mut self, ticket: Ticket, state: State) {
        let slot = self.slot(ticket);
        let before = std::mem::replace(slot, Slot { generation: ticket.generation(), state });
        match before.state {
            State::Awaited(Sleeping::Task(waker)) => {
                self.to_wake.push(Sleeping::Nobody(Box::new(waker)));
            }
            State::Detached(keep) => self.to_wake.extend(keep.map(Sleeping::Nobody)),
            State::Over(outcome) if before.generation != ticket.generation() => {
                let bits = u64::from(before.generation) << 32 | u64::from(ticket.index());
                self.aside.insert(bits, outcome);
            }
            State::Open | State::Over(_) | State::Awaited(_) => {}
        }
    }

    #[inline]
    fn slot(&mut self, ticket: Ticket) -> &mut Slot {
        let index = ticket.index() as usize;
        if index >= self.slots.len() {
            self.grow(index);
        }
        &mut self.slots[index]
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        self.slots.resize_with(index + 1, || Slot { generation: 0, state: State::Open });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(generation: u64) -> Ticket {
        Ticket::from_bits(generation << 32 | 5)
    }

    #[test]
    fn an_outcome_is_kept_when_its_index_is_used_again() {
        let mut completions = Completions::default();
        completions.complete(ticket(1), Outcome::Cancelled);
        completions.complete(ticket(2), Outcome::Done);
        completions.watch(ticket(3), Sleeping::Thread(std::thread::current()));
        assert_eq!(completions.take(ticket(1)), Some(Outcome::Cancelled));
        assert_eq!(completions.take(ticket(1)), None, "it is told once");
        completions.detach(ticket(2), None);
        assert_eq!(completions.take(ticket(2)), None);
        completions.complete(ticket(3), Outcome::Done);
        assert_eq!(completions.to_wake.len(), 1);
        assert_eq!((completions.detached, completions.aside.len()), (0, 0));
    }
}
