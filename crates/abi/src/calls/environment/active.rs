//! Active messages, for C: functions of the program that the NIC calls where a message arrives. See `ferry.h`.
//!
//! Invariants, cited below by number.
//!   A1. The context of a message points to a reference to a hook. Both live until the handler returns, and only the
//!       handler uses them until then.

use std::ffi::{c_int, c_void};
use std::slice;

use ferrywire_host::nic::{Hook, Message, Module, Trap, Verdict};

use crate::calls::entry::entries;
use crate::calls::environment::module::load;
use crate::convert::constants::{
    MPI_ERR_ARG, MPI_ERR_COUNT, MPI_ERR_OTHER, MPI_ERR_RANK, MPI_ERR_TAG, MPI_SUCCESS,
};
use crate::convert::failure::Failure;
use crate::convert::pointer::{Out, Text};
use crate::convert::types::{MPI_Comm, MPI_Count};

/// A message for a handler, in the layout of `ferry.h`.
#[allow(non_camel_case_types, reason = "it is called so in C")]
#[repr(C)]
pub(crate) struct Ferry_Am_message {
    rank: c_int,
    size: c_int,
    source: c_int,
    tag: c_int,
    bytes: *const c_void,
    len: MPI_Count,
    send: SendFunction,
    raise: RaiseFunction,
    /// A `*mut &mut dyn Hook`: a reference to a trait object does not fit into one pointer.
    context: *mut c_void,
}

type SendFunction =
    unsafe extern "C" fn(*const Ferry_Am_message, c_int, c_int, *const c_void, MPI_Count) -> c_int;
type RaiseFunction = unsafe extern "C" fn(*const Ferry_Am_message, c_int, MPI_Count) -> c_int;

/// Ferry_Am_handler: the message and the state that the program has passed.
pub(crate) type HandlerFunction =
    unsafe extern "C" fn(*const Ferry_Am_message, *mut c_void) -> c_int;

/// FERRY_AM_DELIVER and FERRY_AM_DONE.
const DELIVER: c_int = 0;
const DONE: c_int = 1;

/// A handler of the program, as the NIC sees it.
struct MessageHandler {
    function: HandlerFunction,
    state: *mut c_void,
}

// SAFETY: the program vouches that its handler may run on any thread.
unsafe impl Send for MessageHandler {}

impl Module for MessageHandler {
    fn on_message(&mut self, mut hook: &mut dyn Hook) -> Result<Verdict, Trap> {
        let Message { rank, size, sender, tag, payload } = hook.message();
        let message = Ferry_Am_message {
            rank: int(rank),
            size: int(size),
            source: int(sender),
            tag: int(tag),
            bytes: payload.as_ptr().cast(),
            len: MPI_Count::try_from(payload.len()).unwrap_or(MPI_Count::MAX),
            send,
            raise,
            context: (&raw mut hook).cast(),
        };
        // SAFETY: A1. The bytes of the message do not move while the handler sends.
        match unsafe { (self.function)(&raw const message, self.state) } {
            DELIVER => Ok(Verdict::Deliver),
            DONE => Ok(Verdict::Consume),
            _ => Err(Trap::Verdict),
        }
    }

    /// Nothing arms a counter for it.
    fn on_counter(&mut self, _: u32, _: &mut dyn Hook) -> Result<(), Trap> {
        Ok(())
    }

    fn fuel_used(&self) -> u64 {
        0
    }
}

/// Ranks and tags fit.
fn int(number: u32) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

unsafe extern "C" fn send(
    message: *const Ferry_Am_message,
    to: c_int,
    tag: c_int,
    bytes: *const c_void,
    len: MPI_Count,
) -> c_int {
    let Ok(to) = u32::try_from(to) else { return MPI_ERR_RANK };
    let Ok(tag) = u32::try_from(tag) else { return MPI_ERR_TAG };
    let bytes = match usize::try_from(len) {
        Ok(0) => &[],
        // SAFETY: the program vouches for its bytes.
        Ok(len) => unsafe { slice::from_raw_parts(bytes.cast::<u8>(), len) },
        Err(_) => return MPI_ERR_COUNT,
    };
    // SAFETY: A1.
    class_of(unsafe { hook_of(message) }.send(to, tag, bytes))
}

unsafe extern "C" fn raise(
    message: *const Ferry_Am_message,
    counter: c_int,
    by: MPI_Count,
) -> c_int {
    let (Ok(counter), Ok(by)) = (u32::try_from(counter), u64::try_from(by)) else {
        return MPI_ERR_ARG;
    };
    // SAFETY: A1.
    class_of(unsafe { hook_of(message) }.raise(counter, by))
}

/// # Safety
///
/// The message is one that a handler has been called with, and the handler has not returned (A1).
unsafe fn hook_of<'a>(message: *const Ferry_Am_message) -> &'a mut dyn Hook {
    // SAFETY: the caller says so.
    let context = unsafe { (*message).context };
    // SAFETY: the caller says so.
    unsafe { &mut **context.cast::<&'a mut dyn Hook>() }
}

fn class_of(answer: Result<(), Trap>) -> c_int {
    match answer {
        Ok(()) => MPI_SUCCESS,
        Err(Trap::Rank) => MPI_ERR_RANK,
        Err(Trap::Tag) => MPI_ERR_TAG,
        Err(Trap::Length) => MPI_ERR_COUNT,
        Err(Trap::Counter) => MPI_ERR_ARG,
        Err(_) => MPI_ERR_OTHER,
    }
}

entries! {
    fn Ferry_Am_create(comm: MPI_Comm, name: Text, handler: Option<HandlerFunction>,
        state: *mut c_void, am_comm: Out<MPI_Comm>) on comm {
        let function = handler.ok_or_else(no_handler)?;
        let start = |_: &[u8]| -> Result<Box<dyn Module>, _> { Ok(Box::new(MessageHandler { function, state })) };
        load(comm, &name.get()?, b"", start, am_comm)
    }
}

#[cold]
fn no_handler() -> Failure {
    Failure::new(MPI_ERR_ARG, "the handler is a null pointer")
}
