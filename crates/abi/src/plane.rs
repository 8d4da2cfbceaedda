//! In which plane a new communicator is, and how one waits where there are several.
//!
//! Threads that use communicators of different planes never wait for each other's lock. That pays only if a
//! program has several threads and the machine has cores for them, so everything stays in the first
//! plane unless all who agree on the communicator say so.

use ferrywire_host::nic::{Module, ModuleStats, Nic, Outcome, Peer, Placement, Posted, Ticket};
use ferrywire_host::{
    Driver, Finished, HostPort, Keep, PLANES, Rank, wait_around, wait_for_around,
};
use ferrywire_mpi::agreement;
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
    /// The plane. Fails if the machine has no memory for it.
    pub(crate) fn plane(&self) -> Result<Plane> {
        let driver = process::running()?.driver.plane(self.plane).map_err(|error| {
            failure::internal(format!("there is no memory for another network: {error}"))
        })?;
        Ok(Plane(driver))
    }
}

/// A plane, as everything here but this file knows it: one can ask things of it. Whoever waits for them does so by the
/// functions below, which look at all planes if need be.
#[derive(Clone, Copy)]
pub(crate) struct Plane(&'static Driver);

impl Plane {
    /// The first plane, where the predefined communicators are.
    pub(crate) fn first() -> Result<Plane> {
        Ok(Plane::first_of(process::running()?.driver))
    }

    /// That of a rank.
    pub(crate) fn first_of(rank: &'static Rank) -> Plane {
        Plane(rank)
    }

    /// Asks the NIC for something.
    ///
    /// # Safety
    /// As for [`Driver::submit`].
    #[inline(always)]
    pub(crate) unsafe fn submit<T>(self, ask: impl FnOnce(&mut Nic, &mut HostPort) -> T) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.0.submit(ask) }
    }

    /// Turns once, and lets `look` see which outcomes are there. It must not call a driver.
    #[inline]
    pub(crate) fn look<T>(self, look: impl FnOnce(&mut Finished<'_>) -> T) -> T {
        self.turn_others();
        self.0.look(look)
    }

    /// Looks around once.
    pub(crate) fn turn(self) {
        self.turn_others();
        self.0.turn();
    }

    /// Turns the other planes, if an operator of the user's may wait there for us.
    #[inline]
    fn turn_others(self) {
        if must_look_around() {
            drivers().filter(|&driver| !self.is(Plane(driver))).for_each(Driver::turn);
        }
    }

    /// Nobody will ask how an operation ended. `keep` lives until it has.
    pub(crate) fn detach(self, ticket: Ticket, keep: Option<Keep>) {
        self.0.detach(ticket, keep);
    }

    /// Takes an operation back, if it is not too late; either way it ends.
    pub(crate) fn cancel(self, ticket: Ticket) {
        self.0.cancel(ticket);
    }

    /// Who we are.
    pub(crate) fn me(self) -> Peer {
        self.0.me()
    }

    /// Messages of `group` go to `module` from now on.
    pub(crate) fn load(self, group: u16, module: Box<dyn Module>, placement: Placement) {
        self.0.load(group, module, placement);
    }

    /// Another module takes over.
    pub(crate) fn replace(self, group: u16, module: Box<dyn Module>) {
        self.0.replace(group, module);
    }

    /// Takes a module out.
    pub(crate) fn unload(self, group: u16) {
        self.0.unload(group);
    }

    /// What a module has done, if it is loaded.
    pub(crate) fn module_stats(self, group: u16) -> Option<ModuleStats> {
        self.0.module_stats(group)
    }

    /// Whether it is the same.
    #[inline]
    pub(crate) fn is(self, other: Plane) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

/// What this rank says when a communicator is made: all bits if it may be in any plane, or none.
pub(crate) fn vote() -> Result<u64> {
    let process = process::running()?;
    let threads = process.thread_level == MPI_THREAD_MULTIPLE;
    Ok(if threads && process.driver.has_cores_to_spare() { !0 } else { 0 })
}

impl From<agreement::Agreed> for Agreed {
    fn from(agreed: agreement::Agreed) -> Agreed {
        let agreement::Agreed { claim, votes } = agreed;
        let plane = plane_of(claim.number(), votes != 0);
        Agreed { claim, plane }
    }
}

/// The plane of the communicator with this number, if it may be in any.
fn plane_of(number: u16, anywhere: bool) -> u32 {
    // The predefined communicators have the first for themselves.
    if anywhere { 1 + u32::from(number) % (PLANES - 1) } else { 0 }
}

/// Whether whoever waits has to look at all planes: an operator of the user's may wait in any of them for
/// a thread that is inside, and the agent does not run it.
#[inline]
fn must_look_around() -> bool {
    op::is_any_in_use() && !is_one()
}

/// Whether no plane is open but the first.
#[inline]
pub(crate) fn is_one() -> bool {
    process::running().map_or(true, |process| process.driver.has_one_plane())
}

/// The drivers of all planes that are open.
fn drivers() -> impl Iterator<Item = &'static Driver> {
    process::running().into_iter().flat_map(|process| process.driver.drivers())
}

/// Waits until an operation is over.
#[inline]
pub(crate) fn wait(plane: Plane, ticket: Ticket) -> Outcome {
    match must_look_around() {
        false => plane.0.wait(ticket),
        true => wait_until(plane, |finished| finished.take(ticket)),
    }
}

/// Waits until `look` has found what it wants among the outcomes of a plane. It must not call a driver.
#[inline]
pub(crate) fn wait_until<T>(
    plane: Plane,
    mut look: impl FnMut(&mut Finished<'_>) -> Option<T>,
) -> T {
    if !must_look_around() {
        return plane.0.wait_until(look);
    }
    wait_anywhere(|other, finished| if plane.is(other) { look(finished) } else { None })
}

/// The same among the outcomes of all planes; it is told of which.
pub(crate) fn wait_anywhere<T>(mut look: impl FnMut(Plane, &mut Finished<'_>) -> Option<T>) -> T {
    let drivers: Vec<&'static Driver> = drivers().collect();
    wait_around(&drivers, |at, finished| look(Plane(drivers[at]), finished))
}

/// Looks into the NIC of a plane until `find` has found something there.
///
/// # Safety
/// As for [`Driver::submit`].
pub(crate) unsafe fn wait_for<T>(
    plane: Plane,
    mut find: impl FnMut(&mut Nic, &mut HostPort) -> Option<T>,
) -> T {
    if !must_look_around() {
        // SAFETY: the caller's promise.
        return unsafe { plane.0.wait_for(find) };
    }
    let drivers: Vec<&'static Driver> = drivers().collect();
    // SAFETY: the caller's promise.
    unsafe {
        wait_for_around(
            &drivers,
            |at, nic, port| {
                if plane.is(Plane(drivers[at])) { find(nic, port) } else { None }
            },
        )
    }
}

/// Asks for something, and waits until it is over.
///
/// # Safety
/// As for [`Driver::submit`].
#[inline]
pub(crate) unsafe fn perform(
    plane: Plane,
    ask: impl FnOnce(&mut Nic, &mut HostPort) -> Posted,
) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { perform_schedule(plane, ask) }.1
}

/// The same, and says under which ticket, if it had one: a released schedule goes on under it.
///
/// # Safety
/// As for [`Driver::submit`].
#[inline]
pub(crate) unsafe fn perform_schedule(
    plane: Plane,
    ask: impl FnOnce(&mut Nic, &mut HostPort) -> Posted,
) -> (Option<Ticket>, Outcome) {
    if !must_look_around() {
        // SAFETY: the caller's promise.
        return unsafe { plane.0.perform_schedule(ask) };
    }
    // SAFETY: the caller's promise.
    match unsafe { plane.submit(ask) } {
        Posted::Done(outcome) => (None, outcome),
        Posted::Pending(ticket) => (Some(ticket), wait(plane, ticket)),
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
