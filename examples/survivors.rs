//! Ranks that die do not end the others: each round of sums ends with the death of the last rank, until three are left.
//!
//!     cargo build --example survivors
//!     ferry run --on-death continue -n 6 target/debug/examples/survivors

use ferrywire::{Comm, Error, Operation};

fn main() -> Result<(), Error> {
    let world = ferrywire::init()?;
    let mut comm = world.dup()?;
    while comm.size() > LEFT {
        // Each is needed by all others, so all notice: some by the death itself, some because the first who did revoked.
        let (sums, failure) = add_until_one_dies(&comm);
        assert!(matches!(failure, Error::RankLost { .. } | Error::Revoked { .. }), "{failure}");
        comm.revoke()?;
        // How far all have come is the least that any of them has: bit by bit, and what all have is left.
        let agreed = comm.agree((1 << sums) - 1)?;
        assert_eq!(agreed.failed, [comm.size() - 1]);
        comm = comm.shrink()?;
        if comm.rank() == 0 {
            println!("{} ranks go on after {} sums", comm.size(), agreed.flags.count_ones());
        }
    }
    let mut sum = 1;
    comm.allreduce(&mut sum, Operation::Sum)?;
    assert_eq!(sum, comm.size());
    Ok(())
}

/// How many sums were right, and what then went wrong.
fn add_until_one_dies(comm: &Comm) -> (u32, Error) {
    for sums in 1.. {
        let mut sum = 1;
        if let Err(failure) = comm.allreduce(&mut sum, Operation::Sum) {
            return (sums - 1, failure);
        }
        assert_eq!(sum, comm.size());
        if sums == SUMS && comm.rank() == comm.size() - 1 {
            std::process::abort();
        }
    }
    unreachable!("the last rank dies")
}

/// Ranks that are left in the end.
const LEFT: u32 = 3;
/// Sums before a death.
const SUMS: u32 = 10;
