//! Groups, communicators and what programs hang on them.

pub(crate) mod attribute;
pub(crate) mod comm;
pub(crate) mod comm_create;
pub(crate) mod fault_tolerance;
pub(crate) mod group;
pub(crate) mod name;
