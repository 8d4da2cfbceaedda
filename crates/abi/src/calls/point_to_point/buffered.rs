//! Buffered sends: the bytes are copied, and the call returns.
//!
//! A program may attach a buffer to itself or to a communicator. We copy each message into memory of our own, and use
//! the size of the program's buffer only as a limit for the bytes in flight: a send beyond it is an error, as the
//! standard requires. MPI_BUFFER_AUTOMATIC removes the limit.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrywire_host::nic::{Mode, Outcome, Posted};

use crate::calls::entry::entries;
use crate::calls::point_to_point::combined::Combined;
use crate::convert::argument::{MessageTag, PeerRank};
use crate::convert::constants::{MPI_BSEND_OVERHEAD, MPI_BUFFER_AUTOMATIC, MPI_ERR_BUFFER};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::Shared;
use crate::convert::pointer::{Choice, ChoiceMut, Out};
use crate::convert::sizes::{self, Wide};
use crate::convert::status::Status;
use crate::convert::types::{MPI_Comm, MPI_Datatype, MPI_Request};
use crate::objects::comm::{self, Comm};
use crate::objects::communicator::AttachedBuffer;
use crate::objects::data::{Data, Outgoing};
use crate::objects::message::{self, Sending};
use crate::objects::process;
use crate::objects::recipe::{End, Next, Recipe};
use crate::objects::request::Request;

/// A buffered send in progress. It keeps its communicator.
struct UnderWay {
    /// The communicator to which the buffer is attached; `None` for that of the process.
    owner: Option<*const Comm>,
    bytes: u64,
    request: Request,
}

// SAFETY: the owner is compared, and never dereferenced.
unsafe impl Send for UnderWay {}

/// The sends in progress from all buffers.
static UNDER_WAY: Mutex<Vec<UnderWay>> = Mutex::new(Vec::new());

/// The buffer of the process, for communicators without their own.
static PROCESS: Mutex<Option<AttachedBuffer>> = Mutex::new(None);

fn under_way() -> MutexGuard<'static, Vec<UnderWay>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

fn process_buffer() -> MutexGuard<'static, Option<AttachedBuffer>> {
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn attach(
    mut place: MutexGuard<'_, Option<AttachedBuffer>>,
    buffer: ChoiceMut,
    bytes: i64,
) -> Result {
    if place.is_some() {
        let why = "a buffer is already attached; detach it first";
        return Err(Failure::new(MPI_ERR_BUFFER, why));
    }
    let address = buffer.0.expose_provenance();
    if address == 0 {
        return Err(Failure::new(MPI_ERR_BUFFER, "the buffer is a null pointer"));
    }
    if address != MPI_BUFFER_AUTOMATIC && bytes < 0 {
        let why = format!("invalid buffer size {bytes}; it must not be negative");
        return Err(Failure::new(MPI_ERR_BUFFER, why));
    }
    *place = Some(AttachedBuffer { address, bytes });
    Ok(())
}

/// Waits for all sends from a buffer, and returns the buffer.
fn detach<T: Wide>(
    mut place: MutexGuard<'_, Option<AttachedBuffer>>,
    owner: Option<*const Comm>,
    buffer: Out<*mut c_void>,
    bytes: Out<T>,
) -> Result {
    let Some(AttachedBuffer { address, bytes: size }) = *place else {
        return Err(Failure::new(MPI_ERR_BUFFER, "no buffer is attached"));
    };
    flush(owner)?;
    *place = None;
    buffer.put(std::ptr::with_exposed_provenance_mut(address))?;
    sizes::put(bytes, if address == MPI_BUFFER_AUTOMATIC { 0 } else { size })
}

/// Takes the sends in progress from a buffer, so that no thread waits while all buffers are locked.
fn take(owner: Option<*const Comm>) -> Vec<Request> {
    let taken = under_way().extract_if(.., |sent| sent.owner == owner).collect::<Vec<_>>();
    taken.into_iter().map(|sent| sent.request).collect()
}

/// Waits for all sends from a buffer.
fn flush(owner: Option<*const Comm>) -> Result {
    take(owner).iter_mut().try_for_each(|request| request.wait().map(|_| ()))
}

/// Waits for the sends from all buffers, including those that fail.
pub(crate) fn complete_all() {
    let all = std::mem::take(&mut *under_way());
    // Errors, such as the death of the other side, can no longer be reported.
    all.into_iter().for_each(|mut sent| _ = sent.request.wait());
}

/// Sends from the buffer that serves a communicator: its own, or that of the process.
fn send_from_buffer(comm: &Comm, bytes: u64, mut request: Request) -> Result {
    let own = *comm.attached();
    let owner = own.map(|_| std::ptr::from_ref(comm));
    let attached = own.or(*process_buffer());
    let room = match attached {
        None => {
            let why = "no buffer is attached; call MPI_Buffer_attach first";
            return Err(Failure::new(MPI_ERR_BUFFER, why));
        }
        Some(AttachedBuffer { address: MPI_BUFFER_AUTOMATIC, .. }) => u64::MAX,
        Some(AttachedBuffer { bytes, .. }) => u64::try_from(bytes).unwrap_or(0),
    };
    let mut under_way = under_way();
    under_way.retain_mut(|sent| !sent.request.test().unwrap_or(true));
    let overhead = u64::from(MPI_BSEND_OVERHEAD.cast_unsigned());
    let within = under_way.iter().filter(|sent| sent.owner == owner);
    let taken: u64 = within.map(|sent| sent.bytes + overhead).sum();
    if room.saturating_sub(taken) < bytes {
        let why = format!(
            "the attached buffer has {room} bytes, of which {taken} are in use; attach a larger one (a message \
             takes its size plus MPI_BSEND_OVERHEAD, {overhead} bytes)"
        );
        return Err(Failure::new(MPI_ERR_BUFFER, why));
    }
    request.start()?;
    if request.pending().is_some() {
        under_way.push(UnderWay { owner, bytes, request });
    }
    Ok(())
}

/// A buffered send, which is complete as soon as the bytes are copied.
struct Buffering {
    data: Data,
    dest: PeerRank,
    tag: MessageTag,
}

impl Recipe for Buffering {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        let copy = Outgoing::copied(self.data.clone());
        let bytes = copy.bytes();
        let sending = Sending::new(comm, copy, self.dest, self.tag, Mode::Standard)?;
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
    comm: &Comm,
    buf: Choice,
    count: impl Wide,
    datatype: MPI_Datatype,
    dest: PeerRank,
    tag: MessageTag,
) -> Result<Box<dyn Recipe>> {
    let data = Data::to_read(buf, count, datatype).map_err(message::to(comm, dest, tag))?;
    Ok(Box::new(Buffering { data, dest, tag }))
}

/// A request that is complete when all sends from a buffer are.
fn flushing(owner: Option<*const Comm>, comm: Shared<Comm>) -> Result<MPI_Request> {
    Request::begin(comm, Combined::recipe(take(owner)))
}

entries! {
    fn MPI_Bsend / MPI_Bsend_c (
        buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag, comm: MPI_Comm,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let recipe = buffering(&comm, buf, count, datatype, dest, tag)?;
        Request::perform(comm, recipe).map(|_| ())
    }

    fn MPI_Ibsend / MPI_Ibsend_c (
        buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let recipe = buffering(&comm, buf, count, datatype, dest, tag)?;
        request.put(Request::begin(comm, recipe)?)
    }

    fn MPI_Bsend_init / MPI_Bsend_init_c (
        buf: Choice, count: Size, datatype: MPI_Datatype, dest: PeerRank, tag: MessageTag, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let comm = comm::share_of(comm)?;
        let recipe = buffering(&comm, buf, count, datatype, dest, tag)?;
        request.put(Request::prepare(comm, recipe))
    }

    fn MPI_Buffer_attach / MPI_Buffer_attach_c (buffer: ChoiceMut, size: Size) {
        attach(process_buffer(), buffer, size.wide())
    }

    fn MPI_Buffer_detach / MPI_Buffer_detach_c (buffer_addr: Out<*mut c_void>, size: Out<Size>) {
        detach(process_buffer(), None, buffer_addr, size)
    }

    fn MPI_Buffer_flush() {
        flush(None)
    }

    fn MPI_Buffer_iflush(request: Out<MPI_Request>) {
        let itself = Shared::clone(&process::running()?.itself);
        request.put(flushing(None, itself)?)
    }

    fn MPI_Comm_attach_buffer / MPI_Comm_attach_buffer_c (
        comm: MPI_Comm, buffer: ChoiceMut, size: Size,
    ) on comm {
        attach(comm::find(comm)?.attached(), buffer, size.wide())
    }

    fn MPI_Comm_detach_buffer / MPI_Comm_detach_buffer_c (
        comm: MPI_Comm, buffer_addr: Out<*mut c_void>, size: Out<Size>,
    ) on comm {
        let comm: &Comm = comm::find(comm)?;
        detach(comm.attached(), Some(comm), buffer_addr, size)
    }

    fn MPI_Comm_flush_buffer(comm: MPI_Comm) on comm {
        let comm: &Comm = comm::find(comm)?;
        flush(Some(comm))
    }

    fn MPI_Comm_iflush_buffer(comm: MPI_Comm, request: Out<MPI_Request>) on comm {
        let comm = comm::share_of(comm)?;
        let owner: &Comm = &comm;
        request.put(flushing(Some(owner), Shared::clone(&comm))?)
    }
}
