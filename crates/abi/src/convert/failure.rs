//! What goes wrong.
//!
//! A failure says what is wrong, and the call in which it happened adds what it was asked for. Who is told is in
//! `raise.rs`. The code that a call returns names the very
//! error instance, so that `MPI_Error_string` can tell it in full.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ferrywire_host::nic::Peer;
use ferrywire_runtime::{self as runtime, CreateError};

use crate::convert::constants::{
    MPI_ERR_COMM, MPI_ERR_GROUP, MPI_ERR_IN_STATUS, MPI_ERR_LASTCODE, MPI_ERR_OTHER,
    MPI_ERR_TRUNCATE, MPI_ERR_UNSUPPORTED_OPERATION, MPIX_ERR_PROC_FAILED,
    MPIX_ERR_PROC_FAILED_PENDING, MPIX_ERR_REVOKED,
};
use crate::convert::status::Status;

/// What a function comes to.
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

/// What has an error handler.
pub(crate) trait Owner: Send + Sync {
    /// What errors call it.
    fn title(&self) -> String;

    /// Tells its error handler. True if that says that the job has to end.
    fn tell(&self, code: c_int) -> bool;
}

/// Something that went wrong.
pub(crate) struct Failure(Box<Inner>);

struct Inner {
    code: c_int,
    /// What was asked for, to stand behind the name of the call.
    request: String,
    why: String,
    /// What it belongs to, where the call does not say.
    owner: Option<Arc<dyn Owner>>,
    /// What there is to say of the message that it is about.
    status: Option<Status>,
}

impl Failure {
    /// A failure of an error class.
    #[cold]
    pub(crate) fn new(class: c_int, why: impl Into<String>) -> Failure {
        let why = why.into();
        let request = String::new();
        Failure(Box::new(Inner { code: class, request, why, owner: None, status: None }))
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

    /// The same, of something that belongs to `owner`.
    #[must_use]
    pub(crate) fn of(mut self, owner: Arc<dyn Owner>) -> Failure {
        self.0.owner = Some(owner);
        self
    }

    /// What it belongs to, if that is known.
    pub(crate) fn owner(&self) -> Option<Arc<dyn Owner>> {
        self.0.owner.clone()
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
            runtime::Failure::Revoked | runtime::Failure::Cancelled => return revoked(),
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

/// The failures of late, by their number.
static RECENT: Mutex<VecDeque<(c_int, String)>> = Mutex::new(VecDeque::new());

fn remember(class: c_int, text: String) -> c_int {
    let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    let number = recent.back().map_or(0, |(number, _)| (number + 1) % (1 << NUMBER_BITS));
    if recent.len() == RECENT_MAX {
        recent.pop_front();
    }
    recent.push_back((number, text));
    ERROR_INSTANCE | number << CLASS_BITS | class
}

/// What there is to say of this very error instance, if it is not too long ago.
pub(crate) fn text_of(code: c_int) -> Option<String> {
    if code & ERROR_INSTANCE == 0 {
        return None;
    }
    let number = (code & !ERROR_INSTANCE) >> CLASS_BITS;
    let recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    recent.iter().rev().find(|(of, _)| *of == number).map(|(_, text)| text.clone())
}

/// The error class of a code of ours; other codes are their own class, or the user knows it.
pub(crate) fn class_of(code: c_int) -> c_int {
    if code & ERROR_INSTANCE == 0 { code } else { code & MPI_ERR_LASTCODE }
}

/// Of a call in a revoked communicator.
#[cold]
pub(crate) fn revoked() -> Failure {
    Failure::new(MPIX_ERR_REVOKED, "the communicator is revoked")
}

/// Of a receive from anybody, when the program does not know of a death.
#[cold]
pub(crate) fn pending(peer: Peer) -> Failure {
    let rank = peer.0;
    let why = format!(
        "rank {rank} of MPI_COMM_WORLD has left the job, and might have sent it; MPIX_Comm_ack_failed lets it go on"
    );
    Failure::new(MPIX_ERR_PROC_FAILED_PENDING, why)
}

impl From<runtime::NotFaultTolerant> for Failure {
    fn from(_: runtime::NotFaultTolerant) -> Failure {
        let why = "the job ends when a rank dies; start it with `ferry run --on-death continue`";
        Failure::new(MPI_ERR_UNSUPPORTED_OPERATION, why)
    }
}

/// Something that is ours to mend.
pub(crate) fn internal(why: impl Into<String>) -> Failure {
    Failure::new(MPI_ERR_OTHER, why)
}

/// Codes with this bit name an error instance: its class below, its number above.
const ERROR_INSTANCE: c_int = 1 << 30;
const CLASS_BITS: u32 = 14;
const NUMBER_BITS: u32 = 16;
/// Error instances that can be looked up. Programs ask at once, or never.
const RECENT_MAX: usize = 64;
