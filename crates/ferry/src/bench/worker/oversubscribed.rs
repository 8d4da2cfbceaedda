//! Many ranks on few cores: a rank that waits has to yield its core to the rank that it waits for.

use std::time::Instant;

use ferrywire::{Error, Operation};

use super::{Stage, ns_since};
use crate::bench::machine::process_ns;

const CELLS: usize = 4096;
const TAG: u32 = 1;

pub(super) fn run(stage: &Stage) -> Result<(), Error> {
    measure(stage, "ring", |count| ring(stage, count))?;
    measure(stage, "allreduce", |count| allreduce(stage, count))?;
    let mut cells = [vec![f64::from(stage.world.rank()); CELLS + 2], vec![0.0; CELLS + 2]];
    measure(stage, "stencil", |count| stencil(stage, &mut cells, count))
}

/// The ranks before and after ours.
fn neighbours(stage: &Stage) -> (u32, u32) {
    let (rank, size) = (stage.world.rank(), stage.world.size());
    ((rank + size - 1) % size, (rank + 1) % size)
}

/// Sends a token around the ring, `laps` times.
fn ring(stage: &Stage, laps: usize) -> Result<(), Error> {
    let (world, (left, right)) = (&stage.world, neighbours(stage));
    let mut token = 0.0;
    for _ in 0..laps {
        if world.rank() == 0 {
            world.send(&token, right, TAG)?;
        }
        world.receive(&mut token, left, TAG)?;
        if world.rank() != 0 {
            world.send(&token, right, TAG)?;
        }
    }
    Ok(())
}

fn allreduce(stage: &Stage, count: usize) -> Result<(), Error> {
    (0..count).try_for_each(|_| {
        let mut part = f64::from(stage.world.rank());
        stage.world.allreduce(&mut part, Operation::Sum)
    })
}

fn stencil(stage: &Stage, cells: &mut [Vec<f64>; 2], steps: usize) -> Result<(), Error> {
    let (world, (left, right)) = (&stage.world, neighbours(stage));
    let [from, to] = cells;
    for _ in 0..steps {
        let (first, last) = (from[1], from[CELLS]);
        world.sendrecv(&first, left, TAG, &mut from[CELLS + 1], right, TAG)?;
        world.sendrecv(&last, right, TAG, &mut from[0], left, TAG)?;
        for (cell, around) in to[1..=CELLS].iter_mut().zip(from.windows(3)) {
            *cell = 0.25 * around[0] + 0.5 * around[1] + 0.25 * around[2];
        }
        std::mem::swap(from, to);
    }
    Ok(())
}

/// Measures `work`. Libraries differ by a factor of a thousand here, so the count doubles until it takes long enough.
fn measure(
    stage: &Stage,
    name: &str,
    mut work: impl FnMut(usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let (world, ranks) = (&stage.world, stage.world.size());
    let enough_ns = if stage.quick { 100e6 } else { 300e6 };
    let mut count = 1;
    loop {
        world.barrier()?;
        let (wall, cpu) = (Instant::now(), process_ns());
        work(count)?;
        let (mut longest, mut total) = (ns_since(wall), process_ns() - cpu);
        world.allreduce(&mut longest, Operation::Max)?;
        if longest < enough_ns {
            count *= 2;
            continue;
        }
        world.reduce(&mut total, Operation::Sum, 0)?;
        let each = 1e3 * count as f64;
        stage.figure(format_args!("{name} ranks={ranks} us={:.2}", longest / each));
        stage.figure(format_args!("{name}-cpu ranks={ranks} cpu_us={:.2}", total / each));
        return Ok(());
    }
}
