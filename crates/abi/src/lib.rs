//! The C front of Ferrywire: `libmpi_abi.so.1`, the standard ABI of MPI 5.
//!
//! It converts the arguments from C, calls crate `runtime`, and converts the result. `calls` uses `objects`, which
//! uses `convert`, and never the other way.
//!
//! | folder | contents |
//! |---|---|
//! | `calls/` | the functions of the standard, by chapter; start at `MPI_Send` in `calls/point_to_point/message.rs` |
//! | `objects/` | the objects behind handles: communicators, datatypes, requests, …; the process; error dispatch |
//! | `convert/` | conversion from and to C: types, constants, handles, pointers, ranks, tags, statuses |
//! | `tool.rs`, `tool/` | the tool interface (MPI_T) |
//!
//! The table of all functions, `functions.txt` beside this folder, has the kind of each argument. Fronts are generated
//! from it, and a function needs a row there to be exported.
//!
//! | file | contents |
//! |---|---|
//! | `functions.rs` | the table as a macro |
//! | `standard_front.rs` | the standard ABI: exports every function of the table |
//! | `calls/entry.rs` | the macro that defines the body of a function, once for both sizes of counts |
//! | `objects/request.rs`, `objects/recipe.rs` | requests, and the parts that they execute |
//! | `objects/data.rs` | buffers of the program as bytes |
//! | `objects/raise.rs` | the choice of the error handler |
//! | `convert/handle.rs` | handles |
//! | `convert/failure.rs` | errors |

mod calls;
pub mod convert;
mod functions;
mod objects;
#[cfg(test)]
mod second_front;
mod standard_front;
mod tool;
