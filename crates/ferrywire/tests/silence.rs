//! A job whose ranks all compute causes no wakeups. This test has a process of its own, because it counts how often
//! the agents of the process have been scheduled.

mod common;

use std::fs;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use common::local;

/// How often agents have gone to sleep so far, and the number of agents.
fn sleeps_of_agents() -> (u64, usize) {
    let tasks = fs::read_dir("/proc/self/task").expect("threads of this process");
    let sleeps = tasks.filter_map(|task| {
        let status = fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let field = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_string())
        };
        let is_agent = field("Name:")? == "ferry-agent";
        is_agent.then(|| field("voluntary_ctxt_switches:")?.parse::<u64>().ok())?
    });
    sleeps.fold((0, 0), |(sum, count), sleeps| (sum + sleeps, count + 1))
}

fn compute_for(time: Duration) {
    let since = Instant::now();
    while since.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn a_job_that_computes_is_not_woken() {
    for outstanding in [false, true] {
        let both = Barrier::new(2);
        local(2, |world| {
            let other = 1 - world.rank();
            let request = outstanding.then(|| world.irecv::<u8>(8, other, 0).unwrap());
            // Agents check for a last store for two ticks, which takes a while on a busy machine.
            let mut before = sleeps_of_agents();
            loop {
                compute_for(Duration::from_millis(100));
                let now = sleeps_of_agents();
                if now == before {
                    break;
                }
                before = now;
            }
            compute_for(Duration::from_millis(200));
            assert_eq!(sleeps_of_agents(), before, "{outstanding}");
            assert!(outstanding || before.1 == 0, "nothing outstanding, and yet an agent");
            // No rank sends before both have counted.
            both.wait();
            if let Some(request) = request {
                world.send(&[1_u8; 8], other, 0).unwrap();
                request.wait().unwrap();
            }
        });
    }
}
