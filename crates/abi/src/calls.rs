//! The functions of the standard, by its chapters. Each is written once, in an `entries!` block: see `entry.rs`.

mod collectives;
mod communicators;
mod datatypes;
pub(crate) mod entry;
mod environment;
mod point_to_point;
mod topologies;
mod unsupported;
