//! A thread that runs non-blocking and split accesses to a file, one after the other in the order of their calls, so
//! that those of all members meet. It is started with the first of them, and ends with the file.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use super::{File, FileResult, lock};

/// The thread of a file.
#[derive(Default)]
pub(super) struct Worker {
    thread: Mutex<Option<Sender<Job>>>,
    left: Arc<Left>,
}

type Job = Box<dyn FnOnce() + Send>;

/// How many accesses are not over yet.
#[derive(Default)]
struct Left {
    count: Mutex<u64>,
    changed: Condvar,
}

impl File {
    /// Runs `access` in the thread of the file, behind those that were started before. It says itself when it is over,
    /// for example by a counter.
    pub fn start(&self, access: impl FnOnce() + Send + 'static) -> FileResult {
        let Worker { thread, left } = &self.worker;
        let mut thread = lock(thread);
        let jobs = match &*thread {
            Some(jobs) => jobs,
            None => thread.insert(spawn()?),
        };
        *lock(&left.count) += 1;
        let left = Arc::clone(left);
        let job = move || {
            access();
            *lock(&left.count) -= 1;
            left.changed.notify_all();
        };
        jobs.send(Box::new(job)).expect("the thread runs as long as there are senders");
        Ok(())
    }

    /// Waits until all accesses that were started are over. Collective calls do that first, so that accesses meet those
    /// of other members in the order of the calls.
    pub fn wait_for_started(&self) {
        let left = &self.worker.left;
        let mut count = lock(&left.count);
        while *count > 0 {
            count = left.changed.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the thread when it has nothing to do any more.
    pub(super) fn end_worker(&self) {
        drop(lock(&self.worker.thread).take());
    }
}

fn spawn() -> FileResult<Sender<Job>> {
    let (jobs, queue) = mpsc::channel::<Job>();
    let run = move || queue.into_iter().for_each(|job| job());
    thread::Builder::new().name("ferrywire-file".into()).spawn(run)?;
    Ok(jobs)
}
