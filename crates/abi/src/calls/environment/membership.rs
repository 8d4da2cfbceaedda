//! When this process joins its job, and when it leaves.
//!
//! The first of MPI_Init and MPI_Session_init joins. A process cannot join twice, so one that has opened a session stays
//! until it exits: it may open another at any time. One that has not leaves with MPI_Finalize, since what it does later
//! has nothing to do with MPI: it may run another program, or end in ways that we do not see.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

use ferrywire_host::ErrorCode;
use ferrywire_host::job_limits::LIMIT_VARIABLE;
use ferrywire_host::{HoldReports, bootstrap, job, stdio};
use ferrywire_mpi::comm::Comm as Members;
use ferrywire_mpi::group::Group;
use ferrywire_runtime as runtime;

use crate::calls::point_to_point::buffered;
use crate::convert::constants::{
    MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERR_OTHER, MPI_THREAD_MULTIPLE,
};
use crate::convert::failure::{self, Failure, Result};
use crate::convert::handle;
use crate::objects::check;
use crate::objects::communicator::Comm;
use crate::objects::mistake;
use crate::objects::op::OPERATORS;
use crate::objects::process::{self, Process};
use crate::objects::request;
use crate::tool::{control, event};

/// What keeps this process in its job.
struct Membership {
    /// Between MPI_Init and MPI_Finalize.
    initialized: bool,
    /// The open sessions.
    sessions: usize,
    /// Whether there ever was a session.
    had_session: bool,
    /// The highest thread level that the program has asked for.
    thread_level: c_int,
}

static MEMBERSHIP: Mutex<Membership> =
    Mutex::new(Membership { initialized: false, sessions: 0, had_session: false, thread_level: 0 });

fn membership() -> MutexGuard<'static, Membership> {
    MEMBERSHIP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread level and the thread of MPI_Init.
static INITIALIZED_BY: OnceLock<(c_int, ThreadId)> = OnceLock::new();

/// The thread level and the thread of MPI_Init, which has been called.
pub(crate) fn initialized_by() -> Result<(c_int, ThreadId)> {
    process::initialized()?;
    Ok(*INITIALIZED_BY.get().expect("MPI_Init sets it"))
}

/// Begins what MPI_Init begins.
pub(crate) fn initialize(thread_level: c_int) -> Result {
    let mut membership = membership();
    if process::is_started() {
        return Err(Failure::new(MPI_ERR_OTHER, "MPI has already been initialised")
            .coded(ErrorCode::INITIALISED_TWICE));
    }
    join(thread_level)?;
    INITIALIZED_BY.get_or_init(|| (thread_level, std::thread::current().id()));
    membership.initialized = true;
    membership.thread_level = membership.thread_level.max(thread_level);
    process::initialize();
    Ok(())
}

/// Ends what MPI_Finalize ends.
pub(crate) fn finalize() {
    let mut membership = membership();
    membership.initialized = false;
    if !membership.had_session {
        leave();
    }
    process::finalize();
}

/// Opens a session. Returns its thread level, which is at least that of all others.
pub(crate) fn open_session(thread_level: c_int) -> Result<c_int> {
    let mut membership = membership();
    if process::is_finished() && !membership.had_session {
        let why = "this process left its job with MPI_Finalize, because it had opened no session before: open one before \
                   MPI_Finalize to stay";
        return Err(Failure::new(MPI_ERR_OTHER, why).coded(ErrorCode::NOT_INITIALISED));
    }
    join(thread_level)?;
    if !membership.had_session {
        // SAFETY: the function has the right type, and this library is not unloaded while it is in a job.
        unsafe { libc::atexit(leave_at_exit) };
    }
    membership.had_session = true;
    membership.sessions += 1;
    membership.thread_level = membership.thread_level.max(thread_level);
    Ok(membership.thread_level)
}

/// Closes a session.
pub(crate) fn close_session() {
    membership().sessions -= 1;
}

/// Leaves the job when the process exits. If the program has not closed all that it opened, it does not leave, and the
/// launcher reports it.
extern "C" fn leave_at_exit() {
    // A thread that has the lock is ending the process, and did not get to leave.
    let Ok(membership) = MEMBERSHIP.try_lock() else { return };
    if !membership.initialized && membership.sessions == 0 {
        leave();
    }
}

/// Joins the job, unless this process is in it.
fn join(thread_level: c_int) -> Result {
    let has_threads = thread_level == MPI_THREAD_MULTIPLE;
    if let Ok(process) = process::running() {
        if has_threads {
            process.runtime.add_threads();
            check::begin(true);
        }
        return Ok(());
    }
    if std::env::var_os(bootstrap::VARIABLE).is_some() {
        stdio::buffer_lines();
    }
    flush_when_we_panic();
    let read = |name: &str| match name {
        LIMIT_VARIABLE => control::limits_wanted(),
        _ => std::env::var(name).ok(),
    };
    let rank = job::join(read, OPERATORS)
        .map_err(|error| {
            failure::internal(format!("this process cannot join its job: {error}"))
                .coded(error.code())
        })?
        .reporting_to(event::on_report);
    // Leaked, because every communicator refers to it, and the program may keep some to the end.
    let runtime: &'static runtime::Process =
        Box::leak(Box::new(runtime::Process::new(rank, COMMON + 1, has_threads)));
    let world = runtime.world(WORLD);
    let itself = Members::new(Group::of(&[runtime.rank().driver().me()]), 0, ITSELF);
    let common = runtime.universe().renumbered(COMMON);
    let predefined =
        |members, handle, name| handle::share(Comm::predefined(members, runtime, handle, name));
    process::begin(Process {
        runtime,
        world: predefined(world, MPI_COMM_WORLD, "MPI_COMM_WORLD"),
        itself: predefined(itself, MPI_COMM_SELF, "MPI_COMM_SELF"),
        common: predefined(common, MPI_COMM_NULL, "all ranks"),
        parent: AtomicUsize::new(MPI_COMM_NULL.0),
    });
    check::begin(has_threads);
    meet_parents()
}

/// Connects the world of a spawned rank to the ranks that spawned it, which wait for that.
fn meet_parents() -> Result {
    let process = process::running()?;
    let world = &process.world;
    if process.rank().parent().is_none() {
        return Ok(());
    }
    if let Some(created) = world.runtime().meet_parents(world.members.next_instance())? {
        let comm = Comm::made(created, "the ranks that spawned this one".into(), world)?;
        comm.set_name("MPI_COMM_PARENT".into());
        process.parent.store(handle::expose(handle::share(comm)), Ordering::Release);
    }
    Ok(())
}

/// Flushes the program's output on a panic. This library has its own copy of Rust's standard library, and its panics
/// abort the process.
fn flush_when_we_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        stdio::flush_all();
    }));
}

/// Leaves the job when all receivers have taken the messages of this rank. No callback of a tool runs meanwhile: the
/// caller has the lock of the membership.
fn leave() {
    let _held = HoldReports::new();
    let Ok(process) = process::running() else { return };
    // A forked child that finalises, such as those of mpi4py, leaves the job to its parent.
    if !process.rank().driver().is_forked() {
        mistake::check_requests();
        if check::is_on() {
            mistake::check_objects();
            check::settle_all();
        }
        // MPI 5.0 §11.2.2: sends are completed even if the program has no request left to wait for them.
        request::complete_orphans();
        buffered::complete_all();
        process.rank().leave();
    }
    process::end();
}

/// The number of MPI_COMM_WORLD.
const WORLD: u16 = 0;
/// The number of MPI_COMM_SELF.
const ITSELF: u16 = 1;
/// The number of the universe, in which groups without a parent agree.
const COMMON: u16 = 2;
