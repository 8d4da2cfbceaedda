//! Graph topologies: every rank knows the whole graph.

use std::ffi::c_int;

use ferrywire_mpi::topology::{Graph, Topology};

use super::{member, placed, put_placed, ranks_below};
use crate::calls::entry::entries;
use crate::convert::argument::PeerRank;
use crate::convert::constants::{MPI_COMM_NULL, MPI_ERR_ARG, MPI_ERR_TOPOLOGY, MPI_UNDEFINED};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{In, Out};
use crate::convert::sizes;
use crate::convert::types::MPI_Comm;
use crate::objects::comm::{self, Comm, int};

entries! {
    fn MPI_Graph_create(
        comm_old: MPI_Comm, nnodes: c_int, indx: In<c_int>, edges: In<c_int>, reorder: c_int,
        comm_graph: Out<MPI_Comm>,
    ) on comm_old {
        let old = comm::share_of(comm_old)?;
        let instance = old.members.next_instance();
        comm_graph.put(MPI_COMM_NULL)?;
        let graph = graph_of(&old, nnodes, indx, edges)?;
        let links = (reorder != 0).then_some(|| graph.links());
        let created = placed(&old, instance, size(&graph), links)?;
        put_placed(comm_graph, &old, created, |_| Topology::Graph(graph))
    }

    fn MPI_Graph_map(
        comm: MPI_Comm, nnodes: c_int, indx: In<c_int>, edges: In<c_int>, newrank: Out<c_int>,
    ) on comm {
        let comm = comm::find(comm)?;
        let graph = graph_of(comm, nnodes, indx, edges)?;
        let rank = comm.members.rank();
        newrank.put(if rank < size(&graph) { int(rank) } else { MPI_UNDEFINED })
    }

    fn MPI_Graphdims_get(comm: MPI_Comm, nnodes: Out<c_int>, nedges: Out<c_int>) on comm {
        let graph = graph(comm::find(comm)?)?;
        nnodes.put(int(size(graph)))?;
        nedges.put(count(graph.edges()))
    }

    fn MPI_Graph_get(
        comm: MPI_Comm, maxindex: c_int, maxedges: c_int, indx: Out<c_int>, edges: Out<c_int>,
    ) on comm {
        let graph = graph(comm::find(comm)?)?;
        put_first(graph.ends(), maxindex, indx)?;
        put_first(graph.edges(), maxedges, edges)
    }

    fn MPI_Graph_neighbors_count(
        comm: MPI_Comm, rank: PeerRank, nneighbors: Out<c_int>,
    ) on comm {
        let comm = comm::find(comm)?;
        let graph = graph(comm)?;
        nneighbors.put(count(graph.neighbours(member(comm, rank)?)))
    }

    fn MPI_Graph_neighbors(
        comm: MPI_Comm, rank: PeerRank, maxneighbors: c_int, neighbors: Out<c_int>,
    ) on comm {
        let comm = comm::find(comm)?;
        let graph = graph(comm)?;
        put_first(graph.neighbours(member(comm, rank)?), maxneighbors, neighbors)
    }
}

/// The graph that the arguments describe.
fn graph_of(comm: &Comm, nnodes: c_int, indx: In<c_int>, edges: In<c_int>) -> Result<Graph> {
    let all = comm.members.group().size();
    let nodes = sizes::length(nnodes)?;
    if nodes > all as usize {
        let why = format!("a graph of {nodes} ranks is larger than {comm}, which has {all}");
        return Err(Failure::new(MPI_ERR_ARG, why));
    }
    let wrong = || Failure::new(MPI_ERR_ARG, "the index must ascend from 0 or more");
    let ends = indx.slice(nodes)?.iter().map(|&end| u32::try_from(end).map_err(|_| wrong()));
    let ends: Vec<u32> = ends.collect::<Result<_>>()?;
    if !ends.is_sorted() {
        return Err(wrong());
    }
    let edges = edges.slice(ends.last().copied().unwrap_or(0) as usize)?;
    let edges = ranks_below(edges, u32::try_from(nodes).expect("at most all ranks"))?;
    Graph::new(ends, edges).ok_or_else(wrong)
}

/// The graph of a communicator.
fn graph(comm: &Comm) -> Result<&Graph> {
    match comm.topology().map(|topology| &**topology) {
        Some(Topology::Graph(graph)) => Ok(graph),
        _ => Err(Failure::new(
            MPI_ERR_TOPOLOGY,
            format!("{comm} has no graph topology; pass what MPI_Graph_create returned"),
        )),
    }
}

fn size(graph: &Graph) -> u32 {
    u32::try_from(graph.ends().len()).expect("at most all ranks")
}

fn count(ranks: &[u32]) -> c_int {
    c_int::try_from(ranks.len()).expect("the program has passed as many")
}

/// Writes as many numbers as there is room for.
fn put_first(numbers: &[u32], room: c_int, out: Out<c_int>) -> Result {
    let len = sizes::length(room)?.min(numbers.len());
    for (place, &number) in out.slice(len)?.iter_mut().zip(numbers) {
        *place = int(number);
    }
    Ok(())
}
