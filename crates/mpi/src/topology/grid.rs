//! Cartesian grids of ranks. The last coordinate varies fastest.

use super::Neighbour;
use super::placement::Link;

/// A Cartesian grid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Grid {
    axes: Vec<Axis>,
}

/// One dimension of a grid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Axis {
    /// The number of ranks along it.
    pub side: u32,
    /// Whether the last rank is a neighbour of the first.
    pub periodic: bool,
}

/// The most dimensions of a grid: the number of a direction is a subtag.
pub const DIMENSIONS_MAX: usize = 128;

impl Grid {
    /// A grid with at least one rank along each dimension. `None` if it has more than [`DIMENSIONS_MAX`] dimensions, or
    /// more ranks than there can be.
    pub fn new(axes: Vec<Axis>) -> Option<Grid> {
        let ranks = axes.iter().try_fold(1_u32, |all, axis| all.checked_mul(axis.side));
        ranks.filter(|&ranks| ranks > 0 && axes.len() <= DIMENSIONS_MAX)?;
        Some(Grid { axes })
    }

    /// Its axes, one for each dimension.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.axes.iter().map(|axis| axis.side).product()
    }

    /// The coordinates of a rank.
    pub fn coords(&self, rank: u32) -> Vec<u32> {
        let mut left = rank;
        let mut coords: Vec<u32> = self
            .axes
            .iter()
            .rev()
            .map(|axis| {
                let coord = left % axis.side;
                left /= axis.side;
                coord
            })
            .collect();
        coords.reverse();
        coords
    }

    /// The rank at some coordinates, which wrap around in periodic dimensions. `None` beyond the border of others.
    pub fn rank_at(&self, coords: impl IntoIterator<Item = i64>) -> Option<u32> {
        self.axes.iter().zip(coords).try_fold(0, |rank, (axis, coord)| {
            let side = i64::from(axis.side);
            let coord = if axis.periodic { coord.rem_euclid(side) } else { coord };
            let coord = u32::try_from(coord).ok().filter(|&coord| coord < axis.side)?;
            Some(rank * axis.side + coord)
        })
    }

    /// The rank `distance` away from `rank` along a dimension. `None` beyond the border.
    pub fn shifted(&self, rank: u32, dimension: usize, distance: i64) -> Option<u32> {
        let mut coords: Vec<i64> = self.coords(rank).into_iter().map(i64::from).collect();
        coords[dimension] = coords[dimension].checked_add(distance)?;
        self.rank_at(coords)
    }

    /// The grid of the dimensions that are kept.
    pub fn slice(&self, keeps: &[bool]) -> Grid {
        let kept = self.axes.iter().zip(keeps).filter(|&(_, &kept)| kept);
        Grid { axes: kept.map(|(&axis, _)| axis).collect() }
    }

    /// The number of the slice that a rank is in.
    pub fn slice_of(&self, rank: u32, keeps: &[bool]) -> u32 {
        let coords = self.coords(rank);
        let dropped = coords.iter().zip(&self.axes).zip(keeps).filter(|&(_, &kept)| !kept);
        dropped.fold(0, |number, ((coord, axis), _)| number * axis.side + coord)
    }

    pub(super) fn sources(&self, rank: u32) -> Vec<Option<Neighbour>> {
        // What comes from below was sent upwards.
        self.around(rank, |direction| direction ^ 1)
    }

    pub(super) fn destinations(&self, rank: u32) -> Vec<Option<Neighbour>> {
        self.around(rank, |direction| direction)
    }

    /// The neighbours of a rank: below and above it, in each dimension. On a ring of two they are the same rank, so a
    /// message has the number of the direction in which it goes.
    fn around(&self, rank: u32, subtag: impl Fn(u8) -> u8) -> Vec<Option<Neighbour>> {
        let steps = (0..self.axes.len()).flat_map(|dimension| [(dimension, -1), (dimension, 1)]);
        steps
            .zip(0..)
            .map(|((dimension, distance), direction)| {
                let rank = self.shifted(rank, dimension, distance)?;
                Some(Neighbour { rank, subtag: subtag(direction) })
            })
            .collect()
    }

    /// All pairs of neighbours, each counted from both ends.
    pub fn links(&self) -> Vec<Link> {
        let of =
            |rank| self.destinations(rank).into_iter().flatten().map(move |to| (rank, to.rank));
        let pairs = (0..self.size()).flat_map(of);
        pairs.map(|(from, to)| Link { from, to, weight: 1 }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(dimensions: &[(u32, bool)]) -> Grid {
        let dimension = |&(side, periodic)| Axis { side, periodic };
        Grid::new(dimensions.iter().map(dimension).collect()).expect("a grid")
    }

    #[test]
    fn coordinates_and_ranks_are_inverse() {
        let grid = grid(&[(3, false), (1, true), (4, true)]);
        for rank in 0..grid.size() {
            let coords = grid.coords(rank);
            assert_eq!(grid.rank_at(coords.into_iter().map(i64::from)), Some(rank));
        }
        assert_eq!(grid.coords(7), [1, 0, 3]);
        assert_eq!(grid.rank_at([1, -5, 7]), Some(7));
        assert_eq!(grid.rank_at([3, 0, 0]), None);
        assert_eq!(grid.rank_at([-1, 0, 0]), None);
    }

    #[test]
    fn neighbours_end_at_a_border_and_wrap_around_a_ring() {
        let grid = grid(&[(2, false), (2, true)]);
        let rank = |neighbour: Option<Neighbour>| neighbour.map(|neighbour| neighbour.rank);
        let ranks: Vec<_> = grid.destinations(1).into_iter().map(rank).collect();
        assert_eq!(ranks, [None, Some(3), Some(0), Some(0)]);
    }

    /// Each message is expected where it arrives, with the same subtag, also where two directions lead to one rank.
    #[test]
    fn what_is_sent_is_expected() {
        for sides in [&[(1, true), (2, true)][..], &[(3, true), (2, false)], &[(4, false)], &[]] {
            let grid = grid(sides);
            let ends = |rank, of: &dyn Fn(u32) -> Vec<Option<Neighbour>>| {
                of(rank).into_iter().flatten().map(|end| (end.rank, end.subtag)).collect::<Vec<_>>()
            };
            let mut sent = Vec::new();
            let mut expected = Vec::new();
            for rank in 0..grid.size() {
                let to = ends(rank, &|rank| grid.destinations(rank));
                let from = ends(rank, &|rank| grid.sources(rank));
                sent.extend(to.into_iter().map(|(to, subtag)| (rank, to, subtag)));
                expected.extend(from.into_iter().map(|(from, subtag)| (from, rank, subtag)));
            }
            sent.sort_unstable();
            expected.sort_unstable();
            assert_eq!(sent, expected);
            sent.dedup();
            assert_eq!(sent.len(), expected.len());
        }
    }

    #[test]
    fn slices_share_the_coordinates_that_are_dropped() {
        let grid = grid(&[(2, false), (3, true), (4, false)]);
        let keeps = [true, false, true];
        assert_eq!(grid.slice(&keeps).size(), 8);
        for rank in 0..grid.size() {
            assert_eq!(grid.slice_of(rank, &keeps), grid.coords(rank)[1]);
        }
        assert_eq!(grid.slice(&[false; 3]).size(), 1);
    }

    #[test]
    fn a_grid_has_as_many_ranks_as_can_be() {
        let sides = |side, count| vec![Axis { side, periodic: false }; count];
        assert!(Grid::new(sides(0, 1)).is_none());
        assert!(Grid::new(sides(1 << 16, 2)).is_none());
        assert!(Grid::new(sides(1, DIMENSIONS_MAX + 1)).is_none());
        assert!(Grid::new(sides(1, DIMENSIONS_MAX)).is_some());
    }
}
