//! Files, with everything that a C program attaches to them.

use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrywire_host::ErrorCode;
use ferrywire_mpi::datatype::Datatype;
use ferrywire_mpi::info::Info;
use ferrywire_runtime::{self as runtime, File, FileAccess, FileError, FileHints, Trouble};

use crate::convert::constants::{
    MPI_ERR_ACCESS, MPI_ERR_ARG, MPI_ERR_BAD_FILE, MPI_ERR_FILE, MPI_ERR_FILE_EXISTS,
    MPI_ERR_FILE_IN_USE, MPI_ERR_IO, MPI_ERR_NO_SPACE, MPI_ERR_NO_SUCH_FILE, MPI_ERR_NOT_SAME,
    MPI_ERR_QUOTA, MPI_ERR_READ_ONLY, MPI_ERR_UNSUPPORTED_OPERATION, MPI_FILE_NULL,
    MPI_MODE_SEQUENTIAL,
};
use crate::convert::failure::{Failure, Owner, Result};
use crate::convert::handle::{self, Kind, Object, Shared};
use crate::convert::types::MPI_File;
use crate::objects::communicator::Comm;
use crate::objects::errhandler::{self, Handler};
use crate::objects::representation::Representation;
use crate::objects::request::Request;

/// A file of the program.
pub(crate) struct OpenFile {
    pub(crate) file: File,
    /// A communicator of its own, so that its messages meet no others.
    pub(crate) comm: Shared<Comm>,
    pub(crate) path: PathBuf,
    pub(crate) amode: c_int,
    view: Mutex<ViewTypes>,
    split: Mutex<Option<(SplitCall, Request)>>,
    handler: Mutex<Handler>,
    info: Mutex<Info>,
}

/// The arguments of MPI_File_set_view.
#[derive(Clone)]
pub(crate) struct ViewTypes {
    pub(crate) etype: Datatype,
    pub(crate) filetype: Datatype,
    pub(crate) representation: Representation,
}

/// Which of the split collective calls has begun.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SplitCall {
    ReadAt,
    WriteAt,
    Read,
    Write,
    ReadOrdered,
    WriteOrdered,
}

impl Kind for OpenFile {
    const MARK: u32 = 0x4649_4c45;
    const ERROR: c_int = MPI_ERR_FILE;
    const NAME: &'static str = "file";
}

impl OpenFile {
    /// A file, with its communicator. Its error handler is that of MPI_FILE_NULL.
    pub(crate) fn new(
        file: File,
        comm: Shared<Comm>,
        (path, amode): (PathBuf, c_int),
        info: Info,
    ) -> OpenFile {
        let byte = Datatype::by_name("MPI_BYTE").expect("it is predefined");
        let representation = Representation::Native("native");
        let view = ViewTypes { etype: byte.clone(), filetype: byte, representation };
        OpenFile {
            file,
            comm,
            path,
            amode,
            view: Mutex::new(view),
            split: Mutex::new(None),
            handler: Mutex::new(default_handler().clone()),
            info: Mutex::new(info),
        }
    }

    /// The communicator as the runtime sees it, for a call of one rank.
    pub(crate) fn runtime(&self) -> runtime::Comm<'_> {
        self.comm.runtime()
    }

    /// The communicator as the runtime sees it, for a collective call: those that began before are over.
    pub(crate) fn together(&self) -> runtime::Comm<'_> {
        self.file.wait_for_started();
        self.comm.runtime()
    }

    /// Fails in a collective call of all ranks.
    pub(crate) fn refuse(&self, failure: Failure) -> Failure {
        refuse(self.together(), failure)
    }

    /// The arguments of MPI_File_set_view.
    pub(crate) fn view(&self) -> ViewTypes {
        lock(&self.view).clone()
    }

    /// Sets the arguments of MPI_File_set_view.
    pub(crate) fn set_view(&self, view: ViewTypes) {
        *lock(&self.view) = view;
    }

    /// The split collective call that has begun.
    pub(crate) fn split(&self) -> MutexGuard<'_, Option<(SplitCall, Request)>> {
        lock(&self.split)
    }

    /// The error handler.
    pub(crate) fn handler(&self) -> Handler {
        lock(&self.handler).clone()
    }

    /// Sets the error handler.
    pub(crate) fn set_handler(&self, handler: Handler) {
        *lock(&self.handler) = handler;
    }

    /// The hints that the program has set.
    pub(crate) fn info(&self) -> MutexGuard<'_, Info> {
        lock(&self.info)
    }

    /// Checks that the file may be read.
    pub(crate) fn check_readable(&self) -> Result {
        match self.file.mode().access {
            FileAccess::Write => Err(Failure::new(
                MPI_ERR_ACCESS,
                "the file is open in MPI_MODE_WRONLY, and cannot be read",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that the file may be written.
    pub(crate) fn check_writable(&self) -> Result {
        match self.file.mode().access {
            FileAccess::Read => Err(Failure::new(
                MPI_ERR_READ_ONLY,
                "the file is open in MPI_MODE_RDONLY, and cannot be written",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that a call is allowed in a file of any access mode but sequential.
    pub(crate) fn check_not_sequential(&self) -> Result {
        match self.amode & MPI_MODE_SEQUENTIAL {
            0 => Ok(()),
            _ => {
                let why =
                    "the file is open in MPI_MODE_SEQUENTIAL, which allows only the shared pointer";
                Err(Failure::new(MPI_ERR_UNSUPPORTED_OPERATION, why).coded(ErrorCode::SEQUENTIAL))
            }
        }
    }
}

/// Fails in a collective call of all ranks.
pub(crate) fn refuse(comm: runtime::Comm<'_>, failure: Failure) -> Failure {
    let class = crate::convert::failure::class_of(failure.code());
    match comm.refuse_file_call(class) {
        // Our own failure says more.
        FileError::Elsewhere { trouble, .. } if trouble == Trouble::Refused(class) => failure,
        other => other.into(),
    }
}

/// The hints that we understand.
pub(crate) fn hints(info: &Info) -> FileHints {
    let default = FileHints::default();
    let number = |key| info.value(key).and_then(|value| value.trim().parse().ok());
    FileHints {
        aggregators: number("cb_nodes").and_then(|count: u64| u32::try_from(count).ok()),
        buffer_bytes: number("cb_buffer_size").unwrap_or(default.buffer_bytes),
        gathers: match info.value("collective_buffering") {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => default.gathers,
        },
        syncs_on_close: info.value("ferrywire_sync_on_close") != Some("false"),
    }
}

impl Owner for Object<OpenFile> {
    fn title(&self) -> String {
        format!("\"{}\"", self.path.display())
    }

    fn tell(&self, code: c_int) -> bool {
        errhandler::call(&self.handler(), std::ptr::from_ref(self).addr(), code)
    }
}

/// The owner of errors that belong to no open file.
struct NoFile;

impl Owner for NoFile {
    fn title(&self) -> String {
        "MPI_FILE_NULL".into()
    }

    fn tell(&self, code: c_int) -> bool {
        let handler = default_handler().clone();
        errhandler::call(&handler, MPI_FILE_NULL.0, code)
    }
}

/// The default error handler of files.
pub(crate) fn default_handler() -> MutexGuard<'static, Handler> {
    static FILES: Mutex<Handler> = Mutex::new(Handler::Return);
    lock(&FILES)
}

/// The file that a handle names.
pub(crate) fn find<'a>(handle: MPI_File) -> Result<&'a Object<OpenFile>> {
    match handle {
        MPI_FILE_NULL => Err(Failure::new(MPI_ERR_FILE, "the file is MPI_FILE_NULL")),
        MPI_File(address) => handle::find(address),
    }
}

/// A share of the file that a handle names.
pub(crate) fn share_of(handle: MPI_File) -> Result<Shared<OpenFile>> {
    find(handle)?;
    handle::share_of(handle.0)
}

/// The owner of errors of a handle: MPI_FILE_NULL if it names no file.
pub(crate) fn owner_of(handle: MPI_File) -> Arc<dyn Owner> {
    match share_of(handle) {
        Ok(file) => file,
        Err(_) => Arc::new(NoFile),
    }
}

/// A new handle of a file.
pub(crate) fn expose(file: OpenFile) -> MPI_File {
    MPI_File(handle::expose(handle::share(file)))
}

impl From<FileError> for Failure {
    #[cold]
    fn from(error: FileError) -> Failure {
        let class = match &error {
            FileError::Failed(_) | FileError::NotCreated(_) | FileError::Window(_) => {
                return match error {
                    FileError::Failed(failure) => failure.into(),
                    FileError::NotCreated(error) => error.into(),
                    FileError::Window(error) => error.into(),
                    _ => unreachable!("it is one of these"),
                };
            }
            FileError::System(error) => class_of_system(error.raw_os_error().unwrap_or(0)),
            FileError::Elsewhere { trouble: Trouble::System(number), .. } => {
                class_of_system(*number)
            }
            FileError::Elsewhere { trouble: Trouble::Refused(class), .. } => *class,
            FileError::NotSame(_) => MPI_ERR_NOT_SAME,
            FileError::TooFar => class_of_system(libc::EFBIG),
            FileError::BeforeBeginning => MPI_ERR_ARG,
        };
        Failure::new(class, error.to_string()).coded(error.code())
    }
}

/// The error class of an error number of the system.
pub(crate) fn class_of_system(number: c_int) -> c_int {
    match number {
        libc::ENOENT => MPI_ERR_NO_SUCH_FILE,
        libc::EEXIST => MPI_ERR_FILE_EXISTS,
        libc::EACCES | libc::EPERM => MPI_ERR_ACCESS,
        libc::EROFS => MPI_ERR_READ_ONLY,
        libc::ENOSPC => MPI_ERR_NO_SPACE,
        libc::EDQUOT => MPI_ERR_QUOTA,
        libc::ETXTBSY | libc::EBUSY => MPI_ERR_FILE_IN_USE,
        libc::EINVAL => MPI_ERR_ARG,
        libc::EISDIR | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ELOOP | libc::ENXIO => {
            MPI_ERR_BAD_FILE
        }
        _ => MPI_ERR_IO,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
