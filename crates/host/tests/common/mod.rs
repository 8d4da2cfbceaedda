//! Shared by tests that run ranks as threads.

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use ferrywire_host::{Driver, Operators, Rank, job, memory};
use ferrywire_nic::{Mask, MatchWord, Mode, Outcome, Peer, Posted};

/// Runs `story` twice: with a core for each rank, and oversubscribed. Aborts the process if it takes too
/// long, because a thread that waits for ever cannot be joined.
pub(crate) fn both_ways(
    ranks: u32,
    operators: Operators,
    story: impl Fn(Vec<Rank>) + Send + Sync + 'static,
) {
    let (done, wait) = mpsc::channel::<()>();
    let teller = thread::spawn(move || {
        let _done = done;
        for oversubscribed in [false, true] {
            story(job::local(ranks, oversubscribed, operators).expect("a segment"));
        }
    });
    if wait.recv_timeout(WATCHDOG) == Err(RecvTimeoutError::Timeout) {
        // Not `eprintln`, which the test harness would capture.
        let _ = writeln!(std::io::stderr(), "{:?} waits for ever", thread::current().name());
        std::process::abort();
    }
    teller.join().expect("the story has an end");
}

pub(crate) fn post_send(driver: &Driver, to: u32, tag: u32, bytes: &[u8]) -> Posted {
    let word = MatchWord::new(0, driver.me().0, tag);
    // SAFETY: the caller keeps the bytes until the operation is over.
    unsafe {
        driver.submit(|nic, port| {
            nic.post_send(Peer(to), word, memory::lend(bytes), Mode::Standard, port)
        })
    }
}

pub(crate) fn post_receive(driver: &Driver, from: u32, tag: u32, bytes: &mut [u8]) -> Posted {
    let word = MatchWord::new(0, from, tag);
    let into = memory::lend_mut(bytes);
    // SAFETY: the caller keeps the bytes until the operation is over.
    unsafe {
        driver.submit(|nic, port| nic.post_receive(Some(Peer(from)), word, Mask::EXACT, into, port))
    }
}

pub(crate) fn end(driver: &Driver, posted: Posted) -> Outcome {
    match posted {
        Posted::Done(outcome) => outcome,
        Posted::Pending(ticket) => driver.wait(ticket),
    }
}

pub(crate) fn send(driver: &Driver, to: u32, tag: u32, bytes: &[u8]) {
    assert_eq!(end(driver, post_send(driver, to, tag, bytes)), Outcome::Done);
}

pub(crate) fn receive(driver: &Driver, from: u32, tag: u32, bytes: &mut [u8]) {
    let outcome = end(driver, post_receive(driver, from, tag, bytes));
    assert!(matches!(outcome, Outcome::Received(_)), "{outcome:?}");
}

/// A waker that calls a function, once.
struct Does(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for Does {
    fn wake(self: Arc<Self>) {
        let what = self.0.lock().expect("nobody panics here").take();
        what.into_iter().for_each(|what| what());
    }
}

pub(crate) fn waker(what: impl FnOnce() + Send + 'static) -> Waker {
    Waker::from(Arc::new(Does(Mutex::new(Some(Box::new(what))))))
}

const WATCHDOG: Duration = Duration::from_secs(100);
