//! Another world for the same NIC: virtual time, links, costs, faults, oracles.
#![forbid(unsafe_code)]

pub mod canary;
pub mod fabric;
pub mod memory;
pub mod random;
pub mod scale;
pub mod script;
pub mod soak;
pub mod world;
