//! Messages that go on by themselves: non-blocking and persistent ones.
//!
//! Invariants, cited below by number.
//!   I1. As in `request.rs`: the program leaves its buffers alone until the request is over, and what is
//!       packed lives in the recipe.

use ferrywire_host::nic::{Fault, MatchWord, Mode, Outcome, Peer, Posted};
use ferrywire_mpi::comm::Wanted;
use ferrywire_runtime::Call;

use crate::argument::{MessageTag, PeerRank, SourceRank};
use crate::comm::{self, Comm};
use crate::data::{Data, Incoming, Outgoing};
use crate::entry::entries;
use crate::failure::{self, Failure, Result};
use crate::handle::Shared;
use crate::message;
use crate::pointer::{Choice, ChoiceMut, Out};
use crate::request::{End, Next, Recipe, Request, Work};
use crate::sizes::Wide;
use crate::status::Status;
use crate::together::Together;
use crate::types::{MPI_Comm, MPI_Datatype, MPI_Request, MPI_Status};

/// A message that goes.
pub(crate) struct Sending {
    data: Outgoing,
    dest: PeerRank,
    tag: MessageTag,
    mode: Mode,
}

/// A message that is to come.
pub(crate) struct Receiving {
    data: Incoming,
    source: SourceRank,
    tag: MessageTag,
}

impl Sending {
    /// What is to go where.
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

    /// Where it goes, and what it says of itself. None: to nobody.
    fn address(&self, comm: &Comm) -> Result<Option<(Peer, MatchWord)>> {
        let address = comm.address(self.dest, self.tag);
        address.map_err(|failure| failure.during(self.described(comm)))
    }

    /// What it came to.
    #[inline]
    pub(crate) fn end(&self, comm: &Comm, outcome: Outcome) -> Result<Status> {
        match outcome {
            Outcome::Done => Ok(Status::EMPTY),
            Outcome::Cancelled if !comm.members.standing().is_revoked() => Ok(Status::CANCELLED),
            other => Err(message::failed(other).during(self.described(comm))),
        }
    }

    fn described<'a>(&self, comm: &'a Comm) -> Call<&'a Comm> {
        message::sending(comm, self.dest, self.tag, Some(self.data.bytes()))
    }
}

impl Recipe for Sending {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        let Some(to) = self.address(comm)? else { return Ok(Posted::Done(Outcome::Done)) };
        let (source, mode) = (self.data.load(), self.mode);
        // SAFETY: I1.
        Ok(unsafe { comm.runtime().start_send(to, source, mode) })
    }

    fn finish(&mut self, comm: &Shared<Comm>, end: End) -> Result<Next> {
        self.end(comm, end.outcome).map(Next::Over)
    }
}

impl Receiving {
    /// What is to come from where.
    pub(crate) fn new(
        comm: &Comm,
        data: Data,
        source: SourceRank,
        tag: MessageTag,
    ) -> Result<Receiving> {
        let receiving = Receiving { data: Incoming::new(data), source, tag };
        receiving.wanted(comm)?;
        Ok(receiving)
    }

    /// What it insists on. None: it is from nobody.
    fn wanted(&self, comm: &Comm) -> Result<Option<Wanted>> {
        let wanted = comm.wanted(self.source, self.tag);
        wanted.map_err(|failure| failure.during(self.described(comm)))
    }

    /// What it came to.
    #[inline]
    pub(crate) fn end(&mut self, comm: &Comm, outcome: Outcome) -> Result<Status> {
        match outcome {
            Outcome::Done => Ok(Status::NOBODY),
            Outcome::Cancelled => Ok(Status::CANCELLED),
            Outcome::Failed(Fault::PeerDown(peer)) if self.source.is_any() => {
                Err(failure::pending(peer).during(self.described(comm)))
            }
            outcome => message::received(&mut self.data, outcome)
                .map_err(|failure| failure.during(self.described(comm))),
        }
    }

    fn described<'a>(&self, comm: &'a Comm) -> Call<&'a Comm> {
        message::receiving(comm, self.source, self.tag, Some(self.data.bytes()))
    }
}

impl Recipe for Receiving {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        let Some(wanted) = self.wanted(comm)? else { return Ok(Posted::Done(Outcome::Done)) };
        let into = self.data.span();
        // SAFETY: I1.
        Ok(unsafe { comm.runtime().start_receive(wanted, into) })
    }

    fn finish(&mut self, comm: &Shared<Comm>, end: End) -> Result<Next> {
        self.end(comm, end.outcome).map(Next::Over)
    }
}

/// A receive from anybody that was taken out of the queue, since a rank that has died might have been its sender. It
/// is still the program's, and tries again when the program looks at it: by then that may know of the death.
pub(crate) struct Again(pub(crate) Receiving);

impl Recipe for Again {
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

/// A send that has not been started.
fn sending(
    buf: Choice,
    count: impl Wide,
    datatype: MPI_Datatype,
    dest: PeerRank,
    tag: MessageTag,
    comm: &Comm,
    mode: Mode,
) -> Result<Sending> {
    let data = Data::to_read(buf, count, datatype).map_err(to(comm, dest, tag))?;
    Sending::new(comm, Outgoing::new(data), dest, tag, mode)
}

/// Says of a failure that it was about a message to somebody.
pub(crate) fn to(comm: &Comm, dest: PeerRank, tag: MessageTag) -> impl FnOnce(Failure) -> Failure {
    move |failure| failure.during(message::sending(comm, dest, tag, None))
}

/// Says of a failure that it was about a message from somebody.
fn from(comm: &Comm, source: SourceRank, tag: MessageTag) -> impl FnOnce(Failure) -> Failure {
    move |failure| failure.during(message::receiving(comm, source, tag, None))
}

/// Begins to send. What lies in memory as it travels is posted before anything is made to remember it:
/// most often it is gone by then.
#[inline]
fn begin_to_send(
    buf: Choice,
    count: impl Wide,
    datatype: MPI_Datatype,
    dest: PeerRank,
    tag: MessageTag,
    handle: MPI_Comm,
    mode: Mode,
) -> Result<MPI_Request> {
    let data = Data::to_read(buf, count, datatype)?;
    let comm = comm::find(handle)?;
    let (Some(source), Ok(Some(to))) = (data.straight(), comm.address(dest, tag)) else {
        let comm = comm::share_of(handle)?;
        let sending = Sending::new(&comm, Outgoing::new(data), dest, tag, mode)?;
        return Request::begin(comm, sending);
    };
    // SAFETY: I1.
    let posted = unsafe { comm.runtime().start_send(to, source, mode) };
    let data = Outgoing::straight(source);
    Request::of_posted(posted, handle, || Sending { data, dest, tag, mode })
}

/// Begins to receive, in the same way.
#[inline]
fn begin_to_receive(
    buf: ChoiceMut,
    count: impl Wide,
    datatype: MPI_Datatype,
    source: SourceRank,
    tag: MessageTag,
    handle: MPI_Comm,
) -> Result<MPI_Request> {
    let comm = comm::find(handle)?;
    let data = Data::to_write(buf, count, datatype).map_err(from(comm, source, tag))?;
    let (Some(into), Ok(Some(wanted))) = (data.straight(), comm.wanted(source, tag)) else {
        let comm = comm::share_of(handle)?;
        let receiving = Receiving::new(&comm, data, source, tag)?;
        return Request::begin(comm, receiving);
    };
    // SAFETY: I1.
    let posted = unsafe { comm.runtime().start_receive(wanted, into) };
    let data = Incoming::straight(into);
    Request::of_posted(posted, handle, || Receiving { data, source, tag })
}

/// Defines the non-blocking and the persistent call of a mode.
macro_rules! sends {
    ($($now:ident / $now_large:ident, $later:ident / $later_large:ident: $mode:expr;)*) => {
        entries! { $(
            fn $now / $now_large (
                buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag,
                comm: MPI_Comm, request: Out<MPI_Request>,
            ) on comm {
                request.put(begin_to_send(buf, count, datatype, dest, tag, comm, $mode)?)
            }

            fn $later / $later_large (
                buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag,
                comm: MPI_Comm, request: Out<MPI_Request>,
            ) on comm {
                let comm = comm::share_of(comm)?;
                let sending = sending(buf, count, datatype, dest, tag, &comm, $mode)?;
                request.put(Request::prepare(comm, sending))
            }
        )* }
    };
}

sends! {
    MPI_Isend / MPI_Isend_c, MPI_Send_init / MPI_Send_init_c: Mode::Standard;
    MPI_Issend / MPI_Issend_c, MPI_Ssend_init / MPI_Ssend_init_c: Mode::Synchronous;
    MPI_Irsend / MPI_Irsend_c, MPI_Rsend_init / MPI_Rsend_init_c: Mode::Ready;
}

entries! {
    fn MPI_Irecv / MPI_Irecv_c (
        buf: ChoiceMut, count: Size, datatype: MPI_Datatype, source: SourceRank, tag: MessageTag,
        comm: MPI_Comm, request: Out<MPI_Request>,
    ) on comm {
        request.put(begin_to_receive(buf, count, datatype, source, tag, comm)?)
    }

    fn MPI_Recv_init / MPI_Recv_init_c (
        buf: ChoiceMut, count: Size, datatype: MPI_Datatype, source: SourceRank, tag: MessageTag,
        comm: MPI_Comm, request: Out<MPI_Request>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let data = Data::to_write(buf, count, datatype).map_err(from(&comm, source, tag))?;
        let receiving = Receiving::new(&comm, data, source, tag)?;
        request.put(Request::prepare(comm, receiving))
    }

    fn MPI_Sendrecv / MPI_Sendrecv_c (
        sendbuf: Choice, sendcount: Size, sendtype: MPI_Datatype, dest: PeerRank, sendtag: MessageTag,
        recvbuf: ChoiceMut, recvcount: Size, recvtype: MPI_Datatype, source: SourceRank,
        recvtag: MessageTag, comm: MPI_Comm, status: Out<MPI_Status>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let out = Data::to_read(sendbuf, sendcount, sendtype);
        let out = Outgoing::new(out.map_err(to(&comm, dest, sendtag))?);
        let back = Data::to_write(recvbuf, recvcount, recvtype);
        let back = back.map_err(from(&comm, source, recvtag))?;
        let both = exchange(&comm, out, dest, sendtag, back, source, recvtag)?;
        status.report_result(Request::perform(comm, both))
    }

    fn MPI_Isendrecv / MPI_Isendrecv_c (
        sendbuf: Choice, sendcount: Size, sendtype: MPI_Datatype, dest: PeerRank, sendtag: MessageTag,
        recvbuf: ChoiceMut, recvcount: Size, recvtype: MPI_Datatype, source: SourceRank,
        recvtag: MessageTag, comm: MPI_Comm, request: Out<MPI_Request>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let out = Data::to_read(sendbuf, sendcount, sendtype);
        let out = Outgoing::new(out.map_err(to(&comm, dest, sendtag))?);
        let back = Data::to_write(recvbuf, recvcount, recvtype);
        let back = back.map_err(from(&comm, source, recvtag))?;
        let both = exchange(&comm, out, dest, sendtag, back, source, recvtag)?;
        request.put(Request::begin(comm, both)?)
    }

    fn MPI_Sendrecv_replace / MPI_Sendrecv_replace_c (
        buf: ChoiceMut, count: Size, datatype: MPI_Datatype, dest: PeerRank, sendtag: MessageTag,
        source: SourceRank, recvtag: MessageTag, comm: MPI_Comm, status: Out<MPI_Status>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let data = Data::to_write(buf, count, datatype).map_err(to(&comm, dest, sendtag))?;
        let both = replace(&comm, data, dest, sendtag, source, recvtag)?;
        status.report_result(Request::perform(comm, both))
    }

    fn MPI_Isendrecv_replace / MPI_Isendrecv_replace_c (
        buf: ChoiceMut, count: Size, datatype: MPI_Datatype, dest: PeerRank, sendtag: MessageTag,
        source: SourceRank, recvtag: MessageTag, comm: MPI_Comm, request: Out<MPI_Request>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let data = Data::to_write(buf, count, datatype).map_err(to(&comm, dest, sendtag))?;
        let both = replace(&comm, data, dest, sendtag, source, recvtag)?;
        request.put(Request::begin(comm, both)?)
    }
}

/// A message there and one back, at the same time.
fn exchange(
    comm: &Shared<Comm>,
    out: Outgoing,
    dest: PeerRank,
    sendtag: MessageTag,
    back: Data,
    source: SourceRank,
    recvtag: MessageTag,
) -> Result<Box<dyn Recipe>> {
    let sending = Sending::new(comm, out, dest, sendtag, Mode::Standard)?;
    let receiving = Receiving::new(comm, back, source, recvtag)?;
    let part = |work: Work| Request::new(Shared::clone(comm), work, false);
    Ok(Together::recipe(vec![part(sending.into()), part(receiving.into())]))
}

/// The same from and to one buffer: what goes is copied first.
fn replace(
    comm: &Shared<Comm>,
    data: Data,
    dest: PeerRank,
    sendtag: MessageTag,
    source: SourceRank,
    recvtag: MessageTag,
) -> Result<Box<dyn Recipe>> {
    exchange(comm, Outgoing::copied(data.clone()), dest, sendtag, data, source, recvtag)
}
