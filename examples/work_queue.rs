//! Rank 0 hands out tasks to free ranks; the others work and ask for more.
//!
//!     cargo run --example work_queue

use ferrywire::{ANY, Comm, Error};

fn main() -> Result<(), Error> {
    let world = ferrywire::init()?;
    if let Some(results) = work_queue(&world, 100)? {
        println!(
            "the longest way to 1 below {} takes {:?} steps",
            results.len(),
            results.iter().max()
        );
    }
    Ok(())
}

/// The results of all tasks, at rank 0. A single rank does the work itself.
pub fn work_queue(world: &Comm, tasks: usize) -> Result<Option<Vec<usize>>, Error> {
    if world.size() == 1 {
        return Ok(Some((0..tasks).map(work).collect()));
    }
    if world.rank() == 0 {
        hand_out(world, tasks).map(Some)
    } else {
        work_off(world).map(|()| None)
    }
}

fn hand_out(world: &Comm, tasks: usize) -> Result<Vec<usize>, Error> {
    let mut results = vec![0; tasks];
    let mut left = 0..tasks;
    let mut busy = world.size() - 1;
    while busy > 0 {
        // The first message of a worker is empty; each later one has a task and its result.
        let (done, status) = world.receive_vec::<usize>(ANY, DONE)?;
        if let [task, result] = done[..] {
            results[task] = result;
        }
        let next: Vec<usize> = left.next().into_iter().collect();
        busy -= u32::from(next.is_empty());
        world.send(&next, status.source, TASK)?;
    }
    Ok(results)
}

fn work_off(world: &Comm) -> Result<(), Error> {
    let mut done = Vec::new();
    loop {
        world.send(&done, 0, DONE)?;
        let (task, _) = world.receive_vec::<usize>(0, TASK)?;
        let Some(&task) = task.first() else { return Ok(()) };
        done = vec![task, work(task)];
    }
}

/// The number of Collatz steps from a number to 1: halve an even number, triple an odd one and add one.
pub fn work(task: usize) -> usize {
    let next = |&n: &usize| (n > 1).then(|| if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 });
    std::iter::successors(Some(task), next).skip(1).count()
}

const TASK: u32 = 1;
const DONE: u32 = 2;
