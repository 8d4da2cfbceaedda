//! Requests of non-blocking and split accesses, which the thread of the file runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrywire_host::nic::{Counter, Posted, Ticket};

use crate::convert::failure::Result;
use crate::convert::handle::Shared;
use crate::convert::status::Status;
use crate::objects::comm::Comm;
use crate::objects::file::OpenFile;
use crate::objects::recipe::{End, Next, Recipe};

/// An access that the thread of the file runs: a request waits for its counter.
pub(crate) struct Accessing {
    /// What it is started with.
    access: Option<(Shared<OpenFile>, LaterAccess)>,
    result: Arc<Mutex<Option<Result<Status>>>>,
    counter: Option<Counter>,
}

/// What the thread runs.
type LaterAccess = Box<dyn FnOnce() -> Result<Status> + Send>;

impl Accessing {
    /// An access that is to be started.
    pub(crate) fn recipe(
        file: Shared<OpenFile>,
        access: impl FnOnce() -> Result<Status> + Send + 'static,
    ) -> Box<dyn Recipe> {
        let access = Some((file, Box::new(access) as _));
        Box::new(Accessing { access, result: Arc::default(), counter: None })
    }
}

impl Recipe for Accessing {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        let plane = comm.plane();
        let counter = plane.open_counter();
        self.counter = Some(counter);
        let (file, access) = self.access.take().expect("it is started once");
        let result = Arc::clone(&self.result);
        file.file.start(move || {
            let ended = access();
            *lock(&result) = Some(ended);
            plane.raise_counter(counter);
        })?;
        Ok(plane.start_wait_for_counter(counter, 1))
    }

    fn finish(&mut self, comm: &Shared<Comm>, _: End) -> Result<Next> {
        if let Some(counter) = self.counter.take() {
            comm.plane().close_counter(counter);
        }
        let result = lock(&self.result).take();
        result.expect("it has raised its counter").map(Next::Over)
    }

    fn cancel(&mut self, _: &Comm, _: Option<Ticket>) -> Result {
        // The thread may be accessing the memory of the program, so the request lasts as long as the access.
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
