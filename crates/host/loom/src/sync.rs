//! The parts of `crates/host/src/sync.rs`, built on loom.
//!
//! Invariants, cited below by number.
//!   I1. All threads of a model run on one thread of the machine, and each model on its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64 as Count, Ordering::Relaxed};

use loom::sync::{Condvar, Mutex};

pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
pub(crate) use loom::thread::yield_now;

pub(crate) const SLOTS: u32 = 2;
pub(crate) const UNTOLD_MAX: u32 = 2;
pub(crate) const DATA_LINES_MAX: u32 = 4;
pub(crate) const SPINS_MAX: u32 = 1;
pub(crate) const YIELDS_MAX: u32 = 2;

/// Runs `story` in every interleaving, and prints how many there were.
pub(crate) fn explore(name: &str, story: impl Fn() + Send + Sync + 'static) {
    explore_up_to(None, name, story);
}

/// Runs `story` in every interleaving in which threads are interrupted at most `preemptions` times, for stories that
/// have millions.
pub(crate) fn explore_up_to(
    preemptions: Option<usize>,
    name: &str,
    story: impl Fn() + Send + Sync + 'static,
) {
    let count = std::sync::Arc::new(Count::new(0));
    let counted = std::sync::Arc::clone(&count);
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 10_000;
    builder.preemption_bound = preemptions;
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        WATCHED.with_borrow_mut(HashMap::clear);
        SLEEPERS.set(Some(Rc::default()));
        UNFENCED.take();
        story();
    });
    println!("{name}: {} interleavings", count.load(Relaxed));
}

/// A fence, unless this thread is inside of [`without_fences`].
pub(crate) fn fence(order: Ordering) {
    let skipped = UNFENCED.with_borrow(|threads| threads.contains(&loom::thread::current().id()));
    if !skipped {
        loom::sync::atomic::fence(order);
    }
}

/// Runs a step without its fences, to show that they are needed.
pub(crate) fn without_fences<R>(step: impl FnOnce() -> R) -> R {
    let me = loom::thread::current().id();
    UNFENCED.with_borrow_mut(|threads| threads.push(me));
    let result = step();
    UNFENCED.with_borrow_mut(|threads| threads.retain(|&thread| thread != me));
    result
}

/// An ordinary word, because no model forks.
pub(crate) struct WipedOnFork(AtomicU32);

impl WipedOnFork {
    pub(crate) fn new(value: u32) -> std::io::Result<WipedOnFork> {
        Ok(WipedOnFork(AtomicU32::new(value)))
    }
}

impl std::ops::Deref for WipedOnFork {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        &self.0
    }
}

pub(crate) fn refuse_child() -> ! {
    unreachable!("no model forks")
}

/// A cell laid out as in shared memory, so that several in a row are one piece. What loom has to know of it is kept
/// elsewhere, by address.
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        let place = self.0.get();
        watched(place.addr()).with(|_| read(place))
    }

    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        let place = self.0.get();
        watched(place.addr()).with_mut(|_| write(place))
    }
}

impl<const N: usize> Default for UnsafeCell<[u8; N]> {
    fn default() -> UnsafeCell<[u8; N]> {
        UnsafeCell::new([0; N])
    }
}

type Watched = Rc<loom::cell::UnsafeCell<()>>;

thread_local! {
    /// The accesses to the cell at an address, as loom tracks them (I1).
    static WATCHED: RefCell<HashMap<usize, Watched>> = RefCell::default();
    /// The threads that leave fences out (I1).
    static UNFENCED: RefCell<Vec<loom::thread::ThreadId>> = const { RefCell::new(Vec::new()) };
    /// The threads that sleep on any word (I1).
    static SLEEPERS: RefCell<Option<Rc<Sleepers>>> = const { RefCell::new(None) };
}

fn watched(address: usize) -> Watched {
    WATCHED.with_borrow_mut(|cells| {
        Rc::clone(cells.entry(address).or_insert_with(|| Rc::new(loom::cell::UnsafeCell::new(()))))
    })
}

/// The queue of the kernel: one for all words.
#[derive(Default)]
struct Sleepers {
    list: Mutex<Vec<Sleeper>>,
}

struct Sleeper {
    word: usize,
    bits: u32,
    awake: bool,
    woken: Rc<Condvar>,
}

/// Sleeping as `sys/futex.rs` does it.
pub(crate) mod park {
    use std::rc::Rc;
    use std::time::Duration;

    use super::{AtomicU32, Condvar, Ordering, SLEEPERS, Sleeper, Sleepers};

    /// Sleeps while `word` holds `expected`, until woken under one of `bits`. A timeout expires at once, because its
    /// length is not guaranteed.
    pub(crate) fn wait(word: &AtomicU32, expected: u32, bits: u32, timeout: Option<Duration>) {
        if timeout.is_some() {
            return super::yield_now();
        }
        let sleepers = sleepers();
        let mut list = sleepers.list.lock().expect("no model goes on after a panic");
        // The kernel compares while it holds the queue.
        if word.load(Ordering::Relaxed) != expected {
            return;
        }
        let me = list.len();
        let woken = Rc::new(Condvar::new());
        list.push(Sleeper { word: place(word), bits, awake: false, woken: Rc::clone(&woken) });
        while !list[me].awake {
            list = woken.wait(list).expect("no model goes on after a panic");
        }
    }

    /// Wakes all threads that sleep on `word` under one of `bits`.
    pub(crate) fn wake(word: &AtomicU32, bits: u32) {
        let sleepers = sleepers();
        let mut list = sleepers.list.lock().expect("no model goes on after a panic");
        let is_meant = |sleeper: &Sleeper| sleeper.word == place(word) && sleeper.bits & bits != 0;
        for sleeper in list.iter_mut().filter(|sleeper| !sleeper.awake && is_meant(sleeper)) {
            sleeper.awake = true;
            sleeper.woken.notify_one();
        }
    }

    fn sleepers() -> Rc<Sleepers> {
        SLEEPERS.with_borrow(|sleepers| Rc::clone(sleepers.as_ref().expect("inside of `explore`")))
    }

    fn place(word: &AtomicU32) -> usize {
        std::ptr::from_ref(word).addr()
    }
}
