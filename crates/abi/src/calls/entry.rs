//! Macros that define the bodies of functions of the standard. A function with a variant for large counts is written
//! once.
//!
//! ```text
//! entries! {
//!     fn MPI_Ssend / MPI_Ssend_c (buf: Choice, count: Size, datatype: MPI_Datatype,
//!         dest: PeerRank, tag: MessageTag, comm: MPI_Comm) on comm {
//!         …
//!         Ok(())
//!     }
//! }
//! ```
//!
//! defines `MPI_Ssend::body` with 32-bit counts, and `MPI_Ssend_c::body` with 64-bit counts. In a body, `Size`,
//! `Displacement` and `Address` are the types in which the two differ. The body returns a
//! [`crate::convert::failure::Result`]. A failure goes to the error handler of the object named after `on`, or
//! without `on` to the handler for errors that belong to no object.
//!
//! `standard_front.rs` exports what has a row in the table of functions, `functions.txt`.

use ferrywire_runtime::CallName;
use ferrywire_runtime::call_name::c_name;

/// Defines functions of the standard: see the module.
macro_rules! entries {
    ($(
        fn $name:ident $(/ $large:ident)? ($($args:tt)*) $(on $object:ident)? $body:block
    )*) => {
        $($crate::calls::entry::twins! { [$name $($large)?] ($($args)*) [$($object)?] $body })*
    };
}

/// Defines a function, and its variant with large counts if it has one. Each is a module, so that the front of
/// another ABI can call its body by name.
macro_rules! twins {
    ([$name:ident] $args:tt $object:tt $body:block) => {
        $crate::calls::entry::sized! { small $name $args $object $body }
    };
    ([$name:ident $large:ident] $args:tt $object:tt $body:block) => {
        $crate::calls::entry::sized! { small $name $args $object $body }
        $crate::calls::entry::sized! { large $large $args $object $body }
    };
}

/// Defines a function with counts of one size.
macro_rules! sized {
    ($size:ident $name:ident $args:tt $object:tt $body:block) => {
        #[allow(non_snake_case, reason = "the standard gives the name")]
        pub(crate) mod $name {
            #[allow(
                unused_imports,
                reason = "not every function uses all that its chapter does"
            )]
            use super::*;
            #[allow(
                unused_imports,
                reason = "not every function has arguments of these types"
            )]
            use $crate::convert::sizes::$size::{Address, Displacement, Size};

            /// Its name, in the facts of the rank.
            #[allow(dead_code, reason = "not every function is recorded with its arguments")]
            const CALL: ferrywire_runtime::CallName =
                ferrywire_runtime::call_name::c_name(stringify!($name));
            $crate::calls::entry::entry! { $name $args $object $body }
        }
    };
}

/// Defines the body of a function.
macro_rules! entry {
    ($name:ident ($($arg:ident: $type:ty),* $(,)?) [$($object:ident)?] $body:block) => {
        #[inline(always)]
        #[allow(clippy::too_many_arguments, reason = "the standard says how many")]
        fn attempt($($arg: $type),*) -> $crate::convert::failure::Result $body
        /// The body, with the arguments of the standard ABI.
        #[inline(always)]
        #[allow(clippy::too_many_arguments, reason = "the standard says how many")]
        pub(crate) fn body($($arg: $type),*) -> std::ffi::c_int {
            use $crate::calls::entry::{Recorded, recorded};
            match const { recorded(CALL) } {
                Recorded::Whole => settled($($arg),*),
                Recorded::Arguments if $crate::objects::process::is_traced() => traced($($arg),*),
                Recorded::Arguments => settled($($arg),*),
                Recorded::Nothing => {
                    let _call = $crate::objects::process::note_plain(CALL);
                    settled($($arg),*)
                }
            }
        }

        /// The body as a part of a trace.
        #[cold]
        #[inline(never)]
        #[allow(clippy::too_many_arguments, reason = "the standard says how many")]
        fn traced($($arg: $type),*) -> std::ffi::c_int {
            let _call = ferrywire_runtime::trace::TracedCall::begin(CALL);
            settled($($arg),*)
        }

        /// Passes a failure to the error handler. The two ways here jump to one copy of the code: with two, less would be
        /// inlined in each.
        #[inline(never)]
        #[allow(clippy::too_many_arguments, reason = "the standard says how many")]
        fn settled($($arg: $type),*) -> std::ffi::c_int {
            match attempt($($arg),*) {
                Ok(()) => $crate::convert::constants::MPI_SUCCESS,
                Err(failure) => $crate::objects::raise::raise(
                    failure,
                    stringify!($name),
                    $crate::calls::entry::owner!($($object)?),
                ),
            }
        }
    };
}

/// Defines functions that return the value of their body and raise no error: they cannot fail, or their errors go to
/// no error handler.
macro_rules! answers {
    ($(
        $(#[$note:meta])*
        fn $name:ident ($($arg:ident: $type:ty),* $(,)?) -> $answer:ty $body:block
    )*) => { $(
        #[allow(non_snake_case, reason = "the standard gives the name")]
        pub(crate) mod $name {
            #[allow(
                unused_imports,
                reason = "not every function uses all that its chapter does"
            )]
            use super::*;

            /// The body, with the arguments of the standard ABI.
            $(#[$note])*
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "the standard says how many")]
            pub(crate) fn body($($arg: $type),*) -> $answer $body
        }
    )* };
}

/// The object whose error handler is called.
macro_rules! owner {
    () => {
        None
    };
    ($object:ident) => {
        Some($object.into())
    };
}

pub(crate) use {answers, entries, entry, owner, sized, twins};

/// What the body of a call records by itself.
pub(crate) enum Recorded {
    /// The call, in the facts and in the trace of the rank: it asks once whether there is a trace, when it writes the facts.
    Whole,
    /// Its arguments, so that its name alone need not be.
    Arguments,
    /// Nothing that is sure to be recorded.
    Nothing,
}

/// What the body of a call records by itself.
pub(crate) const fn recorded(name: CallName) -> Recorded {
    match name {
        _ if is_among(name, WHOLE) => Recorded::Whole,
        _ if is_among(name, WITH_ARGUMENTS) => Recorded::Arguments,
        _ => Recorded::Nothing,
    }
}

const fn is_among(name: CallName, list: &[CallName]) -> bool {
    let mut at = 0;
    while at < list.len() {
        if list[at].0 == name.0 {
            return true;
        }
        at += 1;
    }
    false
}

/// Messages. A call that fails before it has begun is not in the trace.
const WHOLE: &[CallName] = &[
    c_name("MPI_Send"),
    c_name("MPI_Send_c"),
    c_name("MPI_Ssend"),
    c_name("MPI_Ssend_c"),
    c_name("MPI_Rsend"),
    c_name("MPI_Rsend_c"),
    c_name("MPI_Recv"),
    c_name("MPI_Recv_c"),
    c_name("MPI_Isend"),
    c_name("MPI_Isend_c"),
    c_name("MPI_Issend"),
    c_name("MPI_Issend_c"),
    c_name("MPI_Irsend"),
    c_name("MPI_Irsend_c"),
    c_name("MPI_Irecv"),
    c_name("MPI_Irecv_c"),
];

/// Other calls on the way of short messages.
const WITH_ARGUMENTS: &[CallName] = &[
    c_name("MPI_Wait"),
    c_name("MPI_Waitall"),
    c_name("MPI_Test"),
    c_name("MPI_Barrier"),
    c_name("MPI_Bcast"),
    c_name("MPI_Bcast_c"),
    c_name("MPI_Allreduce"),
    c_name("MPI_Allreduce_c"),
];
