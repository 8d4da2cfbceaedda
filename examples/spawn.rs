//! Pi by throwing darts: one rank starts workers, which run this program too, and hands out tasks to those that are
//! free. The result does not depend on the number of workers, because each task has darts of its own.
//!
//!     cargo build --example spawn
//!     ferry run -n 1 target/debug/examples/spawn

use ferrywire::{ANY, Command, Error, InterComm, World};

fn main() -> Result<(), Error> {
    let world = ferrywire::init()?;
    if let Some(master) = world.parent() {
        return work_off(master);
    }
    let program = std::env::current_exe().expect("the path of this program");
    if let Some(pi) = pi(&world, Command::new(program).ranks(3), 100)? {
        println!("pi is about {pi}");
        if (pi - std::f64::consts::PI).abs() > 0.01 {
            world.abort(1, "that is not pi");
        }
    }
    Ok(())
}

/// Pi, at rank 0, by as many tasks. The ranks of `workers` call [`work_off`].
pub fn pi(world: &World, workers: &Command, tasks: u64) -> Result<Option<f64>, Error> {
    let workers = workers.spawn(world)?;
    if world.rank() > 0 {
        return Ok(None);
    }
    let mut hits = 0;
    let mut left = 0..tasks;
    let mut busy = workers.remote_size();
    while busy > 0 {
        // The first message of a worker is empty; each later one has the result of a task.
        let (found, status) = workers.receive_vec::<u64>(ANY, DONE)?;
        hits += found.iter().sum::<u64>();
        let next: Vec<u64> = left.next().into_iter().collect();
        busy -= u32::from(next.is_empty());
        workers.send(&next, status.source, TASK)?;
    }
    Ok(Some(4.0 * hits as f64 / (tasks * DARTS) as f64))
}

/// Works for rank 0 of the master until there is no task left.
pub fn work_off(master: &InterComm) -> Result<(), Error> {
    let mut done = Vec::new();
    loop {
        master.send(&done, 0, DONE)?;
        let (task, _) = master.receive_vec::<u64>(0, TASK)?;
        let Some(&task) = task.first() else { return Ok(()) };
        done = vec![throw(task)];
    }
}

/// How many darts of a task, thrown at a square, hit the quarter of a circle in it.
pub fn throw(task: u64) -> u64 {
    let mut state = task;
    let mut next = move || {
        // The generator splitmix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..DARTS).filter(|_| next().hypot(next()) < 1.0).count() as u64
}

/// The darts of a task.
pub const DARTS: u64 = 2_000;

const TASK: u32 = 1;
const DONE: u32 = 2;
