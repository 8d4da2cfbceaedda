//! Collectives: from spans to a schedule and its work space, for communicators with one group or two.

use std::sync::Arc;

use ferrywire_host::memory;
use ferrywire_host::nic::{Outcome, Posted, Schedule, Span};
use ferrywire_mpi::collective::inter::{self, Sides};
use ferrywire_mpi::collective::{self as algorithm, Edge, ReduceOp};

use crate::comm::Comm;
use crate::failure::Failure;

/// A collective that is ready to start.
pub struct Prepared {
    /// The schedule that the NIC runs.
    pub schedule: Arc<Schedule>,
    /// The work space of the schedule, which must live until it is complete.
    pub work: Box<[u8]>,
}

/// The root of a collective.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Root {
    /// A rank of an intracommunicator.
    Rank(u32),
    /// The root of an intercommunicator, as seen from its group.
    Between(inter::Root),
}

impl Prepared {
    fn new(work_bytes: u64, schedule: impl FnOnce(Span) -> Schedule) -> Prepared {
        let bytes = usize::try_from(work_bytes).expect("a program has as much in memory");
        let mut work: Box<[u8]> = vec![0; bytes].into();
        let schedule = Arc::new(schedule(memory::lend_mut(&mut work)));
        Prepared { schedule, work }
    }

    fn without_work(schedule: Schedule) -> Prepared {
        Prepared { schedule: Arc::new(schedule), work: Box::default() }
    }
}

impl<'a> Comm<'a> {
    /// Starts a collective under an instance.
    ///
    /// # Safety
    /// The buffers are lent, and `prepared` lives, until it is complete.
    pub unsafe fn start(self, instance: u16, prepared: &Prepared) -> Posted {
        // SAFETY: the caller's promise.
        unsafe { self.plane().start_schedule(instance, &prepared.schedule) }
    }

    /// Runs a collective, and waits until it is complete or releases this rank; then the rest continues without the
    /// caller.
    ///
    /// # Safety
    /// The buffers are lent until this returns.
    pub unsafe fn perform(self, instance: u16, prepared: Prepared) -> Result<(), Failure> {
        let Prepared { schedule, work } = prepared;
        // SAFETY: the caller's promise.
        let (ticket, outcome) = unsafe { self.plane().perform_schedule(instance, &schedule) };
        match (outcome, ticket) {
            (Outcome::Released, Some(ticket)) => {
                self.plane().detach(ticket, Some(Box::new(work)));
                Ok(())
            }
            (outcome, _) => self.process().done(outcome),
        }
    }

    /// Both groups of an intercommunicator.
    fn sides(self) -> Option<Sides<'a>> {
        let members = self.members();
        let inter = members.inter()?;
        let (group_id, rank) = (members.group_id(), members.rank());
        Some(Sides { group_id, ours: members.group(), theirs: &inter.remote, rank })
    }

    /// Both groups, for a collective with a root between them.
    fn expect_sides(self) -> Sides<'a> {
        self.sides().expect("a root between two groups is of a communicator that has two")
    }

    /// No rank returns before all have entered.
    pub fn barrier(self) -> Prepared {
        Prepared::without_work(match self.sides() {
            Some(sides) => inter::barrier(sides),
            None => algorithm::barrier(self.member()),
        })
    }

    /// All ranks get the bytes of the root.
    pub fn broadcast(self, root: Root, bytes: Span) -> Prepared {
        Prepared::without_work(match root {
            Root::Between(root) => inter::broadcast(self.expect_sides(), root, bytes),
            Root::Rank(root) => algorithm::broadcast(self.member(), root, bytes),
        })
    }

    /// The root gets the blocks of all ranks, each of `len` bytes.
    pub fn gather(self, root: Root, len: u64, mine: Span, all: Span) -> Prepared {
        match root {
            Root::Between(root) => {
                let sides = self.expect_sides();
                Prepared::new(inter::gather_work_bytes(sides, root, len), |work| {
                    inter::gather(sides, root, len, mine, all, work)
                })
            }
            Root::Rank(root) => {
                let me = self.member();
                Prepared::new(algorithm::gather_work_bytes(me, root, len), |work| {
                    algorithm::gather(me, root, mine, all, work)
                })
            }
        }
    }

    /// Each rank gets its block of the root's, of `len` bytes.
    pub fn scatter(self, root: Root, len: u64, all: Span, mine: Span) -> Prepared {
        match root {
            Root::Between(root) => {
                let sides = self.expect_sides();
                Prepared::new(inter::scatter_work_bytes(sides, root, len), |work| {
                    inter::scatter(sides, root, len, all, mine, work)
                })
            }
            Root::Rank(root) => {
                let me = self.member();
                Prepared::new(algorithm::scatter_work_bytes(me, root, len), |work| {
                    algorithm::scatter(me, root, all, mine, work)
                })
            }
        }
    }

    /// All ranks get the blocks of all, which have the same length.
    pub fn allgather(self, mine: Span, all: Span) -> Prepared {
        if let Some(sides) = self.sides() {
            return Prepared::without_work(inter::allgather(sides, mine, all));
        }
        let me = self.member();
        Prepared::new(algorithm::allgather_work_bytes(me, mine.len), |work| {
            algorithm::allgather(me, mine, all, work)
        })
    }

    /// Each rank gets one block from every rank, all of the same length.
    pub fn alltoall(self, source: Span, into: Span) -> Prepared {
        if let Some(sides) = self.sides() {
            return Prepared::without_work(inter::alltoall(sides, source, into));
        }
        let me = self.member();
        Prepared::new(algorithm::alltoall_work_bytes(source, into), |work| {
            algorithm::alltoall(me, source, into, work)
        })
    }

    /// The root gets the blocks of all ranks, of any lengths. Only the root passes `all`.
    pub fn gather_blocks(self, root: Root, mine: Span, all: &[Span]) -> Prepared {
        Prepared::without_work(match root {
            Root::Between(root) => inter::gather_blocks(self.expect_sides(), root, mine, at(all)),
            Root::Rank(root) => algorithm::gather_blocks(self.member(), root, mine, at(all)),
        })
    }

    /// Each rank gets its block of the root's, of any length. Only the root passes `all`.
    pub fn scatter_blocks(self, root: Root, all: &[Span], mine: Span) -> Prepared {
        Prepared::without_work(match root {
            Root::Between(root) => inter::scatter_blocks(self.expect_sides(), root, at(all), mine),
            Root::Rank(root) => algorithm::scatter_blocks(self.member(), root, at(all), mine),
        })
    }

    /// All ranks get the blocks of all, of any lengths.
    pub fn allgather_blocks(self, mine: Span, all: &[Span]) -> Prepared {
        if let Some(sides) = self.sides() {
            return Prepared::new(inter::allgather_blocks_work_bytes(sides, at(all)), |work| {
                inter::allgather_blocks(sides, mine, at(all), work)
            });
        }
        let me = self.member();
        Prepared::new(algorithm::allgather_blocks_work_bytes(me, at(all)), |work| {
            algorithm::allgather_blocks(me, mine, at(all), work)
        })
    }

    /// Each rank gets one block from every rank, of any lengths.
    pub fn alltoall_blocks(self, to: &[Span], from: &[Span]) -> Prepared {
        if let Some(sides) = self.sides() {
            return Prepared::without_work(inter::alltoall_blocks(sides, at(to), at(from)));
        }
        let me = self.member();
        Prepared::new(algorithm::alltoall_blocks_work_bytes(me, at(to), at(from)), |work| {
            algorithm::alltoall_blocks(me, at(to), at(from), work)
        })
    }

    /// Sends along each of `gives` and receives along each of `gets`, as the topology says.
    pub fn neighbourhood(self, gives: &[Edge], gets: &[Edge]) -> Prepared {
        Prepared::without_work(algorithm::neighbourhood(self.member(), gives, gets))
    }

    /// The root gets the combination of all contributions. `bytes` holds the contribution, and at the root the
    /// result.
    pub fn reduce(self, root: Root, reduce_op: ReduceOp, bytes: Span) -> Prepared {
        match root {
            Root::Between(root) => {
                let sides = self.expect_sides();
                let work_bytes = inter::reduce_work_bytes(sides, root, reduce_op, bytes.len);
                Prepared::new(work_bytes, |work| inter::reduce(sides, root, reduce_op, bytes, work))
            }
            Root::Rank(root) => {
                let me = self.member();
                let work_bytes = algorithm::reduce_work_bytes(me, root, reduce_op, bytes.len);
                Prepared::new(work_bytes, |work| {
                    algorithm::reduce(me, root, reduce_op, bytes, work)
                })
            }
        }
    }

    /// All ranks get the combination of all contributions; those of the other group if there are two.
    pub fn allreduce(self, reduce_op: ReduceOp, mine: Span, result: Span) -> Prepared {
        if let Some(sides) = self.sides() {
            let work_bytes = inter::allreduce_work_bytes(sides, reduce_op, mine.len);
            return Prepared::new(work_bytes, |work| {
                inter::allreduce(sides, reduce_op, mine, result, work)
            });
        }
        let me = self.member();
        Prepared::new(algorithm::allreduce_work_bytes(me, reduce_op, mine, result), |work| {
            algorithm::allreduce(me, reduce_op, mine, result, work)
        })
    }

    /// Each rank gets the combination of the contributions up to its own, in place.
    pub fn scan(self, reduce_op: ReduceOp, bytes: Span) -> Prepared {
        let me = self.member();
        Prepared::new(bytes.len, |work| algorithm::scan(me, reduce_op, bytes, work))
    }

    /// Like [`scan`](Comm::scan), without the rank's own contribution.
    pub fn exscan(self, reduce_op: ReduceOp, bytes: Span) -> Prepared {
        let me = self.member();
        Prepared::new(algorithm::exscan_work_bytes(bytes.len), |work| {
            algorithm::exscan(me, reduce_op, bytes, work)
        })
    }

    /// Each rank gets its block of the combination of all contributions. Blocks have the same length.
    pub fn reduce_scatter_block(self, reduce_op: ReduceOp, all: Span, mine: Span) -> Prepared {
        if let Some(sides) = self.sides() {
            let work_bytes = inter::reduce_scatter_work_bytes(sides, reduce_op, all.len);
            return Prepared::new(work_bytes, |work| {
                inter::reduce_scatter_block(sides, reduce_op, all, mine, work)
            });
        }
        let me = self.member();
        Prepared::new(algorithm::reduce_scatter_block_work_bytes(me, mine.len), |work| {
            algorithm::reduce_scatter_block(me, reduce_op, all, mine, work)
        })
    }

    /// The same with blocks of these lengths.
    pub fn reduce_scatter(
        self,
        reduce_op: ReduceOp,
        all: Span,
        lens: &[u64],
        mine: Span,
    ) -> Prepared {
        if let Some(sides) = self.sides() {
            let work_bytes = inter::reduce_scatter_work_bytes(sides, reduce_op, all.len);
            return Prepared::new(work_bytes, |work| {
                inter::reduce_scatter(sides, reduce_op, all, lens, mine, work)
            });
        }
        let me = self.member();
        Prepared::new(algorithm::reduce_scatter_work_bytes(me, lens), |work| {
            algorithm::reduce_scatter(me, reduce_op, all, lens, mine, work)
        })
    }
}

fn at(spans: &[Span]) -> impl Fn(u32) -> Span + Copy + '_ {
    |rank| spans[rank as usize]
}
