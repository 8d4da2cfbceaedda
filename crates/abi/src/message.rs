//! Messages: blocking sends and receives, and what all sorts of them have in common.
//!
//! The way of a message from here: [`send`] → `Comm::send` of the runtime → `Driver::perform` → `Nic::post_send` →
//! `Port::transmit` → `Rail::send`.
//!
//! Invariants, cited below by number.
//!   I1. A blocking call has its buffers until it returns, and returns when the operation is over.

use ferrywire_host::nic::{Fault, Mode, Outcome, Received};

use ferrywire_runtime::{Call, Source, Tag, With};

use crate::argument::{MessageTag, PeerRank, SourceRank};
use crate::comm::{self, Comm};
use crate::data::{Data, Incoming, Outgoing};
use crate::entry::entries;
use crate::failure::{Failure, Result};
use crate::pointer::{Choice, ChoiceMut, Out};
use crate::process;
use crate::sizes::Wide;
use crate::status::Status;
use crate::types::{MPI_Comm, MPI_Datatype, MPI_Status};

entries! {
    fn MPI_Send / MPI_Send_c (
        buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag, comm: MPI_Comm,
    ) on comm {
        send(buf, count, datatype, dest, tag, comm, Mode::Standard)
    }

    fn MPI_Ssend / MPI_Ssend_c (
        buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag, comm: MPI_Comm,
    ) on comm {
        send(buf, count, datatype, dest, tag, comm, Mode::Synchronous)
    }

    fn MPI_Rsend / MPI_Rsend_c (
        buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag, comm: MPI_Comm,
    ) on comm {
        send(buf, count, datatype, dest, tag, comm, Mode::Ready)
    }

    fn MPI_Recv / MPI_Recv_c (
        buf: ChoiceMut, count: Size, datatype: MPI_Datatype, source: SourceRank, tag: MessageTag,
        comm: MPI_Comm, status: Out<MPI_Status>,
    ) on comm {
        let comm = comm::find(comm)?;
        let call = receiving(comm, source, tag, None);
        let data = Data::to_write(buf, count, datatype);
        let data = data.map_err(|failure| failure.during(call))?;
        let call = Call { bytes: Some(data.bytes()), ..call };
        let Some(wanted) = comm.wanted(source, tag).map_err(|failure| failure.during(call))?
        else {
            status.report(Status::NOBODY);
            return Ok(());
        };
        let mut incoming = Incoming::new(data);
        let into = incoming.span();
        // SAFETY: I1.
        let outcome = unsafe { comm.runtime().receive(wanted, into) };
        let got = received(&mut incoming, outcome).map_err(|failure| failure.during(call));
        status.report_result(got)
    }
}

/// Sends, and waits until the buffer may be used again.
#[inline]
fn send(
    buf: Choice,
    count: impl Wide,
    datatype: MPI_Datatype,
    dest: PeerRank,
    tag: MessageTag,
    comm: MPI_Comm,
    mode: Mode,
) -> Result {
    let comm = comm::find(comm)?;
    let call = sending(comm, dest, tag, None);
    let data = Data::to_read(buf, count, datatype).map_err(|failure| failure.during(call))?;
    let call = Call { bytes: Some(data.bytes()), ..call };
    let Some(to) = comm.address(dest, tag).map_err(|failure| failure.during(call))? else {
        return Ok(());
    };
    let mut outgoing = Outgoing::new(data);
    let source = outgoing.load();
    // SAFETY: I1.
    let outcome = unsafe { comm.runtime().send(to, source, mode) };
    sent(outcome).map_err(|failure| failure.during(call))
}

/// What a send came to.
#[inline]
pub(crate) fn sent(outcome: Outcome) -> Result {
    match outcome {
        Outcome::Done => Ok(()),
        other => Err(failed(other)),
    }
}

/// What a receive came to. What has come is put where it belongs.
#[inline]
pub(crate) fn received(incoming: &mut Incoming, outcome: Outcome) -> Result<Status> {
    match outcome {
        Outcome::Received(got) => {
            incoming.unload(got.len);
            Ok(Status::of(&got))
        }
        Outcome::Failed(Fault::Truncated { word, .. }) => {
            let len = incoming.bytes();
            incoming.unload(len);
            Err(failed(outcome).of_message(Status::of(&Received { word, len })))
        }
        other => Err(failed(other)),
    }
}

/// The error of an operation that failed.
#[cold]
pub(crate) fn failed(outcome: Outcome) -> Failure {
    match process::running() {
        Ok(process) => process.runtime.failure(outcome).into(),
        Err(not_running) => not_running,
    }
}

/// A call that sends, as errors describe it.
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

/// A call that receives.
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
