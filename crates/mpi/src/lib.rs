//! The meaning of MPI, in safe Rust on top of the NIC.
//!
//! So far: collective algorithms, each a pure function from who we are to a schedule. No
//! operating system, no C types, and nothing here ever blocks.
#![forbid(unsafe_code)]

pub mod collective;
