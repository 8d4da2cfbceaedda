//! Ranks search their parts of a list for its largest number and meet in a barrier before they print. A rank whose
//! part is empty returns from `main` early, which ends its part of the job, while the others wait for it.
//!
//!     ferry run -n 5 target/debug/examples/broken_early_return

use ferrywire::Error;

fn main() -> Result<(), Error> {
    let world = ferrywire::init()?;
    let list = [3u32, 9, 2, 7, 5, 8, 1, 4];
    let part = list.chunks(2).nth(world.rank() as usize).unwrap_or_default();
    if part.is_empty() && std::env::var_os("FIXED").is_none() {
        return Ok(()); // WRONG: the others wait for this rank in the barrier
    }
    let largest = part.iter().max();
    world.barrier()?;
    println!("rank {}: {largest:?}", world.rank());
    Ok(())
}
