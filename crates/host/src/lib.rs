//! The machine: user memory, rails, the driver loop, bootstrap.
//!
//! A world for the NIC made of real processes. It never matches, orders, retries or chooses: that
//! is the NIC's business. What is unsafe in Ferrywire is here, and each file that is says on what
//! it relies.
//!
//! | file | what it is |
//! |---|---|
//! | `driver.rs` | who drives the NIC, and who waits how: start reading at [`Driver::submit`] |
//! | `agent.rs`, `agent_handover.rs`, `agent_wakeup.rs` | the thread that drives while the application is away, and how it is called |
//! | `rank.rs`, `around.rs` | a driver for each plane, and leaving; waiting in several planes at once |
//! | `job.rs` | how a rank comes to its job |
//! | `meet.rs`, `cores.rs`, `secret.rs` | our launcher and its ranks meet; how many cores a job may use; its secret |
//! | `boot.rs`, `line.rs` | other launchers, and none; the line to whichever it is |
//! | `service.rs` | runs a service beside the application |
//! | `port.rs` | how the NIC acts on the machine |
//! | `module.rs` | user code on the NIC: loading, replacing, unloading |
//! | `rail.rs`, `rails.rs` | what every rail can do; all rails of a rank as one |
//! | `net.rs` | who the other hosts are, and where |
//! | `udp/` | the rail between hosts: sealed datagrams |
//! | `fabric/` | the other one: libfabric, where there is hardware made for messages |
//! | `shm/` | the rail between processes of one machine: segment, planes, rings, doorbells |
//! | `memory.rs` | user memory as spans |
//! | `completion.rs` | what has ended, and who waits for it |
//! | `wait_policy.rs`, `lock.rs` | how long to look before sleeping; the lock around a NIC |
//! | `sync.rs` | atomics, cells and waiting, which the models in `loom/` replace by their own |
//! | `stdio.rs` | buffers of standard streams, for ranks that end early |
//! | `sys/` | system calls |

mod agent;
mod agent_handover;
mod agent_wakeup;
mod around;
pub mod bootstrap;
mod claims;
mod coalesced;
mod completion;
mod control_channel;
pub mod cores;
mod driver;
pub mod fabric;
#[cfg(test)]
mod forged;
#[cfg(fuzzing)]
pub mod fuzzed;
pub mod job;
mod launcher;
mod lock;
pub mod memory;
mod module;
pub mod net;
mod port;
pub mod rail;
mod rails;
mod rank;
pub mod secret;
mod service;
pub mod shm;
pub mod stdio;
mod sync;
mod sys;
mod turn;
pub mod udp;
mod wait_policy;

/// What the driver speaks of, for those who use it.
pub use ferrywire_nic as nic;
pub use {
    around::{wait_around, wait_for_around},
    completion::Keep,
    driver::{Driver, Finished},
    port::{HostPort, Operators},
    rank::Rank,
    service::RunningService,
    shm::{PLANES, Process, Segment},
    turn::Turns,
};
