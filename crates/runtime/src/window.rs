//! Windows: memory of all members of a communicator, which each of them can read and write.
//!
//! On one host nobody is needed at the target. A window has shared memory for the locks and the places of all members,
//! its *controls*. Memory that the library allocates is shared, too: put and get are copies, and accumulates on single
//! numbers are atomic instructions. Memory of the program is reached by the kernel, which copies from one process to the
//! other, and accumulates there take the locks of its stripes. So each kind of memory has one mechanism for each width of
//! elements, and two accumulates on the same elements never use different ones.
//!
//! Other hosts, and processes that the kernel does not let reach each other, go through the NIC of the target, which its
//! agent drives while the application is away. It changes memory by the same mechanisms.
//!
//! | file | what it is |
//! |---|---|
//! | `create.rs` | creating and freeing windows |
//! | `access.rs` | put, get, accumulate and compare-and-swap |
//! | `words.rs` | put and get by atomic instructions |
//! | `remote.rs` | the same through the NIC of the target |
//! | `exposed.rs` | what the NIC of the target does then |
//! | `element.rs` | atomic operations on the elements of shared memory |
//! | `counters.rs` | counters of a window, and puts that raise them |
//! | `epoch.rs` | fences, groups, locks: when accesses are allowed, and when they are complete |

mod access;
mod counters;
mod create;
mod element;
mod epoch;
mod exposed;
mod remote;
mod words;

use std::fmt;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};

use ferrywire_host::ErrorCode;
use ferrywire_host::nic::Counter;
use ferrywire_host::shm::{SharedMemory, WindowControls};

pub use access::TargetData;
pub use counters::Trigger;
pub use create::{WindowKind, WindowSpace};
pub use epoch::Locking;
pub use words::WordWidth;

use crate::comm_create::CreateError;
use crate::failure::Failure;
use epoch::Epochs;
use exposed::Exposed;
use remote::PostedAccesses;

/// A window, as one of its members sees it.
pub struct Window {
    controls: Arc<WindowControls>,
    /// The memory of all members, if the library has allocated it.
    memory: Option<SharedMemory>,
    /// Our rank.
    rank: u32,
    /// The words that all accesses are made of, if accesses may conflict.
    words: Option<WordWidth>,
    /// Our part as our NIC exposes it, if anybody needs that.
    exposed: OnceLock<Exposed>,
    /// Held while memory is attached, detached or exposed.
    attaching: Mutex<()>,
    epochs: Mutex<Epochs>,
    /// The rank that was accessed last, while the same epochs are open: it may be accessed again.
    open: AtomicU64,
    posted: Mutex<PostedAccesses>,
    /// Our counters, if the window has any. All members have as many.
    counters: OnceLock<Arc<[Counter]>>,
}

/// Why a call of a window failed.
#[derive(Debug)]
pub enum WindowError {
    /// Messages of the call failed.
    Failed(Failure),
    /// A communicator could not be created.
    NotCreated(CreateError),
    /// A member has no memory, or the address space is full.
    NoMemory,
    /// The members are on several hosts and cannot share memory.
    SeveralHosts,
    /// The operation is not implemented between hosts.
    NotBetweenHosts(&'static str),
    /// No epoch in which the rank may be accessed is open.
    NoEpoch(u32),
    /// An epoch of the same kind is open already, or none is.
    WrongEpoch(&'static str),
    /// The bytes are not in the window of the rank.
    OutOfRange {
        /// The rank.
        rank: u32,
        /// The displacement, the bytes of its unit, and the bytes that the rank has in the window, if it has one piece.
        place: Option<(i64, i64, u64)>,
    },
    /// The system does not let us reach the memory of the rank.
    Unreachable(u32, io::Error),
    /// The memory cannot be attached, or is not attached.
    NotAttached(&'static str),
    /// The window does not have this counter; it has so many.
    NoCounter(i64, usize),
    /// The window cannot get counters.
    NoCounters(&'static str),
    /// The counter of a trigger belongs to another NIC than the operation that it would start.
    OtherNic,
}

impl From<Failure> for WindowError {
    fn from(failure: Failure) -> WindowError {
        WindowError::Failed(failure)
    }
}

impl From<CreateError> for WindowError {
    fn from(error: CreateError) -> WindowError {
        WindowError::NotCreated(error)
    }
}

impl WindowError {
    /// Its code, with which the text of an error ends.
    pub fn code(&self) -> ErrorCode {
        match self {
            WindowError::Failed(failure) => failure.code(),
            WindowError::NotCreated(error) => error.code(),
            WindowError::NoMemory => ErrorCode::NO_MEMORY,
            WindowError::SeveralHosts | WindowError::Unreachable(..) => ErrorCode::SHARED_WINDOW,
            WindowError::NoEpoch(_) | WindowError::WrongEpoch(_) => ErrorCode::EPOCH,
            WindowError::NotAttached(_) => ErrorCode::ATTACH,
            WindowError::NotBetweenHosts(_) => ErrorCode::BETWEEN_HOSTS,
            WindowError::NoCounters(_) | WindowError::NoCounter(..) | WindowError::OtherNic => {
                ErrorCode::COUNTER
            }
            WindowError::OutOfRange { .. } => ErrorCode::WINDOW_RANGE,
        }
    }
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WindowError::Failed(failure) => write!(f, "{failure}"),
            WindowError::NotCreated(error) => write!(f, "{error}"),
            WindowError::NoMemory => write!(f, "a rank has no memory for its part of the window"),
            WindowError::SeveralHosts => {
                write!(f, "the ranks are on several hosts, which share no memory")
            }
            WindowError::NoEpoch(rank) => {
                write!(
                    f,
                    "no epoch is open in which rank {rank} may be accessed; begin one first, such as by a lock or a fence"
                )
            }
            WindowError::WrongEpoch(why)
            | WindowError::NotAttached(why)
            | WindowError::NotBetweenHosts(why)
            | WindowError::NoCounters(why) => f.write_str(why),
            WindowError::NoCounter(_, 0) => {
                let how = "Ferry_Win_counters, or Window::counters in Rust, gives it some";
                write!(f, "the window has no counters; {how}")
            }
            WindowError::NoCounter(counter, count) => {
                write!(f, "invalid counter {counter}; the window has counters 0 to {}", count - 1)
            }
            WindowError::OtherNic => f.write_str(
                "the counter and the operation belong to different NICs, of which a program with several threads may \
                 have several; a counter starts only operations of its own NIC",
            ),
            WindowError::OutOfRange { rank, place: None } => {
                write!(f, "the access is outside the window of rank {rank}")
            }
            WindowError::OutOfRange { rank, place: Some((displacement, unit, bytes)) } => write!(
                f,
                "the access at displacement {displacement}, in units of {unit} bytes, leaves the window of rank \
                 {rank}, which has {bytes} bytes"
            ),
            WindowError::Unreachable(rank, error) => write!(
                f,
                "the system does not let this process reach the memory of rank {rank} ({error}); memory that \
                 MPI_Win_allocate returns can always be reached"
            ),
        }
    }
}

pub(crate) type WindowResult<T = ()> = std::result::Result<T, WindowError>;
