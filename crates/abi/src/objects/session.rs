//! Sessions: each is a way into MPI, apart from MPI_Init and from other sessions.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrywire_host::ErrorCode;
use ferrywire_host::nic::Peer;
use ferrywire_mpi::group::Group;
use ferrywire_mpi::info::Info;

use crate::convert::constants::{MPI_ERR_ARG, MPI_ERR_SESSION, MPI_SESSION_NULL};
use crate::convert::failure::{Failure, Owner, Result};
use crate::convert::handle::{self, Kind, Object, Shared};
use crate::convert::types::MPI_Session;
use crate::objects::communicator::BufferPlace;
use crate::objects::errhandler::{self, Handler};
use crate::objects::process;

/// A session of the program.
pub(crate) struct Session {
    /// What it provides, in the words of the standard.
    pub(crate) info: Info,
    /// The buffer for buffered sends in communicators that come from the session and have none.
    pub(crate) buffer: BufferPlace,
    handler: Mutex<Handler>,
}

impl Kind for Session {
    const MARK: u32 = 0x5345_5353;
    const ERROR: c_int = MPI_ERR_SESSION;
    const NAME: &'static str = "session";
}

impl Session {
    /// A session with these properties and this error handler.
    pub(crate) fn new(info: Info, handler: Handler) -> Session {
        Session { info, buffer: BufferPlace::default(), handler: Mutex::new(handler) }
    }

    /// The error handler.
    pub(crate) fn handler(&self) -> Handler {
        self.lock().clone()
    }

    /// Sets the error handler.
    pub(crate) fn set_handler(&self, handler: Handler) {
        *self.lock() = handler;
    }

    fn lock(&self) -> MutexGuard<'_, Handler> {
        self.handler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owner for Object<Session> {
    fn title(&self) -> String {
        "a session".into()
    }

    fn tell(&self, code: c_int) -> bool {
        errhandler::call(&self.handler(), std::ptr::from_ref(self).addr(), code)
    }
}

/// The session that a handle names.
pub(crate) fn find(handle: MPI_Session) -> Result<&'static Object<Session>> {
    match handle {
        MPI_SESSION_NULL => Err(Failure::new(MPI_ERR_SESSION, "the session is MPI_SESSION_NULL")),
        MPI_Session(address) => handle::find(address),
    }
}

/// A share of the session that a handle names.
pub(crate) fn share_of(handle: MPI_Session) -> Result<Shared<Session>> {
    find(handle)?;
    handle::share_of(handle.0)
}

/// The number of process sets that a process is in.
const SETS: u32 = 3;

/// The names of the process sets that this process is in: all ranks, itself, and those of its host. The last is named
/// after the first rank of the host, since hosts may have the same name.
pub(crate) fn process_sets() -> Result<[String; SETS as usize]> {
    let first = process::running()?.rank().first_here();
    Ok(["mpi://WORLD".into(), "mpi://SELF".into(), format!("ferry://host/{}", first.0)])
}

/// The position of a name in [`process_sets`].
fn position(name: &str) -> Result<Option<usize>> {
    Ok(process_sets()?.iter().position(|set| set.eq_ignore_ascii_case(name)))
}

/// A number that the members of a process set have in common, and no others. `None` for a set without this process.
pub(crate) fn color_of_set(name: &str) -> Result<Option<u32>> {
    let Some(position) = position(name)? else { return Ok(None) };
    let first = process_set(name)?.peer_of(0).0;
    // Sets at the same position do not overlap.
    Ok(u32::try_from(position).ok().map(|position| SETS * first + position))
}

/// The members of a process set.
pub(crate) fn process_set(name: &str) -> Result<Group> {
    let rank = process::running()?.rank();
    match position(name)? {
        Some(0) => Ok(Group::of(&rank.world().collect::<Vec<_>>())),
        Some(1) => Ok(Group::of(&[rank.driver().me()])),
        Some(_) => {
            let here: Vec<Peer> = rank.world().filter(|&peer| rank.is_here(peer)).collect();
            Ok(Group::of(&here))
        }
        None => {
            let why = format!("this process is in no process set \"{name}\"");
            Err(Failure::new(MPI_ERR_ARG, why).coded(ErrorCode::SESSION))
        }
    }
}

/// Owns the errors of a call that creates an object with this error handler. The object has no handle yet: the handler
/// gets the null handle of its kind.
pub(crate) struct Creation {
    title: &'static str,
    handler: Handler,
    null: usize,
}

impl Creation {
    /// The owner of errors before there is a `title`.
    pub(crate) fn of(title: &'static str, handler: &Handler, null: usize) -> Arc<dyn Owner> {
        Arc::new(Creation { title, handler: handler.clone(), null })
    }
}

impl Owner for Creation {
    fn title(&self) -> String {
        self.title.into()
    }

    fn tell(&self, code: c_int) -> bool {
        errhandler::call(&self.handler, self.null, code)
    }
}
