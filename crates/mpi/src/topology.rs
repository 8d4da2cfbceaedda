//! Process topologies: which ranks of a communicator are neighbours.

pub mod dims;
mod graph;
mod grid;
mod placement;

use std::collections::HashMap;

pub use graph::{Edges, Graph, Neighbours};
pub use grid::{Axis, DIMENSIONS_MAX, Grid};
pub use placement::{Link, by_locality};

/// The topology of a communicator.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Topology {
    /// A Cartesian grid.
    Grid(Grid),
    /// A graph that every rank knows as a whole.
    Graph(Graph),
    /// A graph of which a rank knows its own edges.
    Neighbours(Neighbours),
}

/// One end of an edge, as the rank at the other end sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Neighbour {
    /// The rank.
    pub rank: u32,
    /// Tells apart several edges from one rank to the other, with the same value at both ends.
    pub subtag: u8,
}

impl Topology {
    /// The ranks that `rank` receives from. `None` beyond the border of a grid.
    pub fn sources(&self, rank: u32) -> Vec<Option<Neighbour>> {
        match self {
            Topology::Grid(grid) => grid.sources(rank),
            Topology::Graph(graph) => numbered(graph.neighbours(rank)),
            Topology::Neighbours(neighbours) => numbered(&neighbours.sources.ranks),
        }
    }

    /// The ranks that `rank` sends to. `None` beyond the border of a grid.
    pub fn destinations(&self, rank: u32) -> Vec<Option<Neighbour>> {
        match self {
            Topology::Grid(grid) => grid.destinations(rank),
            Topology::Graph(graph) => numbered(graph.neighbours(rank)),
            Topology::Neighbours(neighbours) => numbered(&neighbours.destinations.ranks),
        }
    }
}

/// Numbers the edges to each rank. The two ends count parallel edges in the same order.
fn numbered(ranks: &[u32]) -> Vec<Option<Neighbour>> {
    let mut edges: HashMap<u32, u8> = HashMap::new();
    let number = |&rank: &u32| {
        let next = edges.entry(rank).or_default();
        let subtag = *next;
        // Messages with the same subtag are received in the order in which they are sent, so the count may wrap.
        *next = next.wrapping_add(1);
        Some(Neighbour { rank, subtag })
    };
    ranks.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_edges_are_told_apart() {
        let neighbour = |rank, subtag| Some(Neighbour { rank, subtag });
        assert_eq!(
            numbered(&[3, 1, 3, 3, 1]),
            [neighbour(3, 0), neighbour(1, 0), neighbour(3, 1), neighbour(3, 2), neighbour(1, 1)]
        );
    }
}
