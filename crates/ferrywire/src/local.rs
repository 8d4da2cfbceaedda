//! Runs ranks as threads of this process, so that programs are tested without a launcher.

use std::any::Any;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use ferrywire_host::job;
use ferrywire_host::nic::Peer;
use ferrywire_runtime::Lost;

use crate::job::Job;
use crate::operator::OPERATORS;
use crate::watch::Watch;
use crate::world::World;

/// Runs `program` on `ranks` ranks, each on its own thread, and returns their results in rank order.
///
/// If a rank panics, every further call of the other ranks fails, so that they end too; then the first panic resumes
/// in the caller.
///
/// ```
/// let sums = ferrywire::local(4, |world| {
///     let mut sum = world.rank();
///     world.allreduce(&mut sum, ferrywire::Operation::Sum).unwrap();
///     sum
/// });
/// assert_eq!(sums, [6, 6, 6, 6]);
/// ```
///
/// With debug assertions, which `cargo test` enables, `local` makes two more checks. A message received as another
/// type than it was sent, and a collective that ranks call differently, are [an error](crate::Error::WrongType). When
/// all ranks have waited for ten seconds, which is usually a deadlock, a line on standard error says in which calls.
///
/// `FERRY_LOCAL_TIMEOUT=30 cargo test` ends every such job that takes longer than 30 seconds, with a panic that says
/// where each rank is.
///
/// # Panics
/// If a rank panics, if the timeout passes, or if there is not enough memory for so many ranks.
pub fn local<R: Send>(ranks: u32, program: impl Fn(&World) -> R + Sync) -> Vec<R> {
    assert!(ranks > 0, "a job has at least one rank");
    let timeout = std::env::var(TIMEOUT).ok().map(|text| seconds(&text));
    let drivers = job::local(ranks, job::is_oversubscribed(ranks), OPERATORS)
        .unwrap_or_else(|error| panic!("cannot create a job of {ranks} ranks: {error}"));
    let lost = Lost::nobody();
    let is_watched = cfg!(debug_assertions) || timeout.is_some();
    let watch = is_watched.then(|| Arc::new(Watch::new(ranks)));
    let job = |driver| Arc::new(Job::new(driver, Arc::clone(&lost), watch.clone()));
    let jobs: Vec<Arc<Job>> = drivers.into_iter().map(job).collect();
    let all: Vec<Weak<Job>> = jobs.iter().map(Arc::downgrade).collect();
    let (over, is_over) = mpsc::channel::<()>();
    let mut diagnosis = None;
    let ends: Vec<thread::Result<R>> = thread::scope(|scope| {
        let start = |(rank, job)| {
            let (program, all) = (&program, &all);
            thread::Builder::new()
                .name(format!("rank {rank}"))
                .spawn_scoped(scope, move || run(rank, job, all, program))
                .expect("a thread can be started")
        };
        let threads: Vec<_> = (0..).zip(jobs).map(start).collect();
        let watchdog = watch.as_ref().map(|watch| {
            let (all, lost) = (&all, &lost);
            scope.spawn(move || Watchdog { watch, all, lost, timeout }.run(&is_over))
        });
        let ends = threads.into_iter().map(|thread| thread.join().and_then(|end| end)).collect();
        drop(over);
        diagnosis = watchdog.and_then(|watchdog| watchdog.join().ok().flatten());
        ends
    });
    if let Some(diagnosis) = diagnosis {
        panic!("{diagnosis}");
    }
    if let Some(Peer(first)) = lost.peer() {
        let panic = ends.into_iter().nth(first as usize).and_then(Result::err);
        resume_unwind(panic.expect("the rank that was lost has panicked"));
    }
    ends.into_iter().map(|end| end.unwrap_or_else(|panic| resume_unwind(panic))).collect()
}

/// Runs one rank from beginning to end.
fn run<R>(
    rank: u32,
    job: Arc<Job>,
    all: &[Weak<Job>],
    program: &(impl Fn(&World) -> R + Sync),
) -> Result<R, Box<dyn Any + Send>> {
    let watch = job.watch.clone();
    let world = World::new(job);
    let end = catch_unwind(AssertUnwindSafe(|| program(&world)));
    if end.is_err() && world.process().lost().name(rank) {
        end_all(all, rank);
        world.process().rank().mark_down();
    }
    if let Some(watch) = watch {
        watch.on_ended(rank);
    }
    end
}

/// Makes every further call of all ranks fail, because rank `lost` is lost.
fn end_all(all: &[Weak<Job>], lost: u32) {
    let there: Vec<Arc<Job>> = all.iter().filter_map(Weak::upgrade).collect();
    job::end(there.iter().map(|job| job.process.rank()), Peer(lost));
}

/// Watches a job whose ranks may wait for ever.
struct Watchdog<'a> {
    watch: &'a Watch,
    all: &'a [Weak<Job>],
    lost: &'a Lost,
    timeout: Option<Duration>,
}

impl Watchdog<'_> {
    /// Checks the job until it is over. Returns the diagnosis if the timeout ended it.
    fn run(&self, is_over: &Receiver<()>) -> Option<String> {
        let begun = Instant::now();
        let mut noted = false;
        while is_over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            if let Some(timeout) = self.timeout.filter(|timeout| begun.elapsed() >= *timeout) {
                return self.end(timeout, is_over);
            }
            let waits = self.watch.all_wait_for().is_some_and(|waits| waits >= NOTE_AFTER);
            if waits && !noted {
                noted = true;
                say(&format!(
                    "ferrywire::local: all ranks have been waiting for {} s: {}. If this is a deadlock, set \
                     {TIMEOUT}=SECONDS to end such jobs.",
                    NOTE_AFTER.as_secs(),
                    self.watch.told()
                ));
            }
        }
        None
    }

    /// Ends the job because its timeout has passed.
    fn end(&self, timeout: Duration, is_over: &Receiver<()>) -> Option<String> {
        let diagnosis = format!(
            "the job has not ended within {} s ({TIMEOUT}): {}",
            timeout.as_secs_f64(),
            self.watch.told()
        );
        let first = self.all.iter().position(|job| job.strong_count() > 0)?;
        let first = u32::try_from(first).expect("ranks are counted in 32 bits");
        if !self.lost.name_late(first) {
            return None;
        }
        end_all(self.all, first);
        if is_over.recv_timeout(END_MAX) == Err(RecvTimeoutError::Timeout) {
            // A rank that computes for ever can only be ended together with the process.
            say(&format!("ferrywire::local: {diagnosis}"));
            std::process::abort();
        }
        Some(diagnosis)
    }
}

/// Writes a line to standard error directly, so that test harnesses do not capture it.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn seconds(text: &str) -> Duration {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.unwrap_or_else(|| panic!("{TIMEOUT}={text}: expected a number of seconds above 0"))
}

/// The setting that limits how long a job of `local` may take, in seconds.
const TIMEOUT: &str = "FERRY_LOCAL_TIMEOUT";
/// How often the watchdog checks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long all ranks must have been waiting before the watchdog says so.
const NOTE_AFTER: Duration = Duration::from_secs(10);
/// How long ranks may take to end once their calls fail.
const END_MAX: Duration = Duration::from_secs(5);
