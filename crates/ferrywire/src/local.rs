//! Ranks as threads of this process: programs are tested without a launcher.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};
use std::thread;

use ferrywire_host::nic::Peer;
use ferrywire_host::{Operators, job};
use ferrywire_mpi::operation::combine;

use crate::job::{Job, Lost};
use crate::world::World;

/// Runs `program` once for each of `ranks` ranks, each on a thread of its own, and gives what they
/// return, in the order of ranks.
///
/// If a rank panics, whatever the others ask for fails from then on, so that they end too, and the
/// first panic goes on in the caller.
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
/// # Panics
/// If a rank does, or if there is no memory for so many.
pub fn local<R: Send>(ranks: u32, program: impl Fn(&World) -> R + Sync) -> Vec<R> {
    assert!(ranks > 0, "a job has at least one rank");
    let drivers = job::local(ranks, job::is_crowded(ranks), Operators::ours(combine))
        .unwrap_or_else(|error| panic!("no room for a job of {ranks} ranks: {error}"));
    let lost = Lost::nobody();
    let jobs: Vec<Arc<Job>> =
        drivers.into_iter().map(|driver| Arc::new(Job::new(driver, Arc::clone(&lost)))).collect();
    let all: Vec<Weak<Job>> = jobs.iter().map(Arc::downgrade).collect();
    let ends: Vec<thread::Result<R>> = thread::scope(|scope| {
        let start = |(rank, job)| {
            let (program, all) = (&program, &all);
            thread::Builder::new()
                .name(format!("rank {rank}"))
                .spawn_scoped(scope, move || run(rank, job, all, program))
                .expect("a thread can be started")
        };
        let threads: Vec<_> = (0..).zip(jobs).map(start).collect();
        threads.into_iter().map(|thread| thread.join().and_then(|end| end)).collect()
    });
    if let Some(Peer(first)) = lost.peer() {
        let panic = ends.into_iter().nth(first as usize).and_then(Result::err);
        resume_unwind(panic.expect("the rank that was lost has panicked"));
    }
    ends.into_iter().map(|end| end.unwrap_or_else(|panic| resume_unwind(panic))).collect()
}

/// One rank, from beginning to end.
fn run<R>(
    rank: u32,
    job: Arc<Job>,
    all: &[Weak<Job>],
    program: &(impl Fn(&World) -> R + Sync),
) -> Result<R, Box<dyn Any + Send>> {
    let world = World::new(job);
    let end = catch_unwind(AssertUnwindSafe(|| program(&world)));
    if end.is_err() && world.job().lost.name(rank) {
        let there: Vec<Arc<Job>> = all.iter().filter_map(Weak::upgrade).collect();
        job::end(there.iter().map(|job| &*job.driver), Peer(rank));
        world.job().driver.bury();
    }
    end
}
