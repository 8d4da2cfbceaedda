//! Blocking sends and receives.
//!
//! The path of a short message is in `docs/ARCHITECTURE.md`; after [`send_message`] comes `Comm::send_blocking` of the
//! runtime.
//!
//! Invariants, cited below by number.
//!   I1. A blocking call borrows its buffers until it returns, and returns when the operation is complete.

use ferrywire_host::nic::{Mode, Outcome};
use ferrywire_runtime::{CallName, trace};

use crate::calls::entry::entries;
use crate::convert::argument::{MessageTag, PeerRank, SourceRank};
use crate::convert::failure::Result;
use crate::convert::pointer::{Choice, ChoiceMut, Out};
use crate::convert::sizes::Wide;
use crate::convert::status::Status;
use crate::convert::types::{MPI_Comm, MPI_Datatype, MPI_Status};
use crate::objects::check;
use crate::objects::comm;
use crate::objects::data::{Data, Incoming, Outgoing};
use crate::objects::message::{received, receiving, sending, sent};
use crate::objects::mistake;

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
        // Formatted only on failure.
        let call = |bytes| receiving(comm, source, tag, bytes);
        let data = Data::to_write(buf, count, datatype);
        let data = data.map_err(|failure| failure.during(call(None)))?;
        let bytes = Some(data.bytes());
        let Some(wanted) = comm.wanted(source, tag).map_err(|failure| failure.during(call(bytes)))?
        else {
            status.report(Status::NOBODY);
            return Ok(());
        };
        let mut incoming = Incoming::new(data);
        let into = incoming.span();
        comm.runtime().note_receive(CALL, wanted, into.len);
        // SAFETY: I1.
        let outcome = unsafe { comm.runtime().receive(wanted, into) };
        if let Outcome::Received(got) = outcome
            && got.len != into.len
        {
            mistake::check_length(CALL, comm, datatype, &got);
        }
        if trace::is_watched() {
            mistake::watch_received(CALL, comm, datatype, into, outcome);
        }
        let got = received(&mut incoming, outcome).map_err(|failure| failure.during(call(bytes)));
        status.report_result(got)
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
    // Formatted only on failure.
    let call = |bytes| sending(comm, dest, tag, bytes);
    let data = Data::to_read(buf, count, datatype).map_err(|failure| failure.during(call(None)))?;
    let bytes = Some(data.bytes());
    let Some(to) = comm.address(dest, tag).map_err(|failure| failure.during(call(bytes)))? else {
        return Ok(());
    };
    let mut outgoing = Outgoing::new(data);
    let source = outgoing.load();
    comm.runtime().note_send(name, to, source.len);
    if check::is_on() {
        mistake::check_sent(name, comm, datatype, source, to, (dest, tag));
    }
    // SAFETY: I1.
    let outcome = unsafe { comm.runtime().send_blocking(to, source, mode) };
    sent(outcome).map_err(|failure| failure.during(call(bytes)))
}
