//! Distributed graph topologies: a rank knows its own edges.

use std::ffi::c_int;

use ferrywire_mpi::topology::{Edges, Link, Neighbours, Topology};

use super::{placed, put_placed, ranks_below};
use crate::calls::entry::entries;
use crate::convert::constants::{
    MPI_COMM_NULL, MPI_ERR_ARG, MPI_ERR_TOPOLOGY, MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{In, Out};
use crate::convert::sizes;
use crate::convert::types::{MPI_Comm, MPI_Info};
use crate::objects::comm::{self, Comm, int};
use crate::objects::info;

entries! {
    fn MPI_Dist_graph_create_adjacent(
        comm_old: MPI_Comm, indegree: c_int, sources: In<c_int>, sourceweights: In<c_int>,
        outdegree: c_int, destinations: In<c_int>, destweights: In<c_int>, info: MPI_Info,
        reorder: c_int, comm_dist_graph: Out<MPI_Comm>,
    ) on comm_old {
        let old = comm::share_of(comm_old)?;
        let instance = old.members.next_instance();
        comm_dist_graph.put(MPI_COMM_NULL)?;
        let hints = info::hints(info)?;
        let mine = Neighbours {
            sources: edges_of(&old, indegree, sources, sourceweights)?,
            destinations: edges_of(&old, outdegree, destinations, destweights)?,
            weighted: is_weighted(sourceweights) && is_weighted(destweights),
        };
        let all = match reorder != 0 {
            true => old.runtime().gather_lists(instance, &to_list(&mine))?,
            false => Vec::new(),
        };
        let size = old.members.group().size();
        let links = (reorder != 0).then_some(|| links_of(&all));
        let created = placed(&old, instance, size, links)?;
        put_placed(comm_dist_graph, &old, created, |node| {
            let taken = all.get(node as usize).map(|list| from_list(list, mine.weighted));
            Topology::Neighbours(taken.unwrap_or(mine))
        })?;
        comm::find(comm_dist_graph.get()?)?.set_info(hints);
        Ok(())
    }

    fn MPI_Dist_graph_create(
        comm_old: MPI_Comm, n: c_int, sources: In<c_int>, degrees: In<c_int>,
        destinations: In<c_int>, weights: In<c_int>, info: MPI_Info, reorder: c_int,
        comm_dist_graph: Out<MPI_Comm>,
    ) on comm_old {
        let old = comm::share_of(comm_old)?;
        let instance = old.members.next_instance();
        comm_dist_graph.put(MPI_COMM_NULL)?;
        let hints = info::hints(info)?;
        let mine = links_from(&old, n, sources, degrees, (destinations, weights))?;
        let numbers = mine.iter().flat_map(|link| [link.from, link.to, link.weight].map(i64::from));
        let all = old.runtime().gather_lists(instance, &numbers.collect::<Vec<_>>())?;
        let all: Vec<Link> = all.iter().flat_map(|list| list.chunks_exact(3)).map(link_of).collect();
        let size = old.members.group().size();
        let created = placed(&old, instance, size, (reorder != 0).then_some(|| all.clone()))?;
        put_placed(comm_dist_graph, &old, created, |node| {
            let mut mine = Neighbours { weighted: is_weighted(weights), ..Neighbours::default() };
            // Both ends of parallel edges see them in this order.
            for &Link { from, to, weight } in &all {
                if to == node {
                    mine.sources.push(from, weight);
                }
                if from == node {
                    mine.destinations.push(to, weight);
                }
            }
            Topology::Neighbours(mine)
        })?;
        comm::find(comm_dist_graph.get()?)?.set_info(hints);
        Ok(())
    }

    fn MPI_Dist_graph_neighbors_count(
        comm: MPI_Comm, indegree: Out<c_int>, outdegree: Out<c_int>, weighted: Out<c_int>,
    ) on comm {
        let mine = neighbours(comm::find(comm)?)?;
        let count = |edges: &Edges| c_int::try_from(edges.ranks.len()).expect("few enough for an int");
        indegree.put(count(&mine.sources))?;
        outdegree.put(count(&mine.destinations))?;
        weighted.put(mine.weighted.into())
    }

    fn MPI_Dist_graph_neighbors(
        comm: MPI_Comm, maxindegree: c_int, sources: Out<c_int>, sourceweights: Out<c_int>,
        maxoutdegree: c_int, destinations: Out<c_int>, destweights: Out<c_int>,
    ) on comm {
        let mine = neighbours(comm::find(comm)?)?;
        put_edges(&mine.sources, mine.weighted, maxindegree, (sources, sourceweights))?;
        put_edges(&mine.destinations, mine.weighted, maxoutdegree, (destinations, destweights))
    }
}

/// Whether an argument is an array of weights.
fn is_weighted(weights: In<c_int>) -> bool {
    weights.as_out().raw().addr() != MPI_UNWEIGHTED
}

/// The weights of `len` edges; 1 if they have none.
fn weights_of(weights: In<c_int>, len: usize) -> Result<Vec<u32>> {
    if !is_weighted(weights) {
        return Ok(vec![1; len]);
    }
    if weights.as_out().raw().addr() == MPI_WEIGHTS_EMPTY && len > 0 {
        let why = format!("MPI_WEIGHTS_EMPTY stands for no weights, and there are {len} edges");
        return Err(Failure::new(MPI_ERR_ARG, why));
    }
    let weight = |&weight: &c_int| {
        let why = || format!("invalid weight {weight}; it must not be negative");
        u32::try_from(weight).map_err(|_| Failure::new(MPI_ERR_ARG, why()))
    };
    weights.slice(len)?.iter().map(weight).collect()
}

/// The edges that an array of ranks and an array of weights describe.
fn edges_of(comm: &Comm, degree: c_int, ranks: In<c_int>, weights: In<c_int>) -> Result<Edges> {
    let len = sizes::length(degree)?;
    let ranks = ranks_below(ranks.slice(len)?, comm.members.group().size())?;
    Ok(Edges { ranks, weights: weights_of(weights, len)? })
}

/// The edges that a rank passes for any ranks.
fn links_from(
    comm: &Comm,
    n: c_int,
    sources: In<c_int>,
    degrees: In<c_int>,
    (destinations, weights): (In<c_int>, In<c_int>),
) -> Result<Vec<Link>> {
    let (nodes, size) = (sizes::length(n)?, comm.members.group().size());
    let sources = ranks_below(sources.slice(nodes)?, size)?;
    let degrees = degrees.slice(nodes)?.iter().map(|&degree| sizes::length(degree));
    let degrees: Vec<usize> = degrees.collect::<Result<_>>()?;
    let len = degrees.iter().sum();
    let destinations = ranks_below(destinations.slice(len)?, size)?;
    let weights = weights_of(weights, len)?;
    let from = sources.into_iter().zip(degrees);
    let from = from.flat_map(|(source, degree)| std::iter::repeat_n(source, degree));
    let ends = destinations.into_iter().zip(weights);
    Ok(from.zip(ends).map(|(from, (to, weight))| Link { from, to, weight }).collect())
}

/// The edges of a rank as numbers: how many sources it has, then all ranks with their weights.
fn to_list(mine: &Neighbours) -> Vec<i64> {
    let pairs = mine.sources.iter().chain(mine.destinations.iter());
    let numbers = pairs.flat_map(|(rank, weight)| [rank, weight].map(i64::from));
    std::iter::once(mine.sources.ranks.len() as i64).chain(numbers).collect()
}

fn from_list(list: &[i64], weighted: bool) -> Neighbours {
    let (&[sources], pairs) = list.split_at(1) else { unreachable!("it begins with a number") };
    let mut neighbours = Neighbours { weighted, ..Neighbours::default() };
    for (at, pair) in (0..).zip(pairs.chunks_exact(2)) {
        let edges = match at < sources {
            true => &mut neighbours.sources,
            false => &mut neighbours.destinations,
        };
        edges.push(number(pair[0]), number(pair[1]));
    }
    neighbours
}

/// What each rank sends to others, by the lists of all.
fn links_of(all: &[Vec<i64>]) -> Vec<Link> {
    let of = |(from, list): (u32, &Vec<i64>)| {
        let to = from_list(list, true).destinations;
        to.iter().map(|(to, weight)| Link { from, to, weight }).collect::<Vec<_>>()
    };
    (0..).zip(all).flat_map(of).collect()
}

fn link_of(numbers: &[i64]) -> Link {
    Link { from: number(numbers[0]), to: number(numbers[1]), weight: number(numbers[2]) }
}

fn number(number: i64) -> u32 {
    u32::try_from(number).expect("a rank or a weight")
}

/// The edges of this rank in a distributed graph.
fn neighbours(comm: &Comm) -> Result<&Neighbours> {
    match comm.topology().map(|topology| &**topology) {
        Some(Topology::Neighbours(neighbours)) => Ok(neighbours),
        _ => {
            let why = format!("{comm} has no distributed graph topology");
            Err(Failure::new(MPI_ERR_TOPOLOGY, why))
        }
    }
}

/// Writes as many edges as there is room for.
fn put_edges(
    edges: &Edges,
    weighted: bool,
    room: c_int,
    (ranks, weights): (Out<c_int>, Out<c_int>),
) -> Result {
    let len = sizes::length(room)?.min(edges.ranks.len());
    for (place, &rank) in ranks.slice(len)?.iter_mut().zip(&edges.ranks) {
        *place = int(rank);
    }
    let wanted = ![MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY].contains(&weights.raw().addr());
    if weighted && wanted {
        for (place, &weight) in weights.slice(len)?.iter_mut().zip(&edges.weights) {
            *place = weight.cast_signed();
        }
    }
    Ok(())
}
