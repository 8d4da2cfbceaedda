//! This process as a rank of its job: the state that all its communicators share.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use ferrywire_host::nic::{Peer, Region};
use ferrywire_host::{Driver, Rank, RunningService};
use ferrywire_mpi::agreement::Agreement;
use ferrywire_mpi::collective::Locality;
use ferrywire_mpi::comm::Comm as Members;
use ferrywire_mpi::group::Group;
use ferrywire_mpi::numbers::Numbers;

use crate::dynamic;
use crate::fault_tolerance;
use crate::plane::Plane;

/// A rank, from the moment it joins its job until it leaves.
///
/// Dropping it leaves the job, if it has not left before.
pub struct Process {
    rank: Place,
    numbers: Arc<Numbers>,
    /// The communicator of all processes under the launcher.
    universe: Members,
    /// How many ports this rank has opened, and how many meetings it has arranged.
    pub(crate) ports: AtomicU32,
    pub(crate) meetings: AtomicU32,
    /// The agreement service among survivors; only in a job that continues when ranks die.
    pub(crate) agreement: Option<Arc<RunningService<Agreement>>>,
    /// Whether several threads make calls at the same time, so that more than one plane may pay.
    has_threads: AtomicBool,
    user_operators: AtomicUsize,
    /// Numbers that regions of windows have had.
    regions: AtomicU32,
    lost: Arc<Lost>,
}

/// How the rank is owned.
#[expect(
    clippy::large_enum_variant,
    reason = "a process has one, and every message goes through it"
)]
enum Place {
    Owned(Rank),
    /// The agreement service runs beside the rank and may call it at any time, so the rank is never dropped.
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
    /// Wraps a rank that has joined its job. Numbers below `predefined` belong to the predefined communicators, of
    /// which the last is the universe.
    pub fn new(rank: Rank, predefined: u16, has_threads: bool) -> Process {
        let numbers = Numbers::new(rank.driver().me(), predefined);
        let universe = dynamic::universe(&rank, predefined - 1);
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
            universe,
            ports: AtomicU32::new(0),
            meetings: AtomicU32::new(0),
            agreement,
            has_threads: AtomicBool::new(has_threads),
            user_operators: AtomicUsize::new(0),
            regions: AtomicU32::new(1),
            lost: Lost::nobody(),
        }
    }

    /// Makes this one of several ranks in this process, which are lost together.
    #[must_use]
    pub fn sharing(mut self, lost: Arc<Lost>) -> Process {
        self.lost = lost;
        self
    }

    /// The lost rank among those that share this process.
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

    /// The members of the universe: all processes under the launcher, whose ranks are their numbers as peers.
    pub fn universe(&self) -> &Members {
        &self.universe
    }

    /// The members of the world of this process, which has this number.
    pub fn world(&self, number: u16) -> Members {
        let group = Group::of(&self.rank().world().collect::<Vec<_>>());
        let rank = group.rank_of(self.rank().driver().me()).expect("a rank is in its world");
        Members::new(group, rank, number)
    }

    /// The first plane, where the predefined communicators are.
    #[inline(always)]
    pub fn first_plane(&self) -> Plane<'_> {
        Plane::new(self, self.rank().driver())
    }

    /// The drivers of all planes that are open.
    pub(crate) fn drivers(&self) -> impl Iterator<Item = &Driver> {
        self.rank.drivers()
    }

    /// How the ranks of the job share hosts and cores.
    pub fn locality(&self) -> Locality {
        match self.rank() {
            rank if rank.driver().has_other_hosts() => Locality::Unknown,
            rank if rank.driver().is_oversubscribed() => Locality::Oversubscribed,
            _ => Locality::OneNode,
        }
    }

    /// From now on several threads may make calls at the same time.
    pub fn add_threads(&self) {
        self.has_threads.store(true, Ordering::Relaxed);
    }

    /// This rank's vote when the members of a new communicator agree on its plane: all bits if any plane will do,
    /// else 0.
    pub fn plane_vote(&self) -> u64 {
        let has_threads = self.has_threads.load(Ordering::Relaxed);
        if has_threads && self.rank.has_cores_to_spare() { !0 } else { 0 }
    }

    /// The first of two regions for a new window. No other window has had them, so nobody mistakes it for an old one.
    pub(crate) fn next_regions(&self) -> Region {
        Region(self.regions.fetch_add(2, Ordering::Relaxed))
    }

    /// Counts an open schedule that needs a user-defined operator.
    pub fn add_user_operator(&self) {
        self.user_operators.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts it as closed.
    pub fn remove_user_operator(&self) {
        self.user_operators.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a waiting thread must drive all planes: a user-defined operator may wait in any of them for a thread
    /// of the program, because the agent does not run it.
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

/// The rank whose loss ended the job, if any. All ranks of a process share it.
pub struct Lost {
    rank: AtomicU32,
    /// Whether the timeout ended the job, and not a loss.
    late: AtomicBool,
}

impl Lost {
    /// No rank is lost.
    pub fn nobody() -> Arc<Lost> {
        Arc::new(Lost { rank: AtomicU32::new(NOBODY), late: AtomicBool::new(false) })
    }

    /// Records the lost rank; false if another was lost before.
    pub fn name(&self, rank: u32) -> bool {
        // Pairs with the Acquire in `peer`.
        self.rank.compare_exchange(NOBODY, rank, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Records the rank that stands for the timeout; false if one was lost before.
    pub fn name_late(&self, rank: u32) -> bool {
        let named = self.name(rank);
        if named {
            self.late.store(true, Ordering::Release);
        }
        named
    }

    /// Whether the timeout ended the job.
    pub fn is_late(&self) -> bool {
        // Pairs with the Release in `name_late`.
        self.late.load(Ordering::Acquire)
    }

    /// The lost rank, if any.
    pub fn peer(&self) -> Option<Peer> {
        // Pairs with the Release in `name`.
        let rank = self.rank.load(Ordering::Acquire);
        (rank != NOBODY).then_some(Peer(rank))
    }
}

const NOBODY: u32 = u32::MAX;
