//! Conversion from and to C: the types, constants and handles of the ABI, and the values that calls make of them.

pub(crate) mod argument;
pub(crate) mod callback;
pub mod constants;
pub(crate) mod failure;
pub(crate) mod handle;
pub(crate) mod pointer;
pub(crate) mod report;
pub(crate) mod sizes;
pub(crate) mod status;
pub mod types;
