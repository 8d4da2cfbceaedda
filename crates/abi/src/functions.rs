//! The table of functions, `functions.txt`, as a macro from which fronts are generated.
//!
//! ```text
//! functions! { front: * }                        // all functions
//! functions! { front: calls::processes::* }    // those of a module
//! functions! { front: MPI_Comm_rank MPI_Send }   // these
//! ```
//!
//! calls `front!` for each function, with the path of its body, the kind and the Rust type of each argument, and those
//! of its answer:
//!
//! ```text
//! fn MPI_Comm_rank = calls::communicators::comm::MPI_Comm_rank
//!     ((comm) comm: MPI_Comm, (out rank) rank: Out<c_int>) -> (error) c_int
//! ```

include!(concat!(env!("OUT_DIR"), "/functions.rs"));

pub(crate) use functions;

/// The types of arguments, to be imported by whoever uses the macro.
pub(crate) mod types {
    pub(crate) use std::ffi::{c_char, c_int, c_void};

    pub(crate) use crate::calls::environment::active::HandlerFunction;
    pub(crate) use crate::calls::environment::module::Ferry_Module_stats;
    pub(crate) use crate::convert::argument::*;
    pub(crate) use crate::convert::callback::*;
    pub(crate) use crate::convert::pointer::*;
    pub(crate) use crate::convert::types::*;
}
