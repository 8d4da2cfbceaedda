//! Models of what ranks and threads share: loom runs every order in which their steps may fall.
//!
//! The files under test are the real ones, included by path. They take atomics, cells, waiting and
//! sizes from `crate::sync`, and here that module is one of loom's: two slots instead of 128, a futex
//! that never wakes for no reason, and cells that know who may touch them. A wake-up that gets
//! lost is a deadlock, which loom reports.
//!
//! What loom cannot show: how long a store is on its way. So the protocol without fences, which
//! counts on a nap being longer than that, is not proved here; it is only shown that it needs the nap.
#![cfg(test)]
// The models do not call everything that the included files offer.
#![allow(dead_code)]

#[path = "../../src/shm/doorbell.rs"]
mod doorbell;
#[path = "../../src/lock.rs"]
mod lock;
#[path = "../../src/shm/newcomers.rs"]
mod newcomers;
#[path = "../../src/notes.rs"]
mod notes;
#[path = "../../src/shm/ring.rs"]
mod ring;
#[path = "../../src/summons.rs"]
mod summons;
mod sync;

mod exclusion;
mod leaving;
mod pipe;
mod waking;
