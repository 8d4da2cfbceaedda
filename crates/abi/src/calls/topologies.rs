//! Process topologies.

pub(crate) mod dims;
