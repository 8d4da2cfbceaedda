//! Generalised requests: the program completes them.
//!
//! Each waits for a counter of the NIC, which `MPI_Grequest_complete` raises, so it is waited for like any other
//! request.
//!
//! Invariants, cited below by number.
//!   I1. The program vouches for its callbacks and their extra state.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use ferrywire_host::nic::{Counter, Posted, Ticket};

use crate::calls::entry::entries;
use crate::convert::callback::{Callback, CancelFunction, FreeFunction, QueryCall, QueryFunction};
use crate::convert::constants::{MPI_ERR_REQUEST, MPI_SUCCESS};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle::Shared;
use crate::convert::pointer::Out;
use crate::convert::status::Status;
use crate::convert::types::MPI_Request;
use crate::objects::comm::Comm;
use crate::objects::process;
use crate::objects::recipe::{End, Next, Recipe};
use crate::objects::request::{self, Request};

/// Extra state of the program, which it may share among threads.
#[derive(Clone, Copy)]
struct Extra(*mut c_void);

// SAFETY: it is never dereferenced here; I1.
unsafe impl Send for Extra {}

/// An operation that the program itself performs.
struct General {
    query: Option<Callback<QueryCall>>,
    free: Option<FreeFunction>,
    cancel: Option<CancelFunction>,
    extra: Extra,
    counter: Counter,
    complete: bool,
    freed: bool,
}

/// A generalised request that the program has not completed.
struct Open {
    counter: Counter,
    /// Whether the program has freed it, so that no thread waits for it.
    freed: bool,
}

/// The open ones, by handle: another thread may wait for the request while the program completes it.
static OPEN: LazyLock<Mutex<HashMap<usize, Open>>> = LazyLock::new(Mutex::default);

fn open() -> MutexGuard<'static, HashMap<usize, Open>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the program may still complete the request that it frees now. If so, its handle stays valid until then.
pub(crate) fn outlives_free(request: MPI_Request) -> bool {
    let mut all = open();
    let open = all.get_mut(&request.0);
    open.map(|open| open.freed = true).is_some()
}

impl General {
    fn let_go(&mut self) -> Result {
        let Some(free) = self.free.take() else { return Ok(()) };
        // SAFETY: I1.
        checked(unsafe { free(self.extra.0) })
    }
}

impl Recipe for General {
    fn start(&mut self, _: &Shared<Comm>) -> Result<Posted> {
        Ok(process::first_plane()?.start_wait_for_counter(self.counter, 1))
    }

    fn finish(&mut self, _: &Shared<Comm>, _: End) -> Result<Next> {
        self.complete = true;
        process::first_plane()?.close_counter(self.counter);
        if self.freed {
            self.let_go()?;
        }
        Ok(Next::Over(Status::EMPTY))
    }

    fn cancel(&mut self, _: &Comm, _: Option<Ticket>) -> Result {
        let Some(cancel) = self.cancel else { return Ok(()) };
        let complete = self.complete || process::first_plane()?.is_counter_raised(self.counter);
        // SAFETY: I1.
        checked(unsafe { cancel(self.extra.0, complete.into()) })
    }

    fn query(&mut self, status: &mut Status) -> Result {
        let Some(Callback { function, call }) = self.query else { return Ok(()) };
        // SAFETY: I1.
        checked(unsafe { call(function, self.extra.0, status) })
    }

    fn freed(&mut self) -> Result {
        self.freed = true;
        if self.complete { self.let_go() } else { Ok(()) }
    }
}

/// Checks what a callback returned.
fn checked(code: c_int) -> Result {
    if code == MPI_SUCCESS { Ok(()) } else { Err(Failure::of_code(code)) }
}

entries! {
    fn MPI_Grequest_start(
        query_fn: Option<QueryFunction>, free_fn: Option<FreeFunction>,
        cancel_fn: Option<CancelFunction>, extra_state: *mut c_void, request: Out<MPI_Request>,
    ) {
        let process = process::running()?;
        let counter = process.runtime.first_plane().open_counter();
        let general: Box<dyn Recipe> = Box::new(General {
            query: query_fn.map(Into::into),
            free: free_fn,
            cancel: cancel_fn,
            extra: Extra(extra_state),
            counter,
            complete: false,
            freed: false,
        });
        let handle = Request::begin(Shared::clone(&process.itself), general)?;
        open().insert(handle.0, Open { counter, freed: false });
        request.put(handle)
    }

    fn MPI_Grequest_complete(request: MPI_Request) {
        let Some(Open { counter, freed }) = open().remove(&request.0) else {
            let why = "not a generalised request, or already complete";
            return Err(Failure::new(MPI_ERR_REQUEST, why));
        };
        process::first_plane()?.raise_counter(counter);
        if freed { request::complete_freed(request) } else { Ok(()) }
    }
}
