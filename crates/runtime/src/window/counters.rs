//! Counters of a window, and puts that raise them. They are beyond the standard.
//!
//! The NIC of the target raises a counter when the bytes of a put are in place, so these puts go through it on every rail,
//! also where memory is shared. Nobody at the target has to call MPI for that, nor for what a trigger starts then.

use std::sync::Arc;

use ferrywire_host::memory::lend;
use ferrywire_host::nic::{Counter, Fault, Outcome, Posted, Region, Span, Triggered};

use super::access::TargetData;
use super::exposed::Exposed;
use super::remote::{Remote, Run};
use super::{Window, WindowError, WindowResult};
use crate::comm::Comm;
use crate::plane::Plane;

/// The most counters of a window.
const COUNTERS_MAX: u32 = 1 << 16;

/// When a trigger fires.
#[derive(Clone, Copy)]
pub struct Trigger<'a> {
    plane: Plane<'a>,
    counter: Counter,
    at_least: u64,
}

impl Window {
    /// Gives each member as many counters, all 0. All members call it, with the same number.
    pub fn open_counters(&self, comm: Comm<'_>, count: u32) -> WindowResult {
        if self.counters.get().is_some() {
            return Err(WindowError::NoCounters("the window has counters already"));
        }
        // A rank that passes a wrong number takes part, so that the others are told.
        let is_valid = (1..=COUNTERS_MAX).contains(&count);
        let open = if is_valid { count } else { 0 };
        let Exposed { memory } = self.expose(comm);
        // SAFETY: no memory is lent.
        let counters = unsafe {
            comm.plane().submit(|nic, _| {
                let counters: Arc<[Counter]> = (0..open).map(|_| nic.open_counter()).collect();
                nic.set_region_counters(memory, Arc::clone(&counters));
                counters
            })
        };
        // Others may raise them as soon as they return from this.
        let counts = comm.gather_for_window(&[count.into()])?;
        if counts.iter().any(|&other| other != count.into()) {
            close(comm, &counters);
            return Err(WindowError::NoCounters("the ranks pass different numbers of counters"));
        }
        if !is_valid {
            return Err(WindowError::NoCounters("a window has 1 to 65,536 counters"));
        }
        self.counters.get_or_init(|| counters);
        Ok(())
    }

    /// Closes our counters.
    pub(super) fn close_counters(&self, comm: Comm<'_>) {
        if let Some(counters) = self.counters.get() {
            close(comm, counters);
        }
    }

    /// Writes `bytes`, the packed form of as many elements. A counter of the target is raised by one when all are in place.
    pub fn put_notify(
        &self,
        comm: Comm<'_>,
        data: TargetData<'_>,
        bytes: &[u8],
        counter: i64,
    ) -> WindowResult {
        let (number, _) = self.counter(counter)?;
        let remote = self.nic_target(comm, data)?;
        let Remote { peer, region, address, .. } = remote;
        let mut runs = remote.runs(data, bytes.len());
        let last = runs.pop().unwrap_or(Run { address, at: 0, len: 0 });
        let source = lend(bytes);
        // Puts may overtake each other, and only the last one raises the counter.
        self.wait_for_runs(comm, remote, &runs, |nic, port, run| {
            let source = source.part(run.at, run.len);
            nic.post_put(peer, source, region, run.address, None, port)
        })?;
        let at = usize::try_from(last.at).expect("it is in memory");
        let run = Run { at: 0, ..last };
        self.write(comm, remote, vec![run], &bytes[at..], |nic, port, source, address| {
            nic.post_put(peer, source, region, address, Some(number), port)
        })
    }

    /// Writes `source`, the bytes of as many adjacent elements, when a trigger fires. A counter of the target is raised
    /// by one when all are in place. No flush waits for it. The trigger starts operations of the communicator's plane.
    ///
    /// # Safety
    /// As for [`Trigger::start`].
    pub unsafe fn put_when(
        &self,
        comm: Comm<'_>,
        data: TargetData<'_>,
        source: Span,
        counter: i64,
        trigger: Trigger<'_>,
    ) -> WindowResult<Posted> {
        let (number, _) = self.counter(counter)?;
        let Remote { peer, region, address, .. } = self.nic_target(comm, data)?;
        let (offset, notify) = (address, Some(number));
        let put = Triggered::Put { to: peer, source, region, offset, notify };
        // SAFETY: the caller's promise.
        Ok(unsafe { trigger.start(put) })
    }

    /// The elements of a target as its NIC reaches them.
    fn nic_target(&self, comm: Comm<'_>, data: TargetData<'_>) -> WindowResult<Remote> {
        let target = self.target(comm, data)?;
        let part = target.control.nic_part();
        Ok(Remote {
            rank: data.rank,
            peer: comm.members().group().peer_of(data.rank),
            region: Region(part.region),
            address: part.address.wrapping_add(target.first),
        })
    }

    /// The value of one of our counters.
    pub fn read_counter(&self, comm: Comm<'_>, counter: i64) -> WindowResult<u64> {
        let (_, counter) = self.counter(counter)?;
        comm.plane().turn();
        Ok(comm.plane().counter(counter))
    }

    /// Sets one of our counters.
    pub fn set_counter(&self, comm: Comm<'_>, counter: i64, value: u64) -> WindowResult {
        let (_, counter) = self.counter(counter)?;
        comm.plane().set_counter(counter, value);
        Ok(())
    }

    /// Waits until one of our counters is at least `at_least`.
    pub fn wait_counter(&self, comm: Comm<'_>, counter: i64, at_least: u64) -> WindowResult {
        let (_, counter) = self.counter(counter)?;
        // SAFETY: no memory is lent.
        let outcome = unsafe {
            comm.plane().perform(|nic, _| {
                hopeless(comm.plane()).unwrap_or_else(|| nic.post_wait(counter, at_least))
            })
        };
        match outcome {
            Outcome::Done => Ok(()),
            other => Err(comm.process().failure(other).into()),
        }
    }

    /// A trigger that fires when one of our counters is at least `at_least`.
    pub fn trigger<'a>(
        &self,
        comm: Comm<'a>,
        counter: i64,
        at_least: u64,
    ) -> WindowResult<Trigger<'a>> {
        let (_, counter) = self.counter(counter)?;
        Ok(Trigger { plane: comm.plane(), counter, at_least })
    }

    /// A counter by its number, which others know it by, too.
    fn counter(&self, number: i64) -> WindowResult<(u32, Counter)> {
        let counters: &[Counter] = self.counters.get().map_or(&[], |counters| counters);
        let place = u32::try_from(number).ok();
        let found = place.and_then(|place| Some((place, *counters.get(place as usize)?)));
        found.ok_or(WindowError::NoCounter(number, counters.len()))
    }
}

fn close(comm: Comm<'_>, counters: &[Counter]) {
    counters.iter().for_each(|&counter| comm.plane().close_counter(counter));
}

/// The end of a wait for a counter, if the job has ended because a rank is lost.
fn hopeless(plane: Plane<'_>) -> Option<Posted> {
    let peer = plane.process().lost().peer()?;
    Some(Posted::Done(Outcome::Failed(Fault::PeerDown(peer))))
}

impl Trigger<'_> {
    /// Checks that the trigger can start operations of this plane: it starts those of its own.
    pub fn check_starts_in(self, plane: Plane<'_>) -> WindowResult {
        if self.plane.is(plane) { Ok(()) } else { Err(WindowError::OtherNic) }
    }

    /// Starts `what` when the trigger fires.
    ///
    /// # Safety
    /// The memory is lent until the operation is complete: no other code writes it, nor reads it if the operation writes
    /// it. Puts into the window may write it before the trigger fires.
    pub unsafe fn start(self, what: Triggered) -> Posted {
        let Trigger { plane, counter, at_least } = self;
        // SAFETY: the caller's promise.
        unsafe {
            plane.submit(|nic, port| {
                let post = || Posted::Pending(nic.post_trigger(counter, at_least, what, port));
                hopeless(plane).unwrap_or_else(post)
            })
        }
    }
}
