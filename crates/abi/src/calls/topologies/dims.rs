//! Balanced grids of processes.

use std::ffi::c_int;

use ferrywire_mpi::topology::dims as balance;

use crate::calls::entry::entries;
use crate::convert::constants::MPI_ERR_DIMS;
use crate::convert::failure::{Failure, Result};
use crate::convert::pointer::Out;
use crate::convert::sizes;

entries! {
    fn MPI_Dims_create(nnodes: c_int, ndims: c_int, dims: Out<c_int>) {
        let dims = dims.slice(sizes::length(ndims)?)?;
        let sides = balance::balanced(positive(nnodes)?, &wanted(dims)?);
        let Some(sides) = sides else {
            let fixed = dims.iter().filter(|&&side| side > 0).map(|side| side.to_string());
            let fixed = fixed.collect::<Vec<_>>().join(" and ");
            let why = match fixed.is_empty() {
                true => format!("{nnodes} processes do not form a grid without dimensions"),
                false => format!("{nnodes} processes do not form a grid with fixed dimensions of {fixed}"),
            };
            return Err(Failure::new(MPI_ERR_DIMS, why));
        };
        for (side, balanced) in dims.iter_mut().zip(sides) {
            *side = c_int::try_from(balanced).expect("no side is longer than all processes");
        }
        Ok(())
    }
}

fn positive(count: c_int) -> Result<u32> {
    let failure = || {
        Failure::new(
            MPI_ERR_DIMS,
            format!(
                "invalid number of processes {count}; it must be \
                                                         positive"
            ),
        )
    };
    u32::try_from(count).ok().filter(|&count| count > 0).ok_or_else(failure)
}

/// The sides that are given; `None` where they are to be found.
fn wanted(dims: &[c_int]) -> Result<Vec<Option<u32>>> {
    let wanted = dims.iter().map(|&side| match u32::try_from(side) {
        Ok(0) => Ok(None),
        Ok(side) => Ok(Some(side)),
        Err(_) => Err(Failure::new(
            MPI_ERR_DIMS,
            format!("invalid dimension {side}; it must not be negative"),
        )),
    });
    wanted.collect()
}
