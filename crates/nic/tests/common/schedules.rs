//! The collectives of `mpi`, for the group of the tests. A rank and its peer have the same number.

use std::sync::Arc;

use ferrywire_mpi::collective::{self, Locality, Member, Naming, ReduceOp};
use ferrywire_mpi::group::Group;
use ferrywire_nic::{Schedule, Span};

use super::SUM;

/// The group of the schedules in the tests.
pub(crate) const GROUP: u16 = 4;

fn member(rank: u32, group: &Group) -> Member<'_> {
    Member { group_id: GROUP, group, rank, locality: Locality::Unknown, naming: Naming::Ranks }
}

pub(crate) fn barrier(me: u32, size: u32) -> Arc<Schedule> {
    Arc::new(collective::barrier(member(me, &Group::whole(size))))
}

/// From rank 0.
pub(crate) fn broadcast(me: u32, size: u32, data: Span) -> Arc<Schedule> {
    Arc::new(collective::broadcast(member(me, &Group::whole(size)), 0, data))
}

/// To rank 0.
pub(crate) fn reduce(me: u32, size: u32, data: Span, work: Span) -> Arc<Schedule> {
    let sum = ReduceOp { operator: SUM, element_bytes: 8, commutative: true };
    Arc::new(collective::reduce(member(me, &Group::whole(size)), 0, sum, data, work))
}
