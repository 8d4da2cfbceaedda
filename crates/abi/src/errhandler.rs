//! Error handlers: what becomes of a failure.
//!
//! Invariants, cited below by number.
//!   I1. A function of the user's is what the standard says that it is; the program vouches for it.

use std::ffi::c_int;
use std::sync::Arc;

use crate::constants::{
    MPI_ERR_ERRHANDLER, MPI_ERRHANDLER_NULL, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL,
    MPI_ERRORS_RETURN,
};
use crate::failure::{Failure, Result};
use crate::handle::{self, Kind, Shared};
use crate::process;
use crate::types::{MPI_Comm, MPI_Errhandler};

/// What to do.
#[derive(Clone)]
pub enum Handler {
    /// End the job.
    Fatal,
    /// The same, as seen by the processes of a communicator.
    Abort,
    /// Return the code.
    Return,
    /// Ask the user.
    Users(Shared<Users>),
}

/// A function of the user's for errors of communicators.
pub type CommFunction = unsafe extern "C" fn(*mut MPI_Comm, *mut c_int, ...);

/// An error handler of the user's.
pub struct Users {
    /// What is called.
    pub function: Function,
}

/// The function, by what its errors belong to.
#[derive(Clone, Copy)]
pub enum Function {
    /// Errors of communicators.
    Comm(CommFunction),
}

impl Kind for Users {
    const MARK: u32 = 0x4552_5248;
    const ERROR: c_int = MPI_ERR_ERRHANDLER;
    const NAME: &'static str = "error handler";
}

/// What a handle says.
pub fn find(handle: MPI_Errhandler) -> Result<Handler> {
    Ok(match handle {
        MPI_ERRORS_ARE_FATAL => Handler::Fatal,
        MPI_ERRORS_ABORT => Handler::Abort,
        MPI_ERRORS_RETURN => Handler::Return,
        MPI_ERRHANDLER_NULL => {
            return Err(Failure::new(
                MPI_ERR_ERRHANDLER,
                "MPI_ERRHANDLER_NULL is no error handler",
            ));
        }
        MPI_Errhandler(address) => Handler::Users(handle::share_of(address)?),
    })
}

/// A handle for the handler, which the caller frees.
pub fn expose(handler: &Handler) -> MPI_Errhandler {
    match handler {
        Handler::Fatal => MPI_ERRORS_ARE_FATAL,
        Handler::Abort => MPI_ERRORS_ABORT,
        Handler::Return => MPI_ERRORS_RETURN,
        // The same object has the same handle: that is its address.
        Handler::Users(object) => MPI_Errhandler(handle::expose(Arc::clone(object))),
    }
}

/// Does with an error of a communicator what the handler says.
pub fn call(handler: &Handler, comm: MPI_Comm, code: c_int) {
    match handler {
        Handler::Return => {}
        Handler::Fatal | Handler::Abort => process::abort_for(code),
        Handler::Users(users) => {
            let (mut comm, mut code) = (comm, code);
            let Function::Comm(function) = users.function;
            // SAFETY: I1.
            unsafe { function(&raw mut comm, &raw mut code) };
        }
    }
}
