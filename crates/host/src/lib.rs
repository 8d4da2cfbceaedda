//! The machine: user memory, rails, the driver loop, bootstrap.
//!
//! This crate connects the NIC to real processes. It never matches, orders, retries or chooses: the NIC does. It holds
//! the unsafe code of Ferrywire, and each file with unsafe code states the invariants that it relies on.
//!
//! | file | what it is |
//! |---|---|
//! | `driver.rs`, `turn.rs` | which thread drives the NIC, how others wait: start at [`Driver::submit`]; one turn |
//! | `duty.rs`, `absence.rs` | who leads, where the agent is: the state machine; how long the application stays away |
//! | `agent.rs` | the thread that drives while the application is away |
//! | `rank.rs`, `around.rs` | a driver for each plane, and leaving; waiting in several planes at once |
//! | `own_planes.rs` | the planes of one rank, for whoever answers for all of them |
//! | `job.rs` | how a rank joins its job |
//! | `bootstrap.rs` | bootstrap through our launcher, and through the first rank of a host under other launchers |
//! | `launcher.rs` | bootstrap under other launchers, and without one |
//! | `control_channel.rs` | the channel of a rank to its launcher |
//! | `cores.rs`, `secret.rs` | how many cores a job may use; its secret |
//! | `service.rs`, `coalesced.rs` | runs a service beside the application; work that one thread at a time does |
//! | `port.rs`, `transfers.rs`, `claims.rs` | how the NIC acts on the machine; copies between processes; memory of the NIC itself |
//! | `facts.rs`, `facts/` | what a rank tells about itself while it runs, for launchers |
//! | `error_code.rs` | the codes of all errors that a user can meet |
//! | `report.rs` | what the NIC reports beside outcomes, until an application thread hears of it |
//! | `module.rs` | user code on the NIC: loading, replacing, unloading |
//! | `rail.rs`, `rails.rs` | what every rail can do; all rails of a rank as one |
//! | `net.rs`, `here.rs` | the other hosts and their addresses; the numbers of ranks, and which are here |
//! | `udp/` | the rail between hosts: sealed datagrams |
//! | `fabric/` | the other rail between hosts: libfabric, for hardware made for messages |
//! | `shm/` | the rail between processes of one machine: segment, planes, rings, doorbells |
//! | `loopback.rs` | the rail from a rank to itself |
//! | `memory.rs` | user memory as spans |
//! | `completion.rs` | outcomes of operations, and what waits for them |
//! | `wait_policy.rs`, `lock.rs` | how long to spin before sleeping; the lock around a NIC |
//! | `sync.rs` | atomics, cells and waiting, which the models in `loom/` replace |
//! | `stdio.rs` | buffers of standard streams, for ranks that end early |
//! | `sys/` | system calls |

mod absence;
mod agent;
mod around;
pub mod bootstrap;
mod claims;
mod coalesced;
mod completion;
mod control_channel;
pub mod cores;
mod driver;
mod duty;
pub mod error_code;
pub mod fabric;
pub mod facts;
#[cfg(test)]
mod forged;
#[cfg(fuzzing)]
pub mod fuzzed;
mod here;
pub mod job;
pub mod job_limits;
mod launcher;
mod lock;
mod loopback;
pub mod memory;
mod module;
pub mod net;
mod own_planes;
mod port;
pub mod rail;
mod rails;
mod rank;
mod report;
pub mod secret;
mod service;
pub mod shm;
pub mod stdio;
mod sync;
mod sys;
pub mod trace;
mod transfers;
mod turn;
pub mod udp;
mod wait_policy;

/// The types of the NIC that this interface uses.
pub use ferrywire_nic as nic;
pub use sys::file;
pub use {
    around::{wait_around, wait_for_around},
    coalesced::Coalesced,
    completion::Keep,
    control_channel::AskError,
    driver::{Driver, Finished},
    error_code::ErrorCode,
    here::Here,
    port::{HostPort, Operators, RegionAccess, monotonic_ns},
    rank::Rank,
    report::{HoldReports, Report, Reporter},
    service::RunningService,
    shm::{PLANES, Process, Segment},
    turn::Turns,
};
