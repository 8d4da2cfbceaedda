//! The functions of the standard, by chapter. Each is written once, in an `entries!` block: see `entry.rs`.

pub(crate) mod collectives;
pub(crate) mod communicators;
pub(crate) mod datatypes;
pub(crate) mod entry;
pub(crate) mod environment;
pub(crate) mod files;
pub(crate) mod point_to_point;
pub(crate) mod processes;
pub(crate) mod topologies;
pub(crate) mod windows;
