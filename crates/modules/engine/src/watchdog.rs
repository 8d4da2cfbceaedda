//! The watchdog: limits the CPU time of module calls.
//!
//! Compiled code compares a number, the epoch, with its deadline at each iteration of a loop. One thread of the process
//! increments the epoch every [`TICK`]; compiled code that finds it past its deadline calls [`look`], which reads the
//! CPU time of the calling thread. So a module that is merely not scheduled is not stopped, and a call that ends soon
//! pays only for setting its deadline.
//!
//! The watchdog thread sleeps while no module runs. To detect this, it sets [`PULSE`] to quiet at each tick; calls that
//! find it quiet set it to loud. Since every deadline is [`LOOK_TICKS`] away and [`look`] makes the pulse loud too, a
//! thread that waits for [`IDLE_TICKS`] quiet ticks leaves no call without a clock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::{Engine, Result, StoreContextMut, Trap, UpdateDeadline};

use crate::instance::State;

/// The time limit of a call, and when it began.
pub(crate) struct Watch {
    time_ns_max: u64,
    /// CPU time of the thread at the first look in this call.
    first_ns: Option<u64>,
}

impl Watch {
    pub(crate) fn new(time_ns_max: u64) -> Watch {
        Watch { time_ns_max, first_ns: None }
    }

    /// A call begins.
    pub(crate) fn begin(&mut self) {
        self.first_ns = None;
    }
}

/// Keeps the epoch running. The caller has set its deadline before.
#[inline]
pub(crate) fn notice() {
    if PULSE.load(Ordering::Relaxed) != LOUD {
        make_loud();
    }
}

/// Called when a call has passed its deadline: stops it, or extends the deadline.
pub(crate) fn look(mut store: StoreContextMut<'_, State>) -> Result<UpdateDeadline> {
    notice();
    let now_ns = cpu_ns();
    let watch = &mut store.data_mut().watch;
    // CPU time before the first look is unknown and not counted: a few ticks at most.
    let first_ns = *watch.first_ns.get_or_insert(now_ns);
    if now_ns - first_ns >= watch.time_ns_max {
        return Err(Trap::Interrupt.into());
    }
    Ok(UpdateDeadline::Continue(LOOK_TICKS))
}

/// Starts the thread, unless it runs already.
pub(crate) fn open(engine: &Engine) -> Result<(), &'static str> {
    let opened = THREAD.get_or_init(|| {
        let engine = engine.clone();
        let thread = thread::Builder::new().name("ferry-watchdog".to_string());
        let thread = thread.stack_size(THREAD_STACK_BYTES).spawn(move || tick_forever(&engine));
        Some(thread.ok()?.thread().clone())
    });
    opened.as_ref().map(|_| ()).ok_or("the module's watchdog cannot be started: no more threads")
}

#[cold]
fn make_loud() {
    // Pairs with the Acquire in `tick_forever`, so that a parked thread sees why it was woken.
    if PULSE.swap(LOUD, Ordering::AcqRel) == PARKED
        && let Some(Some(thread)) = THREAD.get()
    {
        thread.unpark();
    }
}

fn tick_forever(engine: &Engine) {
    let mut quiet_ticks = 0;
    loop {
        thread::sleep(TICK);
        engine.increment_epoch();
        if PULSE.swap(QUIET, Ordering::AcqRel) == LOUD {
            quiet_ticks = 0;
            continue;
        }
        quiet_ticks += 1;
        if quiet_ticks < IDLE_TICKS {
            continue;
        }
        let parked = PULSE.compare_exchange(QUIET, PARKED, Ordering::AcqRel, Ordering::Relaxed);
        if parked.is_ok() {
            // Pairs with the Release of the swap in `make_loud`.
            while PULSE.load(Ordering::Acquire) == PARKED {
                thread::park();
            }
        }
        quiet_ticks = 0;
    }
}

/// The CPU time of this thread.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to `time`, which is ours, and to nothing else.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert!(answer == 0, "every thread has a clock");
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// The distance of every deadline: two, so that at least one whole tick passes.
pub(crate) const LOOK_TICKS: u64 = 2;

const TICK: Duration = Duration::from_millis(2);

/// Much more than `LOOK_TICKS`, for a thread that is preempted between setting its deadline and reading the pulse.
const IDLE_TICKS: u32 = 50;

const THREAD_STACK_BYTES: usize = 128 << 10;

const PARKED: u8 = 0;
const QUIET: u8 = 1;
const LOUD: u8 = 2;

static PULSE: AtomicU8 = AtomicU8::new(QUIET);

static THREAD: OnceLock<Option<Thread>> = OnceLock::new();

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::thread;

    use ferrywire_modules::{Budget, Engine};
    use ferrywire_nic::{Hook, Module, Trap};

    use super::{PARKED, PULSE};

    /// The thread sleeps while no module runs, and is there again when one runs for ever.
    #[test]
    fn the_clock_goes_on_after_a_pause() {
        let text =
            r#"(module (func (export "on_message") (result i32) (loop $l (br $l)) i32.const 0))"#;
        let budget = Budget { fuel: u64::MAX, time_ns: 1_000_000, ..Budget::default() };
        let code = Engine::linked(&crate::TABLE).compile(text.as_bytes(), &budget).unwrap();
        let mut module = code.start().unwrap();
        for _ in 0..3 {
            while PULSE.load(Ordering::Relaxed) != PARKED {
                thread::yield_now();
            }
            assert_eq!(module.on_message(&mut Nobody), Err(Trap::Time));
        }
    }

    /// The hook of a module that makes no requests.
    struct Nobody;

    impl Hook for Nobody {
        fn message(&self) -> ferrywire_nic::Message<'_> {
            ferrywire_nic::Message { rank: 0, size: 1, sender: 0, tag: 0, payload: &[] }
        }

        fn payload_mut(&mut self) -> &mut [u8] {
            &mut []
        }

        fn forward(&mut self, _to: u32) -> Result<(), Trap> {
            Err(Trap::Engine)
        }

        fn send(&mut self, _to: u32, _tag: u32, _bytes: &[u8]) -> Result<(), Trap> {
            Err(Trap::Engine)
        }

        fn raise(&mut self, _counter: u32, _by: u64) -> Result<(), Trap> {
            Err(Trap::Engine)
        }

        fn arm(&mut self, _counter: u32, _at_least: u64) -> Result<(), Trap> {
            Err(Trap::Engine)
        }

        fn now(&self) -> u64 {
            0
        }
    }
}
