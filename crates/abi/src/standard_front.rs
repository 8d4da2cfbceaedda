//! The standard C ABI: exports each function of the table as `MPI_X`, and as `PMPI_X` for tools.
//!
//! The bodies take the arguments as C passes them, so there is nothing to convert. A row of the table with other
//! arguments than its body does not compile.

use crate::functions::functions;
use crate::functions::types::*;

/// Exports a function under its two names.
macro_rules! standard {
    (
        fn $name:ident = $($path:ident)::+ ($(($($kind:tt)*) $arg:ident: $type:ty),*)
        -> ($answer_kind:ident) $answer:ty
    ) => {
        const _: () = {
            // Of the errors for a row with other arguments than its body, the one for this line names the function.
            const _: fn($($type),*) -> $answer = crate::$($path)::+::body;
            #[unsafe(export_name = stringify!($name))]
            #[allow(clippy::too_many_arguments, reason = "the standard says how many")]
            extern "C" fn by_name($($arg: $type),*) -> $answer {
                crate::$($path)::+::body($($arg),*)
            }
            #[unsafe(export_name = concat!("P", stringify!($name)))]
            #[allow(clippy::too_many_arguments, reason = "the standard says how many")]
            extern "C" fn by_profiling_name($($arg: $type),*) -> $answer {
                crate::$($path)::+::body($($arg),*)
            }
        };
    };
}

functions! { standard: * }
