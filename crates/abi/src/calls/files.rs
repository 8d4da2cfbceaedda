//! Files.

pub(crate) mod access;
pub(crate) mod file;
pub(crate) mod view;
