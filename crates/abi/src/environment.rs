//! Beginning, end, and what a program may ask about the library.

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;
use std::time::Instant;

use ferrywire_mpi::info::Info;

use crate::comm;
use crate::constants::{
    MPI_COMM_SELF, MPI_MAX_LIBRARY_VERSION_STRING, MPI_MAX_PROCESSOR_NAME, MPI_SUBVERSION,
    MPI_THREAD_MULTIPLE, MPI_THREAD_SINGLE, MPI_VERSION,
};
use crate::entry::{answers, entries};
use crate::info;
use crate::pointer::{Out, TextOut};
use crate::process;
use crate::types::{MPI_Comm, MPI_Info};

entries! {
    fn MPI_Init(_argc: Out<c_int>, _argv: Out<*mut *mut c_char>) {
        process::start(MPI_THREAD_SINGLE)
    }

    fn MPI_Init_thread(
        _argc: Out<c_int>, _argv: Out<*mut *mut c_char>, required: c_int, provided: Out<c_int>,
    ) {
        let level = required.clamp(MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE);
        process::start(level)?;
        provided.put(level)
    }

    fn MPI_Initialized(flag: Out<c_int>) {
        flag.put(process::is_started().into())
    }

    fn MPI_Finalize() {
        let process = process::running()?;
        if !process.rank().is_forked() {
            // The standard: as if MPI_COMM_SELF were freed, and before anything else.
            process.itself.attributes.delete_all(MPI_COMM_SELF.0)?;
        }
        process::finish()
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
        name.put_counted(&host(), MPI_MAX_PROCESSOR_NAME, resultlen)
    }

    fn MPI_Get_hw_resource_info(hw_info: Out<MPI_Info>) {
        // What cores and caches there are is not known here, so there is nothing to split by.
        hw_info.put(info::create(Info::default()))
    }

    fn MPI_Pcontrol(_level: c_int) {
        Ok(())
    }
}

answers! {
    fn MPI_Wtime() -> f64 {
        beginning().elapsed().as_secs_f64()
    }

    fn MPI_Wtick() -> f64 {
        1e-9
    }
}

/// What this machine is called.
pub(crate) fn host() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: there is as much room as it is told.
    let code = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    match code {
        0 => String::from_utf8_lossy(&name[..len]).into_owned(),
        _ => "localhost".into(),
    }
}

/// What the library calls itself.
const LIBRARY: &str =
    concat!("Ferrywire ", env!("CARGO_PKG_VERSION"), ", MPI 5.0, standard ABI 1.0");

/// When the clock began.
fn beginning() -> Instant {
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    *BEGINNING.get_or_init(Instant::now)
}
