//! Callbacks: functions of the program, each with the ABI through which the program registered it.
//!
//! Another ABI has other handles and statuses, so each callback comes with a function of ours that converts its
//! arguments. Those in this file are for the standard ABI.
//!
//! Invariants, cited below by number.
//!   I1. `function` has the type that `call` expects: both come from one place.

use std::ffi::{c_int, c_void};

use crate::convert::constants::MPI_ERR_COUNT;
use crate::convert::status::Status;
use crate::convert::types::{
    MPI_Aint, MPI_Count, MPI_Datatype, MPI_Offset, MPI_Status, MPI_T_cb_safety,
    MPI_T_event_instance, MPI_T_event_registration,
};

/// A function of the program, and how to call it.
#[derive(Clone, Copy)]
pub(crate) struct Callback<Call> {
    pub(crate) function: *const (),
    pub(crate) call: Call,
}

// SAFETY: functions may be called by any thread, and the program vouches for its own.
unsafe impl<Call: Send> Send for Callback<Call> {}
// SAFETY: the same.
unsafe impl<Call: Sync> Sync for Callback<Call> {}

/// An operator: the function, the input, the input and output, the number of elements, the datatype.
pub(crate) type OperatorCall = unsafe fn(*const (), *mut c_void, *mut c_void, u64, MPI_Datatype);
/// An error handler: the function, the handle of the object, the code.
pub(crate) type ErrorCall = unsafe fn(*const (), usize, c_int);
/// The query of a generalised request: the function, its extra state, the status that it fills in.
pub(crate) type QueryCall = unsafe fn(*const (), *mut c_void, &mut Status) -> c_int;
/// Copies an attribute: the function, the handle of the object, the key, the extra state, the value. Returns the
/// error code, and the value of the copy, if any.
pub(crate) type CopyCall =
    unsafe fn(*const (), usize, c_int, *mut c_void, *mut c_void) -> (c_int, Option<*mut c_void>);
/// Deletes an attribute: the function, the handle of the object, the key, the value, the extra state.
pub(crate) type DeleteCall = unsafe fn(*const (), usize, c_int, *mut c_void, *mut c_void) -> c_int;

/// Converts elements for a file: the function, the elements, their datatype and number, the bytes of the file, the
/// extra state.
pub(crate) type ConversionCall =
    unsafe fn(*const (), *mut c_void, MPI_Datatype, u64, *mut c_void, *mut c_void) -> c_int;
/// The extent of a datatype in a file: the function, the datatype, the extra state. Returns the error code and the
/// extent.
pub(crate) type ExtentCall = unsafe fn(*const (), MPI_Datatype, *mut c_void) -> (c_int, MPI_Aint);

/// MPI_User_function.
pub(crate) type OperatorFunction =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype);
/// MPI_User_function_c.
pub(crate) type LargeOperatorFunction =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut MPI_Count, *mut MPI_Datatype);
/// MPI_Comm_errhandler_function, and those of other objects: all handles are alike in C.
pub(crate) type ErrorFunction = unsafe extern "C" fn(*mut usize, *mut c_int, ...);
/// MPI_Grequest_query_function.
pub(crate) type QueryFunction = unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int;
/// MPI_Comm_copy_attr_function, and those of other objects.
pub(crate) type CopyFunction = unsafe extern "C" fn(
    usize,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut *mut c_void,
    *mut c_int,
) -> c_int;
/// MPI_Comm_delete_attr_function, and those of other objects.
pub(crate) type DeleteFunction =
    unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;
/// MPI_Grequest_free_function.
pub(crate) type FreeFunction = unsafe extern "C" fn(*mut c_void) -> c_int;
/// MPI_Grequest_cancel_function.
pub(crate) type CancelFunction = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
/// MPI_Datarep_extent_function.
pub(crate) type ExtentFunction =
    unsafe extern "C" fn(MPI_Datatype, *mut MPI_Aint, *mut c_void) -> c_int;
/// MPI_Datarep_conversion_function.
pub(crate) type ConversionFunction = unsafe extern "C" fn(
    *mut c_void,
    MPI_Datatype,
    c_int,
    *mut c_void,
    MPI_Offset,
    *mut c_void,
) -> c_int;
/// MPI_Datarep_conversion_function_c.
pub(crate) type LargeConversionFunction = unsafe extern "C" fn(
    *mut c_void,
    MPI_Datatype,
    MPI_Count,
    *mut c_void,
    MPI_Offset,
    *mut c_void,
) -> c_int;
/// MPI_T_event_cb_function.
pub(crate) type EventFunction = unsafe extern "C" fn(
    MPI_T_event_instance,
    MPI_T_event_registration,
    MPI_T_cb_safety,
    *mut c_void,
);
/// MPI_T_event_free_cb_function.
pub(crate) type EventFreeFunction =
    unsafe extern "C" fn(MPI_T_event_registration, MPI_T_cb_safety, *mut c_void);
/// MPI_T_event_dropped_cb_function.
pub(crate) type EventDroppedFunction =
    unsafe extern "C" fn(MPI_Count, MPI_T_event_registration, c_int, MPI_T_cb_safety, *mut c_void);

/// Implements the call of functions of each type.
macro_rules! standard {
    ($($type:ty as $call:ty { $($body:tt)* })*) => { $(
        impl From<$type> for Callback<$call> {
            fn from(function: $type) -> Callback<$call> {
                $($body)*
                Callback { function: function as *const (), call }
            }
        }
    )* };
}

/// The function in a callback.
///
/// # Safety
/// The function has type `F`.
unsafe fn of_type<F: Copy>(function: *const ()) -> F {
    const { assert!(size_of::<F>() == size_of::<*const ()>()) };
    // SAFETY: the caller's promise; all function pointers have the size of a pointer.
    unsafe { std::mem::transmute_copy(&function) }
}

standard! {
    OperatorFunction as OperatorCall {
        unsafe fn call(
            function: *const (),
            source: *mut c_void,
            into: *mut c_void,
            count: u64,
            mut datatype: MPI_Datatype,
        ) {
            // SAFETY: I1.
            let function: OperatorFunction = unsafe { of_type(function) };
            let mut count = c_int::try_from(count).expect("such a function counts in an int");
            // SAFETY: the caller's promise.
            unsafe { function(source, into, &raw mut count, &raw mut datatype) };
        }
    }

    LargeOperatorFunction as OperatorCall {
        unsafe fn call(
            function: *const (),
            source: *mut c_void,
            into: *mut c_void,
            count: u64,
            mut datatype: MPI_Datatype,
        ) {
            // SAFETY: I1.
            let function: LargeOperatorFunction = unsafe { of_type(function) };
            let mut count = count.cast_signed();
            // SAFETY: the caller's promise.
            unsafe { function(source, into, &raw mut count, &raw mut datatype) };
        }
    }

    ErrorFunction as ErrorCall {
        unsafe fn call(function: *const (), mut object: usize, mut code: c_int) {
            // SAFETY: I1.
            let function: ErrorFunction = unsafe { of_type(function) };
            // SAFETY: the caller's promise.
            unsafe { function(&raw mut object, &raw mut code) };
        }
    }

    QueryFunction as QueryCall {
        unsafe fn call(function: *const (), extra: *mut c_void, status: &mut Status) -> c_int {
            // SAFETY: I1.
            let function: QueryFunction = unsafe { of_type(function) };
            let mut shown = MPI_Status::from(*status);
            // SAFETY: the caller's promise.
            let code = unsafe { function(extra, &raw mut shown) };
            *status = shown.into();
            code
        }
    }

    CopyFunction as CopyCall {
        unsafe fn call(
            function: *const (),
            object: usize,
            key: c_int,
            extra: *mut c_void,
            value: *mut c_void,
        ) -> (c_int, Option<*mut c_void>) {
            // SAFETY: I1.
            let function: CopyFunction = unsafe { of_type(function) };
            let (mut copied, mut wanted) = (std::ptr::null_mut(), 0);
            // SAFETY: the caller's promise.
            let code =
                unsafe { function(object, key, extra, value, &raw mut copied, &raw mut wanted) };
            (code, (wanted != 0).then_some(copied))
        }
    }

    ConversionFunction as ConversionCall {
        unsafe fn call(
            function: *const (),
            elements: *mut c_void,
            datatype: MPI_Datatype,
            count: u64,
            in_file: *mut c_void,
            extra: *mut c_void,
        ) -> c_int {
            // SAFETY: I1.
            let function: ConversionFunction = unsafe { of_type(function) };
            let Ok(count) = c_int::try_from(count) else { return MPI_ERR_COUNT };
            // SAFETY: the caller's promise.
            unsafe { function(elements, datatype, count, in_file, 0, extra) }
        }
    }

    LargeConversionFunction as ConversionCall {
        unsafe fn call(
            function: *const (),
            elements: *mut c_void,
            datatype: MPI_Datatype,
            count: u64,
            in_file: *mut c_void,
            extra: *mut c_void,
        ) -> c_int {
            // SAFETY: I1.
            let function: LargeConversionFunction = unsafe { of_type(function) };
            let count = count.cast_signed();
            // SAFETY: the caller's promise.
            unsafe { function(elements, datatype, count, in_file, 0, extra) }
        }
    }

    ExtentFunction as ExtentCall {
        unsafe fn call(
            function: *const (),
            datatype: MPI_Datatype,
            extra: *mut c_void,
        ) -> (c_int, MPI_Aint) {
            // SAFETY: I1.
            let function: ExtentFunction = unsafe { of_type(function) };
            let mut extent = 0;
            // SAFETY: the caller's promise.
            let code = unsafe { function(datatype, &raw mut extent, extra) };
            (code, extent)
        }
    }

    DeleteFunction as DeleteCall {
        unsafe fn call(
            function: *const (),
            object: usize,
            key: c_int,
            value: *mut c_void,
            extra: *mut c_void,
        ) -> c_int {
            // SAFETY: I1.
            let function: DeleteFunction = unsafe { of_type(function) };
            // SAFETY: the caller's promise.
            unsafe { function(object, key, value, extra) }
        }
    }
}
