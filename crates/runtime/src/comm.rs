//! Operations in a communicator: messages, probes, schedules.
//!
//! A front stores the parts of a communicator with its own data, and makes a [`Comm`] of them for the duration of a
//! call.

use std::sync::Arc;

use ferrywire_host::HostPort;
use ferrywire_host::facts::{self, CallName, CollectiveCall, Page, WatchedCall};
use ferrywire_host::nic::{
    Fault, MatchWord, Mode, Nic, Outcome, Peer, Posted, Probed, Schedule, Span, Ticket,
};
use ferrywire_mpi::collective::Member;
use ferrywire_mpi::comm::{Comm as Members, Wanted};
use ferrywire_mpi::group::RankMap;

use crate::failure::Failure;
use crate::plane::Plane;
use crate::process::Process;

/// How many members of a group are looked at to tell it from others.
const IDENTIFYING_MEMBERS: u32 = 4096;

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

    /// What the rank tells about itself.
    #[inline(always)]
    fn facts(self) -> &'a Page {
        self.plane.facts()
    }

    /// Records that the program sends.
    #[inline(always)]
    pub fn note_send(self, name: CallName, to: (Peer, MatchWord), bytes: u64) {
        if let Some(call) = self.begin_send(name, to, bytes) {
            call.trace();
        }
    }

    /// Records that the program sends. If the rank is watched, the caller has to add the call to the trace.
    #[inline(always)]
    pub fn begin_send(
        self,
        name: CallName,
        (to, word): (Peer, MatchWord),
        bytes: u64,
    ) -> Option<WatchedCall<'a>> {
        self.facts().send(name, to, word, bytes)
    }

    /// Records that the program receives, or looks for a message.
    #[inline(always)]
    pub fn note_receive(self, name: CallName, wanted: Wanted, bytes: u64) {
        if let Some(call) = self.begin_receive(name, wanted, bytes) {
            call.trace();
        }
    }

    /// Records that the program receives. If the rank is watched, the caller has to add the call to the trace.
    #[inline(always)]
    pub fn begin_receive(
        self,
        name: CallName,
        wanted: Wanted,
        bytes: u64,
    ) -> Option<WatchedCall<'a>> {
        self.facts().receive(name, wanted.word, wanted.mask, bytes)
    }

    /// Records that the program asks whether there is a message.
    pub fn note_poll(self, name: CallName) {
        self.facts().poll(name);
    }

    /// Records a call that all members make.
    #[inline(always)]
    pub fn note_collective(self, call: CollectiveCall) {
        let call = CollectiveCall { object: self.members.number(), ..call };
        self.facts().collective(call, || self.described());
    }

    /// Records another call on the communicator, which does not go on without a rank if one is given.
    pub fn note_call(self, name: CallName, rank: Option<u32>) {
        let peer = rank.map(|rank| self.members.targets().peer_of(rank));
        self.facts().call(name, self.members.number(), peer, 0);
    }

    /// Names the communicator, or the window or file that it belongs to.
    pub fn note_name(self, name: &str) {
        self.facts().describe(self.members.number(), name, || self.described());
    }

    #[cold]
    fn described(self) -> facts::Members {
        let group = self.members.group();
        // Of huge groups, a few members tell them apart.
        let step = (group.size() / IDENTIFYING_MEMBERS).max(1);
        let members = (0..group.size()).step_by(step as usize).map(|rank| group.peer_of(rank));
        let mix = |hash: u64, Peer(peer): Peer| {
            (hash ^ u64::from(peer)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        };
        let group_hash = members.fold(u64::from(group.size()), mix);
        let stride = match group.map() {
            RankMap::Strided { stride, .. } => u32::try_from(*stride).unwrap_or(0),
            RankMap::Table(_) => 0,
        };
        let first = group.peer_of(0).0;
        facts::Members { size: group.size(), group: group_hash, first, stride }
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
        let posted = unsafe { self.plane.submit(|nic, port| nic.post_taken(ticket, into, port)) };
        self.plane.trace_receive(posted);
        posted
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
