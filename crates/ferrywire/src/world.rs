//! The communicator of all ranks: how a process joins its job and leaves it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use ferrywire_host::{Rank, job};
use ferrywire_runtime::Lost;

use crate::comm::Comm;
use crate::error::Error;
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
}

impl World {
    pub(crate) fn new(job: Arc<Job>) -> World {
        World { comm: Comm::world(job) }
    }

    /// The communicator of all ranks.
    pub fn comm(&self) -> &Comm {
        &self.comm
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
    Ok(World::new(Arc::new(Job::new(driver, Lost::nobody(), None))))
}

/// Makes the driver of this process. No other function does.
fn join() -> Result<Rank, Error> {
    job::join(|name| std::env::var(name).ok(), OPERATORS)
        .map_err(|error| Error::Join { why: error.to_string() })
}
