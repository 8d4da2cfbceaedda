//! Operations on borrowed buffers that complete before the borrow ends.
//!
//! Modelled on `std::thread::scope`: the closure may start any number of operations, and `scope` neither returns nor
//! unwinds before all of them are complete. A request is therefore only an index: leaking it leaks nothing, and no
//! message costs an allocation.
//!
//! Invariants, cited below by number.
//!   I1. Buffers are borrowed for `'scope`, which outlives `scope`'s call of the closure, and `scope` then waits for
//!       every ticket in `open`.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ferrywire_host::memory;
use ferrywire_host::nic::{Mode, Outcome, Posted, Ticket};
use ferrywire_runtime::call_name::rust_name;
use ferrywire_runtime::{Rank, Source, Tag};

use crate::comm::{Comm, Status, What, traced};
use crate::error::Error;
use crate::plain::{self, Buffer};

/// Starts operations on borrowed buffers: see [`Comm::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    comm: &'env Comm,
    open: RefCell<Slots>,
    /// The first error of an operation that was dropped without a wait.
    failed: Cell<Option<Error>>,
    // Both invariant, as in `std::thread::Scope`: otherwise they could shrink to nothing.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// An operation of a scope. [Wait](Scoped::wait) for it, or leave that to the end of the scope.
pub struct Scoped<'scope, R> {
    comm: &'scope Comm,
    open: &'scope RefCell<Slots>,
    failed: &'scope Cell<Option<Error>>,
    state: ScopedState,
    what: What,
    unit: usize,
    result: PhantomData<R>,
}

enum ScopedState {
    Open(u32),
    Over(Outcome),
    Refused(Error),
    Told,
}

/// The result of an operation in a scope.
pub trait ScopedResult: Sized {
    #[doc(hidden)]
    fn of(comm: &Comm, what: ScopedWhat, outcome: Outcome) -> Result<Self, Error>;
}

/// The call and the unit of its count.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct ScopedWhat {
    what: What,
    unit: usize,
}

impl ScopedResult for () {
    fn of(comm: &Comm, what: ScopedWhat, outcome: Outcome) -> Result<(), Error> {
        comm.sent(what.what, outcome)
    }
}

impl ScopedResult for Status {
    fn of(comm: &Comm, what: ScopedWhat, outcome: Outcome) -> Result<Status, Error> {
        comm.received(what.what, what.unit, outcome)
    }
}

/// The tickets of open operations. Free slots are reused.
#[derive(Default)]
struct Slots {
    slots: Vec<Option<(Ticket, What)>>,
    free: Vec<u32>,
}

impl Slots {
    fn claim(&mut self, ticket: Ticket, what: What) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some((ticket, what));
            return slot;
        }
        self.slots.push(Some((ticket, what)));
        u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 operations")
    }

    fn release(&mut self, slot: u32) {
        self.slots[slot as usize] = None;
        self.free.push(slot);
    }

    fn ticket(&self, slot: u32) -> Ticket {
        self.slots[slot as usize].expect("an open operation has its slot").0
    }
}

impl Comm {
    /// Runs `body`, which may start operations on borrowed buffers, and returns when all of them are complete.
    ///
    /// Returns the first error of an operation that `body` did not wait for. If `body` panics, operations that can be
    /// cancelled are; the panic resumes when all are complete.
    ///
    /// ```
    /// ferrywire::local(3, |world| {
    ///     let (rank, size) = (world.rank(), world.size());
    ///     let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    ///     let mine = [rank; 4];
    ///     let (mut from_left, mut from_right) = ([0; 4], [0; 4]);
    ///     world.scope(|s| {
    ///         s.receive(&mut from_left, left, 0);
    ///         s.receive(&mut from_right, right, 1);
    ///         s.send(&mine, right, 0);
    ///         s.send(&mine, left, 1);
    ///         // … compute what needs no neighbour …
    ///     }).unwrap();
    ///     assert_eq!((from_left, from_right), ([left; 4], [right; 4]));
    /// });
    /// ```
    ///
    /// A buffer that is being received into cannot be accessed before the scope ends:
    ///
    /// ```compile_fail
    /// ferrywire::local(1, |world| {
    ///     let mut buffer = [0; 4];
    ///     world.scope(|s| {
    ///         s.receive(&mut buffer, 0, 0);
    ///         buffer[0] = 1;
    ///     }).unwrap();
    /// });
    /// ```
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    ) -> Result<R, Error> {
        let scope = Scope {
            comm: self,
            open: RefCell::default(),
            failed: Cell::new(None),
            scope: PhantomData,
            env: PhantomData,
        };
        let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
        let mut failed = scope.failed.take();
        let open = scope.open.take().slots;
        if result.is_err() {
            open.iter().flatten().for_each(|&(ticket, _)| self.plane().cancel(ticket));
        }
        let left = || open.iter().flatten();
        let mut ends = Vec::new();
        let mut whats = left().map(|&(_, what)| what);
        let waits = left().next().map(|&(_, what)| self.watched(what));
        self.plane().wait_each(left().map(|&(ticket, _)| ticket), |outcome| {
            let what = whats.next().expect("one for each ticket");
            if outcome != Outcome::Done {
                ends.push((what, outcome));
            }
        });
        drop(waits);
        for (what, outcome) in ends {
            let error = match outcome {
                Outcome::Received(got) => self.check_type(what, got.word).err(),
                other => Some(self.error(what, other)),
            };
            failed = failed.or(error);
        }
        match (result, failed) {
            (Err(panic), _) => resume_unwind(panic),
            (Ok(_), Some(error)) => Err(error),
            (Ok(result), None) => Ok(result),
        }
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a send.
    pub fn send<B: Buffer + ?Sized>(
        &'scope self,
        data: &'scope B,
        to: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Scoped<'scope, ()> {
        let (to, tag) = (to.into(), tag.into());
        let bytes = plain::bytes(data.items());
        let what = What::sending::<B::Item>("send", bytes, to, tag);
        let to = match self.comm.address(what, to, tag) {
            Ok(address) => address,
            Err(error) => return self.scoped(ScopedState::Refused(error), what, 1),
        };
        let source = memory::lend(bytes);
        let _call = traced(what.name);
        let name = const { rust_name("send") };
        self.comm.runtime().note_send(name, to, source.len);
        // SAFETY: I1.
        let posted = unsafe { self.comm.runtime().start_send(to, source, Mode::Standard) };
        self.posted(posted, what, 1)
    }

    /// Starts a receive.
    pub fn receive<B: Buffer + ?Sized>(
        &'scope self,
        into: &'scope mut B,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Scoped<'scope, Status> {
        let (from, tag) = (from.into(), tag.into());
        let bytes = plain::bytes_mut(into.items_mut());
        let what = What::receiving::<B::Item>("receive", bytes, from, tag);
        let wanted = match self.comm.wanted(what, from, tag) {
            Ok(wanted) => wanted,
            Err(error) => return self.scoped(ScopedState::Refused(error), what, B::UNIT),
        };
        let into = memory::lend_mut(bytes);
        let _call = traced(what.name);
        let name = const { rust_name("receive") };
        self.comm.runtime().note_receive(name, wanted, into.len);
        // SAFETY: I1.
        let posted = unsafe { self.comm.runtime().start_receive(wanted, into) };
        self.posted(posted, what, B::UNIT)
    }

    fn posted<R: ScopedResult>(
        &'scope self,
        posted: Posted,
        what: What,
        unit: usize,
    ) -> Scoped<'scope, R> {
        let state = match posted {
            Posted::Done(outcome) => ScopedState::Over(outcome),
            Posted::Pending(ticket) => {
                ScopedState::Open(self.open.borrow_mut().claim(ticket, what))
            }
        };
        self.scoped(state, what, unit)
    }

    fn scoped<R>(&'scope self, state: ScopedState, what: What, unit: usize) -> Scoped<'scope, R> {
        let Scope { comm, open, failed, .. } = self;
        Scoped { comm, open, failed, state, what, unit, result: PhantomData }
    }
}

impl<R: ScopedResult> Scoped<'_, R> {
    /// Waits until the operation is complete.
    pub fn wait(mut self) -> Result<R, Error> {
        let outcome = match std::mem::replace(&mut self.state, ScopedState::Told) {
            ScopedState::Open(slot) => {
                let ticket = self.open.borrow().ticket(slot);
                let outcome = self.comm.wait_for(self.what, ticket);
                self.open.borrow_mut().release(slot);
                outcome
            }
            ScopedState::Over(outcome) => outcome,
            ScopedState::Refused(error) => return Err(error),
            ScopedState::Told => unreachable!("it is told once, and then it is gone"),
        };
        R::of(self.comm, ScopedWhat { what: self.what, unit: self.unit }, outcome)
    }

    /// Cancels the operation if it is not too late, and waits until it is complete. Returns whether it was cancelled.
    pub fn cancel(mut self) -> bool {
        let ScopedState::Open(slot) = std::mem::replace(&mut self.state, ScopedState::Told) else {
            return false;
        };
        let ticket = self.open.borrow().ticket(slot);
        self.comm.plane().cancel(ticket);
        let outcome = self.comm.plane().wait(ticket);
        self.open.borrow_mut().release(slot);
        outcome == Outcome::Cancelled
    }
}

impl<R> Drop for Scoped<'_, R> {
    /// Leaves an error that is already known to the scope, which reports the first one.
    fn drop(&mut self) {
        let error = match std::mem::replace(&mut self.state, ScopedState::Told) {
            ScopedState::Refused(error) => error,
            ScopedState::Over(outcome @ (Outcome::Failed(_) | Outcome::Cancelled)) => {
                self.comm.error(self.what, outcome)
            }
            ScopedState::Over(_) | ScopedState::Open(_) | ScopedState::Told => return,
        };
        let first = self.failed.take().unwrap_or(error);
        self.failed.set(Some(first));
    }
}
