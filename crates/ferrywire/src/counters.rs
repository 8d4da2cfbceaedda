//! Counters of windows, and what they start.

use std::sync::Arc;

use ferrywire_runtime as runtime;

use crate::comm::{Comm, What};
use crate::error::Error;

/// The counters of this rank in a window: see [`Window::counters`](crate::Window::counters).
///
/// A [`put_notify`](crate::Part::put_notify) raises a counter of its target when its items are in place. The target
/// [waits](Counters::wait) for the counter, instead of a message or the end of an epoch. A counter can also start
/// something when it [reaches](Counters::reaches) a value. The NIC raises and starts, also while the application
/// computes.
///
/// Counters are numbered from 0. They count up; [`set`](Counters::set) is the only way to lower them. When the window
/// is freed or dropped, they are closed: their values are 0, and what waits for them fails with [`Error::Cancelled`].
///
/// ```
/// // Neighbours exchange the borders of their parts, without barriers.
/// ferrywire::local(3, |world| {
///     let (rank, size) = (world.rank(), world.size());
///     let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
///     let mut halo = world.window::<u32>(1).unwrap();
///     let counters = halo.counters(2).unwrap();
///     let all = halo.lock_all().unwrap();
///     for step in 1..=10 {
///         all.part(right).unwrap().put_notify(0, &[100 * rank + step], 0).unwrap();
///         // … compute what needs no neighbour …
///         counters.wait(0, step.into()).unwrap();
///         assert_eq!(all.part(rank).unwrap().get_one(0).unwrap(), 100 * left + step);
///         // The left neighbour may write again.
///         all.part(left).unwrap().put_notify(0, &[], 1).unwrap();
///         counters.wait(1, step.into()).unwrap();
///     }
/// });
/// ```
pub struct Counters {
    pub(crate) comm: Comm,
    pub(crate) window: Arc<runtime::Window>,
}

/// A counter of this rank that reaches a value, and starts something then: see [`Counters::reaches`].
#[derive(Clone, Copy)]
pub struct Trigger<'a> {
    counters: &'a Counters,
    counter: u32,
    at_least: u64,
}

impl Counters {
    /// The value of a counter.
    pub fn read(&self, counter: u32) -> Result<u64, Error> {
        let read = self.window.read_counter(self.comm.runtime(), counter.into());
        read.map_err(|error| self.comm.window_error(self.comm.what_all("read"), error))
    }

    /// Sets a counter. A put that arrives at the same time raises it before or after that.
    pub fn set(&self, counter: u32, value: u64) -> Result<(), Error> {
        let set = self.window.set_counter(self.comm.runtime(), counter.into(), value);
        set.map_err(|error| self.comm.window_error(self.comm.what_all("set"), error))
    }

    /// Waits until a counter is at least `at_least`. What the puts that raised it have written can be read then.
    pub fn wait(&self, counter: u32, at_least: u64) -> Result<(), Error> {
        let what = self.comm.what_all("wait");
        let _waits = self.comm.enter(what);
        let waited = self.window.wait_counter(self.comm.runtime(), counter.into(), at_least);
        waited.map_err(|error| self.comm.window_error(what, error))
    }

    /// The moment when a counter is at least `at_least`, to start something: a [put](crate::Part::put_when), or a
    /// message that was prepared by [`send_init`](Comm::send_init) or [`recv_init`](Comm::recv_init). If the counter
    /// has reached the value already, that starts at once.
    ///
    /// ```
    /// use ferrywire::LockKind::Shared;
    ///
    /// ferrywire::local(2, |world| {
    ///     let window = world.window::<f64>(1).unwrap();
    ///     let counters = window.counters(1).unwrap();
    ///     if world.rank() == 0 {
    ///         // Answers the first put, also while it computes.
    ///         let mut answer = world.send_init([42.0], 1, 7).unwrap();
    ///         answer.start_when(counters.reaches(0, 1)).unwrap();
    ///         // … compute …
    ///         answer.wait().unwrap();
    ///     } else {
    ///         window.lock(0, Shared).unwrap().put_notify(0, &[1.5], 0).unwrap();
    ///         assert_eq!(world.receive_one::<f64>(0, 7).unwrap().0, 42.0);
    ///     }
    ///     world.barrier().unwrap();
    /// });
    /// ```
    pub fn reaches(&self, counter: u32, at_least: u64) -> Trigger<'_> {
        Trigger { counters: self, counter, at_least }
    }
}

impl<'a> Trigger<'a> {
    /// The trigger for an operation of `comm`, if its counter exists and can start it. With [`local`](crate::local),
    /// counters of other ranks cannot.
    pub(crate) fn armed(self, comm: &Comm, what: What) -> Result<runtime::Trigger<'a>, Error> {
        let Counters { comm: ours, window } = self.counters;
        let trigger = window.trigger(ours.runtime(), self.counter.into(), self.at_least);
        let checked = trigger.and_then(|trigger| {
            trigger.check_starts_in(comm.plane())?;
            Ok(trigger)
        });
        checked.map_err(|error| comm.window_error(what, error))
    }
}
