//! Operations in a communicator: messages, probes, schedules.
//!
//! A front stores the parts of a communicator with its own data, and makes a [`Comm`] of them for the duration of a
//! call.

use std::sync::Arc;

use ferrywire_host::HostPort;
use ferrywire_host::nic::{
    Fault, MatchWord, Mode, Nic, Outcome, Peer, Posted, Probed, Schedule, Span, Ticket,
};
use ferrywire_mpi::collective::Member;
use ferrywire_mpi::comm::{Comm as Members, Wanted};

use crate::failure::Failure;
use crate::plane::Plane;
use crate::process::Process;

/// A communicator during a call: its members and its plane.
#[derive(Clone, Copy)]
pub struct Comm<'a> {
    plane: Plane<'a>,
    members: &'a Members,
}

impl<'a> Comm<'a> {
    /// The communicator of these members, in the plane that all of them use for it.
    #[inline(always)]
    pub fn new(plane: Plane<'a>, members: &'a Members) -> Comm<'a> {
        Comm { plane, members }
    }

    /// This process as a rank of the job.
    #[inline(always)]
    pub fn process(self) -> &'a Process {
        self.plane.process()
    }

    /// The plane of the communicator.
    #[inline(always)]
    pub fn plane(self) -> Plane<'a> {
        self.plane
    }

    /// The members.
    #[inline(always)]
    pub fn members(self) -> &'a Members {
        self.members
    }

    /// This rank, as the algorithms of collectives need it.
    pub fn member(self) -> Member<'a> {
        Member { locality: self.process().locality(), ..self.members.member() }
    }

    /// Sends, and waits until the memory may be used again.
    ///
    /// # Safety
    /// The memory is lent until this returns: no other code writes it, nor reads it if the operation writes it.
    #[inline(always)]
    pub unsafe fn send_blocking(
        self,
        (to, word): (Peer, MatchWord),
        source: Span,
        mode: Mode,
    ) -> Outcome {
        // SAFETY: the caller's promise.
        unsafe { self.plane.send(to, word, source, mode) }
    }

    /// Starts a send.
    ///
    /// # Safety
    /// The memory is lent until the operation is complete: no other code writes it, nor reads it if the operation
    /// writes it.
    #[inline(always)]
    pub unsafe fn start_send(
        self,
        (to, word): (Peer, MatchWord),
        source: Span,
        mode: Mode,
    ) -> Posted {
        // SAFETY: the caller's promise.
        unsafe { self.plane.post_send(to, word, source, mode) }
    }

    /// Receives a message, and waits for it.
    ///
    /// # Safety
    /// The memory is lent until this returns: no other code writes it, nor reads it if the operation writes it.
    #[inline(always)]
    pub unsafe fn receive(self, wanted: Wanted, into: Span) -> Outcome {
        // SAFETY: the caller's promise.
        unsafe { self.plane.receive(wanted, into, || self.lost_sender(wanted)) }
    }

    /// Starts a receive.
    ///
    /// # Safety
    /// The memory is lent until the operation is complete: no other code writes it, nor reads it if the operation
    /// writes it.
    #[inline(always)]
    pub unsafe fn start_receive(self, wanted: Wanted, into: Span) -> Posted {
        // SAFETY: the caller's promise.
        unsafe { self.plane.post_receive(wanted, into, || self.lost_sender(wanted)) }
    }

    /// A lost rank, if the message might have come from it.
    #[inline(always)]
    fn lost_sender(self, wanted: Wanted) -> Option<Peer> {
        if wanted.from.is_none() { self.process().lost().peer() } else { None }
    }

    /// Starts to receive a message that has been [taken](Comm::take).
    ///
    /// # Safety
    /// The memory is lent until the operation is complete: no other code writes it, nor reads it if the operation
    /// writes it.
    pub unsafe fn start_taken(self, ticket: Ticket, into: Span) -> Posted {
        // SAFETY: the caller's promise.
        unsafe { self.plane.submit(|nic, port| nic.post_taken(ticket, into, port)) }
    }

    /// Finds a message that could be received. Waits for it, or checks once.
    pub fn probe(self, wanted: Wanted, wait: bool) -> Result<Option<Probed>, Failure> {
        self.find(wanted, wait, |nic, port| nic.probe(wanted.word, wanted.mask, port))
    }

    /// Takes a message, so that no other receive can match it. Waits for it, or checks once.
    pub fn take(self, wanted: Wanted, wait: bool) -> Result<Option<(Ticket, Probed)>, Failure> {
        self.find(wanted, wait, |nic, port| nic.take(wanted.word, wanted.mask, port))
    }

    fn find<T>(
        self,
        wanted: Wanted,
        wait: bool,
        mut find: impl FnMut(&mut Nic, &mut HostPort) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let look = |nic: &mut Nic, port: &mut HostPort| {
            find(nic, port).map(Ok).or_else(|| self.hopeless(nic, wanted).map(Err))
        };
        let found = if wait {
            // SAFETY: no memory is lent.
            Some(unsafe { self.plane.wait_for(look) })
        } else {
            self.plane.turn();
            // SAFETY: no memory is lent.
            unsafe { self.plane.submit(look) }
        };
        found.transpose().map_err(|fault| self.process().failure(Outcome::Failed(fault)))
    }

    /// The reason why a message cannot arrive any more, if there is one.
    fn hopeless(self, nic: &Nic, wanted: Wanted) -> Option<Fault> {
        let lost = || self.lost_sender(wanted).map(Fault::PeerDown);
        nic.hopeless(wanted.word, wanted.from).or_else(lost)
    }

    /// Runs a schedule, and waits until it is complete.
    ///
    /// # Safety
    /// The memory is lent until this returns: no other code writes it, nor reads it if the operation writes it.
    pub unsafe fn run(self, instance: u16, schedule: Schedule) -> Result<(), Failure> {
        let schedule = Arc::new(schedule);
        // SAFETY: the caller's promise.
        let outcome =
            unsafe { self.plane.perform(|nic, port| nic.post_schedule(schedule, instance, port)) };
        self.process().done(outcome)
    }
}
