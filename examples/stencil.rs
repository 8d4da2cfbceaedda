//! A rod that is hot at one end: Jacobi iterations in one dimension, with halo exchange.
//!
//! Each rank has a part of the rod and a copy of the neighbouring cells. While those are on their way, it computes
//! the cells that do not need them.
//!
//!     cargo run --example stencil

use ferrywire::{Comm, Error, Operation};

fn main() -> Result<(), Error> {
    let world = ferrywire::init()?;
    let (cells, steps) = (1000, 500);
    let (residual, rod) = jacobi(&world, cells, steps)?;
    if let Some(rod) = rod {
        let same = rod == serial(cells, steps);
        println!("residual {residual:e} after {steps} steps; as in a serial run: {same}");
        if !same {
            world.abort(1, "parallel and serial runs differ");
        }
    }
    Ok(())
}

/// The largest change in the last step, and at rank 0 the whole rod.
pub fn jacobi(world: &Comm, cells: usize, steps: u32) -> Result<(f64, Option<Vec<f64>>), Error> {
    let (rank, size) = (world.rank(), world.size());
    let range = part(cells, rank, size);
    let here = range.len();
    // One ghost cell on either side: a neighbour's cell, or the end of the rod.
    let mut old = vec![0.0; here + 2];
    let mut new = old.clone();
    if rank == 0 {
        (old[0], new[0]) = (HOT, HOT);
    }
    let left = rank.checked_sub(1);
    let right = Some(rank + 1).filter(|&right| right < size);
    let mut residual = 0.0;
    for _ in 0..steps {
        let (first, last) = (old[1], old[here]);
        let (ghosts_left, rest) = old.split_at_mut(1);
        let (body, ghosts_right) = rest.split_at_mut(here);
        world.scope(|s| {
            if let Some(left) = left {
                s.receive(&mut ghosts_left[0], left, 0);
                s.send(&first, left, 1);
            }
            if let Some(right) = right {
                s.receive(&mut ghosts_right[0], right, 1);
                s.send(&last, right, 0);
            }
            // Cell i of the rod is cell i - 1 of the body.
            for cell in 2..here {
                new[cell] = (body[cell - 2] + body[cell]) / 2.0;
            }
        })?;
        for cell in [1, here] {
            new[cell] = (old[cell - 1] + old[cell + 1]) / 2.0;
        }
        residual = (1..=here).map(|cell| (new[cell] - old[cell]).abs()).fold(0.0, f64::max);
        // Ghost cells are received anew in each step, and the ends of the rod are the same in both vectors.
        std::mem::swap(&mut old, &mut new);
    }
    world.allreduce(&mut residual, Operation::Max)?;
    Ok((residual, collect(world, cells, &old[1..=here])?))
}

/// The cells of a rank, divided as evenly as possible.
fn part(cells: usize, rank: u32, size: u32) -> std::ops::Range<usize> {
    assert!(cells >= size as usize, "at least one cell for each rank");
    let at = |rank: u32| cells * rank as usize / size as usize;
    at(rank)..at(rank + 1)
}

/// Collects all parts at rank 0. They differ in length, so each is sent as a message.
fn collect(world: &Comm, cells: usize, ours: &[f64]) -> Result<Option<Vec<f64>>, Error> {
    if world.rank() > 0 {
        world.send(ours, 0, 2)?;
        return Ok(None);
    }
    let mut rod = vec![0.0; cells];
    rod[..ours.len()].copy_from_slice(ours);
    for rank in 1..world.size() {
        world.receive(&mut rod[part(cells, rank, world.size())], rank, 2)?;
    }
    Ok(Some(rod))
}

/// The same computation without ranks.
pub fn serial(cells: usize, steps: u32) -> Vec<f64> {
    let mut old = vec![0.0; cells + 2];
    old[0] = HOT;
    let mut new = old.clone();
    for _ in 0..steps {
        for cell in 1..=cells {
            new[cell] = (old[cell - 1] + old[cell + 1]) / 2.0;
        }
        std::mem::swap(&mut old, &mut new);
    }
    old[1..=cells].to_vec()
}

const HOT: f64 = 100.0;
