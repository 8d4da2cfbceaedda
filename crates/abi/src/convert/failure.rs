//! Failures of calls.
//!
//! A failure says what is wrong, and the call adds its arguments. `raise.rs` finds the error handler. The code that a
//! call returns identifies the error instance, so that `MPI_Error_string` can return its full text.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ferrywire_host::nic::Peer;
use ferrywire_mpi::datatype;
use ferrywire_runtime::{self as runtime, CreateError, MeetError, MeetErrorKind};

use crate::convert::constants::{
    MPI_ERR_ARG, MPI_ERR_COMM, MPI_ERR_CONVERSION, MPI_ERR_COUNT, MPI_ERR_GROUP, MPI_ERR_IN_STATUS,
    MPI_ERR_LASTCODE, MPI_ERR_OTHER, MPI_ERR_PORT, MPI_ERR_SPAWN, MPI_ERR_TRUNCATE, MPI_ERR_TYPE,
    MPI_ERR_UNSUPPORTED_OPERATION, MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING,
    MPIX_ERR_REVOKED,
};
use crate::convert::status::Status;

/// The result of a function.
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

/// An object with an error handler.
pub(crate) trait Owner: Send + Sync {
    /// The name of the object in errors.
    fn title(&self) -> String;

    /// Calls its error handler. Returns true if the job must end.
    fn tell(&self, code: c_int) -> bool;
}

/// An error, with the call and the reason.
pub(crate) struct Failure(Box<Inner>);

struct Inner {
    code: c_int,
    /// The arguments of the call, printed after its name.
    request: String,
    why: String,
    /// The object that it belongs to, where the call does not say.
    owner: Option<Arc<dyn Owner>>,
    /// The status of the message that it is about.
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

    /// An error that a callback has returned, or that a handler has seen.
    #[cold]
    pub(crate) fn of_code(code: c_int) -> Failure {
        Failure::new(code, "")
    }

    /// Adds the arguments of the call, which begin with a blank: " of 8 bytes".
    #[must_use]
    pub(crate) fn during(mut self, request: impl fmt::Display) -> Failure {
        if self.0.request.is_empty() {
            self.0.request = request.to_string();
        }
        self
    }

    /// Adds the status of the message that it is about.
    #[must_use]
    pub(crate) fn of_message(mut self, status: Status) -> Failure {
        self.0.status = Some(status);
        self
    }

    /// The status of the message that it is about, if any.
    pub(crate) fn status(&self) -> Option<Status> {
        self.0.status
    }

    /// Adds the object that it belongs to.
    #[must_use]
    pub(crate) fn of(mut self, owner: Arc<dyn Owner>) -> Failure {
        self.0.owner = Some(owner);
        self
    }

    /// The object that it belongs to, if known.
    pub(crate) fn owner(&self) -> Option<Arc<dyn Owner>> {
        self.0.owner.clone()
    }

    /// The error of a call that completes several requests, of which the one at `place` is the first to fail.
    #[must_use]
    pub(crate) fn in_status(mut self, place: usize) -> Failure {
        self.0.code = MPI_ERR_IN_STATUS;
        self.0.why =
            format!("{} (request {place}; the statuses hold the errors of others)", self.0.why);
        self
    }

    /// Its error class or code.
    pub(crate) fn code(&self) -> c_int {
        self.0.code
    }

    /// The code by which its text can be looked up. Codes that the program added stay as they are.
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
            // Only a revocation cancels an operation that a call waits for.
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

impl From<MeetError> for Failure {
    #[cold]
    fn from(error: MeetError) -> Failure {
        let class = match error {
            MeetError::Create(error) => return error.into(),
            ref other => match other.kind() {
                MeetErrorKind::Port => MPI_ERR_PORT,
                MeetErrorKind::Spawn => MPI_ERR_SPAWN,
                MeetErrorKind::Other => MPI_ERR_OTHER,
            },
        };
        Failure::new(class, error.to_string())
    }
}

impl From<datatype::Error> for Failure {
    #[cold]
    fn from(error: datatype::Error) -> Failure {
        let class = match error {
            datatype::Error::NegativeCount | datatype::Error::TooLarge => MPI_ERR_COUNT,
            datatype::Error::Pair => MPI_ERR_TYPE,
            datatype::Error::Unrepresentable => MPI_ERR_CONVERSION,
            datatype::Error::Dimensions
            | datatype::Error::Outside
            | datatype::Error::Distribution
            | datatype::Error::Grid
            | datatype::Error::Precision
            | datatype::Error::Size => MPI_ERR_ARG,
        };
        Failure::new(class, error.to_string())
    }
}

/// The most recent failures, by number.
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

/// The text of this error instance, if it is recent enough.
pub(crate) fn text_of(code: c_int) -> Option<String> {
    if code & ERROR_INSTANCE == 0 {
        return None;
    }
    let number = (code & !ERROR_INSTANCE) >> CLASS_BITS;
    let recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    recent.iter().rev().find(|(of, _)| *of == number).map(|(_, text)| text.clone())
}

/// The error class of a code of ours. Other codes are their own class, or the program has defined it.
pub(crate) fn class_of(code: c_int) -> c_int {
    if code & ERROR_INSTANCE == 0 { code } else { code & MPI_ERR_LASTCODE }
}

/// The error of a call in a revoked communicator.
#[cold]
pub(crate) fn revoked() -> Failure {
    Failure::new(MPIX_ERR_REVOKED, "the communicator is revoked")
}

/// The error of a receive from any source while the program has not acknowledged a death.
#[cold]
pub(crate) fn pending(peer: Peer) -> Failure {
    let rank = peer.0;
    let why = format!(
        "rank {rank} of MPI_COMM_WORLD, a possible sender, has left the job; call MPIX_Comm_ack_failed to \
         continue"
    );
    Failure::new(MPIX_ERR_PROC_FAILED_PENDING, why)
}

impl From<runtime::NotFaultTolerant> for Failure {
    fn from(_: runtime::NotFaultTolerant) -> Failure {
        let why = "the job ends when a rank dies; start it with `ferry run --on-death continue`";
        Failure::new(MPI_ERR_UNSUPPORTED_OPERATION, why)
    }
}

/// An error that is not the program's fault.
pub(crate) fn internal(why: impl Into<String>) -> Failure {
    Failure::new(MPI_ERR_OTHER, why)
}

/// Codes with this bit identify an error instance: its class in the low bits, its number above.
const ERROR_INSTANCE: c_int = 1 << 30;
const CLASS_BITS: u32 = 14;
const NUMBER_BITS: u32 = 16;
/// Error instances that can be looked up. Programs look them up at once, or never.
const RECENT_MAX: usize = 64;
