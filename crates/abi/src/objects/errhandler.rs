//! Error handlers: what becomes of a failure.
//!
//! Invariants, cited below by number.
//!   I1. A function of the user's is what the standard says that it is; the program vouches for it.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::convert::callback::{Callback, ErrorCall, ErrorFunction};
use crate::convert::constants::{
    MPI_ERR_ARG, MPI_ERR_ERRHANDLER, MPI_ERRHANDLER_NULL, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL,
    MPI_ERRORS_RETURN,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::{self, Kind, Shared};
use crate::convert::pointer::Out;
use crate::convert::types::MPI_Errhandler;

/// What to do.
#[derive(Clone)]
pub(crate) enum Handler {
    /// End the job.
    Fatal,
    /// The same, as seen by the processes of a communicator.
    Abort,
    /// Return the code.
    Return,
    /// Ask the user.
    User(Shared<UserErrhandler>),
}

/// What an error handler of the user's is for.
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

/// An error handler of the user's.
pub(crate) struct UserErrhandler {
    sort: ErrhandlerKind,
    function: Callback<ErrorCall>,
    /// How often the program has its handle. An object may have it when the program has none.
    handles: AtomicU32,
}

impl Kind for UserErrhandler {
    const MARK: u32 = 0x4552_5248;
    const ERROR: c_int = MPI_ERR_ERRHANDLER;
    const NAME: &'static str = "error handler";
}

/// What a handle says about errors of such objects.
pub(crate) fn find(sort: ErrhandlerKind, handle: MPI_Errhandler) -> Result<Handler> {
    let why = match handle {
        MPI_ERRORS_ARE_FATAL => return Ok(Handler::Fatal),
        MPI_ERRORS_ABORT => return Ok(Handler::Abort),
        MPI_ERRORS_RETURN => return Ok(Handler::Return),
        MPI_ERRHANDLER_NULL => "MPI_ERRHANDLER_NULL is no error handler",
        MPI_Errhandler(address) => {
            let users: Shared<UserErrhandler> = handle::share_of(address)?;
            if users.sort == sort {
                return Ok(Handler::User(users));
            }
            "the error handler is for objects of another sort"
        }
    };
    Err(Failure::new(MPI_ERR_ERRHANDLER, why))
}

/// A handle for the handler, which the caller frees.
pub(crate) fn expose(handler: &Handler) -> MPI_Errhandler {
    match handler {
        Handler::Fatal => MPI_ERRORS_ARE_FATAL,
        Handler::Abort => MPI_ERRORS_ABORT,
        Handler::Return => MPI_ERRORS_RETURN,
        // The same object has the same handle: that is its address.
        Handler::User(users) => {
            users.handles.fetch_add(1, Ordering::Relaxed);
            MPI_Errhandler(handle::expose(Shared::clone(users)))
        }
    }
}

/// Does with an error of an object what the handler says. True if it says that the job has to end.
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

/// Makes an error handler of a function of the program's.
pub(crate) fn create(
    sort: ErrhandlerKind,
    function: Option<ErrorFunction>,
    place: Out<MPI_Errhandler>,
) -> Result {
    let null = || Failure::new(MPI_ERR_ARG, "the function is a null pointer");
    let function = function.ok_or_else(null)?.into();
    let users = handle::share(UserErrhandler { sort, function, handles: AtomicU32::new(0) });
    place.put(expose(&Handler::User(users)))
}

/// The program has one handle less.
pub(crate) fn free(users: &UserErrhandler) -> Result {
    let less = |handles: u32| handles.checked_sub(1);
    match users.handles.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::new(MPI_ERR_ERRHANDLER, "the error handler has been freed")),
    }
}
