//! A block of samples passes through a pipeline of ranks, and each adds its own part. The direction is mixed up at
//! the receive: every rank, the last one excepted, waits for the rank behind it.
//!
//!     ferry run -n 4 target/debug/examples/broken_pipeline

use ferrywire::Error;

fn main() -> Result<(), Error> {
    let world = ferrywire::init()?;
    let (rank, last) = (world.rank(), world.size() - 1);
    let mut samples = [0.0f64; 16];
    if std::env::var_os("FIXED").is_some() {
        if rank > 0 {
            world.receive(&mut samples, rank - 1, 6)?;
        }
    } else if rank < last {
        world.receive(&mut samples, rank + 1, 6)?; // WRONG: samples come from the rank before, not behind
    }
    samples[0] += f64::from(rank);
    if rank < last {
        world.send(&samples, rank + 1, 6)?;
    } else {
        println!("the first sample is {}", samples[0]);
    }
    world.barrier()
}
