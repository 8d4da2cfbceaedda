//! MPI semantics, in safe Rust on top of the NIC.
//!
//! No operating system, no C types, and no call blocks. The modules:
//!
//! | module | what it is |
//! |---|---|
//! | [`comm`] | communicators, and the match words of their messages |
//! | [`agreement`] | agreement and revocation among ranks that may die |
//! | [`numbers`] | the communicator numbers of a rank, and the order in which agreements take one |
//! | [`number_agreement`] | how the members of a new communicator agree on its number |
//! | [`group`] | the map from ranks to processes; splitting |
//! | [`info`] | key-value pairs |
//! | [`datatype`] | which bytes of memory are a message; packing and unpacking |
//! | [`mod@file`] | which bytes of a file a view has; who writes which part of it in collective calls |
//! | [`topology`] | grids and graphs of ranks; balanced grids; placement by locality |
//! | [`collective`] | collective algorithms, within a group and between two, each a pure function to a schedule |
//! | [`operation`] | predefined reduction operators |
#![forbid(unsafe_code)]

pub mod agreement;
pub mod collective;
pub mod comm;
pub mod datatype;
pub mod file;
pub mod group;
pub mod info;
pub mod number_agreement;
pub mod numbers;
pub mod operation;
pub mod topology;
