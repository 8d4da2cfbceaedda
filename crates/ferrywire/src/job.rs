//! What all communicators of a rank have in common.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferrywire_host::nic::Peer;
use ferrywire_host::{Rank, Residence};
use ferrywire_mpi::council::Council;
use ferrywire_mpi::numbers::Numbers;

/// A rank in its job. When the last communicator goes, so does this, and the rank leaves the job.
pub(crate) struct Job {
    pub(crate) driver: Place,
    pub(crate) lost: Arc<Lost>,
    /// The numbers of its communicators.
    pub(crate) numbers: Arc<Numbers>,
    /// What settles things among ranks that die, in a job that goes on without them.
    pub(crate) council: Option<Arc<Residence<Council>>>,
}

/// Our place in the job.
#[expect(clippy::large_enum_variant, reason = "a rank has one, and every message goes through it")]
pub(crate) enum Place {
    Own(Rank),
    /// A council lives beside it, and may be called at any time: so it is never let go.
    Lasting(&'static Rank),
}

impl Deref for Place {
    type Target = Rank;

    #[inline(always)]
    fn deref(&self) -> &Rank {
        match self {
            Place::Own(rank) => rank,
            Place::Lasting(rank) => rank,
        }
    }
}

impl Job {
    pub(crate) fn new(rank: Rank, lost: Arc<Lost>) -> Job {
        // The world is number 0.
        let numbers = Numbers::new(1);
        if !rank.is_lasting() {
            return Job { driver: Place::Own(rank), lost, numbers, council: None };
        }
        let rank: &'static Rank = Box::leak(Box::new(rank));
        let me = rank.me();
        let (word, wanted) = (Council::word(me), Council::wanted());
        let bytes_max = Council::message_bytes_max(rank.size());
        let council = Residence::open(rank, Council::new(me), word, wanted, bytes_max);
        Job { driver: Place::Lasting(rank), lost, numbers, council: Some(council) }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Place::Lasting(rank) = self.driver {
            rank.leave();
        }
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
