//! Graphs of ranks.

use super::placement::Link;

/// A graph that every rank knows as a whole.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Graph {
    /// For each rank, the end of its neighbours in `edges`.
    ends: Vec<u32>,
    edges: Vec<u32>,
}

impl Graph {
    /// A graph; `ends[rank]` is the end of the rank's neighbours in `edges`. `None` if the ends do not ascend to the
    /// number of edges.
    pub fn new(ends: Vec<u32>, edges: Vec<u32>) -> Option<Graph> {
        let last = ends.last().copied().unwrap_or(0) as usize;
        (ends.is_sorted() && last == edges.len()).then_some(Graph { ends, edges })
    }

    /// For each rank, the end of its neighbours among all edges.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// The neighbours of all ranks.
    pub fn edges(&self) -> &[u32] {
        &self.edges
    }

    /// The neighbours of a rank.
    pub fn neighbours(&self, rank: u32) -> &[u32] {
        let end = |rank: usize| self.ends[rank] as usize;
        let rank = rank as usize;
        &self.edges[rank.checked_sub(1).map_or(0, end)..end(rank)]
    }

    /// All edges.
    pub fn links(&self) -> Vec<Link> {
        let of =
            |rank| self.neighbours(rank).iter().map(move |&to| Link { from: rank, to, weight: 1 });
        (0..).take(self.ends.len()).flat_map(of).collect()
    }
}

/// The edges of one rank of a distributed graph.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Neighbours {
    /// The ranks that it receives from.
    pub sources: Edges,
    /// The ranks that it sends to.
    pub destinations: Edges,
    /// Whether the program has given weights.
    pub weighted: bool,
}

/// Edges to some ranks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Edges {
    /// The ranks at their other ends.
    pub ranks: Vec<u32>,
    /// Their weights.
    pub weights: Vec<u32>,
}

impl Edges {
    /// Adds an edge.
    pub fn push(&mut self, rank: u32, weight: u32) {
        self.ranks.push(rank);
        self.weights.push(weight);
    }

    /// Each rank and the weight of the edge to it.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.ranks.iter().copied().zip(self.weights.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_those_of_the_rank() {
        let graph = Graph::new(vec![2, 2, 5], vec![1, 2, 0, 0, 1]).expect("a graph");
        assert_eq!(graph.neighbours(0), [1, 2]);
        assert_eq!(graph.neighbours(1), [0; 0]);
        assert_eq!(graph.neighbours(2), [0, 0, 1]);
        assert_eq!(graph.links().len(), 5);
        assert_eq!(Graph::new(vec![2, 1], vec![0]), None);
        assert_eq!(Graph::new(vec![1], vec![0, 0]), None);
    }
}
