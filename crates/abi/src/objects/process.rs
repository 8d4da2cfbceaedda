//! This process as a rank of a job: the state that all calls share.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::thread::ThreadId;

use ferrywire_host::Rank;
use ferrywire_runtime as runtime;

use crate::convert::constants::{MPI_ERR_OTHER, MPI_ERR_UNKNOWN};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::Shared;
use crate::objects::Plane;
use crate::objects::communicator::Comm;

/// A rank, from MPI_Init to MPI_Finalize.
pub(crate) struct Process {
    /// The process as the runtime sees it.
    pub(crate) runtime: &'static runtime::Process,
    /// MPI_COMM_WORLD.
    pub(crate) world: Shared<Comm>,
    /// MPI_COMM_SELF.
    pub(crate) itself: Shared<Comm>,
    /// The thread level.
    pub(crate) thread_level: c_int,
    /// The thread that called MPI_Init.
    pub(crate) main_thread: ThreadId,
}

impl Process {
    /// The rank of the process in its job.
    #[inline]
    pub(crate) fn rank(&self) -> &'static Rank {
        self.runtime.rank()
    }
}

/// The process while MPI is initialized; null before and after.
static RUNNING: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
/// The process after MPI_Finalize. It is not freed, because references to it may remain; this pointer keeps leak
/// checkers from reporting it.
static LEFT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
static STARTED: AtomicBool = AtomicBool::new(false);
static FINISHED: AtomicBool = AtomicBool::new(false);

/// The process, while MPI is running.
#[inline]
pub(crate) fn running() -> Result<&'static Process> {
    let process = RUNNING.load(Ordering::Acquire);
    if process.is_null() {
        return Err(not_running());
    }
    // SAFETY: `begin` leaked it, and it is never freed.
    Ok(unsafe { &*process })
}

#[cold]
fn not_running() -> Failure {
    let why = match is_finished() {
        true => "MPI_Finalize has been called",
        false => "MPI_Init has not been called",
    };
    Failure::new(MPI_ERR_OTHER, why)
}

/// The plane of the predefined communicators.
pub(crate) fn first_plane() -> Result<Plane> {
    Ok(running()?.runtime.first_plane())
}

/// Whether MPI_Init has been called.
pub(crate) fn is_started() -> bool {
    STARTED.load(Ordering::Acquire)
}

/// Whether MPI_Finalize has been called.
pub(crate) fn is_finished() -> bool {
    FINISHED.load(Ordering::Acquire)
}

/// Initializes MPI with this process.
pub(crate) fn begin(process: Process) {
    RUNNING.store(Box::into_raw(Box::new(process)), Ordering::Release);
    STARTED.store(true, Ordering::Release);
}

/// Finalizes MPI.
pub(crate) fn end() {
    let left = RUNNING.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // Swapped, because the optimiser removes a variable that is only written.
    LEFT.swap(left, Ordering::AcqRel);
    FINISHED.store(true, Ordering::Release);
}

/// Ends the job.
pub(crate) fn abort(code: c_int, text: &str) -> ! {
    match running() {
        Ok(process) => process.rank().abort(code, text),
        Err(_) => {
            eprintln!("ferrywire: {text}");
            die(code)
        }
    }
}

/// Ends this process, which is in no job.
pub(crate) fn die(code: c_int) -> ! {
    std::process::exit(if code == 0 { MPI_ERR_UNKNOWN } else { code.clamp(1, 255) })
}
