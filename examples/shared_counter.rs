//! Ranks take tasks from a counter in a window, and put the results into another: no rank hands out work.
//!
//! The counter and the results are in the memory of rank 0, which works like the others: it need not be in a call
//! while they take a task.
//!
//!     cargo run --example shared_counter
//!     ferry run -n 4 target/debug/examples/shared_counter

use ferrywire::LockKind::Shared;
use ferrywire::{Comm, Error};

fn main() -> Result<(), Error> {
    let world = ferrywire::init()?;
    let tasks = 1000;
    if let Some(results) = shared_counter(&world, tasks)? {
        let same = results == (0..tasks).map(work).collect::<Vec<usize>>();
        println!("{tasks} tasks are done; as in a serial run: {same}");
        if !same {
            world.abort(1, "parallel and serial runs differ");
        }
    }
    Ok(())
}

/// The results of all tasks, at rank 0.
pub fn shared_counter(world: &Comm, tasks: usize) -> Result<Option<Vec<usize>>, Error> {
    let is_first = world.rank() == 0;
    let counter = world.window::<usize>(usize::from(is_first))?;
    let mut results = world.window::<usize>(if is_first { tasks } else { 0 })?;
    let found = results.fence(|epoch| {
        let all = epoch.part(0)?;
        loop {
            let task = counter.lock(0, Shared)?.fetch_add(0, 1)?;
            if task >= tasks {
                break;
            }
            all.put(task, &[work(task)])?;
        }
        epoch.fence()?;
        let mut found = vec![0; all.len()];
        if is_first {
            all.get(0, &mut found)?;
        }
        Ok(is_first.then_some(found))
    })?;
    counter.free()?;
    results.free()?;
    found
}

/// The largest number on the way from a number to 1: halve an even number, triple an odd one and add one.
pub fn work(task: usize) -> usize {
    let next = |&n: &usize| (n > 1).then(|| if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 });
    std::iter::successors(Some(task), next).max().unwrap_or(0)
}
