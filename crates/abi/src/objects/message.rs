//! Messages in progress, and their results.
//!
//! Invariants, cited below by number.
//!   I1. As in `request.rs`: the program leaves its buffers alone until the request is complete, and packed
//!       bytes live in the recipe.

use ferrywire_host::nic::{Fault, MatchWord, Mode, Outcome, Peer, Posted, Received, Triggered};
use ferrywire_mpi::comm::Wanted;
use ferrywire_runtime::{Call, CallName, Source, Tag, Trigger, With};

use crate::convert::argument::{MessageTag, PeerRank, SourceRank};
use crate::convert::failure::{self, Failure, Result};
use crate::convert::handle::Shared;
use crate::convert::status::Status;
use crate::objects::communicator::Comm;
use crate::objects::data::{Incoming, Outgoing};
use crate::objects::mistake;
use crate::objects::process;
use crate::objects::recipe::{End, Next, Recipe, not_contiguous};

/// A message to be sent.
pub(crate) struct Sending {
    pub(crate) data: Outgoing,
    pub(crate) dest: PeerRank,
    pub(crate) tag: MessageTag,
    pub(crate) mode: Mode,
}

/// A message to be received.
pub(crate) struct Receiving {
    pub(crate) data: Incoming,
    pub(crate) source: SourceRank,
    pub(crate) tag: MessageTag,
}

impl Sending {
    /// Describes a send.
    pub(crate) fn new(
        comm: &Comm,
        data: Outgoing,
        dest: PeerRank,
        tag: MessageTag,
        mode: Mode,
    ) -> Result<Sending> {
        let sending = Sending { data, dest, tag, mode };
        sending.address(comm)?;
        Ok(sending)
    }

    /// The target peer and the match word. `None` for MPI_PROC_NULL.
    pub(crate) fn address(&self, comm: &Comm) -> Result<Option<(Peer, MatchWord)>> {
        let address = comm.address(self.dest, self.tag);
        address.map_err(|failure| failure.during(self.described(comm)))
    }

    /// The result of the send.
    #[inline]
    pub(crate) fn end(&self, comm: &Comm, outcome: Outcome) -> Result<Status> {
        match outcome {
            Outcome::Done => Ok(Status::EMPTY),
            Outcome::Cancelled if !comm.members.state().is_revoked() => Ok(Status::CANCELLED),
            other => Err(failed(other).during(self.described(comm))),
        }
    }

    /// Records it as a call of the program.
    pub(crate) fn note(&self, name: CallName, comm: &Comm) {
        if let Ok(Some(to)) = self.address(comm) {
            comm.runtime().note_send(name, to, self.data.bytes());
        }
    }

    /// The call that made it, as reports name it.
    pub(crate) fn origin(&self, comm: &Comm, persistent: bool) -> String {
        let call = match (self.mode, persistent) {
            (Mode::Standard, false) => "MPI_Isend",
            (Mode::Standard, true) => "MPI_Send_init",
            (Mode::Synchronous, false) => "MPI_Issend",
            (Mode::Synchronous, true) => "MPI_Ssend_init",
            (Mode::Ready, false) => "MPI_Irsend",
            (Mode::Ready, true) => "MPI_Rsend_init",
        };
        mistake::sending(call, comm, self.data.bytes(), self.dest, self.tag)
    }

    fn described<'a>(&self, comm: &'a Comm) -> Call<&'a Comm> {
        sending(comm, self.dest, self.tag, Some(self.data.bytes()))
    }
}

impl Recipe for Sending {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        let Some(to) = self.address(comm)? else { return Ok(Posted::Done(Outcome::Done)) };
        let (source, mode) = (self.data.load(), self.mode);
        // SAFETY: I1.
        Ok(unsafe { comm.runtime().start_send(to, source, mode) })
    }

    fn arm(&mut self, comm: &Shared<Comm>, trigger: Trigger<'_>) -> Result<Posted> {
        let Some((to, word)) = self.address(comm)? else { return Ok(Posted::Done(Outcome::Done)) };
        if !self.data.is_in_place() {
            return Err(not_contiguous());
        }
        let (source, mode) = (self.data.load(), self.mode);
        // SAFETY: I1.
        Ok(unsafe { trigger.start(Triggered::Send { to, word, source, mode }) })
    }

    fn finish(&mut self, comm: &Shared<Comm>, end: End) -> Result<Next> {
        self.end(comm, end.outcome).map(Next::Over)
    }
}

impl Receiving {
    /// Describes a receive.
    pub(crate) fn new(
        comm: &Comm,
        data: Incoming,
        source: SourceRank,
        tag: MessageTag,
    ) -> Result<Receiving> {
        let receiving = Receiving { data, source, tag };
        receiving.wanted(comm)?;
        Ok(receiving)
    }

    /// The match word and mask of the receive. `None` for MPI_PROC_NULL.
    pub(crate) fn wanted(&self, comm: &Comm) -> Result<Option<Wanted>> {
        let wanted = comm.wanted(self.source, self.tag);
        wanted.map_err(|failure| failure.during(self.described(comm)))
    }

    /// The result of the receive.
    #[inline]
    pub(crate) fn end(&mut self, comm: &Comm, outcome: Outcome) -> Result<Status> {
        match outcome {
            Outcome::Done => Ok(Status::NOBODY),
            Outcome::Cancelled => Ok(Status::CANCELLED),
            Outcome::Failed(Fault::PeerDown(peer)) if self.source.is_any() => {
                Err(failure::pending(peer).during(self.described(comm)))
            }
            outcome => received(&mut self.data, outcome)
                .map_err(|failure| failure.during(self.described(comm))),
        }
    }

    /// Records it as a call of the program.
    pub(crate) fn note(&self, name: CallName, comm: &Comm) {
        if let Ok(Some(wanted)) = self.wanted(comm) {
            comm.runtime().note_receive(name, wanted, self.data.bytes());
        }
    }

    /// The call that made it, as reports name it.
    pub(crate) fn origin(&self, comm: &Comm, persistent: bool) -> String {
        let call = if persistent { "MPI_Recv_init" } else { "MPI_Irecv" };
        mistake::receiving(call, comm, self.source, self.tag)
    }

    fn described<'a>(&self, comm: &'a Comm) -> Call<&'a Comm> {
        receiving(comm, self.source, self.tag, Some(self.data.bytes()))
    }
}

impl Recipe for Receiving {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        let Some(wanted) = self.wanted(comm)? else { return Ok(Posted::Done(Outcome::Done)) };
        let into = self.data.span();
        // SAFETY: I1.
        Ok(unsafe { comm.runtime().start_receive(wanted, into) })
    }

    fn arm(&mut self, comm: &Shared<Comm>, trigger: Trigger<'_>) -> Result<Posted> {
        let Some(wanted) = self.wanted(comm)? else { return Ok(Posted::Done(Outcome::Done)) };
        let (Wanted { from, word, mask }, into) = (wanted, self.data.span());
        // SAFETY: I1.
        Ok(unsafe { trigger.start(Triggered::Receive { from, word, mask, into }) })
    }

    fn finish(&mut self, comm: &Shared<Comm>, end: End) -> Result<Next> {
        self.end(comm, end.outcome).map(Next::Over)
    }
}

/// A receive from any source that left the queue because a rank that died might have been its sender. The request
/// stays with the program and posts the receive again when the program tests or waits for it: by then the program may
/// have acknowledged the death.
pub(crate) struct Again(pub(crate) Receiving);

impl Recipe for Again {
    fn origin(&self, comm: &Comm, persistent: bool) -> String {
        self.0.origin(comm, persistent)
    }

    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        self.0.start(comm)
    }

    fn is_receive(&self) -> bool {
        true
    }

    fn finish(&mut self, comm: &Shared<Comm>, end: End) -> Result<Next> {
        if !matches!(end.outcome, Outcome::Failed(Fault::PeerDown(_))) {
            return self.0.finish(comm, end);
        }
        match self.0.start(comm)? {
            Posted::Done(outcome) => self.0.end(comm, outcome).map(Next::Over),
            pending => Ok(Next::Then(pending)),
        }
    }
}

/// The result of a send.
#[inline]
pub(crate) fn sent(outcome: Outcome) -> Result {
    match outcome {
        Outcome::Done => Ok(()),
        other => Err(failed(other)),
    }
}

/// The result of a receive. Unpacks the bytes that have arrived.
#[inline(always)]
pub(crate) fn received(incoming: &mut Incoming, outcome: Outcome) -> Result<Status> {
    match outcome {
        Outcome::Received(got) => {
            incoming.unload(got.len);
            Ok(Status::of(&got))
        }
        other => Err(not_received(incoming, other)),
    }
}

/// The error of a receive that failed. Of a message that is too long, it unpacks the part that fits.
#[cold]
#[inline(never)]
fn not_received(incoming: &mut Incoming, outcome: Outcome) -> Failure {
    let failure = failed(outcome);
    let Outcome::Failed(Fault::Truncated { word, .. }) = outcome else { return failure };
    let len = incoming.bytes();
    incoming.unload(len);
    failure.of_message(Status::of(&Received { word, len }))
}

/// The error of an operation that failed.
#[cold]
pub(crate) fn failed(outcome: Outcome) -> Failure {
    match process::running() {
        Ok(process) => process.runtime.failure(outcome).into(),
        Err(not_running) => not_running,
    }
}

/// The description of a call that sends, for errors.
#[inline]
pub(crate) fn sending(
    comm: &Comm,
    dest: PeerRank,
    tag: MessageTag,
    bytes: Option<u64>,
) -> Call<&Comm> {
    let (peer, tag) = (With::To(dest.into()), Some(tag.number()));
    Call { name: "", comm: Some(comm), peer, tag, bytes }
}

/// The description of a call that receives, for errors.
#[inline]
pub(crate) fn receiving(
    comm: &Comm,
    source: impl Into<Source>,
    tag: impl Into<Tag>,
    bytes: Option<u64>,
) -> Call<&Comm> {
    let (peer, tag) = (With::From(source.into()), Some(tag.into()));
    Call { name: "", comm: Some(comm), peer, tag, bytes }
}

/// Adds the description of a send to a failure.
pub(crate) fn to(comm: &Comm, dest: PeerRank, tag: MessageTag) -> impl FnOnce(Failure) -> Failure {
    move |failure| failure.during(sending(comm, dest, tag, None))
}

/// Adds the description of a receive to a failure.
pub(crate) fn from(
    comm: &Comm,
    source: SourceRank,
    tag: MessageTag,
) -> impl FnOnce(Failure) -> Failure {
    move |failure| failure.during(receiving(comm, source, tag, None))
}
