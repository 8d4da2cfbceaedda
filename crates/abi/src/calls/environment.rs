//! Environment: beginning and end, errors, info objects, memory, and what the library says of itself.

pub(crate) mod errhandler;
pub(crate) mod error;
pub(crate) mod info;
pub(crate) mod init;
pub(crate) mod interface;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod number;
