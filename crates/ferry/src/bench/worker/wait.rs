//! Two ranks: what it costs to be blocked in a receive, and how soon the message is noticed.

use std::time::Duration;

use ferrywire::Error;

use super::super::figure::median;
use super::Stage;
use crate::bench::machine::{process_ns, wall_ns};

pub(super) fn run(stage: &Stage) -> Result<(), Error> {
    let wakes = if stage.quick { 20 } else { 50 };
    stage.meet()?;
    let (_, cpu_ns) = wait_for(stage, Duration::from_secs(2))?;
    let mut late = Vec::new();
    for _ in 0..wakes {
        late.push(wait_for(stage, Duration::from_millis(20))?.0);
    }
    let mut result = [cpu_ns, median(&mut late)];
    if stage.world.rank() == 1 {
        stage.world.send(&result, 0, 1)?;
    } else {
        stage.world.receive(&mut result, 1, 1)?;
    }
    stage.figure(format_args!("blocked seconds=2 cpu_ms={:.2}", result[0] / 1e6));
    stage.figure(format_args!("wake us={:.2}", result[1] / 1e3));
    Ok(())
}

/// Rank 1 waits for a message that rank 0 sends after `timeout`. Returns how late the message was noticed, and the
/// processor time of the wait. Both ranks are on one machine and use one clock.
fn wait_for(stage: &Stage, timeout: Duration) -> Result<(f64, f64), Error> {
    if stage.world.rank() == 0 {
        std::thread::sleep(timeout);
        stage.world.send(&wall_ns(), 1, 0)?;
        return Ok((0.0, 0.0));
    }
    let cpu = process_ns();
    let mut sent = 0.0;
    stage.world.receive(&mut sent, 0, 0)?;
    Ok((wall_ns() - sent, process_ns() - cpu))
}
