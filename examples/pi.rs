//! Pi by integration: each rank computes every n-th interval, and a reduction adds them up.
//!
//!     cargo run --example pi

use ferrywire::{Comm, Error, Operation};

fn main() -> Result<(), Error> {
    let world = ferrywire::init()?;
    if let Some(pi) = pi(&world, 1_000_000)? {
        println!("pi is about {pi}, off by {:e}", (pi - std::f64::consts::PI).abs());
    }
    Ok(())
}

/// The integral of 4 / (1 + x^2) from 0 to 1 with the given number of intervals, at rank 0.
pub fn pi(world: &Comm, intervals: u32) -> Result<Option<f64>, Error> {
    let width = 1.0 / f64::from(intervals);
    let area = |interval: u32| {
        let x = (f64::from(interval) + 0.5) * width;
        4.0 / (1.0 + x * x) * width
    };
    let ours = (world.rank()..intervals).step_by(world.size() as usize);
    let mut sum: f64 = ours.map(area).sum();
    // All ranks but the root return as soon as their number is copied.
    world.reduce(&mut sum, Operation::Sum, 0)?;
    Ok((world.rank() == 0).then_some(sum))
}
