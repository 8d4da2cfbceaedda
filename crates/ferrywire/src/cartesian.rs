//! Cartesian communicators: ranks on a grid, and exchanges with their neighbours on it.
//!
//! Invariants, cited below by number.
//!   I1. A blocking call borrows its buffers until it returns, and returns when the schedule is complete.

use std::fmt;
use std::ops::Deref;

use ferrywire_host::memory;
use ferrywire_host::nic::Span;
use ferrywire_mpi::collective::Edge;
use ferrywire_mpi::topology::{Axis, DIMENSIONS_MAX, Grid, Neighbour, Topology, dims};
use ferrywire_runtime::Rank;

use crate::collective::what_of_all;
use crate::comm::{Comm, What};
use crate::error::Error;
use crate::plain::{self, Plain};

/// A communicator whose ranks are on a grid: see [`Comm::cartesian`]. It dereferences to [`Comm`].
///
/// The last coordinate of consecutive ranks changes first. Two ranks are neighbours if they are next to each other
/// along a dimension, and the first and the last rank along a periodic one are. The neighbours of a rank are ordered
/// by dimension, in each the lower one first.
#[derive(Clone)]
pub struct Cartesian {
    comm: Comm,
    topology: Topology,
}

/// The ranks at a distance from this one along a dimension. `None` beyond the border.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shift {
    /// The rank to which this one is as far away as `target` from this one: receive from it.
    pub source: Option<u32>,
    /// The rank at the distance: send to it.
    pub target: Option<u32>,
}

/// The sides of a grid of so many ranks, of which some are given. The others are as close to each other as possible,
/// the longest first. `None` if there is no such grid.
///
/// ```
/// assert_eq!(ferrywire::dims_create(12, &[None, None]), Some(vec![4, 3]));
/// assert_eq!(ferrywire::dims_create(12, &[None, Some(2), None]), Some(vec![3, 2, 2]));
/// assert_eq!(ferrywire::dims_create(12, &[None, Some(5)]), None);
/// ```
pub fn dims_create(ranks: u32, given: &[Option<u32>]) -> Option<Vec<u32>> {
    dims::balanced(ranks, given)
}

impl Comm {
    /// Creates a communicator whose ranks are on a grid, with a side and a period for each dimension. Ranks that have
    /// no place on the grid get none. With `reorder`, neighbours are put on the same host, and ranks may have other
    /// numbers than before. All ranks must call it, with the same arguments.
    ///
    /// ```
    /// ferrywire::local(6, |world| {
    ///     let grid = world.cartesian(&[3, 2], &[true, false], false).unwrap().unwrap();
    ///     let [row, column] = grid.coords(grid.rank()).unwrap()[..] else { unreachable!() };
    ///     assert_eq!(grid.rank_at(&[i64::from(row), i64::from(column)]), Some(grid.rank()));
    ///     let down = grid.shift(0, 1).unwrap();
    ///     let mut above = 0;
    ///     let (to, from) = (down.target.unwrap(), down.source.unwrap());
    ///     grid.sendrecv(&row, to, 0, &mut above, from, 0).unwrap();
    ///     assert_eq!(above, (row + 2) % 3);
    ///     assert_eq!(grid.shift(1, 1).unwrap().target.is_some(), column == 0);
    /// });
    /// ```
    pub fn cartesian(
        &self,
        dims: &[u32],
        periodic: &[bool],
        reorder: bool,
    ) -> Result<Option<Cartesian>, Error> {
        let what = self.what_all("cartesian");
        let grid = grid_of(dims, periodic, self.size())
            .map_err(|why| self.refused(Error::Topology { call: self.call(what), why }))?;
        let (instance, wrong) = self.begin_collective(what);
        if let Some(error) = wrong {
            return Err(error);
        }
        let links = reorder.then_some(|| grid.links());
        let _waits = self.enter(what);
        let created = self.runtime().create_with_nodes(instance, grid.size(), links);
        let created = created.map_err(|error| self.not_created(what, error))?;
        let comm = created.map(|created| self.made(format!("a grid of {}", self.name()), created));
        Ok(comm.map(|comm| Cartesian { comm, topology: Topology::Grid(grid) }))
    }
}

/// The grid that the arguments describe, among so many ranks.
fn grid_of(dims: &[u32], periodic: &[bool], ranks: u32) -> Result<Grid, String> {
    if dims.len() != periodic.len() {
        let (dims, periods) = (dims.len(), periodic.len());
        return Err(format!("{dims} sides and {periods} periods; pass as many"));
    }
    let axes = dims.iter().zip(periodic).map(|(&side, &periodic)| Axis { side, periodic });
    let grid = Grid::new(axes.collect()).ok_or_else(|| {
        format!(
            "a grid of {dims:?} ranks; each side must have some, there may be {DIMENSIONS_MAX} dimensions"
        )
    })?;
    match grid.size() {
        nodes if nodes <= ranks => Ok(grid),
        nodes => Err(format!("a grid of {nodes} ranks; the communicator has {ranks}")),
    }
}

impl Cartesian {
    fn grid(&self) -> &Grid {
        let Topology::Grid(grid) = &self.topology else { unreachable!("it is made with a grid") };
        grid
    }

    /// The communicator.
    pub fn comm(&self) -> &Comm {
        &self.comm
    }

    /// The number of ranks along each dimension.
    pub fn dims(&self) -> Vec<u32> {
        self.grid().axes().iter().map(|axis| axis.side).collect()
    }

    /// Whether each dimension is periodic.
    pub fn periodic(&self) -> Vec<bool> {
        self.grid().axes().iter().map(|axis| axis.periodic).collect()
    }

    /// The coordinates of a rank.
    pub fn coords(&self, rank: impl Into<Rank>) -> Result<Vec<u32>, Error> {
        let rank = self.comm.rank_of(self.comm.what_all("coords"), rank.into().0)?;
        Ok(self.grid().coords(rank))
    }

    /// The rank at some coordinates, which wrap around in periodic dimensions. `None` beyond the border of others, and
    /// unless there is a coordinate for each dimension.
    pub fn rank_at(&self, coords: &[i64]) -> Option<u32> {
        let grid = self.grid();
        if coords.len() != grid.axes().len() {
            return None;
        }
        grid.rank_at(coords.iter().copied())
    }

    /// The ranks `distance` away from this one along a dimension, on both sides.
    pub fn shift(&self, dimension: usize, distance: i64) -> Result<Shift, Error> {
        let dimensions = self.grid().axes().len();
        if dimension >= dimensions {
            let call = self.comm.call(self.comm.what_all("shift"));
            let why =
                format!("invalid dimension {dimension}; the grid has {dimensions} dimensions");
            return Err(Error::Topology { call, why });
        }
        let end = |distance| self.grid().shifted(self.rank(), dimension, distance);
        let source = distance.checked_neg().and_then(end);
        Ok(Shift { source, target: end(distance) })
    }

    /// The neighbours of this rank, two for each dimension. `None` beyond the border.
    pub fn neighbours(&self) -> Vec<Option<u32>> {
        let rank_of = |neighbour: Option<Neighbour>| neighbour.map(|neighbour| neighbour.rank);
        self.topology.sources(self.rank()).into_iter().map(rank_of).collect()
    }

    /// Splits the grid into slices, with the dimensions that are kept, and returns that of this rank. All ranks must
    /// call it, with the same argument.
    ///
    /// ```
    /// ferrywire::local(6, |world| {
    ///     let grid = world.cartesian(&[3, 2], &[true, false], false).unwrap().unwrap();
    ///     let row = grid.sub(&[false, true]).unwrap();
    ///     assert_eq!(row.dims(), [2]);
    ///     assert_eq!(row.allgather(&world.rank()).unwrap()[0], world.rank() / 2 * 2);
    /// });
    /// ```
    pub fn sub(&self, keep: &[bool]) -> Result<Cartesian, Error> {
        let (comm, grid) = (&self.comm, self.grid());
        let what = comm.what_all("sub");
        let dimensions = grid.axes().len();
        if keep.len() != dimensions {
            let why = format!(
                "{} choices for a grid of {dimensions} dimensions; pass one for each",
                keep.len()
            );
            return Err(comm.refused(Error::Topology { call: comm.call(what), why }));
        }
        let (instance, wrong) = comm.begin_collective(what);
        if let Some(error) = wrong {
            return Err(error);
        }
        let slice = grid.slice_of(self.rank(), keep);
        let key = i32::try_from(self.rank()).expect("a rank is positive in 32 bits");
        let _waits = comm.enter(what);
        let created = comm.runtime().split(instance, Some(slice), key);
        let created = created.map_err(|error| comm.not_created(what, error))?;
        let created = created.expect("every rank is in a slice");
        let comm = comm.made(format!("a slice of {}", comm.name()), created);
        Ok(Cartesian { comm, topology: Topology::Grid(grid.slice(keep)) })
    }

    /// Sends the same items to all neighbours, and receives theirs, a block for each neighbour. Blocks beyond the
    /// border stay as they are. All ranks must call it, with the same number of items.
    ///
    /// ```
    /// ferrywire::local(3, |world| {
    ///     let line = world.cartesian(&[3], &[false], false).unwrap().unwrap();
    ///     let mut around = [9; 2];
    ///     line.neighbour_allgather(&[line.rank()], &mut around).unwrap();
    ///     assert_eq!(around, [[9, 1], [0, 2], [1, 9]][line.rank() as usize]);
    /// });
    /// ```
    pub fn neighbour_allgather<T: Plain>(&self, mine: &[T], into: &mut [T]) -> Result<(), Error> {
        let what = what_of_all::<T>("neighbour_allgather", memory::lend(plain::bytes(mine)));
        let blocks = 2 * self.grid().axes().len();
        let wanted = mine.len() * blocks;
        self.comm.check_items(what, "the receive buffer", into.len(), wanted)?;
        let source = memory::lend(plain::bytes(mine));
        let into = memory::lend_mut(plain::bytes_mut(into));
        // SAFETY: the buffers are borrowed.
        unsafe { self.exchange(what, |_| source, |at| block(into, at, blocks)) }
    }

    /// Sends each neighbour its block of `ours`, and receives theirs, a block for each neighbour. Blocks beyond the
    /// border are not sent, and stay as they are. All ranks must call it, with blocks of the same length.
    ///
    /// ```
    /// ferrywire::local(3, |world| {
    ///     let ring = world.cartesian(&[3], &[true], false).unwrap().unwrap();
    ///     let rank = ring.rank();
    ///     let mut around = [0; 2];
    ///     // What goes down arrives from above.
    ///     ring.neighbour_alltoall(&[10 * rank, 10 * rank + 1], &mut around).unwrap();
    ///     assert_eq!(around, [10 * ((rank + 2) % 3) + 1, 10 * ((rank + 1) % 3)]);
    /// });
    /// ```
    pub fn neighbour_alltoall<T: Plain>(&self, ours: &[T], into: &mut [T]) -> Result<(), Error> {
        let source = memory::lend(plain::bytes(ours));
        let what = what_of_all::<T>("neighbour_alltoall", source);
        let blocks = 2 * self.grid().axes().len();
        let wanted = ours.len().next_multiple_of(blocks.max(1));
        self.comm.check_items(what, "the send buffer", ours.len(), wanted)?;
        self.comm.check_items(what, "the receive buffer", into.len(), ours.len())?;
        let into = memory::lend_mut(plain::bytes_mut(into));
        // SAFETY: the buffers are borrowed.
        unsafe { self.exchange(what, |at| block(source, at, blocks), |at| block(into, at, blocks)) }
    }

    /// Exchanges blocks with the neighbours that there are: `give` and `get` have the block of each.
    ///
    /// # Safety
    /// The buffers of the blocks are borrowed during the call.
    unsafe fn exchange(
        &self,
        what: What,
        give: impl Fn(usize) -> Span,
        get: impl Fn(usize) -> Span,
    ) -> Result<(), Error> {
        let rank = self.rank();
        let gives = edges(&self.topology.destinations(rank), give);
        let gets = edges(&self.topology.sources(rank), get);
        let prepared = self.comm.runtime().neighbourhood(&gives, &gets);
        // SAFETY: I1, and the caller vouches for it.
        unsafe { self.comm.run(what, prepared) }
    }
}

/// The edges to those neighbours that there are.
fn edges(ends: &[Option<Neighbour>], block: impl Fn(usize) -> Span) -> Vec<Edge> {
    let there = ends.iter().enumerate().filter_map(|(at, end)| Some((at, (*end)?)));
    there.map(|(at, Neighbour { rank, subtag })| Edge { rank, subtag, bytes: block(at) }).collect()
}

/// A block of a buffer that consists of so many.
fn block(all: Span, at: usize, blocks: usize) -> Span {
    let bytes = all.len / blocks as u64;
    all.part(at as u64 * bytes, bytes)
}

impl Deref for Cartesian {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.comm
    }
}

impl fmt::Debug for Cartesian {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}", self.comm, self.dims())
    }
}
