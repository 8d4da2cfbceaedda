//! The communicator of all ranks: how a process joins its job and leaves it.

use std::fmt;
use std::ops::Deref;
use std::panic;
use std::sync::Arc;

use ferrywire_host::{Rank, job};
use ferrywire_runtime::Lost;

use crate::comm::Comm;
use crate::error::Error;
use crate::inter_comm::InterComm;
use crate::job::Job;
use crate::operator::OPERATORS;

/// The communicator of all ranks of the job. It dereferences to [`Comm`].
///
/// A rank leaves the job when its last communicator is dropped, this one included. Leaving waits until every message
/// that the rank sent has been taken by its receiver, or can no longer be taken. A process that ends without dropping
/// its communicators, for example by `std::process::exit`, leaves at once.
#[derive(Clone)]
pub struct World {
    comm: Comm,
    parent: Option<InterComm>,
}

impl World {
    pub(crate) fn new(job: Arc<Job>) -> World {
        World { comm: Comm::world(job), parent: None }
    }

    /// Connects the world of a spawned rank to those that spawned it, which wait for that.
    fn meet_parents(mut self) -> Result<World, Error> {
        if self.process().rank().parent().is_some() {
            let (comm, what) = (&self.comm, self.comm.what_all("init"));
            let met = comm.runtime().meet_parents(comm.next_instance()).transpose();
            let parent = met.map(|met| InterComm::met(comm, what, "parents of", met));
            self.parent = parent.transpose()?;
        }
        Ok(self)
    }

    /// The communicator of all ranks.
    pub fn comm(&self) -> &Comm {
        &self.comm
    }

    /// The ranks that spawned those of this world; `None` if no rank did: see [`Command`](crate::Command).
    ///
    /// ```no_run
    /// let world = ferrywire::init()?;
    /// if let Some(parent) = world.parent() {
    ///     let (task, _) = parent.receive_vec::<f64>(0, 0)?;
    ///     parent.send(&task.iter().sum::<f64>(), 0, 0)?;
    /// }
    /// # Ok::<(), ferrywire::Error>(())
    /// ```
    pub fn parent(&self) -> Option<&InterComm> {
        self.parent.as_ref()
    }

    /// Ends the whole job with an exit code. The launcher prints the reason.
    pub fn abort(&self, code: i32, reason: impl fmt::Display) -> ! {
        self.comm.process().rank().abort(code, &reason.to_string())
    }
}

impl Deref for World {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.comm
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.comm.fmt(f)
    }
}

/// Joins the job that this process was started for. Without a launcher, makes a job of one rank.
///
/// ```
/// let world = ferrywire::init().unwrap();
/// println!("rank {} of {}", world.rank(), world.size());
/// ```
pub fn init() -> Result<World, Error> {
    let driver = join()?;
    let job = Arc::new(Job::new(driver, Lost::nobody(), None));
    tell_panics(&job);
    World::new(job).meet_parents()
}

/// Lets the launcher know the text of a panic, which usually ends the process. The hook before prints it.
fn tell_panics(job: &Arc<Job>) {
    let job = Arc::downgrade(job);
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if let Some(job) = job.upgrade() {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            let text = panic.payload_as_str().unwrap_or("a value that is not a text");
            job.process.rank().facts().panic(&format!("{place}\n{text}"));
        }
        before(panic);
    }));
}

/// Makes the driver of this process. No other function does.
fn join() -> Result<Rank, Error> {
    job::join(|name| std::env::var(name).ok(), OPERATORS)
        .map_err(|error| Error::Join { code: error.code(), why: error.to_string() })
}
