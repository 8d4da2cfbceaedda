//! How a rank comes to its driver.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrywire_nic::{Limits, Peer};

use crate::driver::Driver;
use crate::port::Combine;
use crate::shm::{Process, Segment};

/// A job of `ranks` threads of this process: the drivers, in the order of their ranks. `crowded` if
/// they have to share cores.
pub fn local(ranks: u32, crowded: bool, combine: Combine) -> io::Result<Vec<Driver>> {
    let segment = Arc::new(Segment::create(ranks, random(), crowded)?);
    (0..ranks).for_each(|rank| segment.introduce(rank, this_process()));
    let limits = limits(ranks);
    let driver = |rank| Driver::new(Arc::clone(&segment), rank, limits.clone(), combine);
    Ok((0..ranks).map(driver).collect())
}

/// Ends a job of threads that cannot go on without `lost`: every operation of these drivers, open or
/// to come, fails. They must be all drivers of the job that there still are.
pub fn end<'a>(drivers: impl Iterator<Item = &'a Driver> + Clone, lost: Peer) {
    // An operation that has failed gives its memory back, so nobody may be about to touch it.
    drivers.clone().for_each(Driver::stop_transfers);
    drivers.for_each(|driver| driver.give_up(lost));
}

/// What the cards of this process's ranks say.
pub fn this_process() -> Process {
    let probe = (&raw const PROBE).expose_provenance() as u64;
    PROBE.store(probe, Ordering::Relaxed);
    Process { pid: std::process::id(), probe }
}

/// Others may try to read this, to see whether they may.
static PROBE: AtomicU64 = AtomicU64::new(0);

/// The limits of a NIC among `ranks` on a node.
fn limits(_ranks: u32) -> Limits {
    Limits::default()
}

/// A number that nobody else is likely to have.
pub fn random() -> u32 {
    let hash = RandomState::new().hash_one(std::process::id());
    u32::try_from(hash >> 32).unwrap_or(1)
}
