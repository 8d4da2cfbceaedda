//! A thread that runs non-blocking and split accesses to a file, one after the other in the order of their calls, so
//! that those of all ranks meet. It is started with the first of them.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use ferrywire_host::nic::{Counter, Posted, Ticket};

use crate::convert::failure::{self, Result};
use crate::convert::handle::Shared;
use crate::convert::status::Status;
use crate::objects::comm::Comm;
use crate::objects::recipe::{End, Next, Recipe};

/// The thread of a file.
#[derive(Default)]
pub(crate) struct FileWorker {
    thread: Mutex<Option<(Sender<Job>, JoinHandle<()>)>>,
    left: Arc<Left>,
}

type Job = Box<dyn FnOnce() + Send>;

/// How many accesses are not over yet.
#[derive(Default)]
struct Left {
    count: Mutex<u64>,
    changed: Condvar,
}

/// An access that the thread runs: a request waits for its counter.
pub(crate) struct Accessing {
    access: Option<Box<dyn FnOnce() -> Result<Status> + Send>>,
    result: Arc<Mutex<Option<Result<Status>>>>,
    counter: Option<Counter>,
    jobs: Sender<Job>,
    left: Arc<Left>,
}

impl FileWorker {
    /// An access that is to be started.
    pub(crate) fn access(
        &self,
        access: impl FnOnce() -> Result<Status> + Send + 'static,
    ) -> Result<Box<dyn Recipe>> {
        let jobs = self.jobs()?;
        let (access, left) = (Some(Box::new(access) as _), Arc::clone(&self.left));
        Ok(Box::new(Accessing { access, result: Arc::default(), counter: None, jobs, left }))
    }

    fn jobs(&self) -> Result<Sender<Job>> {
        let mut thread = lock(&self.thread);
        if let Some((jobs, _)) = &*thread {
            return Ok(jobs.clone());
        }
        let (jobs, queue) = mpsc::channel::<Job>();
        let run = move || queue.into_iter().for_each(|job| job());
        let started = thread::Builder::new().name("ferrywire-file".into()).spawn(run);
        let started = started.map_err(|error| {
            failure::internal(format!("cannot start a thread for the file: {error}"))
        })?;
        *thread = Some((jobs.clone(), started));
        Ok(jobs)
    }

    /// Waits until all accesses are over.
    pub(crate) fn wait(&self) {
        let mut count = lock(&self.left.count);
        while *count > 0 {
            count = self.left.changed.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        if let Some((jobs, thread)) = lock(&self.thread).take() {
            drop(jobs);
            // It ends with the last sender; that of a request that is not over may be left.
            drop(thread);
        }
    }
}

impl Recipe for Accessing {
    fn start(&mut self, comm: &Shared<Comm>) -> Result<Posted> {
        let plane = comm.plane();
        let counter = plane.open_counter();
        self.counter = Some(counter);
        let access = self.access.take().expect("it is started once");
        let (result, left) = (Arc::clone(&self.result), Arc::clone(&self.left));
        *lock(&left.count) += 1;
        let job = move || {
            let ended = access();
            *lock(&result) = Some(ended);
            plane.raise_counter(counter);
            *lock(&left.count) -= 1;
            left.changed.notify_all();
        };
        self.jobs.send(Box::new(job)).expect("the thread runs as long as there are senders");
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
