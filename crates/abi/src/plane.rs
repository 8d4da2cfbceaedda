//! In which plane a new communicator is, and how one waits where there are several.
//!
//! Threads that use communicators of different planes never wait for each other's lock. That pays only if a
//! program has several threads and the machine has cores for them, so everything stays in the first
//! plane unless all who agree on the communicator say so.

use ferrywire_host::nic::{Nic, Outcome, Posted, Ticket};
use ferrywire_host::{Driver, HostPort, PLANES, wait_around};
use ferrywire_mpi::numbers::Claim;

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

/// What a rank says of a number that all try to claim. The least of all counts.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub(crate) enum Vote {
    /// Somebody else has it.
    Taken,
    /// It is ours, and the communicator has to be in the first plane.
    First,
    /// It is ours, and the communicator may be in any plane.
    Any,
}

impl Vote {
    /// What this rank says.
    pub(crate) fn new(claim: Option<&Claim>) -> Result<Vote> {
        let process = process::running()?;
        let threads = process.thread_level == MPI_THREAD_MULTIPLE;
        Ok(match claim {
            None => Vote::Taken,
            Some(_) if threads && process.driver.has_cores_to_spare() => Vote::Any,
            Some(_) => Vote::First,
        })
    }

    /// What was said, as it was sent.
    pub(crate) fn of(number: u8) -> Vote {
        match number {
            0 => Vote::Taken,
            1 => Vote::First,
            _ => Vote::Any,
        }
    }

    /// What all have agreed on. None: to try another number.
    pub(crate) fn settle(self, claim: Option<Claim>) -> Option<Agreed> {
        let claim = claim?;
        let plane = self.plane(claim.number())?;
        Some(Agreed { claim, plane })
    }

    /// The plane of the communicator with this number. None: it cannot have it.
    fn plane(self, number: u16) -> Option<u32> {
        match self {
            Vote::Taken => None,
            Vote::First => Some(0),
            // The predefined communicators have the first for themselves.
            Vote::Any => Some(1 + u32::from(number) % (PLANES - 1)),
        }
    }
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
    fn the_least_of_all_votes_says_where_it_is() {
        let votes = [Vote::Taken, Vote::First, Vote::Any];
        assert!(votes.is_sorted());
        assert_eq!(votes.map(|vote| Vote::of(vote as u8)), votes);
        assert_eq!(votes.map(|vote| vote.plane(7).is_some()), [false, true, true]);
        assert_eq!(Vote::First.plane(7), Some(0));
    }

    #[test]
    fn neighbours_are_in_different_planes() {
        let planes: Vec<u32> = (2..8).filter_map(|number| Vote::Any.plane(number)).collect();
        assert_eq!(planes, [3, 1, 2, 3, 1, 2]);
    }
}
