//! Reports a failure to the error handler of the object that it belongs to.

use std::ffi::c_int;
use std::sync::Arc;

use crate::convert::constants::MPI_FILE_NULL;
use crate::convert::failure::{self, Failure, Owner, Result};
use crate::convert::pointer::Out;
use crate::convert::types::{MPI_Comm, MPI_File, MPI_Session, MPI_Win};
use crate::objects::comm;
use crate::objects::error;
use crate::objects::file;
use crate::objects::process;
use crate::objects::session;
use crate::objects::window;

/// The object of a call, whose error handler is called.
#[derive(Clone, Copy)]
pub(crate) enum Raised {
    Comm(MPI_Comm),
    Win(MPI_Win),
    Session(MPI_Session),
    File(MPI_File),
}

impl From<MPI_Comm> for Raised {
    fn from(comm: MPI_Comm) -> Raised {
        Raised::Comm(comm)
    }
}

impl From<MPI_Win> for Raised {
    fn from(win: MPI_Win) -> Raised {
        Raised::Win(win)
    }
}

impl From<MPI_Session> for Raised {
    fn from(session: MPI_Session) -> Raised {
        Raised::Session(session)
    }
}

impl From<MPI_File> for Raised {
    fn from(file: MPI_File) -> Raised {
        Raised::File(file)
    }
}

/// A call that opens or closes a file.
impl From<Out<MPI_File>> for Raised {
    fn from(file: Out<MPI_File>) -> Raised {
        Raised::File(file.get().unwrap_or(MPI_FILE_NULL))
    }
}

impl Raised {
    fn owner(self) -> Option<Arc<dyn Owner>> {
        Some(match self {
            Raised::Comm(comm) => comm::share_of(comm).ok()? as Arc<dyn Owner>,
            Raised::Win(win) => window::share_of(win).ok()? as Arc<dyn Owner>,
            Raised::File(file) => file::owner_of(file),
            Raised::Session(session) => session::share_of(session).ok()? as Arc<dyn Owner>,
        })
    }
}

/// Calls the error handler of the object that the failure belongs to, or else of the object of the call, and returns
/// the error code of the call.
#[cold]
#[inline(never)]
pub(crate) fn raise(failure: Failure, call: &str, object: Option<Raised>) -> c_int {
    // A request keeps its communicator even if the program has freed it meanwhile.
    let owner = failure.owner().or_else(|| object?.owner());
    let failure = match &owner {
        Some(owner) => failure.during(format_args!(" in {}", owner.title())),
        None => failure,
    };
    let code = failure.register(call);
    if let Ok(process) = process::running() {
        process.rank().facts().fail(&error::text(code));
    }
    match owner.map_or_else(for_nothing, Ok) {
        Ok(owner) if owner.tell(code) => abort(code),
        Ok(_) => {}
        Err(_) => {
            // Without MPI_COMM_SELF there is no error handler, so the initial one is used, which is fatal.
            abort(code);
        }
    }
    code
}

/// The owner of errors of calls without a communicator. MPI 4 says MPI_COMM_SELF; programs written for earlier
/// versions set a handler on MPI_COMM_WORLD only, so that one is used until the program sets one on MPI_COMM_SELF.
fn for_nothing() -> Result<Arc<dyn Owner>> {
    let process = process::initialized()?;
    let itself = process.itself.has_own_handler();
    Ok(if itself { Arc::clone(&process.itself) as _ } else { Arc::clone(&process.world) as _ })
}

/// Ends the job because of an error that no handler handles.
pub(crate) fn abort(code: c_int) -> ! {
    process::abort(failure::class_of(code).clamp(1, 255), &error::text(code))
}
