//! Initialisation, finalisation, and queries about the library.

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;
use std::time::Instant;

use ferrywire_mpi::info::Info;
use ferrywire_runtime::trace;

use crate::calls::entry::{answers, entries};
use crate::calls::environment::membership;
use crate::convert::constants::{
    MPI_COMM_SELF, MPI_MAX_LIBRARY_VERSION_STRING, MPI_MAX_PROCESSOR_NAME, MPI_SUBVERSION,
    MPI_THREAD_MULTIPLE, MPI_THREAD_SINGLE, MPI_VERSION,
};
use crate::convert::pointer::{Out, TextOut};
use crate::convert::types::{MPI_Comm, MPI_Info};
use crate::objects::comm;
use crate::objects::info;
use crate::objects::process;

entries! {
    fn MPI_Init(_argc: Out<c_int>, _argv: Out<*mut *mut c_char>) {
        membership::initialize(MPI_THREAD_SINGLE)?;
        trace::joined_in(CALL);
        Ok(())
    }

    fn MPI_Init_thread(
        _argc: Out<c_int>, _argv: Out<*mut *mut c_char>, required: c_int, provided: Out<c_int>,
    ) {
        let level = required.clamp(MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE);
        membership::initialize(level)?;
        trace::joined_in(CALL);
        provided.put(level)
    }

    fn MPI_Initialized(flag: Out<c_int>) {
        flag.put(process::is_started().into())
    }

    fn MPI_Finalize() {
        let process = process::initialized()?;
        process.rank().facts().call(CALL, 0, None, 0);
        if !process.rank().driver().is_forked() {
            // The standard: as if MPI_COMM_SELF were freed, before anything else.
            process.itself.attributes.delete_all(MPI_COMM_SELF.0)?;
        }
        membership::finalize();
        Ok(())
    }

    fn MPI_Finalized(flag: Out<c_int>) {
        flag.put(process::is_finished().into())
    }

    fn MPI_Abort(comm: MPI_Comm, errorcode: c_int) {
        let of = comm::find(comm).map(|comm| format!(" for {}", comm.name())).unwrap_or_default();
        process::abort(errorcode, &format!("MPI_Abort was called{of} with code {errorcode}"))
    }

    fn MPI_Query_thread(provided: Out<c_int>) {
        provided.put(membership::initialized_by()?.0)
    }

    fn MPI_Is_thread_main(flag: Out<c_int>) {
        let (_, main) = membership::initialized_by()?;
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
