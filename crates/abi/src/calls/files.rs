//! Files.

pub(crate) mod access;
pub(crate) mod file;
mod perform;
pub(crate) mod view;
