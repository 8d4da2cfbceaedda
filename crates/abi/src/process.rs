//! This process as a rank of a job: what all calls have in common.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;

use ferrywire_host::{Rank, job, meet, stdio};
use ferrywire_mpi::comm::Comm as Members;
use ferrywire_mpi::group::Group;
use ferrywire_runtime as runtime;

use crate::buffered;
use crate::comm::Comm;
use crate::constants::{MPI_ERR_OTHER, MPI_ERR_UNKNOWN, MPI_THREAD_MULTIPLE};
use crate::error;
use crate::failure::{self, Failure, Result};
use crate::handle::{self, Shared};
use crate::op::OPERATORS;
use crate::request;

/// A rank, from MPI_Init to MPI_Finalize.
pub(crate) struct Process {
    /// The rank that it is of its job.
    pub(crate) runtime: &'static runtime::Process,
    /// MPI_COMM_WORLD.
    pub(crate) world: Shared<Comm>,
    /// MPI_COMM_SELF.
    pub(crate) itself: Shared<Comm>,
    /// What threads may do.
    pub(crate) thread_level: c_int,
    /// The thread that called MPI_Init.
    pub(crate) main_thread: ThreadId,
}

/// A plane of the process, which lasts as long as that does.
pub(crate) type Plane = runtime::Plane<'static>;

impl Process {
    /// The rank that it is of its job.
    #[inline]
    pub(crate) fn rank(&self) -> &'static Rank {
        self.runtime.rank()
    }
}

/// There while MPI is: null before, and after.
static RUNNING: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
/// What was there before the end. References to it may be kept, so it is not freed; and a tool that looks for memory
/// that nobody has finds it here.
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
    // SAFETY: it was leaked by `start`, and is never freed.
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

/// Joins the job.
pub(crate) fn start(thread_level: c_int) -> Result {
    static STARTING: Mutex<()> = Mutex::new(());
    let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_started() {
        return Err(Failure::new(MPI_ERR_OTHER, "MPI has been initialised already"));
    }
    if std::env::var_os(meet::VARIABLE).is_some() {
        stdio::buffer_lines();
    }
    flush_when_we_panic();
    let rank = job::join(|name| std::env::var(name).ok(), OPERATORS)
        .map_err(|error| failure::internal(format!("this process cannot join its job: {error}")))?;
    // Every communicator refers to it, and the program may keep some to the end.
    let has_threads = thread_level == MPI_THREAD_MULTIPLE;
    let runtime: &'static runtime::Process =
        Box::leak(Box::new(runtime::Process::new(rank, ITSELF + 1, has_threads)));
    let me = runtime.rank().me();
    let world = Members::new(Group::whole(runtime.rank().size()), me.0, WORLD);
    let itself = Members::new(Group::of(&[me]), 0, ITSELF);
    let predefined = |members, name| handle::share(Comm::predefined(members, runtime, name));
    let process = Process {
        runtime,
        world: predefined(world, "MPI_COMM_WORLD"),
        itself: predefined(itself, "MPI_COMM_SELF"),
        thread_level,
        main_thread: std::thread::current().id(),
    };
    RUNNING.store(Box::into_raw(Box::new(process)), Ordering::Release);
    STARTED.store(true, Ordering::Release);
    Ok(())
}

/// A panic in this library, which has a standard library of its own, aborts the process.
fn flush_when_we_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        stdio::flush_all();
    }));
}

/// Leaves the job, when everybody has taken what we sent.
pub(crate) fn finish() -> Result {
    let process = running()?;
    // A child that ends in order, as those of mpi4py do, leaves the job to its parent.
    if !process.rank().is_forked() {
        // MPI 5.0 §11.2.2: what was sent goes on to its end, though the program has nothing to wait for it with.
        request::complete_orphans();
        buffered::complete_all();
        process.rank().leave();
    }
    let left = RUNNING.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // Swapped, since a variable that is only stored to is optimised away.
    LEFT.swap(left, Ordering::AcqRel);
    FINISHED.store(true, Ordering::Release);
    Ok(())
}

/// Ends the job because of an error that nobody wanted to handle.
pub(crate) fn abort_for(code: c_int) -> ! {
    abort(failure::class_of(code).clamp(1, 255), &error::text(code))
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

/// Ends this process, which has no job to end.
pub(crate) fn die(code: c_int) -> ! {
    std::process::exit(if code == 0 { MPI_ERR_UNKNOWN } else { code.clamp(1, 255) })
}

/// The number of MPI_COMM_WORLD.
const WORLD: u16 = 0;
/// The number of MPI_COMM_SELF.
const ITSELF: u16 = 1;
