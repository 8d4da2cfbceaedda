//! The meaning of MPI, in safe Rust on top of the NIC.
//!
//! No operating system, no C types, and nothing here ever blocks. So far:
//!
//! | module | what it is |
//! |---|---|
//! | [`group`] | which process stands behind which rank; splitting |
//! | [`collective`] | collective algorithms, within a group and between two, each a pure function from who we are to a schedule |
//! | [`operation`] | what reductions do to numbers |
#![forbid(unsafe_code)]

pub mod collective;
pub mod group;
pub mod operation;
