//! Messages: blocking sends and receives, and what all sorts of them have in common.
//!
//! The way of a message from here: [`send`] → `Comm::send` of the runtime → `Driver::perform` → `Nic::post_send` →
//! `Port::transmit` → `Rail::send`.
//!
//! Invariants, cited below by number.
//!   I1. A blocking call has its buffers until it returns, and returns when the operation is over.

use std::ffi::c_int;
use std::fmt;

use ferrywire_host::nic::{Fault, Mode, Outcome, Received};

use crate::comm::{self, Comm};
use crate::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG};
use crate::data::{Data, Incoming, Outgoing};
use crate::entry::entries;
use crate::failure::{Failure, Result};
use crate::pointer::{Choice, ChoiceMut, Out};
use crate::process;
use crate::sizes::Wide;
use crate::types::{MPI_Comm, MPI_Datatype, MPI_Status};

entries! {
    fn MPI_Send / MPI_Send_c (
        buf: Choice, count: Size, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
    ) on comm {
        send(buf, count, datatype, dest, tag, comm, Mode::Standard)
    }

    fn MPI_Ssend / MPI_Ssend_c (
        buf: Choice, count: Size, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
    ) on comm {
        send(buf, count, datatype, dest, tag, comm, Mode::Synchronous)
    }

    fn MPI_Rsend / MPI_Rsend_c (
        buf: Choice, count: Size, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
    ) on comm {
        send(buf, count, datatype, dest, tag, comm, Mode::Ready)
    }

    fn MPI_Recv / MPI_Recv_c (
        buf: ChoiceMut, count: Size, datatype: MPI_Datatype, source: c_int, tag: c_int,
        comm: MPI_Comm, status: Out<MPI_Status>,
    ) on comm {
        let comm = comm::find(comm)?;
        let request = Request { bytes: None, with: With::From(source), tag, comm };
        let data = Data::to_write(buf, count, datatype);
        let data = data.map_err(|failure| failure.during(request))?;
        let request = Request { bytes: Some(data.bytes()), ..request };
        let Some(wanted) = comm.wanted(source, tag).map_err(|failure| failure.during(request))?
        else {
            status.report(MPI_Status::NOBODY);
            return Ok(());
        };
        let mut incoming = Incoming::new(data);
        let into = incoming.span();
        // SAFETY: I1.
        let outcome = unsafe { comm.runtime().receive(wanted, into) };
        let got = received(&mut incoming, outcome).map_err(|failure| failure.during(request));
        status.report_result(got)
    }
}

/// Sends, and waits until the buffer may be used again.
#[inline]
fn send(
    buf: Choice,
    count: impl Wide,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> Result {
    let comm = comm::find(comm)?;
    let request = Request { bytes: None, with: With::To(dest), tag, comm };
    let data = Data::to_read(buf, count, datatype).map_err(|failure| failure.during(request))?;
    let request = Request { bytes: Some(data.bytes()), ..request };
    let Some(to) = comm.address(dest, tag).map_err(|failure| failure.during(request))? else {
        return Ok(());
    };
    let mut outgoing = Outgoing::new(data);
    let source = outgoing.load();
    // SAFETY: I1.
    let outcome = unsafe { comm.runtime().send(to, source, mode) };
    sent(outcome).map_err(|failure| failure.during(request))
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
pub(crate) fn received(incoming: &mut Incoming, outcome: Outcome) -> Result<MPI_Status> {
    match outcome {
        Outcome::Received(got) => {
            incoming.unload(got.len);
            Ok(MPI_Status::of(&got))
        }
        Outcome::Failed(Fault::Truncated { word, .. }) => {
            let len = incoming.bytes();
            incoming.unload(len);
            Err(failed(outcome).of_message(MPI_Status::of(&Received { word, len })))
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

/// What a call was asked for, in the words of an error.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    /// Bytes that go, or that there is room for.
    pub(crate) bytes: Option<u64>,
    /// The other side.
    pub(crate) with: With,
    /// The tag.
    pub(crate) tag: c_int,
    /// The communicator.
    pub(crate) comm: &'a Comm,
}

/// The other side of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum With {
    /// Who gets it.
    To(c_int),
    /// Who sends it.
    From(c_int),
}

impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(bytes) = self.bytes {
            write!(f, " of {bytes} byte{}", if bytes == 1 { "" } else { "s" })?;
        }
        match self.with {
            With::To(rank) => write!(f, " to rank {rank}")?,
            With::From(MPI_ANY_SOURCE) => write!(f, " from any rank")?,
            With::From(rank) => write!(f, " from rank {rank}")?,
        }
        match (self.tag, self.with) {
            (MPI_ANY_TAG, With::From(_)) => write!(f, ", any tag")?,
            (tag, _) => write!(f, ", tag {tag}")?,
        }
        write!(f, ", in {}", self.comm.title())
    }
}
