//! Error handlers: what to do about a failure.
//!
//! Invariants, cited below by number.
//!   I1. The program vouches that its callbacks have the types that the standard prescribes.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use ferrywire_host::ErrorCode;

use crate::convert::callback::{Callback, ErrorCall, ErrorFunction};
use crate::convert::constants::{
    MPI_ERR_ARG, MPI_ERR_ERRHANDLER, MPI_ERRHANDLER_NULL, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL,
    MPI_ERRORS_RETURN,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::{self, Kind, Shared};
use crate::convert::pointer::Out;
use crate::convert::types::MPI_Errhandler;

/// What to do about a failure.
#[derive(Clone)]
pub(crate) enum Handler {
    /// End the job.
    Fatal,
    /// End the job, as seen by the processes of a communicator.
    Abort,
    /// Return the code.
    Return,
    /// Call a function of the program.
    User(Shared<UserErrhandler>),
}

/// The kind of object that a user-defined error handler is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ErrhandlerKind {
    /// Communicators.
    Comm,
    /// Windows.
    Win,
    /// Files.
    File,
    /// Sessions.
    Session,
}

/// A user-defined error handler.
pub(crate) struct UserErrhandler {
    sort: ErrhandlerKind,
    function: Callback<ErrorCall>,
    /// How many handles the program has. An object may keep the handler when the program has no handle.
    handles: AtomicU32,
}

impl Kind for UserErrhandler {
    const MARK: u32 = 0x4552_5248;
    const ERROR: c_int = MPI_ERR_ERRHANDLER;
    const NAME: &'static str = "error handler";
}

/// The error handler that a handle names, for this kind of object.
pub(crate) fn find(sort: ErrhandlerKind, handle: MPI_Errhandler) -> Result<Handler> {
    let why = match handle {
        MPI_ERRORS_ARE_FATAL => return Ok(Handler::Fatal),
        MPI_ERRORS_ABORT => return Ok(Handler::Abort),
        MPI_ERRORS_RETURN => return Ok(Handler::Return),
        MPI_ERRHANDLER_NULL => "the error handler is MPI_ERRHANDLER_NULL",
        MPI_Errhandler(address) => {
            let users: Shared<UserErrhandler> = handle::share_of(address)?;
            if users.sort == sort {
                return Ok(Handler::User(users));
            }
            "the error handler is for another kind of object"
        }
    };
    Err(Failure::new(MPI_ERR_ERRHANDLER, why))
}

/// A handle of the error handler, which the caller frees.
pub(crate) fn expose(handler: &Handler) -> MPI_Errhandler {
    match handler {
        Handler::Fatal => MPI_ERRORS_ARE_FATAL,
        Handler::Abort => MPI_ERRORS_ABORT,
        Handler::Return => MPI_ERRORS_RETURN,
        // The handle of an object is its address, so the same object has the same handle.
        Handler::User(users) => {
            users.handles.fetch_add(1, Ordering::Relaxed);
            MPI_Errhandler(handle::expose(Shared::clone(users)))
        }
    }
}

/// Handles an error of an object. Returns true if the job must end.
#[must_use]
pub(crate) fn call(handler: &Handler, object: usize, code: c_int) -> bool {
    match handler {
        Handler::Return => false,
        Handler::Fatal | Handler::Abort => true,
        Handler::User(users) => {
            let Callback { function, call } = users.function;
            // SAFETY: I1.
            unsafe { call(function, object, code) };
            false
        }
    }
}

/// Creates an error handler from a callback of the program.
pub(crate) fn create(
    sort: ErrhandlerKind,
    function: Option<ErrorFunction>,
    place: Out<MPI_Errhandler>,
) -> Result {
    let null = || {
        Failure::new(MPI_ERR_ARG, "the function is a null pointer").coded(ErrorCode::ERROR_HANDLER)
    };
    let function = function.ok_or_else(null)?.into();
    let users = handle::share(UserErrhandler { sort, function, handles: AtomicU32::new(0) });
    place.put(expose(&Handler::User(users)))
}

/// Frees one handle of the program.
pub(crate) fn free(users: &UserErrhandler) -> Result {
    let less = |handles: u32| handles.checked_sub(1);
    match users.handles.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::new(MPI_ERR_ERRHANDLER, "the error handler has already been freed")),
    }
}
