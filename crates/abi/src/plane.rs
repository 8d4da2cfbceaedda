//! In which plane a new communicator is, and how one waits where there are several.
//!
//! Threads that use communicators of different planes never wait for each other's lock. That pays only if a
//! program has several threads and the machine has cores for them, so everything stays in the first
//! plane unless all who agree on the communicator say so.

use ferrywire_host::nic::{Nic, Outcome, Posted, Ticket};
use ferrywire_host::{Driver, HostPort, PLANES, wait_around};
use ferrywire_mpi::numbers::{COMMS_MAX, Claim, Reservation};

use crate::constants::MPI_THREAD_MULTIPLE;
use crate::failure::{self, Result};
use crate::op;
use crate::process;

/// What all members of a new communicator have agreed on.
pub(crate) struct Agreed {
    /// Its number.
    pub(crate) claim: Claim,
    /// The plane that it is in.
    plane: u32,
}

impl Agreed {
    /// What drives the plane. Fails if the machine has no memory for it.
    pub(crate) fn driver(&self) -> Result<&'static Driver> {
        process::running()?.driver.plane(self.plane).map_err(|error| {
            failure::internal(format!("there is no memory for another network: {error}"))
        })
    }
}

/// What a rank says when a communicator is made: the numbers that it has set aside, and whether the
/// communicator may be in any plane, as all bits of one more word or none.
pub(crate) type Ballot = [u64; COMMS_MAX / 64 + 1];

/// What this rank says.
pub(crate) fn ballot(reservation: &Reservation) -> Result<Ballot> {
    let process = process::running()?;
    let threads = process.thread_level == MPI_THREAD_MULTIPLE;
    let anywhere = threads && process.driver.has_cores_to_spare();
    let mut ballot = [0; COMMS_MAX / 64 + 1];
    let (numbers, planes) = ballot.split_at_mut(COMMS_MAX / 64);
    numbers.copy_from_slice(reservation.bits());
    planes[0] = if anywhere { !0 } else { 0 };
    Ok(ballot)
}

/// What all agree on whose ballots, combined bit by bit, are `common`. None: to try again.
pub(crate) fn settle(reservation: Reservation, common: &Ballot) -> Option<Agreed> {
    let (numbers, planes) = common.split_at(COMMS_MAX / 64);
    let claim = reservation.settle(numbers.try_into().ok()?)?;
    let plane = plane_of(claim.number(), planes[0] != 0);
    Some(Agreed { claim, plane })
}

/// The plane of the communicator with this number, if it may be in any.
fn plane_of(number: u16, anywhere: bool) -> u32 {
    // The predefined communicators have the first for themselves.
    if anywhere { 1 + u32::from(number) % (PLANES - 1) } else { 0 }
}

/// Whether whoever waits has to look at all planes: an operator of the user's may wait in any of them for
/// a thread that is inside, and the agent does not run it.
#[inline]
pub(crate) fn must_look_around() -> bool {
    op::is_any_in_use() && process::running().is_ok_and(|process| !process.driver.has_one_plane())
}

/// The drivers of all planes that are open.
pub(crate) fn all() -> Result<Vec<&'static Driver>> {
    Ok(process::running()?.driver.drivers().collect())
}

/// Waits until an operation is over.
#[inline]
pub(crate) fn wait(driver: &'static Driver, ticket: Ticket) -> Result<Outcome> {
    if !must_look_around() {
        return Ok(driver.wait(ticket));
    }
    let drivers = all()?;
    Ok(wait_around(&drivers, |at, finished| {
        std::ptr::eq(drivers[at], driver).then(|| finished.take(ticket)).flatten()
    }))
}

/// Asks for something, and waits until it is over.
///
/// # Safety
/// As for [`Driver::submit`].
#[inline]
pub(crate) unsafe fn perform(
    driver: &'static Driver,
    ask: impl FnOnce(&mut Nic, &mut HostPort) -> Posted,
) -> Result<Outcome> {
    if !must_look_around() {
        // SAFETY: the caller's promise.
        return Ok(unsafe { driver.perform(ask) });
    }
    // SAFETY: the caller's promise.
    match unsafe { driver.submit(ask) } {
        Posted::Done(outcome) => Ok(outcome),
        Posted::Pending(ticket) => wait(driver, ticket),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_in_different_planes() {
        let planes: Vec<u32> = (2..8).map(|number| plane_of(number, true)).collect();
        assert_eq!(planes, [3, 1, 2, 3, 1, 2]);
        assert_eq!(plane_of(7, false), 0);
    }
}
