//! What all communicators of a rank have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferrywire_host::Rank;
use ferrywire_host::nic::Peer;
use ferrywire_mpi::numbers::Numbers;

/// A rank in its job. When the last communicator goes, so does this, and the rank leaves the job.
pub(crate) struct Job {
    pub(crate) driver: Rank,
    pub(crate) lost: Arc<Lost>,
    /// The numbers of its communicators.
    pub(crate) numbers: Arc<Numbers>,
}

impl Job {
    pub(crate) fn new(driver: Rank, lost: Arc<Lost>) -> Job {
        // The world is number 0.
        Job { driver, lost, numbers: Numbers::new(1) }
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
