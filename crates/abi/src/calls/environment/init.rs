//! Initialisation, finalisation, and queries about the library.

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use ferrywire_host::{bootstrap, job, stdio};
use ferrywire_mpi::comm::Comm as Members;
use ferrywire_mpi::group::Group;
use ferrywire_mpi::info::Info;
use ferrywire_runtime as runtime;

use crate::calls::entry::{answers, entries};
use crate::calls::point_to_point::buffered;
use crate::convert::constants::{
    MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERR_OTHER, MPI_MAX_LIBRARY_VERSION_STRING,
    MPI_MAX_PROCESSOR_NAME, MPI_SUBVERSION, MPI_THREAD_MULTIPLE, MPI_THREAD_SINGLE, MPI_VERSION,
};
use crate::convert::failure::{self, Failure, Result};
use crate::convert::handle;
use crate::convert::pointer::{Out, TextOut};
use crate::convert::types::{MPI_Comm, MPI_Info};
use crate::objects::comm::{self, Comm};
use crate::objects::info;
use crate::objects::op::OPERATORS;
use crate::objects::process::{self, Process};
use crate::objects::request;

entries! {
    fn MPI_Init(_argc: Out<c_int>, _argv: Out<*mut *mut c_char>) {
        start(MPI_THREAD_SINGLE)
    }

    fn MPI_Init_thread(
        _argc: Out<c_int>, _argv: Out<*mut *mut c_char>, required: c_int, provided: Out<c_int>,
    ) {
        let level = required.clamp(MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE);
        start(level)?;
        provided.put(level)
    }

    fn MPI_Initialized(flag: Out<c_int>) {
        flag.put(process::is_started().into())
    }

    fn MPI_Finalize() {
        let process = process::running()?;
        if !process.rank().driver().is_forked() {
            // The standard: as if MPI_COMM_SELF were freed, before anything else.
            process.itself.attributes.delete_all(MPI_COMM_SELF.0)?;
        }
        finish()
    }

    fn MPI_Finalized(flag: Out<c_int>) {
        flag.put(process::is_finished().into())
    }

    fn MPI_Abort(comm: MPI_Comm, errorcode: c_int) {
        let of = comm::find(comm).map(|comm| format!(" for {}", comm.name())).unwrap_or_default();
        process::abort(errorcode, &format!("MPI_Abort was called{of} with code {errorcode}"))
    }

    fn MPI_Query_thread(provided: Out<c_int>) {
        provided.put(process::running()?.thread_level)
    }

    fn MPI_Is_thread_main(flag: Out<c_int>) {
        let main = process::running()?.main_thread;
        flag.put((main == std::thread::current().id()).into())
    }

    fn MPI_Get_version(version: Out<c_int>, subversion: Out<c_int>) {
        version.put(MPI_VERSION)?;
        subversion.put(MPI_SUBVERSION)
    }

    fn MPI_Get_library_version(version: TextOut, resultlen: Out<c_int>) {
        version.put_counted(LIBRARY, MPI_MAX_LIBRARY_VERSION_STRING, resultlen)
    }

    fn MPI_Get_processor_name(name: TextOut, resultlen: Out<c_int>) {
        name.put_counted(&info::host(), MPI_MAX_PROCESSOR_NAME, resultlen)
    }

    fn MPI_Get_hw_resource_info(hw_info: Out<MPI_Info>) {
        // The hardware topology is not known here, so there are no resources to split by.
        hw_info.put(info::create(Info::default()))
    }

    fn MPI_Pcontrol(_level: c_int) {
        Ok(())
    }
}

/// Joins the job.
fn start(thread_level: c_int) -> Result {
    static STARTING: Mutex<()> = Mutex::new(());
    let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if process::is_started() {
        return Err(Failure::new(MPI_ERR_OTHER, "MPI has already been initialised"));
    }
    if std::env::var_os(bootstrap::VARIABLE).is_some() {
        stdio::buffer_lines();
    }
    flush_when_we_panic();
    let rank = job::join(|name| std::env::var(name).ok(), OPERATORS)
        .map_err(|error| failure::internal(format!("this process cannot join its job: {error}")))?;
    // Leaked, because every communicator refers to it, and the program may keep some to the end.
    let has_threads = thread_level == MPI_THREAD_MULTIPLE;
    let runtime: &'static runtime::Process =
        Box::leak(Box::new(runtime::Process::new(rank, ITSELF + 1, has_threads)));
    let me = runtime.rank().driver().me();
    let world = Members::new(Group::whole(runtime.rank().driver().size()), me.0, WORLD);
    let itself = Members::new(Group::of(&[me]), 0, ITSELF);
    let predefined =
        |members, handle, name| handle::share(Comm::predefined(members, runtime, handle, name));
    let process = Process {
        runtime,
        world: predefined(world, MPI_COMM_WORLD, "MPI_COMM_WORLD"),
        itself: predefined(itself, MPI_COMM_SELF, "MPI_COMM_SELF"),
        thread_level,
        main_thread: std::thread::current().id(),
    };
    process::begin(process);
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

/// Leaves the job when all receivers have taken the messages of this rank.
fn finish() -> Result {
    let process = process::running()?;
    // A forked child that finalises, such as those of mpi4py, leaves the job to its parent.
    if !process.rank().driver().is_forked() {
        // MPI 5.0 §11.2.2: sends are completed even if the program has no request left to wait for them.
        request::complete_orphans();
        buffered::complete_all();
        process.rank().leave();
    }
    process::end();
    Ok(())
}

answers! {
    fn MPI_Wtime() -> f64 {
        beginning().elapsed().as_secs_f64()
    }

    fn MPI_Wtick() -> f64 {
        1e-9
    }
}

/// The version string of the library.
const LIBRARY: &str =
    concat!("Ferrywire ", env!("CARGO_PKG_VERSION"), ", MPI 5.0, standard ABI 1.0");

/// The origin of MPI_Wtime.
fn beginning() -> Instant {
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    *BEGINNING.get_or_init(Instant::now)
}

/// The number of MPI_COMM_WORLD.
const WORLD: u16 = 0;
/// The number of MPI_COMM_SELF.
const ITSELF: u16 = 1;
