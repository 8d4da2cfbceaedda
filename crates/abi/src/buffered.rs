//! Buffered sends: the bytes are copied, and the program goes on.
//!
//! A program may attach a buffer to itself or to a communicator. We copy each message into memory of our
//! own, and use the program's buffer only as a measure of how much may be under way: whoever is beyond
//! it gets an error, as the standard asks. MPI_BUFFER_AUTOMATIC lifts that bound.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError, Weak};

use ferrywire_host::nic::{Mode, Outcome, Posted};

use crate::argument::{MessageTag, PeerRank};
use crate::comm::{self, Comm};
use crate::constants::{MPI_BSEND_OVERHEAD, MPI_BUFFER_AUTOMATIC, MPI_ERR_BUFFER};
use crate::data::{Data, Outgoing};
use crate::entry::entries;
use crate::failure::{Failure, Result};
use crate::handle::{Object, Shared};
use crate::message;
use crate::nonblocking::{self, Sending};
use crate::pointer::{Choice, ChoiceMut, Out};
use crate::process;
use crate::request::{End, Next, Recipe, Request};
use crate::sizes::{self, Wide};
use crate::status::Status;
use crate::together::Together;
use crate::types::{MPI_Comm, MPI_Datatype, MPI_Request};

/// The buffer that is attached to something, and what is under way in it.
#[derive(Default)]
pub(crate) struct Buffer {
    attached: Option<Attached>,
    under_way: Vec<(u64, Request)>,
}

#[derive(Clone, Copy)]
struct Attached {
    address: usize,
    bytes: i64,
}

/// The buffer of the process, for communicators that have none of their own.
static PROCESS: Mutex<Buffer> = Mutex::new(Buffer { attached: None, under_way: Vec::new() });

impl Buffer {
    fn attach(&mut self, buffer: ChoiceMut, bytes: i64) -> Result {
        if self.attached.is_some() {
            return Err(Failure::new(
                MPI_ERR_BUFFER,
                "a buffer is attached already: detach it first",
            ));
        }
        let address = buffer.0.expose_provenance();
        if address == 0 {
            return Err(Failure::new(MPI_ERR_BUFFER, "the buffer is a null pointer"));
        }
        if address != MPI_BUFFER_AUTOMATIC && bytes < 0 {
            return Err(Failure::new(
                MPI_ERR_BUFFER,
                format!("the buffer cannot have {bytes} bytes"),
            ));
        }
        self.attached = Some(Attached { address, bytes });
        Ok(())
    }

    /// Waits until everything has gone, and gives the buffer back.
    fn detach<T: Wide>(&mut self, buffer: Out<*mut c_void>, bytes: Out<T>) -> Result {
        let attached = self.attached;
        let Some(Attached { address, bytes: size }) = attached else {
            return Err(Failure::new(MPI_ERR_BUFFER, "no buffer is attached"));
        };
        self.flush()?;
        self.attached = None;
        buffer.put(std::ptr::with_exposed_provenance_mut(address))?;
        sizes::put(bytes, if address == MPI_BUFFER_AUTOMATIC { 0 } else { size })
    }

    fn flush(&mut self) -> Result {
        self.under_way.drain(..).try_for_each(|(_, mut request)| request.wait().map(|_| ()))
    }

    /// The same, whatever becomes of it.
    fn complete(&mut self) {
        self.under_way.drain(..).for_each(|(_, mut request)| _ = request.wait());
    }

    /// Lets go of what has gone.
    fn sweep(&mut self) {
        self.under_way.retain_mut(|(_, request)| !request.test().unwrap_or(true));
    }

    /// Takes a message over.
    fn send(&mut self, bytes: u64, mut request: Request) -> Result {
        self.sweep();
        let overhead = u64::from(MPI_BSEND_OVERHEAD.cast_unsigned());
        let taken: u64 = self.under_way.iter().map(|(bytes, _)| bytes + overhead).sum();
        let room = match self.attached {
            None => {
                let why = "no buffer is attached: call MPI_Buffer_attach before";
                return Err(Failure::new(MPI_ERR_BUFFER, why));
            }
            Some(Attached { address: MPI_BUFFER_AUTOMATIC, .. }) => u64::MAX,
            Some(Attached { bytes, .. }) => u64::try_from(bytes).unwrap_or(0),
        };
        if room.saturating_sub(taken) < bytes {
            let why = format!(
                "the attached buffer has {room} bytes, of which {taken} are in use: attach a larger one \
                 (a message takes its bytes and MPI_BSEND_OVERHEAD, which is {overhead})"
            );
            return Err(Failure::new(MPI_ERR_BUFFER, why));
        }
        request.start()?;
        if request.pending().is_some() {
            self.under_way.push((bytes, request));
        }
        Ok(())
    }
}

/// Communicators that have had a buffer of their own. What is under way in it keeps its communicator.
static OWNERS: Mutex<Vec<Weak<Object<Comm>>>> = Mutex::new(Vec::new());

/// Waits until everything has gone that is under way in any buffer, or cannot go any more.
pub(crate) fn complete_all() {
    let owners = std::mem::take(&mut *OWNERS.lock().unwrap_or_else(PoisonError::into_inner));
    // Nobody can be told of an error any more: such as that the other side has died.
    owners.iter().filter_map(Weak::upgrade).for_each(|comm| comm.buffer().complete());
    process_buffer().complete();
}

/// Does something with the buffer that serves a communicator: its own, or that of the process.
fn with_buffer<T>(comm: &Comm, work: impl FnOnce(&mut Buffer) -> Result<T>) -> Result<T> {
    let mut own = comm.buffer();
    if own.attached.is_some() {
        return work(&mut own);
    }
    drop(own);
    work(&mut process_buffer())
}

fn process_buffer() -> std::sync::MutexGuard<'static, Buffer> {
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A buffered send: it is over as soon as the bytes are copied.
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
        with_buffer(comm, |buffer| buffer.send(bytes, request))
            .map_err(|failure| failure.during(described))?;
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
    let data = Data::to_read(buf, count, datatype).map_err(nonblocking::to(comm, dest, tag))?;
    Ok(Box::new(Buffering { data, dest, tag }))
}

/// A request that is over when all that is in the buffer has gone.
fn flushing(buffer: &mut Buffer, comm: Shared<Comm>) -> Result<MPI_Request> {
    let waiting = buffer.under_way.drain(..).map(|(_, request)| request).collect();
    Request::begin(comm, Together::recipe(waiting))
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
        process_buffer().attach(buffer, size.wide())
    }

    fn MPI_Buffer_detach / MPI_Buffer_detach_c (buffer_addr: Out<*mut c_void>, size: Out<Size>) {
        process_buffer().detach(buffer_addr, size)
    }

    fn MPI_Buffer_flush() {
        process_buffer().flush()
    }

    fn MPI_Buffer_iflush(request: Out<MPI_Request>) {
        let itself = Shared::clone(&process::running()?.itself);
        request.put(flushing(&mut process_buffer(), itself)?)
    }

    fn MPI_Comm_attach_buffer / MPI_Comm_attach_buffer_c (
        comm: MPI_Comm, buffer: ChoiceMut, size: Size,
    ) on comm {
        let comm = comm::share_of(comm)?;
        comm.buffer().attach(buffer, size.wide())?;
        let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|owner| owner.strong_count() > 0);
        owners.push(Shared::downgrade(&comm));
        Ok(())
    }

    fn MPI_Comm_detach_buffer / MPI_Comm_detach_buffer_c (
        comm: MPI_Comm, buffer_addr: Out<*mut c_void>, size: Out<Size>,
    ) on comm {
        comm::find(comm)?.buffer().detach(buffer_addr, size)
    }

    fn MPI_Comm_flush_buffer(comm: MPI_Comm) on comm {
        comm::find(comm)?.buffer().flush()
    }

    fn MPI_Comm_iflush_buffer(comm: MPI_Comm, request: Out<MPI_Request>) on comm {
        let comm = comm::share_of(comm)?;
        let mut buffer = comm.buffer();
        request.put(flushing(&mut buffer, Shared::clone(&comm))?)
    }
}
