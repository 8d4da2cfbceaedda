//! What we ask of Linux, one file for each sort of thing. All system calls are made here, except those on the sockets
//! of the bootstrap and between hosts.

pub mod file;
pub(crate) mod fork;
pub(crate) mod futex;
pub(crate) mod hidden;
pub(crate) mod interfaces;
pub(crate) mod map;
pub(crate) mod random;
pub(crate) mod reach;
pub(crate) mod schedule;
pub(crate) mod secure;
pub(crate) mod threads;
