//! Waiting in several planes at once.
//!
//! One thread cannot sleep at two doorbells. It polls all planes in turn for a while. Then it leaves the planes to
//! their agents, asks to be woken, and still polls now and then, because no thread wakes it where an agent could not be
//! started.

use std::thread::{self, Thread};
use std::time::Duration;

use ferrywire_nic::Nic;

use crate::driver::{Driver, Finished};
use crate::facts::Waiting;
use crate::port::HostPort;
use crate::wait_policy::{Next, SpinBudget, WaitPolicy};

/// Waits until `look` finds what it wants among the outcomes of one of the drivers; `look` gets the index of the
/// driver. It must not call a driver.
pub fn wait_around<T>(
    drivers: &[&Driver],
    mut look: impl FnMut(usize, &mut Finished<'_>) -> Option<T>,
) -> T {
    if let [driver] = drivers {
        return driver.wait_until(|finished| look(0, finished));
    }
    look_around(drivers, |at, driver| {
        driver.look(|finished| (finished.count(), look(at, finished)))
    })
}

/// Waits until `find` finds something in the NIC of one of the drivers; `find` gets the index of the driver. It must
/// not call a driver.
///
/// # Safety
/// As for [`Driver::submit`].
pub unsafe fn wait_for_around<T>(
    drivers: &[&Driver],
    mut find: impl FnMut(usize, &mut Nic, &mut HostPort) -> Option<T>,
) -> T {
    look_around(drivers, |at, driver| {
        let count = driver.look(|finished| finished.count());
        // SAFETY: the caller vouches for the memory that it lends.
        (count, unsafe { driver.submit(|nic, port| find(at, nic, port)) })
    })
}

/// Turns all drivers until `look`, which also returns the number of completions, finds something.
fn look_around<T>(
    drivers: &[&Driver],
    mut look: impl FnMut(usize, &Driver) -> (u64, Option<T>),
) -> T {
    let mut policy = policy(drivers);
    let mut counts = vec![0; drivers.len()];
    let mut waiting = None;
    loop {
        for ((at, driver), seen) in drivers.iter().enumerate().zip(&mut counts) {
            let (count, found) = look(at, driver);
            if let Some(found) = found {
                return found;
            }
            *seen = count;
        }
        match policy.next() {
            Next::Look => std::hint::spin_loop(),
            Next::Yield => thread::yield_now(),
            Next::Sleep => {
                waiting.get_or_insert_with(|| Waiting::begin(drivers[0].facts()));
                drivers[0].answer();
                nap(drivers, &counts);
            }
        }
    }
}

/// Sleeps until one of the drivers has something new since it was last polled, at most for [`NAP`].
fn nap(drivers: &[&Driver], counts: &[u64]) {
    let me: Thread = thread::current();
    let calm = drivers.iter().zip(counts).all(|(driver, &count)| driver.enlist(&me, count));
    if calm {
        thread::park_timeout(NAP);
    }
    drivers.iter().for_each(|driver| driver.strike(&me));
}

/// Turns all drivers until nothing that this rank sent is on its way in any of them. They are closing already.
pub(crate) fn drain(drivers: &[&Driver]) {
    if let [driver] = drivers {
        return driver.drain();
    }
    let mut policy = policy(drivers);
    // `count` gives each driver its turn; `any` would stop at the first.
    while drivers.iter().filter(|driver| !driver.is_quiet()).count() > 0 {
        match policy.next() {
            Next::Look => std::hint::spin_loop(),
            Next::Yield => thread::yield_now(),
            Next::Sleep => thread::sleep(NAP),
        }
    }
}

fn policy(drivers: &[&Driver]) -> WaitPolicy {
    WaitPolicy::new(drivers.iter().any(|driver| driver.is_oversubscribed()), &SpinBudget::new())
}

const NAP: Duration = Duration::from_millis(1);
