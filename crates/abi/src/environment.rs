//! Beginning, end, and what a program may ask about the library.

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;
use std::time::Instant;

use crate::constants::{MPI_COMM_SELF, MPI_THREAD_MULTIPLE, MPI_THREAD_SINGLE};
use crate::entry::{answers, entries};
use crate::pointer::Out;
use crate::process;
use crate::types::MPI_Comm;

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
        // The standard: as if MPI_COMM_SELF were freed, and before anything else.
        process::running()?.itself.attributes.delete_all(MPI_COMM_SELF.0)?;
        process::finish()
    }

    fn MPI_Finalized(flag: Out<c_int>) {
        flag.put(process::is_finished().into())
    }

    fn MPI_Abort(comm: MPI_Comm, errorcode: c_int) {
        let _ = comm;
        process::abort(errorcode, &format!("MPI_Abort was called with code {errorcode}"))
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

/// When the clock began.
fn beginning() -> Instant {
    static BEGINNING: OnceLock<Instant> = OnceLock::new();
    *BEGINNING.get_or_init(Instant::now)
}
