//! Posting operations to the NIC of a plane and waiting for them, where a rank may have several planes.
//!
//! Threads that use communicators of different planes never wait for each other's lock. That pays only if a program
//! has several threads and the machine has cores for them, so everything stays in the first plane unless all members
//! of a new communicator vote for another ([`Process::plane_vote`]).

use std::io;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use ferrywire_host::facts::{Page, Waiting};
use ferrywire_host::nic::{
    MatchWord, Mode, Module, ModuleStats, Nic, Outcome, Peer, Placement, Posted, Schedule, Span,
    Ticket,
};
use ferrywire_host::{
    Driver, Finished, HostPort, Keep, PLANES, trace, wait_around, wait_for_around,
};
use ferrywire_mpi::comm::Wanted;

use crate::process::Process;

/// A plane of this process: one NIC and its driver.
#[derive(Clone, Copy)]
pub struct Plane<'a> {
    process: &'a Process,
    driver: &'a Driver,
}

impl<'a> Plane<'a> {
    #[inline(always)]
    pub(crate) fn new(process: &'a Process, driver: &'a Driver) -> Plane<'a> {
        Plane { process, driver }
    }

    /// The process that the plane belongs to.
    #[inline(always)]
    pub fn process(self) -> &'a Process {
        self.process
    }

    /// Calls the NIC under the lock of its driver.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    #[inline(always)]
    pub(crate) unsafe fn submit<T>(self, ask: impl FnOnce(&mut Nic, &mut HostPort) -> T) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.driver.submit(ask) }
    }

    /// Sends a message.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    #[inline(always)]
    pub(crate) unsafe fn post_send(
        self,
        to: Peer,
        word: MatchWord,
        source: Span,
        mode: Mode,
    ) -> Posted {
        // SAFETY: the caller's promise.
        unsafe { self.driver.post_send(to, word, source, mode) }
    }

    /// Sends a message, and waits until its bytes are no longer needed.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    #[inline(always)]
    pub(crate) unsafe fn send(
        self,
        to: Peer,
        word: MatchWord,
        source: Span,
        mode: Mode,
    ) -> Outcome {
        if !self.process.must_look_around() {
            // SAFETY: the caller's promise.
            return unsafe { self.driver.send(to, word, source, mode) };
        }
        // SAFETY: the caller's promise.
        match unsafe { self.post_send(to, word, source, mode) } {
            Posted::Done(outcome) => outcome,
            Posted::Pending(ticket) => self.wait(ticket),
        }
    }

    /// Receives a message, and waits for it, unless `lost` names a sender that is lost.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    #[inline(always)]
    pub(crate) unsafe fn receive(
        self,
        wanted: Wanted,
        into: Span,
        lost: impl FnOnce() -> Option<Peer>,
    ) -> Outcome {
        let Wanted { from, word, mask } = wanted;
        if !self.process.must_look_around() {
            // SAFETY: the caller's promise.
            return unsafe { self.driver.receive(from, word, mask, into, lost) };
        }
        // SAFETY: the caller's promise.
        match unsafe { self.post_receive(wanted, into, lost) } {
            Posted::Done(outcome) => outcome,
            Posted::Pending(ticket) => self.wait(ticket),
        }
    }

    /// Starts to receive a message, unless a sender is lost.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    #[inline(always)]
    pub(crate) unsafe fn post_receive(
        self,
        Wanted { from, word, mask }: Wanted,
        into: Span,
        lost: impl FnOnce() -> Option<Peer>,
    ) -> Posted {
        // SAFETY: the caller's promise.
        unsafe { self.driver.post_receive(from, word, mask, into, lost) }
    }

    /// Posts an operation, and waits until it is complete.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    #[inline(always)]
    pub(crate) unsafe fn perform(
        self,
        ask: impl FnOnce(&mut Nic, &mut HostPort) -> Posted,
    ) -> Outcome {
        if !self.process.must_look_around() {
            // SAFETY: the caller's promise.
            return unsafe { self.driver.post_and_wait(ask) }.1;
        }
        // SAFETY: the caller's promise.
        match unsafe { self.submit(ask) } {
            Posted::Done(outcome) => outcome,
            Posted::Pending(ticket) => self.wait(ticket),
        }
    }

    /// Starts a schedule under an instance of its communicator. The schedule consults no functions.
    ///
    /// # Safety
    /// As for [`Driver::submit`], until the schedule is complete.
    pub unsafe fn start_schedule(self, instance: u16, schedule: &Arc<Schedule>) -> Posted {
        // SAFETY: the caller's promise.
        unsafe { self.submit(|nic, port| nic.post_kept_schedule(schedule, instance, port)) }
    }

    /// Runs a schedule, and waits until it is complete or releases its caller. Returns its ticket, if it had one: a
    /// released schedule continues under it.
    ///
    /// # Safety
    /// As for [`Driver::submit`], until the schedule is complete.
    #[inline]
    pub unsafe fn perform_schedule(
        self,
        instance: u16,
        schedule: &Arc<Schedule>,
    ) -> (Option<Ticket>, Outcome) {
        if !self.process.must_look_around() {
            // SAFETY: the caller's promise.
            return unsafe { self.driver.perform_schedule(schedule, instance) };
        }
        // SAFETY: the caller's promise.
        match unsafe { self.start_schedule(instance, schedule) } {
            Posted::Done(outcome) => (None, outcome),
            Posted::Pending(ticket) => (Some(ticket), self.wait(ticket)),
        }
    }

    /// Waits until an operation is complete.
    #[inline]
    pub fn wait(self, ticket: Ticket) -> Outcome {
        match self.process.must_look_around() {
            false => self.driver.wait(ticket),
            true => self.wait_until(|finished| finished.take(ticket)),
        }
    }

    /// Waits until an operation is complete, or until the deadline. Then cancels it, if it is not too late.
    pub fn wait_or_cancel(self, ticket: Ticket, deadline: Instant) -> Outcome {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            self.turn_others();
            if let Poll::Ready(outcome) = self.poll(ticket, &waker) {
                return outcome;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.cancel(ticket);
                return self.wait(ticket);
            }
            thread::park_timeout(left.min(NAP_MAX));
        }
    }

    /// Waits for all of these, and passes their outcomes to `told`, in order.
    pub fn wait_each(self, tickets: impl Iterator<Item = Ticket>, mut told: impl FnMut(Outcome)) {
        match self.process.must_look_around() {
            false => self.driver.wait_each(tickets, told),
            true => tickets.for_each(|ticket| told(self.wait(ticket))),
        }
    }

    /// Waits until `look` returns a value, given the outcomes so far. It must not call a driver.
    #[inline]
    pub fn wait_until<T>(self, mut look: impl FnMut(&mut Finished<'_>) -> Option<T>) -> T {
        if !self.process.must_look_around() {
            return self.driver.wait_until(look);
        }
        self.process.wait_anywhere(|other, finished| match self.is(other) {
            true => look(finished),
            false => None,
        })
    }

    /// Waits until `find` returns a value from the state of the NIC.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    pub(crate) unsafe fn wait_for<T>(
        self,
        mut find: impl FnMut(&mut Nic, &mut HostPort) -> Option<T>,
    ) -> T {
        if !self.process.must_look_around() {
            // SAFETY: the caller's promise.
            return unsafe { self.driver.wait_for(find) };
        }
        let drivers: Vec<&Driver> = self.process.drivers().collect();
        // SAFETY: the caller's promise.
        unsafe {
            wait_for_around(&drivers, |at, nic, port| {
                match std::ptr::eq(drivers[at], self.driver) {
                    true => find(nic, port),
                    false => None,
                }
            })
        }
    }

    /// Turns once, then gives `look` the outcomes so far. It must not call a driver.
    #[inline]
    pub fn look<T>(self, look: impl FnOnce(&mut Finished<'_>) -> T) -> T {
        self.turn_others();
        self.driver.look(look)
    }

    /// Turns once, and returns the outcome of an operation, if it is complete.
    pub fn test(self, ticket: Ticket) -> Option<Outcome> {
        self.look(|finished| finished.take(ticket))
    }

    /// The same for a task, whose waker is called when the operation is complete.
    pub fn poll(self, ticket: Ticket, waker: &Waker) -> Poll<Outcome> {
        self.driver.poll(ticket, waker)
    }

    /// Turns once.
    pub fn turn(self) {
        self.turn_others();
        self.driver.turn();
    }

    /// Turns the other planes, if a user-defined operator may wait there.
    #[inline]
    fn turn_others(self) {
        if self.process.must_look_around() {
            let others = self.process.drivers().filter(|other| !std::ptr::eq(*other, self.driver));
            others.for_each(Driver::turn);
        }
    }

    /// Abandons the outcome of an operation. `keep` is dropped when the operation is complete.
    pub fn detach(self, ticket: Ticket, keep: Option<Keep>) {
        self.driver.detach(ticket, keep);
    }

    /// Cancels an operation if it is not too late. It completes either way.
    pub fn cancel(self, ticket: Ticket) {
        self.driver.cancel(ticket);
    }

    /// What the rank tells about itself.
    #[inline(always)]
    pub fn facts(self) -> &'a Page {
        self.driver.facts()
    }

    /// Adds a receive that was posted to the trace of the rank, if there is one.
    pub(crate) fn trace_receive(self, posted: Posted) {
        if trace::is_on() {
            self.driver.trace_receive(posted);
        }
    }

    /// Records that this thread waits for something other than the NIC, until the result is dropped.
    pub fn begin_wait(self) -> Waiting<'a> {
        Waiting::begin(self.facts())
    }

    /// Turns, and answers whoever asks what the rank does. It waits for something other than the NIC.
    pub fn answer(self) {
        self.driver.answer();
    }

    /// This process as a peer.
    pub fn me(self) -> Peer {
        self.driver.me()
    }

    /// Loads a module, which then handles the messages of `group`.
    pub fn load(self, group: u16, module: Box<dyn Module>, placement: Placement) {
        self.driver.load(group, module, placement);
    }

    /// Replaces a module by another.
    pub fn replace(self, group: u16, module: Box<dyn Module>) {
        self.driver.replace(group, module);
    }

    /// Unloads a module.
    pub fn unload(self, group: u16) {
        self.driver.unload(group);
    }

    /// The statistics of a module, if it is loaded.
    pub fn module_stats(self, group: u16) -> Option<ModuleStats> {
        self.driver.module_stats(group)
    }

    /// Waits until a counter of a module reaches `at_least`. Returns false if there is no such counter, or if the
    /// module is unloaded meanwhile.
    pub fn wait_for_module(self, group: u16, counter: u32, at_least: u64) -> bool {
        // SAFETY: no memory is lent.
        let outcome = unsafe {
            self.perform(|nic, _| match nic.module_counter(group, counter) {
                Some(counter) => nic.post_wait(counter, at_least),
                None => Posted::Done(Outcome::Cancelled),
            })
        };
        outcome == Outcome::Done
    }

    /// Whether both are the same plane.
    #[inline]
    pub fn is(self, other: Plane<'_>) -> bool {
        std::ptr::eq(self.driver, other.driver)
    }
}

impl Process {
    /// The plane of a communicator, given its number and the votes that all members agreed on. Opens the plane at its
    /// first use, which fails without memory for it.
    pub fn plane_of(&self, number: u16, votes: u64) -> io::Result<Plane<'_>> {
        let driver = self.rank().plane(plane_number(number, votes != 0))?;
        Ok(Plane::new(self, driver))
    }

    /// Whether only the first plane is open.
    #[inline]
    pub fn has_one_plane(&self) -> bool {
        self.rank().has_one_plane()
    }

    /// Waits until `look` returns a value, given the outcomes of each plane. It must not call a driver.
    pub fn wait_anywhere<T>(
        &self,
        mut look: impl FnMut(Plane<'_>, &mut Finished<'_>) -> Option<T>,
    ) -> T {
        let drivers: Vec<&Driver> = self.drivers().collect();
        wait_around(&drivers, |at, finished| look(Plane::new(self, drivers[at]), finished))
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// How long a thread that waits with a deadline sleeps at a time: a user-defined operator may wait for a thread of the
/// program.
const NAP_MAX: Duration = Duration::from_millis(10);

/// The number of the plane of a communicator: the first one unless it may be in any.
fn plane_number(comm: u16, anywhere: bool) -> u32 {
    // The first plane is reserved for the predefined communicators.
    if anywhere { 1 + u32::from(comm) % (PLANES - 1) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_in_different_planes() {
        let planes: Vec<u32> = (2..8).map(|number| plane_number(number, true)).collect();
        assert_eq!(planes, [3, 1, 2, 3, 1, 2]);
        assert_eq!(plane_number(7, false), 0);
    }
}
