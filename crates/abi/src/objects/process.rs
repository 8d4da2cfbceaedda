//! This process as a rank of a job: the state that all calls share.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use ferrywire_host::ErrorCode;
use ferrywire_host::Rank;
use ferrywire_runtime::trace::{self, TracedCall};
use ferrywire_runtime::{self as runtime, CallName};

use crate::convert::constants::{MPI_COMM_NULL, MPI_ERR_OTHER, MPI_ERR_UNKNOWN};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::Shared;
use crate::convert::types::MPI_Comm;
use crate::objects::Plane;
use crate::objects::communicator::Comm;

/// A rank, from the moment it joins its job until it leaves. The program has it by MPI_Init or by sessions.
pub(crate) struct Process {
    /// The process as the runtime sees it.
    pub(crate) runtime: &'static runtime::Process,
    /// MPI_COMM_WORLD.
    pub(crate) world: Shared<Comm>,
    /// MPI_COMM_SELF.
    pub(crate) itself: Shared<Comm>,
    /// The universe, which the program never sees. Groups without a parent agree on a number in it.
    pub(crate) common: Shared<Comm>,
    /// The handle of the intercommunicator with the ranks that spawned this one, or MPI_COMM_NULL.
    pub(crate) parent: AtomicUsize,
}

impl Process {
    /// The intercommunicator with the ranks that spawned this one, until it is freed.
    pub(crate) fn parent(&self) -> MPI_Comm {
        MPI_Comm(self.parent.load(Ordering::Acquire))
    }

    /// Forgets a communicator that is freed, if it is that.
    pub(crate) fn forget_parent(&self, freed: MPI_Comm) {
        let null = MPI_COMM_NULL.0;
        // Another communicator may be at its place later.
        let _ = self.parent.compare_exchange(freed.0, null, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The rank of the process in its job.
    #[inline]
    pub(crate) fn rank(&self) -> &'static Rank {
        self.runtime.rank()
    }
}

/// The process while it is in the job; null before and after.
static RUNNING: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
/// The process between MPI_Init and MPI_Finalize; null before and after.
static INITIALIZED: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
/// The process after it has left. It is not freed, because references to it may remain; this pointer keeps leak
/// checkers from reporting it.
static LEFT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
static STARTED: AtomicBool = AtomicBool::new(false);
static FINISHED: AtomicBool = AtomicBool::new(false);
/// Whether calls are recorded in a trace. It stands here, since a flag of another crate is two instructions further away.
static TRACED: AtomicBool = AtomicBool::new(false);

/// The process, while it is in the job.
#[inline]
pub(crate) fn running() -> Result<&'static Process> {
    find(&RUNNING)
}

/// The process, between MPI_Init and MPI_Finalize: while MPI_COMM_WORLD and MPI_COMM_SELF exist.
#[inline]
pub(crate) fn initialized() -> Result<&'static Process> {
    find(&INITIALIZED)
}

#[inline]
fn find(place: &AtomicPtr<Process>) -> Result<&'static Process> {
    let process = place.load(Ordering::Acquire);
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
    Failure::new(MPI_ERR_OTHER, why).coded(ErrorCode::NOT_INITIALISED)
}

/// The plane of the predefined communicators.
pub(crate) fn first_plane() -> Result<Plane> {
    Ok(running()?.runtime.first_plane())
}

/// Records the name of a call. The call ends when the result is dropped.
#[inline(never)]
pub(crate) fn note_plain(name: CallName) -> Option<TracedCall> {
    if let Ok(process) = running() {
        process.rank().facts().plain(name);
    }
    traced(name)
}

/// Records a call in the trace, if there is one. The call ends when the result is dropped.
pub(crate) fn traced(name: CallName) -> Option<TracedCall> {
    is_traced().then(|| TracedCall::begin(name))
}

/// Whether calls are recorded in a trace.
#[inline(always)]
pub(crate) fn is_traced() -> bool {
    TRACED.load(Ordering::Relaxed)
}

/// Whether MPI_Init has been called.
pub(crate) fn is_started() -> bool {
    STARTED.load(Ordering::Acquire)
}

/// Whether MPI_Finalize has been called.
pub(crate) fn is_finished() -> bool {
    FINISHED.load(Ordering::Acquire)
}

/// Makes this process a rank of its job.
pub(crate) fn begin(process: Process) {
    TRACED.store(trace::is_on(), Ordering::Relaxed);
    RUNNING.store(Box::into_raw(Box::new(process)), Ordering::Release);
}

/// Begins what MPI_Init begins. The process is in the job.
pub(crate) fn initialize() {
    INITIALIZED.store(RUNNING.load(Ordering::Acquire), Ordering::Release);
    STARTED.store(true, Ordering::Release);
}

/// Ends what MPI_Finalize ends.
pub(crate) fn finalize() {
    INITIALIZED.store(std::ptr::null_mut(), Ordering::Release);
    FINISHED.store(true, Ordering::Release);
}

/// The process has left its job.
pub(crate) fn end() {
    let left = RUNNING.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // Swapped, because the optimiser removes a variable that is only written.
    LEFT.swap(left, Ordering::AcqRel);
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
