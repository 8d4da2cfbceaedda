//! Failures of calls.
//!
//! A failure says what is wrong, and the call adds its arguments. `raise.rs` finds the error handler. The number that a
//! call returns identifies the error instance, so that `MPI_Error_string` can return its full text, which ends with an
//! [`ErrorCode`]: that of the error class, unless there is a more precise one.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ferrywire_host::ErrorCode;
use ferrywire_host::nic::Peer;
use ferrywire_mpi::datatype;
use ferrywire_runtime::{self as runtime, CreateError, MeetError, MeetErrorKind};

use crate::convert::constants::*;
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
    /// What its text ends with.
    error_code: ErrorCode,
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
        let error_code = code_of_class(class);
        Failure(Box::new(Inner {
            code: class,
            error_code,
            request,
            why,
            owner: None,
            status: None,
        }))
    }

    /// Gives it a code that is more precise than that of its class.
    #[must_use]
    pub(crate) fn coded(mut self, code: ErrorCode) -> Failure {
        self.0.error_code = code;
        self
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
        let Inner { code, error_code, request, why, .. } = &*self.0;
        match why.is_empty() || *code > MPI_ERR_LASTCODE {
            true => *code,
            false => remember(*code, error_code.ends(format_args!("{call}{request}: {why}"))),
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
        Failure::new(class, failure.to_string()).coded(failure.code())
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
        Failure::new(class, error.to_string()).coded(error.code())
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
        Failure::new(class, error.to_string()).coded(error.code())
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
            | datatype::Error::Size => {
                return Failure::new(MPI_ERR_ARG, error.to_string()).coded(ErrorCode::CONSTRUCTION);
            }
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

/// The code in texts about an error class, unless a failure has a more precise one.
pub(crate) fn code_of_class(class: c_int) -> ErrorCode {
    match class {
        MPI_ERR_BUFFER => ErrorCode::BUFFER,
        MPI_ERR_COUNT => ErrorCode::COUNT,
        MPI_ERR_TYPE => ErrorCode::DATATYPE,
        MPI_ERR_TAG => ErrorCode::TAG,
        MPI_ERR_COMM => ErrorCode::COMM,
        MPI_ERR_RANK => ErrorCode::RANK,
        MPI_ERR_REQUEST => ErrorCode::REQUEST,
        MPI_ERR_ROOT => ErrorCode::ROOT,
        MPI_ERR_GROUP => ErrorCode::GROUP,
        MPI_ERR_OP => ErrorCode::OPERATION,
        MPI_ERR_TOPOLOGY => ErrorCode::TOPOLOGY,
        MPI_ERR_DIMS => ErrorCode::DIMENSIONS,
        MPI_ERR_ARG => ErrorCode::ARGUMENT,
        MPI_ERR_TRUNCATE => ErrorCode::TRUNCATED,
        MPI_ERR_OTHER => ErrorCode::OTHER,
        MPI_ERR_INTERN => ErrorCode::INTERNAL,
        MPI_ERR_PENDING => ErrorCode::PENDING,
        MPI_ERR_IN_STATUS => ErrorCode::IN_STATUS,
        MPI_ERR_ACCESS => ErrorCode::FILE_ACCESS,
        MPI_ERR_AMODE => ErrorCode::ACCESS_MODE,
        MPI_ERR_ASSERT => ErrorCode::ASSERTION,
        MPI_ERR_BAD_FILE => ErrorCode::FILE_NAME,
        MPI_ERR_BASE => ErrorCode::BASE,
        MPI_ERR_CONVERSION => ErrorCode::CONVERSION,
        MPI_ERR_DISP => ErrorCode::DISPLACEMENT,
        MPI_ERR_DUP_DATAREP | MPI_ERR_UNSUPPORTED_DATAREP => ErrorCode::REPRESENTATION,
        MPI_ERR_FILE_EXISTS => ErrorCode::FILE_EXISTS,
        MPI_ERR_FILE_IN_USE => ErrorCode::FILE_IN_USE,
        MPI_ERR_FILE => ErrorCode::FILE,
        MPI_ERR_INFO_KEY | MPI_ERR_INFO_NOKEY => ErrorCode::INFO_KEY,
        MPI_ERR_INFO_VALUE => ErrorCode::INFO_VALUE,
        MPI_ERR_INFO => ErrorCode::INFO,
        MPI_ERR_IO => ErrorCode::FILE_IO,
        MPI_ERR_KEYVAL => ErrorCode::ATTRIBUTE_KEY,
        MPI_ERR_LOCKTYPE => ErrorCode::LOCK_TYPE,
        MPI_ERR_NAME | MPI_ERR_SERVICE => ErrorCode::SERVICE,
        MPI_ERR_NO_MEM => ErrorCode::NO_MEMORY,
        MPI_ERR_NOT_SAME => ErrorCode::NOT_SAME,
        MPI_ERR_NO_SPACE => ErrorCode::NO_SPACE,
        MPI_ERR_NO_SUCH_FILE => ErrorCode::NO_SUCH_FILE,
        MPI_ERR_PORT => ErrorCode::PORT,
        MPI_ERR_QUOTA => ErrorCode::QUOTA,
        MPI_ERR_READ_ONLY => ErrorCode::READ_ONLY,
        MPI_ERR_RMA_ATTACH => ErrorCode::ATTACH,
        MPI_ERR_RMA_CONFLICT => ErrorCode::WINDOW_CONFLICT,
        MPI_ERR_RMA_RANGE => ErrorCode::WINDOW_RANGE,
        MPI_ERR_RMA_SHARED => ErrorCode::SHARED_WINDOW,
        MPI_ERR_RMA_SYNC => ErrorCode::EPOCH,
        MPI_ERR_SIZE => ErrorCode::SIZE,
        MPI_ERR_SPAWN => ErrorCode::SPAWN,
        MPI_ERR_UNSUPPORTED_OPERATION => ErrorCode::UNSUPPORTED,
        MPI_ERR_WIN => ErrorCode::WINDOW,
        MPI_ERR_RMA_FLAVOR => ErrorCode::FLAVOR,
        MPI_ERR_PROC_ABORTED => ErrorCode::RANK_ABORTED,
        MPI_ERR_VALUE_TOO_LARGE => ErrorCode::VALUE_TOO_LARGE,
        MPI_ERR_SESSION => ErrorCode::SESSION,
        MPI_ERR_ERRHANDLER => ErrorCode::ERROR_HANDLER,
        MPI_ERR_ABI => ErrorCode::ABI,
        MPIX_ERR_PROC_FAILED => ErrorCode::RANK_LEFT,
        MPIX_ERR_PROC_FAILED_PENDING => ErrorCode::SENDER_MAY_BE_LOST,
        MPIX_ERR_REVOKED => ErrorCode::REVOKED,
        MPI_T_ERR_CANNOT_INIT..=MPI_T_ERR_PVAR_NO_ATOMIC => ErrorCode::TOOL,
        _ => ErrorCode::UNKNOWN,
    }
}

/// The error of a call in a revoked communicator.
#[cold]
pub(crate) fn revoked() -> Failure {
    Failure::new(
        MPIX_ERR_REVOKED,
        "the communicator is revoked; continue in one of the survivors, of MPIX_Comm_shrink",
    )
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
        Failure::new(MPI_ERR_UNSUPPORTED_OPERATION, why).coded(ErrorCode::NOT_FAULT_TOLERANT)
    }
}

/// An error that is not the program's fault.
pub(crate) fn internal(why: impl Into<String>) -> Failure {
    Failure::new(MPI_ERR_OTHER, why).coded(ErrorCode::INTERNAL)
}

/// Codes with this bit identify an error instance: its class in the low bits, its number above.
const ERROR_INSTANCE: c_int = 1 << 30;
const CLASS_BITS: u32 = 14;
const NUMBER_BITS: u32 = 16;
/// Error instances that can be looked up. Programs look them up at once, or never.
const RECENT_MAX: usize = 64;
