//! Process topologies.

pub(crate) mod cart;
pub(crate) mod dims;
pub(crate) mod dist_graph;
pub(crate) mod graph;

use std::ffi::c_int;
use std::sync::Arc;

use ferrywire_host::ErrorCode;
use ferrywire_mpi::topology::{Link, Topology};
use ferrywire_runtime::Created;

use crate::calls::communicators::comm_create::NewComm;
use crate::convert::argument::PeerRank;
use crate::convert::constants::{MPI_ERR_COMM, MPI_ERR_RANK};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::Out;
use crate::convert::types::MPI_Comm;
use crate::objects::comm::Comm;

/// Creates a communicator with `nodes` ranks, reordered if there are `links`. `None` for other ranks.
fn placed(
    old: &Comm,
    instance: u16,
    nodes: u32,
    links: Option<impl FnOnce() -> Vec<Link>>,
) -> Result<Option<Created>> {
    if old.members.inter().is_some() {
        let why = format!("{old} is an intercommunicator, which cannot have a topology");
        return Err(Failure::new(MPI_ERR_COMM, why).coded(ErrorCode::INTERCOMM));
    }
    Ok(old.runtime().create_with_nodes(instance, nodes, links)?)
}

/// Writes a communicator with the topology that belongs to its rank. Where a rank gets none, MPI_COMM_NULL is already
/// written.
fn put_placed(
    newcomm: Out<MPI_Comm>,
    old: &Comm,
    created: Option<Created>,
    topology: impl FnOnce(u32) -> Topology,
) -> Result {
    let Some(created) = created else { return Ok(()) };
    let topology = topology(created.members.rank());
    let new = Comm::made(created, format!("a topology of {}", old.title()), old)?;
    NewComm(newcomm).put(new.with_topology(Some(Arc::new(topology))))
}

/// A rank of a communicator.
fn member(comm: &Comm, rank: PeerRank) -> Result<u32> {
    rank.below(comm.members.group().size()).ok_or_else(|| no_such_rank(rank.number()))
}

/// Ranks of a topology with `nodes` ranks.
fn ranks_below(ranks: &[c_int], nodes: u32) -> Result<Vec<u32>> {
    let rank = |&rank: &c_int| {
        let valid = u32::try_from(rank).ok().filter(|&rank| rank < nodes);
        valid.ok_or_else(|| no_such_rank(rank))
    };
    ranks.iter().map(rank).collect()
}

#[cold]
fn no_such_rank(rank: c_int) -> Failure {
    Failure::new(MPI_ERR_RANK, format!("invalid rank {rank} in a topology"))
}
