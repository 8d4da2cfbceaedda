//! The meaning of MPI, in safe Rust on top of the NIC.
//!
//! No operating system, no C types, and nothing here ever blocks. So far:
//!
//! | module | what it is |
//! |---|---|
//! | [`comm`] | communicators, and the words of their messages |
//! | [`agreement`] | agreement and revocation among ranks that may die |
//! | [`numbers`] | the numbers of a rank's communicators, and whose turn it is to take one |
//! | [`number_agreement`] | how the members of a new communicator agree on its number |
//! | [`group`] | which process stands behind which rank; splitting |
//! | [`info`] | keys with values |
//! | [`datatype`] | which bytes of memory are a message; packing and unpacking |
//! | [`grid`] | how many processes stand along each side of a grid |
//! | [`collective`] | collective algorithms, within a group and between two, each a pure function from who we are to a schedule |
//! | [`operation`] | what reductions do to numbers |
#![forbid(unsafe_code)]

pub mod agreement;
pub mod collective;
pub mod comm;
pub mod datatype;
pub mod grid;
pub mod group;
pub mod info;
pub mod number_agreement;
pub mod numbers;
pub mod operation;
