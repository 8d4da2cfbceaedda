//! The tool interface, MPI_T: access to the limits and counters of the library while a program runs.
//!
//! It is initialised and finalised separately, and works before MPI_Init and after MPI_Finalize; there is no NIC
//! then, so all values are zero. Errors are returned to the caller and go to no error handler.
//!
//! | file | what it is |
//! |---|---|
//! | `control.rs` | control variables: the limits of the NIC, read-only |
//! | `performance.rs` | performance variables: the levels and counters of the NIC |
//! | `category.rs` | categories of variables and events |
//! | `event.rs` | events: overflows and refusals, as the NIC reports them |

pub(crate) mod category;
pub(crate) mod control;
pub(crate) mod event;
pub(crate) mod performance;

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::calls::entry::answers;
use crate::convert::constants::{
    MPI_SUCCESS, MPI_T_ERR_CANNOT_INIT, MPI_T_ERR_INVALID, MPI_T_ERR_INVALID_INDEX,
    MPI_T_ERR_INVALID_NAME, MPI_T_ERR_NOT_INITIALIZED, MPI_THREAD_MULTIPLE, MPI_THREAD_SINGLE,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{Out, Text, TextOut};

/// How often the interface has been initialised minus how often it has been finalised.
static USERS: AtomicU32 = AtomicU32::new(0);

answers! {
    fn MPI_T_init_thread(required: c_int, provided: Out<c_int>) -> c_int {
        USERS.fetch_add(1, Ordering::Relaxed);
        code(provided.put(required.clamp(MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE)))
    }

    fn MPI_T_finalize() -> c_int {
        let less = |users: u32| users.checked_sub(1);
        match USERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => MPI_SUCCESS,
            Err(_) => MPI_T_ERR_NOT_INITIALIZED,
        }
    }
}

/// Runs a call of the interface, and returns its error code.
fn told(work: impl FnOnce() -> Result) -> c_int {
    match USERS.load(Ordering::Relaxed) {
        0 => MPI_T_ERR_NOT_INITIALIZED,
        _ => code(work()),
    }
}

/// The code of an error. An error of another interface means an invalid argument here.
fn code(result: Result) -> c_int {
    match result {
        Ok(()) => MPI_SUCCESS,
        Err(failure) if failure.code() < MPI_T_ERR_CANNOT_INIT => MPI_T_ERR_INVALID,
        Err(failure) => failure.code(),
    }
}

/// An error of this class; tools get no text.
fn error(class: c_int) -> Failure {
    Failure::of_code(class)
}

/// An item of a table, by its index.
fn item<T>(table: &'static [T], index: c_int) -> Result<&'static T> {
    let item = usize::try_from(index).ok().and_then(|index| table.get(index));
    item.ok_or_else(|| error(MPI_T_ERR_INVALID_INDEX))
}

/// The index of the first item for which `is_meant` holds.
fn index_of<T>(table: &[T], is_meant: impl FnMut(&T) -> bool) -> Result<c_int> {
    table.iter().position(is_meant).map(int).ok_or_else(|| error(MPI_T_ERR_INVALID_NAME))
}

fn int(number: usize) -> c_int {
    c_int::try_from(number).expect("tables are short")
}

/// Writes a string, and its length including the terminating zero. Either may be omitted.
fn put_text(text: &str, into: TextOut, len: Out<c_int>) -> Result {
    if len.is_null() {
        return Ok(());
    }
    let room = usize::try_from(len.get()?).unwrap_or(0);
    if !into.is_null() && room > 0 {
        into.put(text, room)?;
    }
    len.put(int(text.len() + 1))
}

/// A name from the caller.
fn name_of(text: Text) -> Result<String> {
    text.get().map_err(|_| error(MPI_T_ERR_INVALID_NAME))
}
