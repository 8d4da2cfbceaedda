//! This process as a rank of its job: what all its communicators have in common.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use ferrywire_host::nic::Peer;
use ferrywire_host::{Driver, Rank, RunningService};
use ferrywire_mpi::agreement::Agreement;
use ferrywire_mpi::collective::Locality;
use ferrywire_mpi::numbers::Numbers;

use crate::fault_tolerance;
use crate::plane::Plane;

/// A rank, from the moment it joins its job until it leaves.
///
/// It leaves when this is dropped, at the latest.
pub struct Process {
    rank: Place,
    numbers: Arc<Numbers>,
    /// What settles things among ranks when some of them die; only in a job that goes on without them.
    pub(crate) agreement: Option<Arc<RunningService<Agreement>>>,
    /// Whether several threads call at the same time, so that more than one plane may pay.
    has_threads: bool,
    user_operators: AtomicUsize,
    lost: Arc<Lost>,
}

/// Where the rank lives.
#[expect(
    clippy::large_enum_variant,
    reason = "a process has one, and every message goes through it"
)]
enum Place {
    Owned(Rank),
    /// A agreement lives beside it and may call it at any time, so it is never dropped.
    Leaked(&'static Rank),
}

impl Deref for Place {
    type Target = Rank;

    #[inline(always)]
    fn deref(&self) -> &Rank {
        match self {
            Place::Owned(rank) => rank,
            Place::Leaked(rank) => rank,
        }
    }
}

impl Process {
    /// A rank that has joined. Numbers of communicators below `predefined` belong to those that are there from the
    /// beginning.
    pub fn new(rank: Rank, predefined: u16, has_threads: bool) -> Process {
        let numbers = Numbers::new(rank.me(), predefined);
        let (rank, agreement) = match rank.is_fault_tolerant() {
            false => (Place::Owned(rank), None),
            true => {
                let rank: &'static Rank = Box::leak(Box::new(rank));
                (Place::Leaked(rank), Some(fault_tolerance::open_agreement(rank)))
            }
        };
        Process {
            rank,
            numbers,
            agreement,
            has_threads,
            user_operators: AtomicUsize::new(0),
            lost: Lost::nobody(),
        }
    }

    /// The same, as one of several ranks in this process: they are lost together.
    #[must_use]
    pub fn sharing(mut self, lost: Arc<Lost>) -> Process {
        self.lost = lost;
        self
    }

    /// Who has been lost of the ranks that share this process.
    #[inline]
    pub fn lost(&self) -> &Lost {
        &self.lost
    }

    /// The rank.
    #[inline(always)]
    pub fn rank(&self) -> &Rank {
        &self.rank
    }

    /// The numbers that communicators of this process can have.
    pub fn numbers(&self) -> &Arc<Numbers> {
        &self.numbers
    }

    /// The first plane, where the predefined communicators are.
    #[inline(always)]
    pub fn first_plane(&self) -> Plane<'_> {
        Plane::new(self, self.rank())
    }

    /// The drivers of all planes that are open.
    pub(crate) fn drivers(&self) -> impl Iterator<Item = &Driver> {
        self.rank.drivers()
    }

    /// How the ranks of the job share machines and cores.
    pub fn locality(&self) -> Locality {
        match self.rank() {
            rank if rank.has_other_hosts() => Locality::Unknown,
            rank if rank.is_oversubscribed() => Locality::Oversubscribed,
            _ => Locality::OneNode,
        }
    }

    /// What this rank votes when the members of a new communicator agree: all bits if it may be in any plane, or none.
    pub fn plane_vote(&self) -> u64 {
        if self.has_threads && self.rank.has_cores_to_spare() { !0 } else { 0 }
    }

    /// An open schedule needs a user-defined operator.
    pub fn add_user_operator(&self) {
        self.user_operators.fetch_add(1, Ordering::Relaxed);
    }

    /// It does not any more.
    pub fn remove_user_operator(&self) {
        self.user_operators.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a thread that waits has to look at all planes: a user-defined operator may wait in any of them for a
    /// thread of the program, since the agent does not run it.
    #[inline(always)]
    pub(crate) fn must_look_around(&self) -> bool {
        self.user_operators.load(Ordering::Relaxed) > 0 && !self.rank.has_one_plane()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Place::Leaked(rank) = self.rank {
            rank.leave();
        }
    }
}

/// The rank without which the job cannot go on, if there is one. All ranks of a process share it.
pub struct Lost {
    rank: AtomicU32,
    /// It was not lost by itself: the time was over.
    late: AtomicBool,
}

impl Lost {
    /// Nobody is lost.
    pub fn nobody() -> Arc<Lost> {
        Arc::new(Lost { rank: AtomicU32::new(NOBODY), late: AtomicBool::new(false) })
    }

    /// Names the rank; false if another was lost before.
    pub fn name(&self, rank: u32) -> bool {
        // Pairs with the Acquire in `peer`.
        self.rank.compare_exchange(NOBODY, rank, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Names the rank with which the others are ended since the time is over; false if one was lost before.
    pub fn name_late(&self, rank: u32) -> bool {
        let named = self.name(rank);
        if named {
            self.late.store(true, Ordering::Release);
        }
        named
    }

    /// Whether the rank was named because the time was over.
    pub fn is_late(&self) -> bool {
        // Pairs with the Release in `name_late`.
        self.late.load(Ordering::Acquire)
    }

    /// The rank, if there is one.
    pub fn peer(&self) -> Option<Peer> {
        // Pairs with the Release in `name`.
        let rank = self.rank.load(Ordering::Acquire);
        (rank != NOBODY).then_some(Peer(rank))
    }
}

const NOBODY: u32 = u32::MAX;
