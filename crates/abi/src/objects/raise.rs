//! Who is told of a failure: the error handler of what it belongs to.

use std::ffi::c_int;
use std::sync::Arc;

use crate::convert::failure::{self, Failure, Owner, Result};
use crate::convert::types::MPI_Comm;
use crate::objects::comm;
use crate::objects::error;
use crate::objects::process;

/// Tells the error handler of the communicator that a call was for, or of what the failure belongs to, and answers the
/// code that the call returns.
#[cold]
#[inline(never)]
pub(crate) fn raise(failure: Failure, call: &str, comm: Option<MPI_Comm>) -> c_int {
    // A request has its communicator, whether or not the program has freed that meanwhile.
    let owner = failure.owner().or_else(|| {
        let comm = comm::share_of(comm?).ok()?;
        Some(comm as Arc<dyn Owner>)
    });
    let failure = match &owner {
        Some(owner) => failure.during(format_args!(" in {}", owner.title())),
        None => failure,
    };
    let code = failure.register(call);
    match owner.map_or_else(for_nothing, Ok) {
        Ok(owner) if owner.tell(code) => abort(code),
        Ok(_) => {}
        Err(_) => {
            // Nobody has said what to do with errors, since MPI is not there yet, or not any more.
            eprintln!("ferrywire: {}", error::text(code));
            process::die(failure::class_of(code));
        }
    }
    code
}

/// Whose handler gets errors of calls without a communicator. MPI 4 says MPI_COMM_SELF; programs that were written for
/// earlier versions set that of MPI_COMM_WORLD only, so it is that one until the program says something of MPI_COMM_SELF.
fn for_nothing() -> Result<Arc<dyn Owner>> {
    let process = process::running()?;
    let itself = process.itself.has_own_handler();
    Ok(if itself { Arc::clone(&process.itself) as _ } else { Arc::clone(&process.world) as _ })
}

/// Ends the job because of an error that nobody wanted to handle.
pub(crate) fn abort(code: c_int) -> ! {
    process::abort(failure::class_of(code).clamp(1, 255), &error::text(code))
}
