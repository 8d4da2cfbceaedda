//! What all communicators of a rank have in common.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ferrywire_host::Rank;
use ferrywire_host::nic::Peer;

use crate::error::COMMS_MAX;

/// A rank in its job. When the last communicator goes, so does this, and the rank leaves the job.
pub(crate) struct Job {
    pub(crate) driver: Rank,
    pub(crate) lost: Arc<Lost>,
    /// Communicators with lower numbers exist, or have existed.
    next_comm: Mutex<u16>,
}

impl Job {
    pub(crate) fn new(driver: Rank, lost: Arc<Lost>) -> Job {
        // The world is number 0.
        Job { driver, lost, next_comm: Mutex::new(1) }
    }

    /// The lowest number that a communicator could get, as far as this rank knows.
    pub(crate) fn next_comm(&self) -> u16 {
        *self.next_comm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a number, if no other communicator has it by now.
    pub(crate) fn claim_comm(&self, number: u16) -> bool {
        let mut next = self.next_comm.lock().unwrap_or_else(PoisonError::into_inner);
        let free = number >= *next && number < COMMS_MAX;
        if free {
            *next = number + 1;
        }
        free
    }
}

/// The rank without which the job cannot go on, if there is one. All ranks of a process share it.
pub(crate) struct Lost(AtomicU32);

impl Lost {
    pub(crate) fn nobody() -> Arc<Lost> {
        Arc::new(Lost(AtomicU32::new(NOBODY)))
    }

    /// Names the rank; false if another was lost before.
    pub(crate) fn name(&self, rank: u32) -> bool {
        // Pairs with the Acquire in `peer`.
        self.0.compare_exchange(NOBODY, rank, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn peer(&self) -> Option<Peer> {
        // Pairs with the Release in `name`.
        let rank = self.0.load(Ordering::Acquire);
        (rank != NOBODY).then_some(Peer(rank))
    }
}

const NOBODY: u32 = u32::MAX;
