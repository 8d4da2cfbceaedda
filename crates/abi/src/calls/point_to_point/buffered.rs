//! Buffered sends: the bytes are copied, and the call returns.
//!
//! A program may attach a buffer to itself, to a session or to a communicator. We copy each message into memory of our own, and use
//! the size of the program's buffer only as a limit for the bytes in flight: a send beyond it is an error, as the
//! standard requires. MPI_BUFFER_AUTOMATIC removes the limit.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrywire_host::ErrorCode;
use ferrywire_host::nic::{Mode, Outcome, Posted};
use ferrywire_runtime::CallName;

use crate::calls::entry::entries;
use crate::calls::point_to_point::combined::Combined;
use crate::convert::argument::{MessageTag, PeerRank};
use crate::convert::constants::{MPI_BSEND_OVERHEAD, MPI_BUFFER_AUTOMATIC, MPI_ERR_BUFFER};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::Shared;
use crate::convert::pointer::{Choice, ChoiceMut, Out};
use crate::convert::sizes::{self, Wide};
use crate::convert::status::Status;
use crate::convert::types::{MPI_Comm, MPI_Datatype, MPI_Request, MPI_Session};
use crate::objects::checked;
use crate::objects::comm::{self, Comm};
use crate::objects::communicator::{AttachedBuffer, BufferPlace};
use crate::objects::data::{Data, Outgoing};
use crate::objects::message::{self, Sending};
use crate::objects::process;
use crate::objects::recipe::{End, Next, Recipe};
use crate::objects::request::Request;
use crate::objects::session;

/// A buffered send in progress. It keeps its communicator.
struct UnderWay {
    /// Where the buffer is attached.
    place: *const BufferPlace,
    bytes: u64,
    request: Request,
}

// SAFETY: the place is compared, and never dereferenced.
unsafe impl Send for UnderWay {}

/// The sends in progress from all buffers.
static UNDER_WAY: Mutex<Vec<UnderWay>> = Mutex::new(Vec::new());

/// The buffer of the process, for communicators without their own and without that of a session.
static PROCESS: BufferPlace = BufferPlace::new();

fn under_way() -> MutexGuard<'static, Vec<UnderWay>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

fn attach(place: &BufferPlace, buffer: ChoiceMut, bytes: i64) -> Result {
    let mut place = place.lock();
    if place.is_some() {
        let why = "a buffer is already attached; detach it first";
        return Err(Failure::new(MPI_ERR_BUFFER, why).coded(ErrorCode::BUFFERED_SEND));
    }
    let address = buffer.0.expose_provenance();
    if address == 0 {
        return Err(Failure::new(MPI_ERR_BUFFER, "the buffer is a null pointer"));
    }
    if address != MPI_BUFFER_AUTOMATIC && bytes < 0 {
        let why = format!("invalid buffer size {bytes}; it must not be negative");
        return Err(Failure::new(MPI_ERR_BUFFER, why).coded(ErrorCode::BUFFERED_SEND));
    }
    *place = Some(AttachedBuffer { address, bytes });
    Ok(())
}

/// Waits for all sends from a buffer, and returns the buffer.
fn detach<T: Wide>(place: &BufferPlace, buffer: Out<*mut c_void>, bytes: Out<T>) -> Result {
    let mut attached = place.lock();
    let Some(AttachedBuffer { address, bytes: size }) = *attached else {
        return Err(
            Failure::new(MPI_ERR_BUFFER, "no buffer is attached").coded(ErrorCode::BUFFERED_SEND)
        );
    };
    flush(place)?;
    *attached = None;
    buffer.put(std::ptr::with_exposed_provenance_mut(address))?;
    sizes::put(bytes, if address == MPI_BUFFER_AUTOMATIC { 0 } else { size })
}

/// Takes the sends in progress from a buffer, so that no thread waits while all buffers are locked.
fn take(place: *const BufferPlace) -> Vec<Request> {
    let taken = under_way().extract_if(.., |sent| sent.place == place).collect::<Vec<_>>();
    taken.into_iter().map(|sent| sent.request).collect()
}

/// Waits for all sends from a buffer.
pub(crate) fn flush(place: &BufferPlace) -> Result {
    take(place).iter_mut().try_for_each(|request| request.wait().map(|_| ()))
}

/// Waits for the sends from all buffers, including those that fail.
pub(crate) fn complete_all() {
    let all = std::mem::take(&mut *under_way());
    // Errors, such as the death of the other side, can no longer be reported.
    all.into_iter().for_each(|mut sent| _ = sent.request.wait());
}

/// The buffer that serves a communicator: its own, that of its session, or that of the process.
fn buffer_for(comm: &Comm) -> Option<(&BufferPlace, AttachedBuffer)> {
    let of_session = comm.session().map(|session| &session.buffer);
    let places = [Some(&comm.buffer), of_session, Some(&PROCESS)];
    places.into_iter().flatten().find_map(|place| place.lock().map(|attached| (place, attached)))
}

/// Sends from the buffer that serves a communicator.
fn send_from_buffer(comm: &Comm, bytes: u64, mut request: Request) -> Result {
    let Some((place, attached)) = buffer_for(comm) else {
        let why = "no buffer is attached; call MPI_Buffer_attach first";
        return Err(Failure::new(MPI_ERR_BUFFER, why).coded(ErrorCode::BUFFERED_SEND));
    };
    let place: *const BufferPlace = place;
    let room = match attached {
        AttachedBuffer { address: MPI_BUFFER_AUTOMATIC, .. } => u64::MAX,
        AttachedBuffer { bytes, .. } => u64::try_from(bytes).unwrap_or(0),
    };
    let mut under_way = under_way();
    under_way.retain_mut(|sent| !sent.request.test().unwrap_or(true));
    let overhead = u64::from(MPI_BSEND_OVERHEAD.cast_unsigned());
    let within = under_way.iter().filter(|sent| sent.place == place);
    let taken: u64 = within.map(|sent| sent.bytes + overhead).sum();
    if room.saturating_sub(taken) < bytes {
        let why = format!(
            "the attached buffer has {room} bytes, of which {taken} are in use; attach a larger one (a message \
             takes its size plus MPI_BSEND_OVERHEAD, {overhead} bytes)"
        );
        return Err(Failure::new(MPI_ERR_BUFFER, why).coded(ErrorCode::BUFFERED_SEND));
    }
    request.start()?;
    if request.pending().is_some() {
        under_way.push(UnderWay { place, bytes, request });
    }
    Ok(())
}

/// A buffered send, which is complete as soon as the bytes are copied.
struct Buffering {
    name: CallName,
    data: Data,
    datatype: MPI_Datatype,
    dest: PeerRank,
    tag: MessageTag,
}

impl Recipe for Buffering {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        let copy = Outgoing::copied(self.data.clone());
        let bytes = copy.bytes();
        let sending = Sending::new(comm, copy, self.dest, self.tag, Mode::Standard)?;
        let sending = checked::send(sending, self.name, self.datatype);
        let request = Request::new(Shared::clone(comm), sending, false);
        let described = message::sending(comm, self.dest, self.tag, Some(bytes));
        send_from_buffer(comm, bytes, request).map_err(|failure| failure.during(described))?;
        Ok(Posted::Done(Outcome::Done))
    }

    fn finish(&mut self, _: &Shared<Comm>, _: End) -> Result<Next> {
        Ok(Next::Over(Status::EMPTY))
    }
}

fn buffering(
    name: CallName,
    comm: &Comm,
    buf: Choice,
    count: impl Wide,
    datatype: MPI_Datatype,
    dest: PeerRank,
    tag: MessageTag,
) -> Result<Box<dyn Recipe>> {
    let data = Data::to_read(buf, count, datatype).map_err(message::to(comm, dest, tag))?;
    Ok(Box::new(Buffering { name, data, datatype, dest, tag }))
}

/// A request that is complete when all sends from a buffer are.
fn flushing(place: &BufferPlace, comm: Shared<Comm>) -> Result<MPI_Request> {
    Request::begin(comm, Combined::recipe(take(place)))
}

entries! {
    fn MPI_Bsend / MPI_Bsend_c (
        buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag, comm: MPI_Comm,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let recipe = buffering(CALL, &comm, buf, count, datatype, dest, tag)?;
        Request::perform(comm, recipe).map(|_| ())
    }

    fn MPI_Ibsend / MPI_Ibsend_c (
        buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let recipe = buffering(CALL, &comm, buf, count, datatype, dest, tag)?;
        request.put(Request::begin(comm, recipe)?)
    }

    fn MPI_Bsend_init / MPI_Bsend_init_c (
        buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let recipe = buffering(CALL, &comm, buf, count, datatype, dest, tag)?;
        request.put(Request::prepare(comm, recipe))
    }

    fn MPI_Buffer_attach / MPI_Buffer_attach_c (buffer: ChoiceMut, size: Size) {
        attach(&PROCESS, buffer, size.wide())
    }

    fn MPI_Buffer_detach / MPI_Buffer_detach_c (buffer_addr: Out<*mut c_void>, size: Out<Size>) {
        detach(&PROCESS, buffer_addr, size)
    }

    fn MPI_Buffer_flush() {
        flush(&PROCESS)
    }

    fn MPI_Buffer_iflush(request: Out<MPI_Request>) {
        let itself = Shared::clone(&process::running()?.itself);
        request.put(flushing(&PROCESS, itself)?)
    }

    fn MPI_Comm_attach_buffer / MPI_Comm_attach_buffer_c (
        comm: MPI_Comm, buffer: ChoiceMut, size: Size,
    ) on comm {
        attach(&comm::find(comm)?.buffer, buffer, size.wide())
    }

    fn MPI_Comm_detach_buffer / MPI_Comm_detach_buffer_c (
        comm: MPI_Comm, buffer_addr: Out<*mut c_void>, size: Out<Size>,
    ) on comm {
        detach(&comm::find(comm)?.buffer, buffer_addr, size)
    }

    fn MPI_Comm_flush_buffer(comm: MPI_Comm) on comm {
        flush(&comm::find(comm)?.buffer)
    }

    fn MPI_Comm_iflush_buffer(comm: MPI_Comm, request: Out<MPI_Request>) on comm {
        let comm = comm::share_of(comm)?;
        request.put(flushing(&comm.buffer, Shared::clone(&comm))?)
    }

    fn MPI_Session_attach_buffer / MPI_Session_attach_buffer_c (
        session: MPI_Session, buffer: ChoiceMut, size: Size,
    ) on session {
        attach(&session::find(session)?.buffer, buffer, size.wide())
    }

    fn MPI_Session_detach_buffer / MPI_Session_detach_buffer_c (
        session: MPI_Session, buffer_addr: Out<*mut c_void>, size: Out<Size>,
    ) on session {
        detach(&session::find(session)?.buffer, buffer_addr, size)
    }

    fn MPI_Session_flush_buffer(session: MPI_Session) on session {
        flush(&session::find(session)?.buffer)
    }

    fn MPI_Session_iflush_buffer(session: MPI_Session, request: Out<MPI_Request>) on session {
        let place = &session::find(session)?.buffer;
        let itself = Shared::clone(&process::running()?.itself);
        request.put(flushing(place, itself)?)
    }
}
