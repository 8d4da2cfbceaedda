//! Cartesian topologies.

use std::ffi::c_int;

use ferrywire_mpi::topology::{Axis, DIMENSIONS_MAX, Grid, Topology};

use super::{member, placed, put_placed};
use crate::calls::entry::entries;
use crate::convert::argument::PeerRank;
use crate::convert::constants::{
    MPI_COMM_NULL, MPI_ERR_ARG, MPI_ERR_DIMS, MPI_ERR_TOPOLOGY, MPI_PROC_NULL, MPI_UNDEFINED,
};
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::{In, Out};
use crate::convert::sizes;
use crate::convert::types::MPI_Comm;
use crate::objects::comm::{self, Comm, int};

entries! {
    fn MPI_Cart_create(
        comm_old: MPI_Comm, ndims: c_int, dims: In<c_int>, periods: In<c_int>, reorder: c_int,
        comm_cart: Out<MPI_Comm>,
    ) on comm_old {
        let old = comm::share_of(comm_old)?;
        let instance = old.members.next_instance();
        comm_cart.put(MPI_COMM_NULL)?;
        let grid = grid_of(ndims, dims, periods)?;
        fits(&old, grid.size())?;
        let links = (reorder != 0).then_some(|| grid.links());
        let created = placed(&old, instance, grid.size(), links)?;
        put_placed(comm_cart, &old, created, |_| Topology::Grid(grid))
    }

    fn MPI_Cart_map(
        comm: MPI_Comm, ndims: c_int, dims: In<c_int>, periods: In<c_int>, newrank: Out<c_int>,
    ) on comm {
        let comm = comm::find(comm)?;
        let grid = grid_of(ndims, dims, periods)?;
        fits(comm, grid.size())?;
        let rank = comm.members.rank();
        newrank.put(if rank < grid.size() { int(rank) } else { MPI_UNDEFINED })
    }

    fn MPI_Cartdim_get(comm: MPI_Comm, ndims: Out<c_int>) on comm {
        let count = grid(comm::find(comm)?)?.axes().len();
        ndims.put(c_int::try_from(count).expect("few"))
    }

    fn MPI_Cart_get(
        comm: MPI_Comm, maxdims: c_int, dims: Out<c_int>, periods: Out<c_int>, coords: Out<c_int>,
    ) on comm {
        let comm = comm::find(comm)?;
        let grid = grid(comm)?;
        let len = room_for(grid, maxdims)?;
        let (dims, periods) = (dims.slice(len)?, periods.slice(len)?);
        for (at, dimension) in grid.axes().iter().enumerate() {
            dims[at] = int(dimension.side);
            periods[at] = dimension.periodic.into();
        }
        put_coords(grid, comm.members.rank(), coords)
    }

    fn MPI_Cart_coords(
        comm: MPI_Comm, rank: PeerRank, maxdims: c_int, coords: Out<c_int>,
    ) on comm {
        let comm = comm::find(comm)?;
        let grid = grid(comm)?;
        room_for(grid, maxdims)?;
        put_coords(grid, member(comm, rank)?, coords)
    }

    fn MPI_Cart_rank(comm: MPI_Comm, coords: In<c_int>, rank: Out<c_int>) on comm {
        let grid = grid(comm::find(comm)?)?;
        let coords = coords.slice(grid.axes().len())?;
        let found = grid.rank_at(coords.iter().map(|&coord| coord.into())).ok_or_else(|| {
            let why = format!("the coordinates {coords:?} are outside the grid");
            Failure::new(MPI_ERR_ARG, why)
        })?;
        rank.put(int(found))
    }

    fn MPI_Cart_shift(
        comm: MPI_Comm, direction: c_int, disp: c_int, rank_source: Out<c_int>,
        rank_dest: Out<c_int>,
    ) on comm {
        let comm = comm::find(comm)?;
        let grid = grid(comm)?;
        let count = grid.axes().len();
        let dimension = usize::try_from(direction).ok().filter(|&at| at < count);
        let Some(dimension) = dimension else {
            let why = format!("invalid direction {direction} in a grid with {count} dimensions");
            return Err(Failure::new(MPI_ERR_ARG, why));
        };
        let end = |distance| {
            let rank = grid.shifted(comm.members.rank(), dimension, distance);
            rank.map_or(MPI_PROC_NULL, int)
        };
        let distance = i64::from(disp);
        rank_source.put(end(-distance))?;
        rank_dest.put(end(distance))
    }

    fn MPI_Cart_sub(comm: MPI_Comm, remain_dims: In<c_int>, newcomm: Out<MPI_Comm>) on comm {
        let old = comm::share_of(comm)?;
        let instance = old.members.next_instance();
        newcomm.put(MPI_COMM_NULL)?;
        let grid = grid(&old)?;
        let keeps = remain_dims.slice(grid.axes().len())?;
        let keeps: Vec<bool> = keeps.iter().map(|&kept| kept != 0).collect();
        let rank = old.members.rank();
        let slice = grid.slice_of(rank, &keeps);
        let created = old.runtime().split(instance, Some(slice), int(rank))?;
        put_placed(newcomm, &old, created, |_| Topology::Grid(grid.slice(&keeps)))
    }
}

/// The grid that the arguments describe.
fn grid_of(ndims: c_int, dims: In<c_int>, periods: In<c_int>) -> Result<Grid> {
    let len = sizes::length(ndims)?;
    let dims = dims.slice(len)?.iter().zip(periods.slice(len)?);
    let dimensions: Result<Vec<Axis>> = dims
        .map(|(&side, &periodic)| match u32::try_from(side) {
            Ok(side) if side > 0 => Ok(Axis { side, periodic: periodic != 0 }),
            _ => {
                let why = format!("invalid dimension {side}; it must be positive");
                Err(Failure::new(MPI_ERR_DIMS, why))
            }
        })
        .collect();
    Grid::new(dimensions?).ok_or_else(|| {
        let why = format!(
            "the grid is too large; it may have {DIMENSIONS_MAX} dimensions and 2^32 ranks"
        );
        Failure::new(MPI_ERR_DIMS, why)
    })
}

/// Checks that a communicator has as many ranks as a topology.
fn fits(comm: &Comm, nodes: u32) -> Result {
    let size = comm.members.group().size();
    if nodes <= size {
        return Ok(());
    }
    let why = format!("a grid of {nodes} ranks is larger than {comm}, which has {size}");
    Err(Failure::new(MPI_ERR_DIMS, why))
}

/// The grid of a communicator.
fn grid(comm: &Comm) -> Result<&Grid> {
    match comm.topology().map(|topology| &**topology) {
        Some(Topology::Grid(grid)) => Ok(grid),
        _ => Err(Failure::new(
            MPI_ERR_TOPOLOGY,
            format!("{comm} has no Cartesian topology; pass what MPI_Cart_create returned"),
        )),
    }
}

/// Checks that arrays have room for all dimensions. Returns their number.
fn room_for(grid: &Grid, maxdims: c_int) -> Result<usize> {
    let count = grid.axes().len();
    if sizes::length(maxdims)? >= count {
        return Ok(count);
    }
    let why = format!("room for {maxdims} dimensions, and the grid has {count}");
    Err(Failure::new(MPI_ERR_ARG, why))
}

/// Writes the coordinates of a rank.
fn put_coords(grid: &Grid, rank: u32, coords: Out<c_int>) -> Result {
    let coords = coords.slice(grid.axes().len())?;
    for (place, coord) in coords.iter_mut().zip(grid.coords(rank)) {
        *place = int(coord);
    }
    Ok(())
}
