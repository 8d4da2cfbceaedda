//! This process as a rank of a job: what all calls have in common.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

use ferrywire_host::{Rank, Residence, job, meet, stdio};
use ferrywire_mpi::collective::Home;
use ferrywire_mpi::comm::Comm as Members;
use ferrywire_mpi::council::Council;
use ferrywire_mpi::group::Group;
use ferrywire_mpi::numbers::Numbers;

use crate::buffered;
use crate::comm::Comm;
use crate::constants::{MPI_ERR_OTHER, MPI_ERR_UNKNOWN};
use crate::error;
use crate::failure::{self, Failure, Result};
use crate::fault;
use crate::handle::{self, Shared};
use crate::op::OPERATORS;
use crate::plane::Plane;
use crate::request;

/// A rank, from MPI_Init to MPI_Finalize.
pub(crate) struct Process {
    /// What we have of the job: stands for the driver of our first NIC, where the predefined
    /// communicators are.
    pub(crate) driver: &'static Rank,
    /// MPI_COMM_WORLD.
    pub(crate) world: Shared<Comm>,
    /// MPI_COMM_SELF.
    pub(crate) itself: Shared<Comm>,
    /// Which numbers communicators can have.
    pub(crate) numbers: Arc<Numbers>,
    /// What settles things among ranks that die, in a job that goes on without them.
    pub(crate) council: Option<Arc<Residence<Council>>>,
    /// What threads may do.
    pub(crate) thread_level: c_int,
    /// The thread that called MPI_Init.
    pub(crate) main_thread: ThreadId,
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

/// How the ranks of the job live together.
pub(crate) fn home() -> Home {
    match running() {
        Ok(process) if process.driver.has_other_hosts() => Home::Spread,
        Ok(process) if process.driver.is_crowded() => Home::Crowded,
        Ok(_) => Home::Near,
        Err(_) => Home::Spread,
    }
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
    // Every communicator has a reference to its driver, and the program may keep some to the end.
    let driver: &'static Rank = Box::leak(Box::new(rank));
    let me = driver.me();
    let world = Members::new(Group::whole(driver.size()), me.0, WORLD);
    let itself = Members::new(Group::of(&[me]), 0, ITSELF);
    let council = fault::open_council(driver, [&world, &itself]);
    let process = Process {
        driver,
        world: handle::share(Comm::predefined(world, Plane::first_of(driver), "MPI_COMM_WORLD")),
        itself: handle::share(Comm::predefined(itself, Plane::first_of(driver), "MPI_COMM_SELF")),
        numbers: Numbers::new(me, ITSELF + 1),
        council,
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
    if !process.driver.is_forked() {
        // MPI 5.0 §11.2.2: what was sent goes on to its end, though the program has nothing to wait for it with.
        request::complete_orphans();
        buffered::complete_all();
        process.driver.leave();
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
        Ok(process) => process.driver.abort(code, text),
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
