//! The network interface of Ferrywire, as a state machine.
//!
//! A [`Nic`] does message passing for one rank: it matches, transfers eagerly or by rendezvous, bounds its memory,
//! retries on rails that lose frames, and runs schedules. It has no clock and no threads, and never touches user
//! memory or the operating system: events come in through its methods, and its actions go out through a [`Port`].
//! Start reading at [`Nic::on_frame`].
//!
//! # Chapters
//!
//! | file | what it does |
//! |---|---|
//! | `nic.rs` | entry points, dispatch, state |
//! | `frames.rs` | frames out and in, through the reliability layer where the rail needs it |
//! | `contact.rs` | how peers come and go |
//! | `send.rs` | choosing the protocol of a message, held messages, cancelling |
//! | `short.rs` | the short way, which most messages take |
//! | `receive.rs` | arrivals, unexpected messages, refusals, credit |
//! | `matcher.rs` | which receive gets which message |
//! | `service.rs` | protocols that run beside the application |
//! | `rendezvous.rs` | offer, grant, read, chunks |
//! | `onesided.rs` | put, get, accumulate, compare-and-swap |
//! | `counter.rs`, `schedule.rs`, `run.rs` | counters, triggers, schedules |
//! | `module.rs`, `hooks.rs`, `hooks/` | user code: what it may call, when it runs |
//! | `search.rs` | probes among held messages |
//! | `lane.rs`, `store.rs` | credit and held messages; the bounded store of unexpected messages |
//! | `copies.rs` | short messages that complete as soon as they are copied |
//! | `peers.rs`, `reliability.rs` | the peer table; sequence numbers, acks, retries |
//! | `congestion.rs` | how many frames may be in flight |
//! | `silence.rs` | when a peer owes a sign of life, and when it is given up |
//! | `deadlines.rs` | when the timer of each peer is due |
//! | `envelope.rs` | the header of a frame |
//! | `inspect.rs` | what a NIC waits for |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod canary;
mod congestion;
mod contact;
mod copies;
pub mod counter;
mod deadlines;
pub mod envelope;
mod frames;
pub mod hooks;
mod inspect;
mod lane;
pub mod limits;
pub mod matcher;
pub mod module;
pub mod nic;
mod onesided;
mod op;
mod peers;
pub mod port;
mod receive;
mod reliability;
mod rendezvous;
mod run;
pub mod schedule;
mod search;
mod send;
pub mod service;
mod short;
mod silence;
mod slab;
pub mod store;
mod stored;
pub mod types;
pub mod word;

pub use counter::{Counter, Triggered};
pub use envelope::{Envelope, Kind, Marks};
pub use hooks::{MODULE_COUNTERS, MODULE_GROUP, ModuleStats, Placement};
pub use inspect::{Pending, PendingKind};
pub use limits::Limits;
pub use module::{Hook, Message, Module, Trap, Verdict};
pub use nic::{Credit, Holdings, Nic, Standard, Stats, Variant};
pub use peers::Mix;
pub use port::{Notice, Operator, Port, Progress, Promises, RailId, Seal, Sent, StepRef};
pub use receive::Probed;
pub use schedule::{Consult, Schedule, Step, StepId};
pub use service::{Action, Departure, Service};
pub use short::Awaited;
pub use types::{Fault, Key, Mode, Outcome, Peer, Posted, Received, Region, Span, Ticket, Time};
pub use word::{Mask, MatchWord};
