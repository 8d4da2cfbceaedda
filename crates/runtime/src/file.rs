//! Files that all members of a communicator read and write.
//!
//! An access without gaps in the file is one system call, one with gaps is one for each range, and exactly the bytes
//! that were passed are written. Members of a collective call bring small and interleaved accesses together: each
//! aggregator accesses one part of the file for all. What all members share, the shared pointer and the lock of
//! atomic mode, are a word and the lock of a window, so no lock of the file system is needed.
//!
//! | file | what it is |
//! |---|---|
//! | `open.rs` | opening and closing |
//! | `agree.rs` | errors of collective calls, on which all members agree |
//! | `independent.rs` | accesses by one member |
//! | `collective.rs` | accesses by all members together, in two phases |
//! | `pointers.rs` | the pointer of each member, and the one that they share |
//! | `state.rs` | size, view, hints, atomic mode, synchronisation |
//! | `worker.rs` | the thread that runs non-blocking accesses |

mod agree;
mod collective;
mod independent;
mod open;
mod pointers;
mod state;
mod worker;

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ferrywire_host::ErrorCode;
use ferrywire_mpi::file::View;

pub use agree::Trouble;
pub use open::{FileAccess, FileCreation, FileMode, OpenRequest};
pub use pointers::{FilePosition, Whence};
pub use state::FileHints;
use worker::Worker;

use crate::comm_create::CreateError;
use crate::failure::Failure;
use crate::window::{Window, WindowError};

/// A file, as one of the members of its communicator sees it.
pub struct File {
    file: fs::File,
    path: PathBuf,
    mode: FileMode,
    view: RwLock<Arc<View>>,
    /// Our own pointer, in etypes.
    pointer: Mutex<u64>,
    /// A window with the pointer that the members share, in etypes, at member 0.
    shared_pointer: Window,
    is_atomic: AtomicBool,
    /// A window whose lock at member 0 accesses take in atomic mode. `None` before the file is in atomic mode.
    lock: Mutex<Option<Window>>,
    /// Whether we have written since the last synchronisation.
    has_written: AtomicBool,
    /// The lowest member of the host of each member.
    host_of: Vec<u32>,
    /// The unit in which the file system likes to be accessed.
    block_bytes: u64,
    hints: Mutex<FileHints>,
    /// The thread that runs accesses while the program computes.
    worker: Worker,
}

/// Why a call of a file failed.
#[derive(Debug)]
pub enum FileError {
    /// Messages of the call failed.
    Failed(Failure),
    /// A communicator could not be created.
    NotCreated(CreateError),
    /// The window of the file failed.
    Window(WindowError),
    /// The system refused.
    System(io::Error),
    /// The collective call failed at another member.
    Elsewhere {
        /// Its rank.
        rank: u32,
        /// Why.
        trouble: Trouble,
    },
    /// Members passed different values.
    NotSame(&'static str),
    /// The access is beyond the offsets that a file can have, or the view has no bytes.
    TooFar,
    /// The pointer would be before the beginning of the view.
    BeforeBeginning,
}

impl From<Failure> for FileError {
    fn from(failure: Failure) -> FileError {
        FileError::Failed(failure)
    }
}

impl From<CreateError> for FileError {
    fn from(error: CreateError) -> FileError {
        FileError::NotCreated(error)
    }
}

impl From<WindowError> for FileError {
    fn from(error: WindowError) -> FileError {
        match error {
            WindowError::Failed(failure) => FileError::Failed(failure),
            other => FileError::Window(other),
        }
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> FileError {
        FileError::System(error)
    }
}

impl FileError {
    /// Its code, with which the text of an error ends.
    pub fn code(&self) -> ErrorCode {
        match self {
            FileError::Failed(failure) => failure.code(),
            FileError::NotCreated(error) => error.code(),
            FileError::Window(error) => error.code(),
            FileError::System(error) => code_of_system(error.kind()),
            FileError::Elsewhere { trouble: Trouble::System(number), .. } => {
                code_of_system(io::Error::from_raw_os_error(*number).kind())
            }
            FileError::Elsewhere { trouble: Trouble::Refused(_), .. } => ErrorCode::ARGUMENT,
            FileError::NotSame(_) => ErrorCode::NOT_SAME,
            FileError::TooFar | FileError::BeforeBeginning => ErrorCode::FILE_POSITION,
        }
    }
}

/// The code of an access to a file that the system has refused.
fn code_of_system(kind: io::ErrorKind) -> ErrorCode {
    match kind {
        io::ErrorKind::NotFound => ErrorCode::NO_SUCH_FILE,
        io::ErrorKind::AlreadyExists => ErrorCode::FILE_EXISTS,
        io::ErrorKind::PermissionDenied => ErrorCode::FILE_ACCESS,
        io::ErrorKind::ReadOnlyFilesystem => ErrorCode::READ_ONLY,
        io::ErrorKind::StorageFull => ErrorCode::NO_SPACE,
        io::ErrorKind::QuotaExceeded => ErrorCode::QUOTA,
        io::ErrorKind::InvalidFilename
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::NotADirectory => ErrorCode::FILE_NAME,
        io::ErrorKind::ResourceBusy | io::ErrorKind::ExecutableFileBusy => ErrorCode::FILE_IN_USE,
        _ => ErrorCode::FILE_IO,
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Failed(failure) => write!(f, "{failure}"),
            FileError::NotCreated(error) => write!(f, "{error}"),
            FileError::Window(error) => write!(f, "{error}"),
            FileError::System(error) => write!(f, "{error}"),
            FileError::Elsewhere { rank, trouble } => {
                write!(f, "the call failed at rank {rank}: {trouble}")
            }
            FileError::NotSame(what) => write!(f, "ranks passed different values: {what}"),
            FileError::TooFar => {
                write!(f, "the access is beyond the largest offset, or the view has no bytes")
            }
            FileError::BeforeBeginning => {
                write!(f, "the position would be before the beginning of the view")
            }
        }
    }
}

pub(crate) type FileResult<T = ()> = std::result::Result<T, FileError>;

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
