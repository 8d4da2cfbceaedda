//! Groups, communicators, and what programs attach to them.

pub(crate) mod attribute;
pub(crate) mod comm;
pub(crate) mod comm_create;
pub(crate) mod fault_tolerance;
pub(crate) mod group;
pub(crate) mod name;
