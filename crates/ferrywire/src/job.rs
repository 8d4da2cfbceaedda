//! What all communicators of a rank have in common.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ferrywire_host::nic::Peer;
use ferrywire_host::{Rank, Residence};
use ferrywire_mpi::council::Council;
use ferrywire_mpi::numbers::Numbers;

use crate::watch::Watch;

/// A rank in its job. When the last communicator goes, so does this, and the rank leaves the job.
pub(crate) struct Job {
    pub(crate) driver: Place,
    pub(crate) lost: Arc<Lost>,
    /// The numbers of its communicators.
    pub(crate) numbers: Arc<Numbers>,
    /// What settles things among ranks that die, in a job that goes on without them.
    pub(crate) council: Option<Arc<Residence<Council>>>,
    /// What knows of all ranks, if they share this process and are watched.
    pub(crate) watch: Option<Arc<Watch>>,
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
    pub(crate) fn new(rank: Rank, lost: Arc<Lost>, watch: Option<Arc<Watch>>) -> Job {
        // The world is number 0.
        let numbers = Numbers::new(rank.me(), 1);
        if !rank.is_lasting() {
            return Job { driver: Place::Own(rank), lost, numbers, council: None, watch };
        }
        let rank: &'static Rank = Box::leak(Box::new(rank));
        let me = rank.me();
        let (word, wanted) = (Council::word(me), Council::wanted());
        let bytes_max = Council::message_bytes_max(rank.size());
        let council = Residence::open(rank, Council::new(me), word, wanted, bytes_max);
        Job { driver: Place::Lasting(rank), lost, numbers, council: Some(council), watch }
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
pub(crate) struct Lost {
    rank: AtomicU32,
    /// It was not lost by itself: the time was over.
    late: AtomicBool,
}

impl Lost {
    pub(crate) fn nobody() -> Arc<Lost> {
        Arc::new(Lost { rank: AtomicU32::new(NOBODY), late: AtomicBool::new(false) })
    }

    /// Names the rank; false if another was lost before.
    pub(crate) fn name(&self, rank: u32) -> bool {
        // Pairs with the Acquire in `peer`.
        self.rank.compare_exchange(NOBODY, rank, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Names the rank with which the others are ended since the time is over; false if one was lost before.
    pub(crate) fn name_late(&self, rank: u32) -> bool {
        let named = self.name(rank);
        if named {
            self.late.store(true, Ordering::Release);
        }
        named
    }

    pub(crate) fn is_late(&self) -> bool {
        // Pairs with the Release in `name_late`.
        self.late.load(Ordering::Acquire)
    }

    pub(crate) fn peer(&self) -> Option<Peer> {
        // Pairs with the Release in `name`.
        let rank = self.rank.load(Ordering::Acquire);
        (rank != NOBODY).then_some(Peer(rank))
    }
}

const NOBODY: u32 = u32::MAX;
