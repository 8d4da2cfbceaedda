//! Neighbourhood collectives: each rank exchanges with its neighbours in the topology of the communicator.

use ferrywire_host::ErrorCode;
use ferrywire_host::nic::Span;
use ferrywire_mpi::collective::Edge;
use ferrywire_mpi::topology::Neighbour;

use super::build::{Blocks, Build, TypedBlocks, is_in_place};
use super::collective::{begin, collectives, perform, prepare};
use super::movement::Even;
use crate::calls::entry::entries;
use crate::convert::constants::{MPI_ERR_BUFFER, MPI_ERR_TOPOLOGY};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{Choice, ChoiceMut, In, Out};
use crate::convert::sizes::{self, Wide};
use crate::convert::types::{MPI_Aint, MPI_Comm, MPI_Datatype, MPI_Info, MPI_Request};
use crate::objects::collecting::Collecting;
use crate::objects::collective_cache::CacheKey;
use crate::objects::collective_note::CollectiveNote;
use crate::objects::comm::{self, Comm};
use crate::objects::data::Data;

collectives! {
    MPI_Neighbor_allgather / MPI_Neighbor_allgather_c,
    MPI_Ineighbor_allgather / MPI_Ineighbor_allgather_c,
    MPI_Neighbor_allgather_init / MPI_Neighbor_allgather_init_c
    (
        sendbuf: Choice, sendcount: Size, sendtype: MPI_Datatype, recvbuf: ChoiceMut,
        recvcount: Size, recvtype: MPI_Datatype,
    )
    |comm| {
        let (sendbuf, recvbuf) = (sendbuf.address(), recvbuf.address());
        allgather(comm, Even { sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype })
    };

    MPI_Neighbor_allgatherv / MPI_Neighbor_allgatherv_c,
    MPI_Ineighbor_allgatherv / MPI_Ineighbor_allgatherv_c,
    MPI_Neighbor_allgatherv_init / MPI_Neighbor_allgatherv_init_c
    (
        sendbuf: Choice, sendcount: Size, sendtype: MPI_Datatype, recvbuf: ChoiceMut,
        recvcounts: In<Size>, displs: In<Displacement>, recvtype: MPI_Datatype,
    )
    |comm| {
        let sent = (sendbuf.address(), sendcount, sendtype);
        allgatherv(comm, sent, (recvbuf.address(), recvcounts, displs, recvtype))
    };

    MPI_Neighbor_alltoall / MPI_Neighbor_alltoall_c,
    MPI_Ineighbor_alltoall / MPI_Ineighbor_alltoall_c,
    MPI_Neighbor_alltoall_init / MPI_Neighbor_alltoall_init_c
    (
        sendbuf: Choice, sendcount: Size, sendtype: MPI_Datatype, recvbuf: ChoiceMut,
        recvcount: Size, recvtype: MPI_Datatype,
    )
    |comm| {
        let (sendbuf, recvbuf) = (sendbuf.address(), recvbuf.address());
        alltoall(comm, Even { sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype })
    };

    MPI_Neighbor_alltoallv / MPI_Neighbor_alltoallv_c,
    MPI_Ineighbor_alltoallv / MPI_Ineighbor_alltoallv_c,
    MPI_Neighbor_alltoallv_init / MPI_Neighbor_alltoallv_init_c
    (
        sendbuf: Choice, sendcounts: In<Size>, sdispls: In<Displacement>, sendtype: MPI_Datatype,
        recvbuf: ChoiceMut, recvcounts: In<Size>, rdispls: In<Displacement>,
        recvtype: MPI_Datatype,
    )
    |comm| {
        let sent = (sendbuf.address(), sendcounts, sdispls, sendtype);
        alltoallv(comm, sent, (recvbuf.address(), recvcounts, rdispls, recvtype))
    };

    MPI_Neighbor_alltoallw / MPI_Neighbor_alltoallw_c,
    MPI_Ineighbor_alltoallw / MPI_Ineighbor_alltoallw_c,
    MPI_Neighbor_alltoallw_init / MPI_Neighbor_alltoallw_init_c
    (
        sendbuf: Choice, sendcounts: In<Size>, sdispls: In<MPI_Aint>, sendtypes: In<MPI_Datatype>,
        recvbuf: ChoiceMut, recvcounts: In<Size>, rdispls: In<MPI_Aint>,
        recvtypes: In<MPI_Datatype>,
    )
    |comm| {
        let sent = (sendbuf.address(), sendcounts, sdispls, sendtypes);
        alltoallw(comm, sent, (recvbuf.address(), recvcounts, rdispls, recvtypes))
    };
}

/// The neighbours of this rank.
struct Around {
    sources: Vec<Option<Neighbour>>,
    destinations: Vec<Option<Neighbour>>,
}

impl Around {
    /// The neighbours of this rank. A neighbourhood collective does not work in place.
    fn of(comm: &Comm, sendbuf: u64) -> Result<Around> {
        if is_in_place(sendbuf) {
            let why = "MPI_IN_PLACE is not allowed in neighbourhood collectives";
            return Err(Failure::new(MPI_ERR_BUFFER, why).coded(ErrorCode::IN_PLACE));
        }
        let Some(topology) = comm.topology() else {
            return Err(Failure::new(MPI_ERR_TOPOLOGY, format!("{comm} has no topology")));
        };
        let rank = comm.members.rank();
        let (sources, destinations) = (topology.sources(rank), topology.destinations(rank));
        if sources.len() + destinations.len() > EDGES_MAX {
            let why = format!("more than {EDGES_MAX} neighbours");
            return Err(Failure::new(MPI_ERR_TOPOLOGY, why));
        }
        Ok(Around { sources, destinations })
    }

    /// The number of blocks that are received.
    fn received(&self) -> u32 {
        u32::try_from(self.sources.len()).expect("few")
    }

    /// The number of blocks that are sent, if each neighbour gets its own.
    fn sent(&self) -> u32 {
        u32::try_from(self.destinations.len()).expect("few")
    }

    /// The exchange: `give` and `get` have the block for each destination and each source. The blocks of neighbours
    /// beyond the border of a grid are not touched.
    fn exchange<'a>(
        &self,
        mut build: Build<'a>,
        mut give: impl FnMut(&mut Build<'a>, u32) -> Result<Span>,
        mut get: impl FnMut(&mut Build<'a>, u32) -> Result<Span>,
    ) -> Result<Collecting> {
        let gives = edges(&self.destinations, |at| give(&mut build, at))?;
        let gets = edges(&self.sources, |at| get(&mut build, at))?;
        let prepared = build.comm().neighbourhood(&gives, &gets);
        Ok(build.done(prepared, None))
    }
}

/// The most edges of a rank: each is a step of a schedule.
const EDGES_MAX: usize = u16::MAX as usize;

/// The edges to those neighbours that there are.
fn edges(
    ends: &[Option<Neighbour>],
    mut block: impl FnMut(u32) -> Result<Span>,
) -> Result<Vec<Edge>> {
    let there = (0..).zip(ends).filter_map(|(at, end)| Some((at, (*end)?)));
    there
        .map(|(at, Neighbour { rank, subtag })| Ok(Edge { rank, subtag, bytes: block(at)? }))
        .collect()
}

fn allgather<C: Wide>(comm: &Comm, even: Even<C>) -> Result<Collecting> {
    let around = Around::of(comm, even.sendbuf)?;
    let mut build = Build::new(comm);
    let mine = build.give(even.sent()?);
    let received = Blocks::even(even.recvbuf, even.recvcount, around.received(), even.recvtype)?;
    around.exchange(build, |_, _| Ok(mine), |build, at| Ok(build.get(received.at(at)?)))
}

fn allgatherv<C: Wide, D: Wide>(
    comm: &Comm,
    (sendbuf, sendcount, sendtype): (u64, C, MPI_Datatype),
    (recvbuf, counts, displs, recvtype): (u64, In<C>, In<D>, MPI_Datatype),
) -> Result<Collecting> {
    let around = Around::of(comm, sendbuf)?;
    let mut build = Build::new(comm);
    let mine = build.give(Data::new(sendbuf, sizes::count(sendcount)?, sendtype)?);
    let received = Blocks::new(recvbuf, counts, displs, around.received(), recvtype)?;
    around.exchange(build, |_, _| Ok(mine), |build, at| Ok(build.get(received.at(at)?)))
}

fn alltoall<C: Wide>(comm: &Comm, even: Even<C>) -> Result<Collecting> {
    let around = Around::of(comm, even.sendbuf)?;
    let sent = Blocks::even(even.sendbuf, even.sendcount, around.sent(), even.sendtype)?;
    let received = Blocks::even(even.recvbuf, even.recvcount, around.received(), even.recvtype)?;
    around.exchange(
        Build::new(comm),
        |build, at| Ok(build.give(sent.at(at)?)),
        |build, at| Ok(build.get(received.at(at)?)),
    )
}

fn alltoallv<C: Wide, D: Wide>(
    comm: &Comm,
    (sendbuf, sendcounts, sdispls, sendtype): (u64, In<C>, In<D>, MPI_Datatype),
    (recvbuf, recvcounts, rdispls, recvtype): (u64, In<C>, In<D>, MPI_Datatype),
) -> Result<Collecting> {
    let around = Around::of(comm, sendbuf)?;
    let sent = Blocks::new(sendbuf, sendcounts, sdispls, around.sent(), sendtype)?;
    let received = Blocks::new(recvbuf, recvcounts, rdispls, around.received(), recvtype)?;
    around.exchange(
        Build::new(comm),
        |build, at| Ok(build.give(sent.at(at)?)),
        |build, at| Ok(build.get(received.at(at)?)),
    )
}

fn alltoallw<C: Wide, D: Wide>(
    comm: &Comm,
    (sendbuf, sendcounts, sdispls, sendtypes): (u64, In<C>, In<D>, In<MPI_Datatype>),
    (recvbuf, recvcounts, rdispls, recvtypes): (u64, In<C>, In<D>, In<MPI_Datatype>),
) -> Result<Collecting> {
    let around = Around::of(comm, sendbuf)?;
    let sent = TypedBlocks::new(sendbuf, sendcounts, sdispls, sendtypes, around.sent())?;
    let received = TypedBlocks::new(recvbuf, recvcounts, rdispls, recvtypes, around.received())?;
    around.exchange(
        Build::new(comm),
        |build, at| Ok(build.give(sent.at(at)?)),
        |build, at| Ok(build.get(received.at(at)?)),
    )
}
