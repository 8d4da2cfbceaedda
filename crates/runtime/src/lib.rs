//! MPI on this machine: the code that all fronts share.
//!
//! A front converts the types and lifetimes of Rust, or the handles and constants of C, to the types of this crate
//! and back. This crate and crate `mpi` define what MPI means. Only this crate calls the driver of a NIC.
//!
//! | file | what it is |
//! |---|---|
//! | `address.rs`, `call.rs` | ranks and tags as callers pass them; the arguments of a call, for errors |
//! | `call_name.rs` | the names of calls as numbers, for the facts of a rank |
//! | `words.rs` | numbers, as reports write them |
//! | `process.rs` | this process as a rank of its job |
//! | `comm.rs` | communicators: messages, probes, schedules |
//! | `comm_create.rs` | creating communicators: agreement on numbers, split, merge, bridges |
//! | `topology.rs` | communicators with a topology, reordered by locality |
//! | `collective.rs` | collectives: schedules and their work space |
//! | `counter.rs` | counters that requests wait for |
//! | `plane.rs` | posting to a NIC and waiting, where a rank may have several planes |
//! | `window.rs` | windows: memory that other ranks reach |
//! | `file.rs` | files |
//! | `dynamic.rs` | processes that come later: ports, connecting, spawning |
//! | `failure.rs` | conversion of the NIC's faults to errors |
//! | `fault_tolerance.rs` | revoke, shrink and agree, when ranks have died |

mod address;
mod call;
pub mod call_name;
mod collective;
mod comm;
mod comm_create;
mod counter;
mod dynamic;
mod failure;
mod fault_tolerance;
mod file;
mod plane;
mod process;
mod topology;
mod window;
pub mod words;

pub use address::{ANY, Any, Rank, Source, TAG_MAX, Tag};
pub use call::{Call, With};
pub use call_name::CallName;
pub use collective::{Prepared, Root};
pub use comm::Comm;
pub use comm_create::{AGREEMENT_BYTES, Agreeing, Bridge, CreateError, Created};
pub use dynamic::{CONNECT_TIMEOUT, MeetError, MeetErrorKind, Port, seconds};
pub use failure::{Failure, code_of_module};
pub use fault_tolerance::NotFaultTolerant;
pub use ferrywire_host::facts::CollectiveCall;
pub use ferrywire_host::trace;
pub use file::{
    File, FileAccess, FileCreation, FileError, FileHints, FileMode, FilePosition, OpenRequest,
    Trouble, Whence,
};
pub use plane::Plane;
pub use process::{Lost, Process};
pub use window::{
    Locking, TargetData, Trigger, Window, WindowError, WindowKind, WindowSpace, WordWidth,
};
