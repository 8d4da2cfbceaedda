//! Requests: starting, cancelling and freeing them.

use std::ffi::c_int;

use ferrywire_host::ErrorCode;
use ferrywire_runtime::CallName;

use crate::calls::entry::entries;
use crate::calls::point_to_point::generalized_request;
use crate::convert::constants::{MPI_ERR_REQUEST, MPI_REQUEST_NULL};
use crate::convert::failure::{Failure, Result};
use crate::convert::handle;
use crate::convert::pointer::Out;
use crate::convert::sizes;
use crate::convert::types::MPI_Request;
use crate::objects::partitioned;
use crate::objects::process;
use crate::objects::request::{DONE, Request, find, keep_orphan, take};

entries! {
    fn MPI_Request_free(request: Out<MPI_Request>) {
        let handle = request.get()?;
        if handle == DONE {
            return request.put(MPI_REQUEST_NULL);
        }
        if generalized_request::outlives_free(handle) {
            request.put(MPI_REQUEST_NULL)?;
            return handle::find_owned::<Request>(handle.0)?.freed();
        }
        partitioned::forget(handle);
        let mut freed = take(handle)?;
        request.put(MPI_REQUEST_NULL)?;
        freed.freed()?;
        keep_orphan(freed);
        Ok(())
    }

    fn MPI_Cancel(request: Out<MPI_Request>) {
        let handle = request.get()?;
        match find(handle)? {
            Some(request) => request.cancel(),
            None if handle == DONE => Ok(()),
            None => {
                Err(Failure::new(MPI_ERR_REQUEST, "MPI_REQUEST_NULL cannot be cancelled"))
            }
        }
    }

    fn MPI_Start(request: Out<MPI_Request>) {
        note_start(CALL, 1);
        startable(request.get()?)?.start()
    }

    fn MPI_Startall(count: c_int, array_of_requests: Out<MPI_Request>) {
        let requests = array_of_requests.slice(sizes::length(count)?)?;
        note_start(CALL, requests.len());
        requests.iter().try_for_each(|&request| startable(request)?.start())
    }
}

/// Records that the program starts requests.
fn note_start(name: CallName, requests: usize) {
    if let Ok(process) = process::running() {
        process.rank().facts().call(name, 0, None, requests as u64);
    }
}

/// A persistent request that is not active.
pub(crate) fn startable<'a>(request: MPI_Request) -> Result<&'a mut Request> {
    let startable = find(request)?.filter(|request| request.persistent);
    match startable {
        Some(request) if !request.is_active() => Ok(request),
        Some(_) => {
            Err(Failure::new(MPI_ERR_REQUEST, "the request is already active; complete it first")
                .coded(ErrorCode::REQUEST_STATE))
        }
        None => Err(Failure::new(MPI_ERR_REQUEST, "only persistent requests can be started")
            .coded(ErrorCode::REQUEST_STATE)),
    }
}
