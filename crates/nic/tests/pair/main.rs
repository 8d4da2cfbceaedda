//! A few NICs, with time and frames moved by hand; one story per test.
//!
//! Each story ends with a check that nothing is left: no ticket, no timer, no byte in a store.

#[path = "../common/mod.rs"]
mod common;

mod ended;
mod held;
mod messages;
mod modules;
mod onesided;
mod rails;
mod reliability;
mod rendezvous;
mod rest;
mod schedules;
mod short;
mod silence;
mod strangers;
