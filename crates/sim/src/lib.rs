//! Another world for the same NIC: virtual time, links, costs, faults, oracles.
//!
//! A [`world::World`] runs NICs as values in one thread, from one seed. [`soak`] lets random
//! programs ([`script`], [`modules`]) meet random faults ([`fabric`]) and judges what comes of it; [`canary`]
//! plants bugs to see that the judges are awake; [`scale`] runs collectives on a million ranks.
#![forbid(unsafe_code)]

pub mod canary;
pub mod fabric;
pub mod memory;
pub mod modules;
pub mod port;
pub mod random;
pub mod scale;
pub mod script;
pub mod soak;
mod trace;
pub mod world;
