//! Simulator for the production NIC: virtual time, links, costs, faults, oracles.
//!
//! A [`world::World`] runs NICs as values in one thread, from one seed. [`soak`] runs random programs ([`script`],
//! [`modules`], [`windows`]) under random faults ([`fabric`]) and judges the outcome; [`canary`] plants bugs to check
//! the oracles; [`scale`] runs collectives on a million ranks.
#![forbid(unsafe_code)]

mod audit;
pub mod canary;
mod conditions;
pub mod fabric;
pub mod machine;
pub mod memory;
pub mod modules;
pub mod papers;
pub mod port;
pub mod random;
pub mod scale;
pub mod script;
pub mod soak;
mod trace;
pub mod windows;
pub mod world;
