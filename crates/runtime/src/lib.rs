//! MPI on this machine: what every front has in common.
//!
//! A front converts: types and lifetimes of Rust, or handles and constants of C, to what is here and back. What MPI means
//! is decided here and in crate `mpi`, and this is the only crate that asks the driver of a NIC for anything.
//!
//! | file | what it is |
//! |---|---|
//! | `address.rs`, `call.rs` | ranks and tags as callers pass them; what a call was asked for, in errors |
//! | `process.rs` | this process as a rank of its job |
//! | `comm.rs` | communicators: messages, probes, schedules |
//! | `comm_create.rs` | how communicators are created: agreement on numbers, split, merge, bridges |
//! | `collective.rs` | collectives: schedules and the memory that they work in |
//! | `counter.rs` | generalised requests |
//! | `plane.rs` | asking a NIC for something, and waiting, where a rank has several |
//! | `failure.rs` | the one place where a fault of the NIC becomes an error |
//! | `fault_tolerance.rs` | revoke, shrink and agree, when ranks have died |

mod address;
mod call;
mod collective;
mod comm;
mod comm_create;
mod counter;
mod failure;
mod fault_tolerance;
mod plane;
mod process;

pub use address::{ANY, Any, Rank, Source, TAG_MAX, Tag};
pub use call::{Call, With};
pub use collective::{Prepared, Root};
pub use comm::Comm;
pub use comm_create::{AGREEMENT_BYTES, Agreeing, Bridge, CreateError, Created};
pub use failure::Failure;
pub use fault_tolerance::NotFaultTolerant;
pub use plane::Plane;
pub use process::{Lost, Process};
