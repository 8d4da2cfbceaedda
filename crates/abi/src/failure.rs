//! What goes wrong, and who is told.
//!
//! A failure says what is wrong; the call in which it happened adds what it was asked for; the error
//! handler of the communicator decides what becomes of it. The code that a call returns names the very
//! occurrence, so that `MPI_Error_string` can tell it in full.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use ferrywire_runtime::{self as runtime, CreateError};

use crate::comm::{self, Comm};
use crate::constants::{
    MPI_ERR_COMM, MPI_ERR_GROUP, MPI_ERR_IN_STATUS, MPI_ERR_LASTCODE, MPI_ERR_OTHER,
    MPI_ERR_TRUNCATE,
};
use crate::errhandler;
use crate::error;
use crate::fault::{self, MPIX_ERR_PROC_FAILED};
use crate::handle::Shared;
use crate::process;
use crate::status::Status;
use crate::types::MPI_Comm;

/// What a function comes to.
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

/// Something that went wrong.
pub(crate) struct Failure(Box<Inner>);

struct Inner {
    code: c_int,
    /// What was asked for, to stand behind the name of the call.
    request: String,
    why: String,
    /// The communicator that it belongs to, where the call does not say.
    comm: Option<Shared<Comm>>,
    /// What there is to say of the message that it is about.
    status: Option<Status>,
}

impl Failure {
    /// A failure of an error class.
    #[cold]
    pub(crate) fn new(class: c_int, why: impl Into<String>) -> Failure {
        let why = why.into();
        let request = String::new();
        Failure(Box::new(Inner { code: class, request, why, comm: None, status: None }))
    }

    /// An error that user code has returned, or that has been through a handler.
    #[cold]
    pub(crate) fn of_code(code: c_int) -> Failure {
        Failure::new(code, "")
    }

    /// The same, when the call was asked for `request`, which begins with a blank: " of 8 bytes".
    #[must_use]
    pub(crate) fn during(mut self, request: impl fmt::Display) -> Failure {
        if self.0.request.is_empty() {
            self.0.request = request.to_string();
        }
        self
    }

    /// The same, of the message with this status.
    #[must_use]
    pub(crate) fn of_message(mut self, status: Status) -> Failure {
        self.0.status = Some(status);
        self
    }

    /// The status of the message that it is about, if there is one.
    pub(crate) fn status(&self) -> Option<Status> {
        self.0.status
    }

    /// The same, of this communicator.
    #[must_use]
    pub(crate) fn of_comm(mut self, comm: &Shared<Comm>) -> Failure {
        self.0.comm = Some(Shared::clone(comm));
        self
    }

    /// The error of a call that completes several requests, of which the one at `place` is the first to
    /// fail.
    #[must_use]
    pub(crate) fn in_status(mut self, place: usize) -> Failure {
        self.0.code = MPI_ERR_IN_STATUS;
        self.0.why = format!("{} (request {place}; statuses tell of others)", self.0.why);
        self
    }

    /// Its error class or code.
    pub(crate) fn code(&self) -> c_int {
        self.0.code
    }

    /// The code by which it can be looked up. Codes of the user's own stay as they are.
    pub(crate) fn register(&self, call: &str) -> c_int {
        let Inner { code, request, why, .. } = &*self.0;
        match why.is_empty() || *code > MPI_ERR_LASTCODE {
            true => *code,
            false => remember(*code, format!("{call}{request}: {why}")),
        }
    }
}

impl From<runtime::Failure> for Failure {
    #[cold]
    fn from(failure: runtime::Failure) -> Failure {
        let class = match &failure {
            runtime::Failure::Truncated { .. } => MPI_ERR_TRUNCATE,
            runtime::Failure::PeerDown { .. } => MPIX_ERR_PROC_FAILED,
            // Nothing takes back what a call waits for but a revocation.
            runtime::Failure::Revoked | runtime::Failure::Cancelled => return fault::revoked(),
            runtime::Failure::Module(_)
            | runtime::Failure::Abandoned
            | runtime::Failure::Unexpected(_) => MPI_ERR_OTHER,
        };
        Failure::new(class, failure.to_string())
    }
}

impl From<CreateError> for Failure {
    #[cold]
    fn from(error: CreateError) -> Failure {
        let class = match error {
            CreateError::Failed(failure) => return failure.into(),
            CreateError::NoFreeNumber => MPI_ERR_OTHER,
            CreateError::NotInGroup | CreateError::GroupOutside => MPI_ERR_GROUP,
            CreateError::NoRemoteGroup | CreateError::GroupsOverlap => MPI_ERR_COMM,
        };
        Failure::new(class, error.to_string())
    }
}

/// Whose error handler is called.
#[derive(Clone, Copy)]
pub(crate) enum Owner {
    /// Nobody's in particular: see [`for_nothing`].
    Nothing,
    /// That of a communicator.
    Comm(MPI_Comm),
}

impl From<MPI_Comm> for Owner {
    fn from(comm: MPI_Comm) -> Owner {
        Owner::Comm(comm)
    }
}

/// Tells the error handler, and answers the code that the call returns.
#[cold]
#[inline(never)]
pub(crate) fn raise(failure: Failure, call: &str, owner: Owner) -> c_int {
    // A request has its communicator, whether or not the program has freed that meanwhile.
    let named = match (&failure.0.comm, owner) {
        (Some(comm), _) => Some(Shared::clone(comm)),
        (None, Owner::Comm(comm)) => comm::share_of(comm).ok(),
        (None, Owner::Nothing) => None,
    };
    let failure = match &named {
        Some(comm) => failure.during(format_args!(" in {}", comm.title())),
        None => failure,
    };
    let code = failure.register(call);
    match named.map_or_else(for_nothing, Ok) {
        Ok(comm) => errhandler::call(&comm.handler(), comm::handle_of(&comm).0, code),
        Err(_) => {
            // Nobody has said what to do with errors, since MPI is not there yet, or not any more.
            eprintln!("ferrywire: {}", error::text(code));
            process::die(class_of(code));
        }
    }
    code
}

/// Whose handler gets errors of calls without a communicator. MPI 4 says MPI_COMM_SELF; programs that were written for
/// earlier versions set that of MPI_COMM_WORLD only, so it is that one until the program says something of MPI_COMM_SELF.
fn for_nothing() -> Result<Shared<Comm>> {
    let process = process::running()?;
    let itself = process.itself.has_own_handler();
    Ok(Shared::clone(if itself { &process.itself } else { &process.world }))
}

/// The failures of late, by their number.
static RECENT: Mutex<VecDeque<(c_int, String)>> = Mutex::new(VecDeque::new());

fn remember(class: c_int, text: String) -> c_int {
    let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    let number = recent.back().map_or(0, |(number, _)| (number + 1) % (1 << NUMBER_BITS));
    if recent.len() == RECENT_MAX {
        recent.pop_front();
    }
    recent.push_back((number, text));
    OCCURRENCE | number << CLASS_BITS | class
}

/// What there is to say of this very occurrence, if it is not too long ago.
pub(crate) fn text_of(code: c_int) -> Option<String> {
    if code & OCCURRENCE == 0 {
        return None;
    }
    let number = (code & !OCCURRENCE) >> CLASS_BITS;
    let recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    recent.iter().rev().find(|(of, _)| *of == number).map(|(_, text)| text.clone())
}

/// The error class of a code of ours; other codes are their own class, or the user knows it.
pub(crate) fn class_of(code: c_int) -> c_int {
    if code & OCCURRENCE == 0 { code } else { code & MPI_ERR_LASTCODE }
}

/// Something that is ours to mend.
pub(crate) fn internal(why: impl Into<String>) -> Failure {
    Failure::new(MPI_ERR_OTHER, why)
}

/// Codes with this bit name an occurrence: its class below, its number above.
const OCCURRENCE: c_int = 1 << 30;
const CLASS_BITS: u32 = 14;
const NUMBER_BITS: u32 = 16;
/// Occurrences that can be looked up. Programs ask at once, or never.
const RECENT_MAX: usize = 64;
