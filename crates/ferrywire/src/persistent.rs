//! Persistent requests: a send or a receive that is prepared once and started many times.
//!
//! Invariants, cited below by number.
//!   I1. The buffer that an operation was lent is on the heap, in `items`: moving the request does not move it, and
//!       leaking it leaks it. While the operation is open, nothing else accesses the buffer, and dropping the request
//!       hands it to the driver.

use ferrywire_host::memory;
use ferrywire_host::nic::{MatchWord, Mode, Outcome, Peer, Posted, Triggered};
use ferrywire_mpi::comm::Wanted;
use ferrywire_runtime::{Rank, Source, Tag};

use crate::comm::{Comm, Status, What};
use crate::counters::Trigger;
use crate::error::Error;
use crate::plain::{self, Plain};
use crate::request::OwnedBuffer;

/// A send that can be started many times: see [`Comm::send_init`].
pub struct PersistentSend<T: Plain> {
    request: Persistent<T>,
    to: (Peer, MatchWord),
}

/// A receive that can be started many times: see [`Comm::recv_init`].
pub struct PersistentReceive<T: Plain> {
    request: Persistent<T>,
    wanted: Wanted,
}

impl Comm {
    /// Prepares a send, which can be started many times. It owns its buffer, which may be changed in between.
    ///
    /// ```
    /// ferrywire::local(2, |world| {
    ///     let other = 1 - world.rank();
    ///     let mut sent = world.send_init(vec![0u64; 2], other, 7).unwrap();
    ///     let mut received = world.recv_init::<u64>(2, other, 7).unwrap();
    ///     for step in 0..10 {
    ///         sent.items_mut()[0] = step;
    ///         received.start();
    ///         sent.start();
    ///         // … compute …
    ///         sent.wait().unwrap();
    ///         let status = received.wait().unwrap();
    ///         assert_eq!((received.items(), status.source), (&[step, 0][..], other));
    ///     }
    /// });
    /// ```
    pub fn send_init<B: OwnedBuffer>(
        &self,
        data: B,
        to: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Result<PersistentSend<B::Item>, Error> {
        let (to, tag) = (to.into(), tag.into());
        let items = data.into_vec();
        let what = What::sending::<B::Item>("send_init", plain::bytes(&items), to, tag);
        let to = self.checked_address(what, to, tag)?;
        Ok(PersistentSend { request: Persistent::new(self, what, items, false), to })
    }

    /// Prepares a receive of up to `count` items, which can be started many times.
    pub fn recv_init<T: Plain>(
        &self,
        count: usize,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<PersistentReceive<T>, Error> {
        let (from, tag) = (from.into(), tag.into());
        let items = plain::zeroed::<T>(count);
        let what = What::receiving::<T>("recv_init", plain::bytes(&items), from, tag);
        let wanted = self.wanted(what, from, tag)?;
        Ok(PersistentReceive { request: Persistent::new(self, what, items, true), wanted })
    }
}

impl<T: Plain> PersistentSend<T> {
    /// Starts the send.
    ///
    /// # Panics
    /// If it has been started and not waited for.
    pub fn start(&mut self) {
        let (to, word) = self.to;
        let Persistent { comm, what, items, .. } = self.request.idle();
        comm.note_sent(*what, to, word);
        let source = memory::lend(plain::bytes(items));
        // SAFETY: I1.
        let posted = unsafe { comm.runtime().start_send((to, word), source, Mode::Standard) };
        self.request.posted = Some(posted);
    }

    /// Starts the send when a counter of this rank reaches a value: see [`Counters`](crate::Counters).
    ///
    /// # Panics
    /// If it has been started and not waited for.
    pub fn start_when(&mut self, trigger: Trigger<'_>) -> Result<(), Error> {
        let (to, word) = self.to;
        let Persistent { comm, what, items, .. } = self.request.idle();
        let trigger = trigger.armed(comm, *what)?;
        comm.note_sent(*what, to, word);
        let source = memory::lend(plain::bytes(items));
        let send = Triggered::Send { to, word, source, mode: Mode::Standard };
        // SAFETY: I1.
        let posted = unsafe { trigger.start(send) };
        self.request.posted = Some(posted);
        Ok(())
    }

    /// Waits until the send is complete, and its buffer can be changed.
    ///
    /// # Panics
    /// If it has not been started.
    pub fn wait(&mut self) -> Result<(), Error> {
        let outcome = self.request.wait();
        self.request.comm.sent(self.request.what, outcome)
    }

    /// Returns the result if the send is complete, and `None` otherwise. The result is returned only once.
    ///
    /// # Panics
    /// If it has not been started.
    pub fn test(&mut self) -> Option<Result<(), Error>> {
        let outcome = self.request.test()?;
        Some(self.request.comm.sent(self.request.what, outcome))
    }

    /// The items that the next start sends.
    pub fn items(&self) -> &[T] {
        // Others only read them, also while the send is open.
        &self.request.items
    }

    /// The items that the next start sends, mutably.
    ///
    /// # Panics
    /// If the send has been started and not waited for.
    pub fn items_mut(&mut self) -> &mut [T] {
        &mut self.request.idle().items
    }
}

impl<T: Plain> PersistentReceive<T> {
    /// Starts the receive.
    ///
    /// # Panics
    /// If it has been started and not waited for.
    pub fn start(&mut self) {
        let wanted = self.wanted;
        let Persistent { comm, items, .. } = self.request.idle();
        let into = memory::lend_mut(plain::bytes_mut(items));
        // SAFETY: I1.
        let posted = unsafe { comm.runtime().start_receive(wanted, into) };
        self.request.posted = Some(posted);
    }

    /// Starts the receive when a counter of this rank reaches a value: see [`Counters`](crate::Counters).
    ///
    /// # Panics
    /// If it has been started and not waited for.
    pub fn start_when(&mut self, trigger: Trigger<'_>) -> Result<(), Error> {
        let Wanted { from, word, mask } = self.wanted;
        let Persistent { comm, what, items, .. } = self.request.idle();
        let trigger = trigger.armed(comm, *what)?;
        let into = memory::lend_mut(plain::bytes_mut(items));
        // SAFETY: I1.
        let posted = unsafe { trigger.start(Triggered::Receive { from, word, mask, into }) };
        self.request.posted = Some(posted);
        Ok(())
    }

    /// Waits until the receive is complete.
    ///
    /// # Panics
    /// If it has not been started.
    pub fn wait(&mut self) -> Result<Status, Error> {
        let outcome = self.request.wait();
        self.request.comm.received(self.request.what, plain::unit::<T>(), outcome)
    }

    /// Returns the result if the receive is complete, and `None` otherwise. The result is returned only once.
    ///
    /// # Panics
    /// If it has not been started.
    pub fn test(&mut self) -> Option<Result<Status, Error>> {
        let outcome = self.request.test()?;
        Some(self.request.comm.received(self.request.what, plain::unit::<T>(), outcome))
    }

    /// The buffer. It begins with the items of the last message, as many as its status says.
    ///
    /// # Panics
    /// If the receive has been started and not waited for.
    pub fn items(&self) -> &[T] {
        self.request.check_idle();
        &self.request.items
    }

    /// The buffer, mutably.
    ///
    /// # Panics
    /// If the receive has been started and not waited for.
    pub fn items_mut(&mut self) -> &mut [T] {
        &mut self.request.idle().items
    }
}

/// What sends and receives have in common.
struct Persistent<T: Plain> {
    comm: Comm,
    what: What,
    items: Vec<T>,
    /// `None` if it has not been started, or has been waited for.
    posted: Option<Posted>,
    /// Whether dropping the request cancels the operation.
    revocable: bool,
}

impl<T: Plain> Persistent<T> {
    fn new(comm: &Comm, what: What, items: Vec<T>, revocable: bool) -> Persistent<T> {
        Persistent { comm: comm.clone(), what, items, posted: None, revocable }
    }

    fn check_idle(&self) {
        let is_idle = self.posted.is_none();
        assert!(is_idle, "a persistent request that has been started and not waited for");
    }

    /// The request, whose buffer is not lent.
    fn idle(&mut self) -> &mut Persistent<T> {
        self.check_idle();
        self
    }

    fn wait(&mut self) -> Outcome {
        let outcome = match self.started() {
            Posted::Done(outcome) => outcome,
            Posted::Pending(ticket) => self.comm.wait_for(self.what, ticket),
        };
        self.posted = None;
        outcome
    }

    fn test(&mut self) -> Option<Outcome> {
        let outcome = match self.started() {
            Posted::Done(outcome) => outcome,
            Posted::Pending(ticket) => self.comm.plane().test(ticket)?,
        };
        self.posted = None;
        Some(outcome)
    }

    fn started(&self) -> Posted {
        let Some(posted) = self.posted else {
            panic!("a persistent request that has not been started");
        };
        posted
    }
}

impl<T: Plain> Drop for Persistent<T> {
    /// Cancels an open receive; an open send runs to completion.
    fn drop(&mut self) {
        if let Some(Posted::Pending(ticket)) = self.posted {
            let items = Box::new(std::mem::take(&mut self.items));
            self.comm.abandon(ticket, self.revocable, Some(items));
        }
    }
}
