//! Which process takes which node of a topology, so that neighbours share hosts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// An edge of a topology.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Link {
    /// The node that sends.
    pub from: u32,
    /// The node that receives.
    pub to: u32,
    /// How much it sends, compared with others.
    pub weight: u32,
}

/// Distributes the nodes `0..hosts.len()` of a topology among as many ranks, of which `hosts` tells the hosts. Returns
/// the rank that takes each node: all stay where they are, unless less would be sent between hosts otherwise.
///
/// Hosts are filled one after the other. The next node is the one to which most is sent from the nodes that the host
/// has already; among equals, the one that was reached first, so that a piece of a grid grows in all directions.
pub fn by_locality(hosts: &[u32], links: &[Link]) -> Vec<u32> {
    let neighbours = neighbours(hosts.len(), links);
    let mut ranks_of: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (rank, &host) in (0..).zip(hosts) {
        ranks_of.entry(host).or_default().push(rank);
    }
    let mut host_of = vec![None; hosts.len()];
    let mut first_free = 0;
    for (&host, ranks) in &ranks_of {
        let mut piece = Piece::default();
        for _ in ranks {
            let node = piece.next(&host_of).unwrap_or_else(|| {
                while host_of[first_free].is_some() {
                    first_free += 1;
                }
                first_free
            });
            host_of[node] = Some(host);
            for &(other, weight) in &neighbours[node] {
                piece.reach(other, weight);
            }
        }
    }
    let host_of: Vec<u32> = host_of.into_iter().map(|host| host.expect("all are filled")).collect();
    let mut places: Vec<u32> = (0..).take(hosts.len()).collect();
    if between_hosts(&host_of, links) >= between_hosts(hosts, links) {
        return places;
    }
    // A node whose rank is on the right host stays there.
    let moves = |node: u32| host_of[node as usize] != hosts[node as usize];
    for ranks in ranks_of.values_mut() {
        ranks.retain(|&rank| moves(rank));
    }
    for place in places.iter_mut().filter(|node| moves(**node)) {
        let free = ranks_of.get_mut(&host_of[*place as usize]);
        *place = free.and_then(Vec::pop).expect("as many come as go");
    }
    places
}

/// The part of a topology that a host has so far.
#[derive(Default)]
struct Piece {
    /// What is sent between the piece and each node outside it, and when the node was reached.
    gains: HashMap<usize, (u64, usize)>,
    /// The same in order; entries with a gain of before are skipped.
    heap: BinaryHeap<(u64, Reverse<usize>, usize)>,
}

impl Piece {
    fn reach(&mut self, node: usize, weight: u64) {
        let reached = self.gains.len();
        let (gain, reached) = self.gains.entry(node).or_insert((0, reached));
        *gain += weight;
        self.heap.push((*gain, Reverse(*reached), node));
    }

    /// The node that is closest to the piece.
    fn next(&mut self, host_of: &[Option<u32>]) -> Option<usize> {
        loop {
            let (gain, _, node) = self.heap.pop()?;
            if host_of[node].is_none() && self.gains[&node].0 == gain {
                return Some(node);
            }
        }
    }
}

/// The neighbours of each node, in both directions.
fn neighbours(nodes: usize, links: &[Link]) -> Vec<Vec<(usize, u64)>> {
    let mut neighbours = vec![Vec::new(); nodes];
    for &Link { from, to, weight } in links.iter().filter(|link| link.from != link.to) {
        let (from, to) = (from as usize, to as usize);
        neighbours[from].push((to, weight.into()));
        neighbours[to].push((from, weight.into()));
    }
    neighbours
}

/// How much is sent between hosts.
fn between_hosts(host_of: &[u32], links: &[Link]) -> u64 {
    let host = |node: u32| host_of[node as usize];
    let between = links.iter().filter(|link| host(link.from) != host(link.to));
    between.map(|link| u64::from(link.weight)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::grid::{Axis, Grid};
    use super::*;

    fn grid(sides: &[u32]) -> Vec<Link> {
        let dimension = |&side| Axis { side, periodic: false };
        Grid::new(sides.iter().map(dimension).collect()).expect("a grid").links()
    }

    /// `count` hosts with `each` ranks.
    fn hosts(count: u32, each: u32) -> Vec<u32> {
        (0..count * each).map(|rank| rank / each).collect()
    }

    fn cut(places: &[u32], hosts: &[u32], links: &[Link]) -> u64 {
        let host_of: Vec<u32> = places.iter().map(|&rank| hosts[rank as usize]).collect();
        between_hosts(&host_of, links)
    }

    #[test]
    fn a_grid_is_divided_into_blocks() {
        let (hosts, links) = (hosts(4, 4), grid(&[4, 4]));
        let places = by_locality(&hosts, &links);
        // Rows have 12 edges between them, each counted twice, and blocks of two by two have 8.
        assert_eq!(between_hosts(&hosts, &links), 24);
        assert_eq!(cut(&places, &hosts, &links), 16);
    }

    #[test]
    fn heavy_edges_stay_on_a_host() {
        let link = |from, to, weight| Link { from, to, weight };
        let links = [link(0, 2, 9), link(1, 3, 9), link(0, 1, 1), link(2, 3, 1)];
        let places = by_locality(&[7, 7, 5, 5], &links);
        assert_eq!(cut(&places, &[7, 7, 5, 5], &links), 2);
        // As few as possible move.
        assert_eq!(places.iter().zip(0..).filter(|&(&rank, node)| rank == node).count(), 2);
    }

    #[test]
    fn nobody_moves_for_nothing() {
        let in_order: Vec<u32> = (0..8).collect();
        assert_eq!(by_locality(&hosts(1, 8), &grid(&[2, 4])), in_order);
        assert_eq!(by_locality(&hosts(2, 4), &grid(&[8])), in_order);
        assert_eq!(by_locality(&hosts(2, 4), &[]), in_order);
        assert_eq!(by_locality(&[], &[]), []);
    }

    /// Every rank takes one node, and no more is sent between hosts than before.
    #[test]
    fn nodes_are_only_exchanged() {
        let mut state = 1_u64;
        let mut random = |end: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % u64::from(end)) as u32
        };
        for _ in 0..500 {
            let size = 1 + random(20);
            let hosts: Vec<u32> = (0..size).map(|_| random(5)).collect();
            let links: Vec<Link> = (0..random(60))
                .map(|_| Link { from: random(size), to: random(size), weight: random(9) })
                .collect();
            let places = by_locality(&hosts, &links);
            let mut sorted = places.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..size).collect::<Vec<_>>());
            assert!(cut(&places, &hosts, &links) <= between_hosts(&hosts, &links));
        }
    }

    #[test]
    fn many_ranks_take_no_time() {
        let links = grid(&[64, 32, 32]);
        let hosts = hosts(1024, 64);
        let places = by_locality(&hosts, &links);
        assert!(cut(&places, &hosts, &links) < between_hosts(&hosts, &links));
    }
}
