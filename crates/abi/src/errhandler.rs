//! Error handlers: what becomes of a failure.
//!
//! Invariants, cited below by number.
//!   I1. A function of the user's is what the standard says that it is; the program vouches for it.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::comm;
use crate::constants::{
    MPI_ERR_ARG, MPI_ERR_ERRHANDLER, MPI_ERR_FILE, MPI_ERR_SESSION, MPI_ERR_WIN,
    MPI_ERRHANDLER_NULL, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_FILE_NULL,
};
use crate::entry::entries;
use crate::failure::{Failure, Result};
use crate::handle::{self, Kind, Shared};
use crate::pointer::Out;
use crate::raise;
use crate::types::{MPI_Comm, MPI_Errhandler, MPI_File, MPI_Session, MPI_Win};

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
    Users(Shared<Users>),
}

/// A function of the user's. All handles are alike in C, so one type does for those of all objects.
pub(crate) type Function = unsafe extern "C" fn(*mut usize, *mut c_int, ...);

/// What an error handler of the user's is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sort {
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
pub(crate) struct Users {
    sort: Sort,
    function: Function,
    /// How often the program has its handle. An object may have it when the program has none.
    handles: AtomicU32,
}

impl Kind for Users {
    const MARK: u32 = 0x4552_5248;
    const ERROR: c_int = MPI_ERR_ERRHANDLER;
    const NAME: &'static str = "error handler";
}

/// What a handle says about errors of such objects.
pub(crate) fn find(sort: Sort, handle: MPI_Errhandler) -> Result<Handler> {
    let why = match handle {
        MPI_ERRORS_ARE_FATAL => return Ok(Handler::Fatal),
        MPI_ERRORS_ABORT => return Ok(Handler::Abort),
        MPI_ERRORS_RETURN => return Ok(Handler::Return),
        MPI_ERRHANDLER_NULL => "MPI_ERRHANDLER_NULL is no error handler",
        MPI_Errhandler(address) => {
            let users: Shared<Users> = handle::share_of(address)?;
            if users.sort == sort {
                return Ok(Handler::Users(users));
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
        Handler::Users(users) => {
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
        Handler::Users(users) => {
            let (mut object, mut code) = (object, code);
            // SAFETY: I1.
            unsafe { (users.function)(&raw mut object, &raw mut code) };
            false
        }
    }
}

fn create(sort: Sort, function: Option<Function>, place: Out<MPI_Errhandler>) -> Result {
    let null = || Failure::new(MPI_ERR_ARG, "the function is a null pointer");
    let function = function.ok_or_else(null)?;
    let users = handle::share(Users { sort, function, handles: AtomicU32::new(0) });
    place.put(expose(&Handler::Users(users)))
}

/// The program has one handle less.
fn free(users: &Users) -> Result {
    let less = |handles: u32| handles.checked_sub(1);
    match users.handles.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::new(MPI_ERR_ERRHANDLER, "the error handler has been freed")),
    }
}

/// What becomes of errors of files that do not say so themselves.
static FILES: Mutex<Handler> = Mutex::new(Handler::Return);

fn of_file(file: MPI_File) -> Result<MutexGuard<'static, Handler>> {
    match file {
        MPI_FILE_NULL => Ok(FILES.lock().unwrap_or_else(PoisonError::into_inner)),
        _ => Err(Failure::new(MPI_ERR_FILE, "it is no file")),
    }
}

fn no_window() -> Failure {
    Failure::new(MPI_ERR_WIN, "it is no window")
}

fn no_session() -> Failure {
    Failure::new(MPI_ERR_SESSION, "it is no session")
}

fn call_or_abort(handler: &Handler, object: usize, code: c_int) {
    if call(handler, object, code) {
        raise::abort(code);
    }
}

entries! {
    fn MPI_Comm_create_errhandler(
        comm_errhandler_fn: Option<Function>, errhandler: Out<MPI_Errhandler>,
    ) {
        create(Sort::Comm, comm_errhandler_fn, errhandler)
    }

    fn MPI_Comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) on comm {
        comm::find(comm)?.set_handler(find(Sort::Comm, errhandler)?);
        Ok(())
    }

    fn MPI_Comm_get_errhandler(comm: MPI_Comm, errhandler: Out<MPI_Errhandler>) on comm {
        errhandler.put(expose(&comm::find(comm)?.handler()))
    }

    fn MPI_Comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) on comm {
        call_or_abort(&comm::find(comm)?.handler(), comm.0, errorcode);
        Ok(())
    }

    fn MPI_Win_create_errhandler(
        win_errhandler_fn: Option<Function>, errhandler: Out<MPI_Errhandler>,
    ) {
        create(Sort::Win, win_errhandler_fn, errhandler)
    }

    fn MPI_Win_set_errhandler(_win: MPI_Win, _errhandler: MPI_Errhandler) {
        Err(no_window())
    }

    fn MPI_Win_get_errhandler(_win: MPI_Win, _errhandler: Out<MPI_Errhandler>) {
        Err(no_window())
    }

    fn MPI_Win_call_errhandler(_win: MPI_Win, _errorcode: c_int) {
        Err(no_window())
    }

    fn MPI_File_create_errhandler(
        file_errhandler_fn: Option<Function>, errhandler: Out<MPI_Errhandler>,
    ) {
        create(Sort::File, file_errhandler_fn, errhandler)
    }

    fn MPI_File_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) {
        *of_file(file)? = find(Sort::File, errhandler)?;
        Ok(())
    }

    fn MPI_File_get_errhandler(file: MPI_File, errhandler: Out<MPI_Errhandler>) {
        errhandler.put(expose(&*of_file(file)?))
    }

    fn MPI_File_call_errhandler(fh: MPI_File, errorcode: c_int) {
        let handler = of_file(fh)?.clone();
        call_or_abort(&handler, fh.0, errorcode);
        Ok(())
    }

    fn MPI_Session_create_errhandler(
        session_errhandler_fn: Option<Function>, errhandler: Out<MPI_Errhandler>,
    ) {
        create(Sort::Session, session_errhandler_fn, errhandler)
    }

    fn MPI_Session_set_errhandler(_session: MPI_Session, _errhandler: MPI_Errhandler) {
        Err(no_session())
    }

    fn MPI_Session_get_errhandler(_session: MPI_Session, _errhandler: Out<MPI_Errhandler>) {
        Err(no_session())
    }

    fn MPI_Session_call_errhandler(_session: MPI_Session, _errorcode: c_int) {
        Err(no_session())
    }

    fn MPI_Errhandler_free(errhandler: Out<MPI_Errhandler>) {
        match errhandler.get()? {
            // The program gets these, too, when it asks for a handler.
            MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN => {}
            MPI_Errhandler(address) => {
                free(handle::find(address)?)?;
                drop(handle::release::<Users>(address)?);
            }
        }
        errhandler.put(MPI_ERRHANDLER_NULL)
    }
}
