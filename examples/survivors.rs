//! Ranks that survive the death of others: in each round the last rank dies during a series of sums, until three are
//! left.
//!
//!     cargo build --example survivors
//!     ferry run --on-death continue -n 6 target/debug/examples/survivors

use ferrywire::{Comm, Error, Operation};

fn main() -> Result<(), Error> {
    let world = ferrywire::init()?;
    let mut comm = world.dup()?;
    while comm.size() > LEFT {
        // A sum needs all ranks, so all of them notice: some by the death itself, others because the first one
        // revoked.
        let (sums, failure) = add_until_one_dies(&comm);
        assert!(matches!(failure, Error::RankLost { .. } | Error::Revoked { .. }), "{failure}");
        comm.revoke()?;
        // The number of sums that all ranks have completed: the AND of bit masks keeps the bits that all of them set.
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

/// The number of correct sums, and the error that ended them.
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

/// Ranks that are left at the end.
const LEFT: u32 = 3;
/// Sums before each death.
const SUMS: u32 = 10;
