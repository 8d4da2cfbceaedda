//! Passes a token round the ring of ranks; each rank adds its number.
//!
//!     cargo run --example ring                 one rank
//!     ferry run -n 4 target/debug/examples/ring

use ferrywire::{Comm, Error};

fn main() -> Result<(), Error> {
    let world = ferrywire::init()?;
    let token = ring(&world)?;
    if world.rank() == 0 {
        println!("{} ranks, and the token says {token}", world.size());
    }
    Ok(())
}

/// The value of the token: at rank 0 when it is back, elsewhere when it passes.
pub fn ring(world: &Comm) -> Result<u64, Error> {
    let (rank, size) = (world.rank(), world.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    if rank == 0 {
        // With a single rank the token goes to the rank itself, so the send must not wait for the receive.
        let sent = world.isend([0u64], right, 0)?;
        let (token, _) = world.receive_one::<u64>(left, 0)?;
        sent.wait()?;
        return Ok(token);
    }
    let (mut token, _) = world.receive_one::<u64>(left, 0)?;
    token += u64::from(rank);
    world.send(&token, right, 0)?;
    Ok(token)
}
