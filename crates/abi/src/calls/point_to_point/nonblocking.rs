//! Nonblocking and persistent messages.
//!
//! Invariants, cited below by number.
//!   I1. As in `request.rs`: the program leaves its buffers alone until the request is complete, and packed
//!       bytes live in the recipe.

use ferrywire_host::facts::WatchedCall;
use ferrywire_host::nic::{MatchWord, Mode, Peer, Posted, Span};
use ferrywire_mpi::comm::Wanted;
use ferrywire_runtime::CallName;
use ferrywire_runtime::trace::TracedCall;

use crate::calls::entry::entries;
use crate::calls::point_to_point::combined::Combined;
use crate::convert::argument::{MessageTag, PeerRank, SourceRank};
use crate::convert::failure::Result;
use crate::convert::handle::Shared;
use crate::convert::pointer::{Choice, ChoiceMut, Out};
use crate::convert::sizes::Wide;
use crate::convert::types::{MPI_Comm, MPI_Datatype, MPI_Request, MPI_Status};
use crate::objects::check;
use crate::objects::checked;
use crate::objects::comm::{self, Comm};
use crate::objects::data::{Data, Incoming, Outgoing, plain_span, plain_span_mut};
use crate::objects::message::{Receiving, Sending, from, to};
use crate::objects::process;
use crate::objects::recipe::Recipe;
use crate::objects::request::{Request, Work};

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

/// Starts a send.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "the standard says how many")]
fn begin_to_send(
    name: CallName,
    buf: Choice,
    count: impl Wide,
    datatype: MPI_Datatype,
    dest: PeerRank,
    tag: MessageTag,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<MPI_Request> {
    match plain_span(buf, count, datatype) {
        Some(source) => begin_to_send_bytes(name, source, datatype, dest, tag, comm, mode),
        None => begin_to_send_data(name, buf, count.wide(), datatype, dest, tag, comm, mode),
    }
}

/// The same for data of any datatype.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "the standard says how many")]
fn begin_to_send_data(
    name: CallName,
    buf: Choice,
    count: i64,
    datatype: MPI_Datatype,
    dest: PeerRank,
    tag: MessageTag,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<MPI_Request> {
    let data = Data::to_read(buf, count, datatype)?;
    if let Some(source) = data.contiguous() {
        return begin_to_send_bytes(name, source, datatype, dest, tag, comm, mode);
    }
    begin_to_send_slowly(None, name, Outgoing::new(data), datatype, dest, tag, comm, mode)
}

/// The same for contiguous bytes. They are posted before a request is made: most sends are complete by then and need none.
#[inline(always)]
fn begin_to_send_bytes(
    name: CallName,
    source: Span,
    datatype: MPI_Datatype,
    dest: PeerRank,
    tag: MessageTag,
    handle: MPI_Comm,
    mode: Mode,
) -> Result<MPI_Request> {
    let comm = comm::find(handle)?;
    let Ok(Some(to)) = comm.address(dest, tag) else {
        let data = Outgoing::contiguous(source);
        return begin_to_send_slowly(None, name, data, datatype, dest, tag, handle, mode);
    };
    let noted = comm.runtime().begin_send(name, to, source.len);
    let data = Outgoing::contiguous(source);
    let posted = match noted {
        // SAFETY: I1.
        None => unsafe { comm.runtime().start_send(to, source, mode) },
        noted if check::is_on() => {
            return begin_to_send_slowly(noted, name, data, datatype, dest, tag, handle, mode);
        }
        Some(call) => start_send_traced(call, comm, to, source, mode),
    };
    Request::of_posted(posted, handle, || Sending { data, dest, tag, mode })
}

/// Starts a send of which a request is made before it is posted. `noted` if it has been recorded.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "the standard says how many")]
fn begin_to_send_slowly(
    noted: Option<WatchedCall>,
    name: CallName,
    data: Outgoing,
    datatype: MPI_Datatype,
    dest: PeerRank,
    tag: MessageTag,
    comm: MPI_Comm,
    mode: Mode,
) -> Result<MPI_Request> {
    let _call = noted.map(TracedCall::begin_with).or_else(|| process::traced(name));
    let comm = comm::share_of(comm)?;
    let sending = Sending::new(&comm, data, dest, tag, mode)?;
    if noted.is_none() {
        sending.note(name, &comm);
    }
    Request::begin(comm, checked::send(sending, name, datatype))
}

/// Posts a send in a program that is traced.
#[cold]
#[inline(never)]
fn start_send_traced(
    call: WatchedCall,
    comm: &Comm,
    to: (Peer, MatchWord),
    source: Span,
    mode: Mode,
) -> Posted {
    let _call = TracedCall::begin_with(call);
    // SAFETY: I1.
    unsafe { comm.runtime().start_send(to, source, mode) }
}

/// Starts a receive.
#[inline(always)]
fn begin_to_receive(
    name: CallName,
    buf: ChoiceMut,
    count: impl Wide,
    datatype: MPI_Datatype,
    source: SourceRank,
    tag: MessageTag,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    match plain_span_mut(buf, count, datatype) {
        Some(into) => begin_to_receive_bytes(name, into, datatype, source, tag, comm),
        None => begin_to_receive_data(name, buf, count.wide(), datatype, source, tag, comm),
    }
}

/// The same for data of any datatype.
#[inline(never)]
fn begin_to_receive_data(
    name: CallName,
    buf: ChoiceMut,
    count: i64,
    datatype: MPI_Datatype,
    source: SourceRank,
    tag: MessageTag,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    let data = Data::to_write(buf, count, datatype);
    let data = data.map_err(from(comm::find(comm)?, source, tag))?;
    if let Some(into) = data.contiguous() {
        return begin_to_receive_bytes(name, into, datatype, source, tag, comm);
    }
    begin_to_receive_slowly(None, name, Incoming::new(data), datatype, source, tag, comm)
}

/// The same for contiguous bytes.
#[inline(always)]
fn begin_to_receive_bytes(
    name: CallName,
    into: Span,
    datatype: MPI_Datatype,
    source: SourceRank,
    tag: MessageTag,
    handle: MPI_Comm,
) -> Result<MPI_Request> {
    let comm = comm::find(handle)?;
    let Ok(Some(wanted)) = comm.wanted(source, tag) else {
        let data = Incoming::contiguous(into);
        return begin_to_receive_slowly(None, name, data, datatype, source, tag, handle);
    };
    let noted = comm.runtime().begin_receive(name, wanted, into.len);
    let data = Incoming::contiguous(into);
    let posted = match noted {
        // SAFETY: I1.
        None => unsafe { comm.runtime().start_receive(wanted, into) },
        noted if check::is_on() => {
            return begin_to_receive_slowly(noted, name, data, datatype, source, tag, handle);
        }
        Some(call) => start_receive_traced(call, comm, wanted, into),
    };
    Request::of_posted(posted, handle, || Receiving { data, source, tag })
}

/// Starts a receive of which a request is made before it is posted. `noted` if it has been recorded.
#[inline(never)]
fn begin_to_receive_slowly(
    noted: Option<WatchedCall>,
    name: CallName,
    data: Incoming,
    datatype: MPI_Datatype,
    source: SourceRank,
    tag: MessageTag,
    comm: MPI_Comm,
) -> Result<MPI_Request> {
    let _call = noted.map(TracedCall::begin_with).or_else(|| process::traced(name));
    let comm = comm::share_of(comm)?;
    let receiving = Receiving::new(&comm, data, source, tag)?;
    if noted.is_none() {
        receiving.note(name, &comm);
    }
    Request::begin(comm, checked::receive(receiving, name, datatype))
}

/// Posts a receive in a program that is traced.
#[cold]
#[inline(never)]
fn start_receive_traced(call: WatchedCall, comm: &Comm, wanted: Wanted, into: Span) -> Posted {
    let _call = TracedCall::begin_with(call);
    // SAFETY: I1.
    unsafe { comm.runtime().start_receive(wanted, into) }
}

/// Defines the nonblocking and the persistent call of a mode.
macro_rules! sends {
    ($($now:ident / $now_large:ident, $later:ident / $later_large:ident: $mode:expr;)*) => {
        entries! { $(
            fn $now / $now_large (
                buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag,
                comm: MPI_Comm, request: Out<MPI_Request>,
            ) on comm {
                request.put(begin_to_send(CALL, buf, count, datatype, dest, tag, comm, $mode)?)
            }

            fn $later / $later_large (
                buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag,
                comm: MPI_Comm, request: Out<MPI_Request>,
            ) on comm {
                let comm = comm::share_of(comm)?;
                let sending = sending(buf, count, datatype, dest, tag, &comm, $mode)?;
                sending.note(CALL, &comm);
                request.put(Request::prepare(comm, checked::send(sending, CALL, datatype)))
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
        request.put(begin_to_receive(CALL, buf, count, datatype, source, tag, comm)?)
    }

    fn MPI_Recv_init / MPI_Recv_init_c (
        buf: ChoiceMut, count: Size, datatype: MPI_Datatype, source: SourceRank, tag: MessageTag,
        comm: MPI_Comm, request: Out<MPI_Request>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let data = Data::to_write(buf, count, datatype).map_err(from(&comm, source, tag))?;
        let receiving = Receiving::new(&comm, Incoming::new(data), source, tag)?;
        request.put(Request::prepare(comm, checked::receive(receiving, CALL, datatype)))
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
        let both = exchange(
            CALL, &comm, (out, sendtype), dest, sendtag, (back, recvtype), source, recvtag,
        )?;
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
        let both = exchange(
            CALL, &comm, (out, sendtype), dest, sendtag, (back, recvtype), source, recvtag,
        )?;
        request.put(Request::begin(comm, both)?)
    }

    fn MPI_Sendrecv_replace / MPI_Sendrecv_replace_c (
        buf: ChoiceMut, count: Size, datatype: MPI_Datatype, dest: PeerRank, sendtag: MessageTag,
        source: SourceRank, recvtag: MessageTag, comm: MPI_Comm, status: Out<MPI_Status>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let data = Data::to_write(buf, count, datatype).map_err(to(&comm, dest, sendtag))?;
        let both = replace(CALL, &comm, (data, datatype), dest, sendtag, source, recvtag)?;
        status.report_result(Request::perform(comm, both))
    }

    fn MPI_Isendrecv_replace / MPI_Isendrecv_replace_c (
        buf: ChoiceMut, count: Size, datatype: MPI_Datatype, dest: PeerRank, sendtag: MessageTag,
        source: SourceRank, recvtag: MessageTag, comm: MPI_Comm, request: Out<MPI_Request>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let data = Data::to_write(buf, count, datatype).map_err(to(&comm, dest, sendtag))?;
        let both = replace(CALL, &comm, (data, datatype), dest, sendtag, source, recvtag)?;
        request.put(Request::begin(comm, both)?)
    }
}

/// Sends one message and receives another at the same time.
#[allow(clippy::too_many_arguments, reason = "the standard says how many")]
fn exchange(
    name: CallName,
    comm: &Shared<Comm>,
    (out, sendtype): (Outgoing, MPI_Datatype),
    dest: PeerRank,
    sendtag: MessageTag,
    (back, recvtype): (Data, MPI_Datatype),
    source: SourceRank,
    recvtag: MessageTag,
) -> Result<Box<dyn Recipe>> {
    let sending = Sending::new(comm, out, dest, sendtag, Mode::Standard)?;
    let receiving = Receiving::new(comm, Incoming::new(back), source, recvtag)?;
    sending.note(name, comm);
    receiving.note(name, comm);
    let part = |work: Work| Request::new(Shared::clone(comm), work, false);
    let sending = checked::send(sending, name, sendtype);
    let receiving = checked::receive(receiving, name, recvtype);
    Ok(Combined::recipe(vec![part(sending), part(receiving)]))
}

/// The same with one buffer: the outgoing data is copied first.
fn replace(
    name: CallName,
    comm: &Shared<Comm>,
    (data, datatype): (Data, MPI_Datatype),
    dest: PeerRank,
    sendtag: MessageTag,
    source: SourceRank,
    recvtag: MessageTag,
) -> Result<Box<dyn Recipe>> {
    let out = (Outgoing::copied(data.clone()), datatype);
    exchange(name, comm, out, dest, sendtag, (data, datatype), source, recvtag)
}
