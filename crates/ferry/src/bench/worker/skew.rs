//! What a reduction costs its callers while some of them are late.

use std::time::{Duration, Instant};

use ferrywire::{Error, Operation};

use super::{Stage, ns_since};
use crate::bench::machine::{process_ns, thread_ns};

const DELAY_NS_MAX: u64 = 5_000_000;
const SLACK_NS: u64 = 500_000;
const WARM_UP: usize = 5;

pub(super) fn run(stage: &Stage) -> Result<(), Error> {
    let (world, ranks) = (&stage.world, stage.world.size());
    let calls = if stage.quick { 40 } else { 100 };
    let mut delays = Delays::new(world.rank());
    let (mut cpu_inside, mut wall_inside, mut job) = (0.0, 0.0, 0.0);
    for call in 0..WARM_UP + calls {
        if call == WARM_UP {
            (cpu_inside, wall_inside, job) = (0.0, 0.0, process_ns());
        }
        world.barrier()?;
        let from = Instant::now();
        sleep_to(from, delays.next_ns());
        let (cpu, wall) = (thread_ns(), Instant::now());
        let mut part = [1.0, 2.0, 3.0, 4.0];
        world.reduce(&mut part, Operation::Sum, 0)?;
        cpu_inside += thread_ns() - cpu;
        wall_inside += ns_since(wall);
        sleep_to(from, DELAY_NS_MAX + SLACK_NS);
    }
    let mut all = [cpu_inside, wall_inside, process_ns() - job];
    if world.rank() == 0 {
        // The root has to wait for the last rank anyway.
        all[0] = 0.0;
        all[1] = 0.0;
    }
    world.reduce(&mut all, Operation::Sum, 0)?;
    let per_call = 1e3 * calls as f64;
    let per_rank = per_call * f64::from(ranks - 1);
    stage.figure(format_args!("skew ranks={ranks} cpu_us={:.2}", all[0] / per_rank));
    stage.figure(format_args!("skew-wall ranks={ranks} us={:.1}", all[1] / per_rank));
    stage.figure(format_args!("skew-job ranks={ranks} cpu_us={:.1}", all[2] / per_call));
    Ok(())
}

fn sleep_to(from: Instant, ns: u64) {
    std::thread::sleep((from + Duration::from_nanos(ns)).saturating_duration_since(Instant::now()));
}

/// A fixed sequence for each rank: every library sees the same delays.
struct Delays(u64);

impl Delays {
    fn new(rank: u32) -> Delays {
        Delays(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(u64::from(rank) + 1))
    }

    fn next_ns(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % DELAY_NS_MAX
    }
}
