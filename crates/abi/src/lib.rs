//! The C front of Ferrywire: `libmpi_abi.so.1`, the standard ABI of MPI 5.
//!
//! Thin: what C passes is converted, handed to crates `mpi` and `host`, and what they answer is converted
//! back. A function of the standard is written once, in an `entries!` block, and exported under its own name
//! and that of the profiling interface: see `entry.rs`.
//!
//! | file | what it is |
//! |---|---|
//! | `message.rs` | blocking sends and receives: start reading at `MPI_Send` |
//! | `nonblocking.rs`, `buffered.rs`, `probe.rs`, `general.rs`, `together.rs` | all other sorts of messages and requests |
//! | `request.rs`, `request/waiting.rs`, `request/spare.rs` | what was begun; the wait and test family; memory for the next |
//! | `data.rs`, `datatype.rs` | buffers of the user's as bytes; datatypes |
//! | `constructor.rs`, `lookup.rs`, `contents.rs` | how datatypes are made, found and taken apart |
//! | `pack.rs`, `dims.rs` | packing by hand; balanced grids |
//! | `comm.rs`, `making.rs` | communicators; how they are made |
//! | `collective.rs`, `op.rs` | collectives; what reductions do |
//! | `attribute.rs`, `predefined.rs` | values that programs hang on objects; those that are there from the beginning |
//! | `environment.rs`, `process.rs` | beginning and end; what all calls have in common |
//! | `group.rs` | groups |
//! | `name.rs`, `number.rs` | names of objects; handles as numbers |
//! | `info.rs` | keys with values |
//! | `memory.rs` | memory that the program asks for, and addresses |
//! | `interface.rs` | what the binary interface says of itself |
//! | `tool.rs` | what tools may ask the library about itself |
//! | `failure.rs`, `error.rs`, `errhandler.rs` | what goes wrong, how it is called, and who is told |
//! | `entry.rs`, `sizes.rs`, `pointer.rs`, `handle.rs`, `status.rs` | how C is spoken |
//! | `types.rs`, `constants.rs`, `unsupported.rs` | names of the standard; what is not there yet |

mod argument;
mod attribute;
mod buffered;
mod collective;
mod comm;
mod communicator;
pub mod constants;
mod constructor;
mod contents;
mod data;
mod datatype;
mod dims;
mod entry;
mod environment;
mod errhandler;
mod error;
mod failure;
mod fault;
mod general;
mod group;
mod handle;
mod info;
mod interface;
mod lookup;
mod making;
mod memory;
mod message;
mod module;
mod name;
mod nonblocking;
mod number;
mod op;
mod pack;
mod pointer;
mod predefined;
mod probe;
mod process;
mod raise;
mod request;
mod sizes;
mod status;
mod together;
mod tool;
pub mod types;
mod unsupported;
