//! Probes, and messages that are matched before they are received.
//!
//! Invariants, cited below by number.
//!   I1. Only a matched receive lends memory, under the same rules as any other receive.

use std::ffi::c_int;

use ferrywire_host::ErrorCode;
use ferrywire_host::nic::{Outcome, Posted, Probed, Received, Ticket};
use ferrywire_mpi::comm::Wanted;
use ferrywire_runtime::{self as runtime, CallName};

use crate::calls::entry::entries;
use crate::convert::argument::{MessageTag, SourceRank};
use crate::convert::constants::{
    MPI_ERR_OTHER, MPI_ERR_REQUEST, MPI_MESSAGE_NO_PROC, MPI_MESSAGE_NULL,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::{self, Kind, Shared};
use crate::convert::pointer::{ChoiceMut, Out};
use crate::convert::sizes::Wide;
use crate::convert::status::Status;
use crate::convert::types::{MPI_Comm, MPI_Datatype, MPI_Message, MPI_Request, MPI_Status};
use crate::objects::check;
use crate::objects::comm::{self, Comm};
use crate::objects::data::{Data, Incoming};
use crate::objects::datatype;
use crate::objects::message;
use crate::objects::process;
use crate::objects::recipe::{End, Next, Recipe};
use crate::objects::request::Request;

/// A message that has been matched, so that no other call can receive it.
struct Message {
    comm: Shared<Comm>,
    ticket: Ticket,
    seen: Probed,
    /// Its number among all receives, in a program that is checked.
    number: Option<u64>,
}

impl Kind for Message {
    const MARK: u32 = 0x4d53_4721;
    const ERROR: c_int = MPI_ERR_REQUEST;
    const NAME: &'static str = "message";
}

/// The result of a probe.
enum Seen<T> {
    /// The call was for MPI_PROC_NULL.
    Nobody,
    Message(T),
    Nothing,
}

/// Checks once, or waits until there is a message.
fn look<T>(
    name: CallName,
    wait: bool,
    comm: &Comm,
    source: SourceRank,
    tag: MessageTag,
    find: impl FnOnce(runtime::Comm<'_>, Wanted) -> std::result::Result<Option<T>, runtime::Failure>,
) -> Result<Seen<T>> {
    let described = message::receiving(comm, source, tag, None);
    let wanted = comm.wanted(source, tag).map_err(|failure| failure.during(described))?;
    let Some(wanted) = wanted else { return Ok(Seen::Nobody) };
    match wait {
        true => comm.runtime().note_receive(name, wanted, u64::MAX),
        false => comm.runtime().note_poll(name),
    }
    match find(comm.runtime(), wanted) {
        Ok(Some(found)) => Ok(Seen::Message(found)),
        Ok(None) => Ok(Seen::Nothing),
        Err(failure) => Err(Failure::from(failure).during(described)),
    }
}

fn status_of(seen: &Probed) -> Status {
    Status::of(&Received { word: seen.word, len: seen.len })
}

/// Matches a message. `None` if there is none.
fn take(
    name: CallName,
    comm: MPI_Comm,
    source: SourceRank,
    tag: MessageTag,
    wait: bool,
) -> Result<Option<(MPI_Message, Status)>> {
    let comm = comm::share_of(comm)?;
    let taken = look(name, wait, &comm, source, tag, |comm, wanted| comm.take(wanted, wait))?;
    Ok(match taken {
        Seen::Nobody => Some((MPI_MESSAGE_NO_PROC, Status::NOBODY)),
        Seen::Nothing => None,
        Seen::Message((ticket, seen)) => {
            let number = check::is_on().then(check::count_receive);
            let message = handle::expose_owned(Message { comm, ticket, seen, number });
            Some((MPI_Message(message), status_of(&seen)))
        }
    })
}

/// Receives a matched message.
struct MatchedReceive {
    /// `None` if it is from MPI_PROC_NULL.
    taken: Option<(Ticket, Probed)>,
    data: Incoming,
    /// The call, the number of the message among all receives and the datatype, in a program that is checked.
    checked: Option<(CallName, u64, MPI_Datatype)>,
}

impl Recipe for MatchedReceive {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        let Some((ticket, _)) = self.taken else { return Ok(Posted::Done(Outcome::Done)) };
        let into = self.data.span();
        // SAFETY: I1: the memory is the program's, or in the recipe.
        Ok(unsafe { comm.runtime().start_taken(ticket, into) })
    }

    fn finish(&mut self, comm: &Shared<Comm>, end: End) -> Result<Next> {
        let Some((_, seen)) = self.taken else { return Ok(Next::Over(Status::NOBODY)) };
        if let Some((name, number, datatype)) = self.checked {
            check::end_receive(name, number, end.outcome, datatype::find(datatype)?, comm);
        }
        let got = message::received(&mut self.data, end.outcome);
        got.map(Next::Over).map_err(|failure| {
            let (source, tag) = (seen.word.source(), seen.word.tag());
            failure.during(message::receiving(comm, source, tag, Some(self.data.bytes())))
        })
    }
}

/// Makes the recipe that receives the message of a handle, and invalidates the handle.
fn receiving(
    name: CallName,
    buf: ChoiceMut,
    count: impl Wide,
    datatype: MPI_Datatype,
    message: Out<MPI_Message>,
) -> Result<(Shared<Comm>, Box<dyn Recipe>)> {
    let data = Incoming::new(Data::to_write(buf, count, datatype)?);
    let handle = message.get()?;
    let (comm, taken, number) = match handle {
        MPI_MESSAGE_NO_PROC => (Shared::clone(&process::running()?.itself), None, None),
        MPI_MESSAGE_NULL => {
            return Err(Failure::new(MPI_ERR_REQUEST, "MPI_MESSAGE_NULL cannot be received"));
        }
        MPI_Message(address) => {
            let Message { comm, ticket, seen, number } = handle::take_owned(address)?;
            (comm, Some((ticket, seen)), number)
        }
    };
    message.put(MPI_MESSAGE_NULL)?;
    let checked = number.map(|number| (name, number, datatype));
    Ok((comm, Box::new(MatchedReceive { taken, data, checked })))
}

entries! {
    fn MPI_Probe(source: SourceRank, tag: MessageTag, comm: MPI_Comm, status: Out<MPI_Status>) on comm {
        let comm = comm::find(comm)?;
        match look(CALL, true, comm, source, tag, |comm, wanted| comm.probe(wanted, true))? {
            Seen::Message(seen) => status.report(status_of(&seen)),
            Seen::Nobody => status.report(Status::NOBODY),
            Seen::Nothing => return Err(Failure::new(MPI_ERR_OTHER, "internal error: the probe found no message").coded(ErrorCode::INTERNAL)),
        }
        Ok(())
    }

    fn MPI_Iprobe(
        source: SourceRank, tag: MessageTag, comm: MPI_Comm, flag: Out<c_int>, status: Out<MPI_Status>,
    ) on comm {
        let comm = comm::find(comm)?;
        let seen = match look(CALL, false, comm, source, tag, |comm, wanted| comm.probe(wanted, false))? {
            Seen::Message(seen) => status_of(&seen),
            Seen::Nobody => Status::NOBODY,
            Seen::Nothing => return flag.put(0),
        };
        status.report(seen);
        flag.put(1)
    }

    fn MPI_Mprobe(
        source: SourceRank, tag: MessageTag, comm: MPI_Comm, message: Out<MPI_Message>,
        status: Out<MPI_Status>,
    ) on comm {
        let taken = take(CALL, comm, source, tag, true)?;
        let (taken, seen) = taken.ok_or_else(|| Failure::new(MPI_ERR_OTHER, "internal error: the probe matched \
                                                                             no message").coded(ErrorCode::INTERNAL))?;
        status.report(seen);
        message.put(taken)
    }

    fn MPI_Improbe(
        source: SourceRank, tag: MessageTag, comm: MPI_Comm, flag: Out<c_int>, message: Out<MPI_Message>,
        status: Out<MPI_Status>,
    ) on comm {
        match take(CALL, comm, source, tag, false)? {
            None => flag.put(0),
            Some((taken, seen)) => {
                status.report(seen);
                message.put(taken)?;
                flag.put(1)
            }
        }
    }

    fn MPI_Mrecv / MPI_Mrecv_c (
        buf: ChoiceMut, count: Size, datatype: MPI_Datatype, message: Out<MPI_Message>,
        status: Out<MPI_Status>,
    ) {
        let (comm, receiving) = receiving(CALL, buf, count, datatype, message)?;
        status.report_result(Request::perform(comm, receiving))
    }

    fn MPI_Imrecv / MPI_Imrecv_c (
        buf: ChoiceMut, count: Size, datatype: MPI_Datatype, message: Out<MPI_Message>,
        request: Out<MPI_Request>,
    ) {
        let (comm, receiving) = receiving(CALL, buf, count, datatype, message)?;
        request.put(Request::begin(comm, receiving)?)
    }
}
