//! Environment: initialisation and finalisation, errors, info objects, memory, user code on the NIC, and facts about the library.

pub(crate) mod active;
pub(crate) mod errhandler;
pub(crate) mod error;
pub(crate) mod info;
pub(crate) mod init;
pub(crate) mod interface;
pub(crate) mod membership;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod number;
pub(crate) mod session;
