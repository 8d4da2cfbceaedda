//! Models of what ranks and threads share: loom runs every interleaving of their steps.
//!
//! The files under test are the real ones, included by path. They take atomics, cells, waiting and sizes from
//! `crate::sync`, which here is built on loom: two slots instead of 128, a futex without spurious wake-ups, and cells
//! that check which thread may touch them. A lost wake-up is a deadlock, which loom reports.
//!
//! What loom cannot show is how long a store is on its way. The protocol without fences relies on a nap being longer
//! than that; `guarding.rs` assumes it, and shows that the protocol then loses no wake-up, and needs the nap.
#![cfg(test)]
// The models do not call everything that the included files offer.
#![allow(dead_code, unreachable_pub)]

#[path = "../../src/coalesced.rs"]
mod coalesced;
#[path = "../../src/shm/doorbell.rs"]
mod doorbell;
#[path = "../../src/duty.rs"]
mod duty;
#[path = "../../src/lock.rs"]
mod lock;
#[path = "../../src/shm/newcomers.rs"]
mod newcomers;
#[path = "../../src/shm/process_lock.rs"]
mod process_lock;
#[path = "../../src/shm/ring.rs"]
mod ring;
mod sync;

/// The doorbell, at the path by which the included files import it.
mod shm {
    pub(crate) use crate::doorbell;
}

mod coalescing;
mod exclusion;
mod guarding;
mod pipe;
mod sharing;
mod waking;
