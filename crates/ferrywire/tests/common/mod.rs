//! Helpers of the tests: a watchdog, an executor, random numbers.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test uses some of it")]

use std::future::Future;
use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use ferrywire::World;

/// Runs `program` on `ranks` ranks. A hang aborts the test with a message.
pub fn local<R: Send>(ranks: u32, program: impl Fn(&World) -> R + Sync) -> Vec<R> {
    watched(|| ferrywire::local(ranks, program))
}

pub fn watched<R>(test: impl FnOnce() -> R) -> R {
    let (over, watch) = channel::<()>();
    let name = thread::current().name().unwrap_or("a test").to_string();
    thread::spawn(move || {
        if watch.recv_timeout(TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            // Not `eprintln`, which the test harness would capture.
            let _ = writeln!(std::io::stderr(), "{name} hangs");
            std::process::abort();
        }
    });
    let result = test();
    drop(over);
    result
}

const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs a future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

/// Random numbers that follow from a seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((z ^ (z >> 31)) % u64::from(limit)).expect("below 32 bits")
    }

    pub fn one_in(&mut self, chances: u32) -> bool {
        self.below(chances) == 0
    }
}

/// The seeds of this run: `SEED=7 cargo test` repeats one.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    match std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..count,
    }
}
