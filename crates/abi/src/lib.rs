//! The C front of Ferrywire: `libmpi_abi.so.1`, the standard ABI of MPI 5.
//!
//! It converts what C passes, calls crate `runtime`, and converts the answer. Arrows go from `calls` to `objects` to
//! `convert`, and never back.
//!
//! | folder | contents |
//! |---|---|
//! | `calls/` | the functions of the standard, by its chapters; start reading at `MPI_Send` in `calls/point_to_point/message.rs` |
//! | `objects/` | what handles name: communicators, datatypes, requests, …; the process; who is told of an error |
//! | `convert/` | types, constants, handles, pointers, ranks, tags, statuses: how C is spoken |
//! | `tool.rs`, `tool/` | what tools may ask the library about itself (MPI_T) |
//!
//! | file | contents |
//! |---|---|
//! | `calls/entry.rs` | the macro by which a function is written once and exported under all of its names |
//! | `calls/unsupported.rs` | functions that are not there yet |
//! | `objects/request.rs`, `objects/recipe.rs` | what was begun, and what it does step by step |
//! | `objects/data.rs` | buffers of the program as bytes |
//! | `objects/raise.rs` | which error handler is told |
//! | `convert/handle.rs` | what C holds of an object |
//! | `convert/failure.rs` | what went wrong |

mod calls;
pub mod convert;
mod objects;
#[cfg(test)]
mod second_front;
mod tool;
