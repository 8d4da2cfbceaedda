//! Functions of the standard that are not implemented yet: those in the section `[calls::unsupported]` of the table.

use crate::convert::constants::MPI_ERR_UNSUPPORTED_OPERATION;
use crate::convert::failure::Failure;
use crate::functions::functions;
use crate::functions::types::*;
use crate::objects::raise::raise;

/// Defines the body of a function: it ignores its arguments, and raises an error with its name.
macro_rules! unsupported {
    (
        fn $name:ident = $($path:ident)::+ ($(($($kind:tt)*) $arg:ident: $type:ty),*)
        -> ($answer_kind:ident) $answer:ty
    ) => {
        #[allow(non_snake_case, reason = "the standard gives the name")]
        pub(crate) mod $name {
            use super::*;

            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "the standard says how many")]
            pub(crate) fn body($(_: $type),*) -> $answer {
                refuse(stringify!($name))
            }
        }
    };
}

functions! { unsupported: calls::unsupported::* }

#[cold]
fn refuse(name: &'static str) -> c_int {
    let why = format!("Ferrywire does not implement {name} yet");
    raise(Failure::new(MPI_ERR_UNSUPPORTED_OPERATION, why), name, None)
}
