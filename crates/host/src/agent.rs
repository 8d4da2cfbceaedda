//! The agent: a thread that drives the NIC while the application is away.
//!
//! It is started the first time that the application leaves something outstanding. It sleeps at the
//! doorbell, and wakes when somebody brings something while the doorbell is armed for it. When
//! nothing is outstanding, or a caller looks after it, the agent sleeps until it is summoned.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::completion::Sleeping;
use crate::driver::Shared;
use crate::shm::doorbell::Sleeper;

pub(crate) struct Agent {
    thread: JoinHandle<()>,
}

impl Agent {
    pub(crate) fn start(shared: Arc<Shared>) -> Agent {
        let builder =
            std::thread::Builder::new().name("ferry-agent".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || run(&shared)).expect("a thread can be started");
        Agent { thread }
    }

    /// Ends the agent. `closing` is set already.
    pub(crate) fn end(self, shared: &Shared) {
        // Whoever it wakes may have dropped the driver. Then it ends when it comes back from there.
        if self.thread.thread().id() == std::thread::current().id() {
            return;
        }
        // It may be between two looks, so it is called until it has gone.
        while !self.thread.is_finished() {
            shared.summons.call();
            shared.doorbell().arm(Sleeper::Agent, true);
            shared.doorbell().ring(true);
            std::thread::yield_now();
        }
        // It has panicked if the NIC has, and whoever called the NIC knows.
        let _ = self.thread.join();
    }
}

fn run(shared: &Shared) {
    let crowded = shared.segment.is_crowded();
    let doorbell = shared.doorbell();
    let mut core = shared.core.lock();
    while !core.closing {
        let busy = core.turn(shared);
        let to_wake = std::mem::take(&mut core.port.completions.to_wake);
        if busy || !to_wake.is_empty() {
            drop(core);
            to_wake.into_iter().for_each(Sleeping::wake);
            core = shared.core.lock();
            continue;
        }
        // A caller who waits looks after everything, and arms the doorbell for itself.
        let expecting = core.nic.is_expecting() && !core.is_led();
        if expecting {
            core.guarded = true;
            doorbell.arm(Sleeper::Agent, true);
            let moved = core.port.rail.thirst(false);
            if moved || core.has_work(shared) {
                continue;
            }
        }
        core.agent_idle = !expecting;
        let heard = shared.summons.heard();
        drop(core);
        if expecting {
            doorbell.sleep(Sleeper::Agent, (!crowded).then_some(TICK));
        } else {
            shared.summons.wait(heard);
        }
        core = shared.core.lock();
        core.agent_idle = false;
    }
}

/// It runs nothing of the user's.
const STACK_BYTES: usize = 256 << 10;
/// How late the agent may be if a ring got lost: see `doorbell.rs`.
const TICK: Duration = Duration::from_millis(10);
