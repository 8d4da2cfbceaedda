//! Windows: one-sided communication.

pub(crate) mod access;
pub(crate) mod counters;
pub(crate) mod epoch;
pub(crate) mod window;
