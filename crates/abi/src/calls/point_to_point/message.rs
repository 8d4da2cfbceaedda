//! Blocking sends and receives.
//!
//! The path of a short message is in `docs/ARCHITECTURE.md`; after [`send_message`] comes `Comm::send_blocking` of the
//! runtime.
//!
//! Invariants, cited below by number.
//!   I1. A blocking call borrows its buffers until it returns, and returns when the operation is complete.

use ferrywire_host::facts::WatchedCall;
use ferrywire_host::nic::{MatchWord, Mode, Outcome, Peer, Span};
use ferrywire_mpi::comm::Wanted;
use ferrywire_runtime::CallName;
use ferrywire_runtime::trace::TracedCall;

use crate::calls::entry::entries;
use crate::convert::argument::{MessageTag, PeerRank, SourceRank};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{Choice, ChoiceMut, Out};
use crate::convert::sizes::Wide;
use crate::convert::status::Status;
use crate::convert::types::{MPI_Comm, MPI_Datatype, MPI_Status};
use crate::objects::check;
use crate::objects::comm::{self, Comm};
use crate::objects::data::{Data, Incoming, Outgoing, plain_span, plain_span_mut};
use crate::objects::message::{from, received, receiving, sending, sent, to};
use crate::objects::mistake;
use crate::objects::process;

entries! {
    fn MPI_Send / MPI_Send_c (
        buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag, comm: MPI_Comm,
    ) on comm {
        send_message(CALL, buf, count, datatype, dest, tag, comm, Mode::Standard)
    }

    fn MPI_Ssend / MPI_Ssend_c (
        buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag, comm: MPI_Comm,
    ) on comm {
        send_message(CALL, buf, count, datatype, dest, tag, comm, Mode::Synchronous)
    }

    fn MPI_Rsend / MPI_Rsend_c (
        buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag, comm: MPI_Comm,
    ) on comm {
        send_message(CALL, buf, count, datatype, dest, tag, comm, Mode::Ready)
    }

    fn MPI_Recv / MPI_Recv_c (
        buf: ChoiceMut, count: Size, datatype: MPI_Datatype, source: SourceRank, tag: MessageTag,
        comm: MPI_Comm, status: Out<MPI_Status>,
    ) on comm {
        let comm = comm::find(comm)?;
        let Some(into) = plain_span_mut(buf, count, datatype) else {
            return receive_data(CALL, buf, count.wide(), datatype, source, tag, comm, status);
        };
        let Some(wanted) = wanted(CALL, comm, source, tag, into.len)? else {
            status.report(Status::NOBODY);
            return Ok(());
        };
        let outcome = receive_into(CALL, comm, datatype, wanted, into);
        let got = received(&mut Incoming::contiguous(into), outcome);
        status.report_result(got.map_err(during_receive(comm, source, tag, into.len)))
    }
}

/// Sends, and waits until the buffer may be used again.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "the standard says how many")]
fn send_message(
    name: CallName,
    buf: Choice,
    count: impl Wide,
    datatype: MPI_Datatype,
    dest: PeerRank,
    tag: MessageTag,
    comm: MPI_Comm,
    mode: Mode,
) -> Result {
    let comm = comm::find(comm)?;
    match plain_span(buf, count, datatype) {
        Some(source) => send_bytes(name, source, datatype, dest, tag, comm, mode),
        None => send_data(name, buf, count.wide(), datatype, dest, tag, comm, mode),
    }
}

/// The same for data of any datatype.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "the standard says how many")]
fn send_data(
    name: CallName,
    buf: Choice,
    count: i64,
    datatype: MPI_Datatype,
    dest: PeerRank,
    tag: MessageTag,
    comm: &Comm,
    mode: Mode,
) -> Result {
    let data = Data::to_read(buf, count, datatype).map_err(to(comm, dest, tag))?;
    let mut outgoing = Outgoing::new(data);
    send_bytes(name, outgoing.load(), datatype, dest, tag, comm, mode)
}

/// The same for contiguous bytes.
#[inline(always)]
fn send_bytes(
    name: CallName,
    source: Span,
    datatype: MPI_Datatype,
    dest: PeerRank,
    tag: MessageTag,
    comm: &Comm,
    mode: Mode,
) -> Result {
    let during = |failure: Failure| failure.during(sending(comm, dest, tag, Some(source.len)));
    let Some(to) = comm.address(dest, tag).map_err(during)? else {
        drop(process::note_plain(name));
        return Ok(());
    };
    let outcome = match comm.runtime().begin_send(name, to, source.len) {
        // SAFETY: I1.
        None => unsafe { comm.runtime().send_blocking(to, source, mode) },
        Some(call) => {
            if check::is_on() {
                mistake::check_sent(name, comm, datatype, source, to, (dest, tag));
            }
            // SAFETY: I1.
            unsafe { send_watched(call, comm, to, source, mode) }
        }
    };
    sent(outcome).map_err(during)
}

/// Receives data of any datatype.
#[inline(never)]
#[allow(clippy::too_many_arguments, reason = "the standard says how many")]
fn receive_data(
    name: CallName,
    buf: ChoiceMut,
    count: i64,
    datatype: MPI_Datatype,
    source: SourceRank,
    tag: MessageTag,
    comm: &Comm,
    status: Out<MPI_Status>,
) -> Result {
    let data = Data::to_write(buf, count, datatype).map_err(from(comm, source, tag))?;
    let mut incoming = Incoming::new(data);
    let into = incoming.span();
    let Some(wanted) = wanted(name, comm, source, tag, into.len)? else {
        status.report(Status::NOBODY);
        return Ok(());
    };
    let outcome = receive_into(name, comm, datatype, wanted, into);
    let got = received(&mut incoming, outcome);
    status.report_result(got.map_err(during_receive(comm, source, tag, into.len)))
}

/// What a receive wants. `None` for MPI_PROC_NULL.
#[inline(always)]
fn wanted(
    name: CallName,
    comm: &Comm,
    source: SourceRank,
    tag: MessageTag,
    bytes: u64,
) -> Result<Option<Wanted>> {
    let wanted = comm.wanted(source, tag).map_err(during_receive(comm, source, tag, bytes))?;
    if wanted.is_none() {
        drop(process::note_plain(name));
    }
    Ok(wanted)
}

/// Receives contiguous bytes.
#[inline(always)]
fn receive_into(
    name: CallName,
    comm: &Comm,
    datatype: MPI_Datatype,
    wanted: Wanted,
    into: Span,
) -> Outcome {
    let outcome = match comm.runtime().begin_receive(name, wanted, into.len) {
        // SAFETY: I1.
        None => unsafe { comm.runtime().receive(wanted, into) },
        // SAFETY: I1.
        Some(call) => unsafe { receive_watched(call, name, comm, datatype, wanted, into) },
    };
    if let Outcome::Received(got) = outcome
        && got.len != into.len
    {
        mistake::check_length(name, comm, datatype, &got);
    }
    outcome
}

/// Adds the description of a receive to a failure.
#[inline(always)]
fn during_receive(
    comm: &Comm,
    source: SourceRank,
    tag: MessageTag,
    bytes: u64,
) -> impl FnOnce(Failure) -> Failure {
    move |failure| failure.during(receiving(comm, source, tag, Some(bytes)))
}

/// Sends in a program that is traced or checked.
///
/// # Safety
/// As for `Comm::send_blocking`.
#[cold]
#[inline(never)]
unsafe fn send_watched(
    call: WatchedCall,
    comm: &Comm,
    to: (Peer, MatchWord),
    source: Span,
    mode: Mode,
) -> Outcome {
    let _call = TracedCall::begin_with(call);
    // SAFETY: the caller's promise.
    unsafe { comm.runtime().send_blocking(to, source, mode) }
}

/// Receives in a program that is traced or checked.
///
/// # Safety
/// As for `Comm::receive`.
#[cold]
#[inline(never)]
unsafe fn receive_watched(
    call: WatchedCall,
    name: CallName,
    comm: &Comm,
    datatype: MPI_Datatype,
    wanted: Wanted,
    into: Span,
) -> Outcome {
    let mut call = TracedCall::begin_with(call);
    // SAFETY: the caller's promise.
    let outcome = unsafe { comm.runtime().receive(wanted, into) };
    call.received(outcome);
    drop(call);
    if check::is_on() {
        mistake::check_received(name, comm, datatype, into, outcome);
    }
    outcome
}
