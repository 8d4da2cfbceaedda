//! The agent: a thread that drives the NIC while the application is away.
//!
//! It is started the first time that the application leaves something outstanding. It sleeps at the
//! doorbell, and wakes when somebody brings something while the doorbell is armed for it. When
//! nothing is outstanding, nobody rings.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::completion::Sleeping;
use crate::driver::{Core, Shared};
use crate::shm::doorbell::Sleeper;

pub(crate) struct Agent {
    thread: JoinHandle<()>,
}

impl Agent {
    /// Nothing where no more threads are allowed: then messages move only while somebody calls,
    /// which is slower and not wrong.
    pub(crate) fn start(shared: Arc<Shared>) -> Option<Agent> {
        let builder =
            std::thread::Builder::new().name("ferry-agent".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || run(&shared)).ok()?;
        Some(Agent { thread })
    }

    /// Ends the agent. `closing` is set already.
    pub(crate) fn end(self, shared: &Shared) {
        // It may be between two looks, so it is called until it has gone.
        while !self.thread.is_finished() {
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
    let mut watch = Watch::default();
    let mut core = shared.core.lock();
    while !core.closing {
        // A caller who waits turns by itself, and nobody would wake it for what we found.
        let busy = !core.is_led() && core.turn(shared);
        if busy {
            core.call_lookers();
        }
        let to_wake = std::mem::take(&mut core.port.completions.to_wake);
        if busy || !to_wake.is_empty() {
            drop(core);
            to_wake.into_iter().for_each(Sleeping::wake);
            core = shared.core.lock();
            continue;
        }
        let calls = watch.calls(&core);
        core.brisk = !crowded && calls > CALLS_PER_TICK_MAX;
        // A caller who waits arms the doorbell for itself, and one who comes and goes will be back.
        let expecting = core.nic.is_expecting() && !core.is_led() && !core.brisk;
        if expecting {
            core.guarded = true;
            doorbell.arm(Sleeper::Agent, true);
            let moved = core.port.rail.thirst(false);
            if moved || core.has_work(shared) {
                continue;
            }
        }
        // Where ringers have no fence it looks by itself for as long as the application comes and
        // goes. When that has been away for two ticks, every store that was on its way has arrived.
        let patience = (!crowded && !watch.is_quiet(&core)).then_some(TICK);
        core.agent_unaware = patience.is_none();
        // What the doorbell says while somebody leads is the leader's business.
        let word = match (expecting, core.is_led()) {
            (true, _) => Some(Sleeper::Agent as u32),
            (false, true) => doorbell.peek(),
            (false, false) => {
                doorbell.disarm();
                Some(0)
            }
        };
        drop(core);
        let since = Instant::now();
        match word {
            Some(word) => doorbell.sleep_while(word, Sleeper::Agent, patience),
            None => std::thread::yield_now(),
        }
        watch.ticked = since.elapsed() >= TICK;
        core = shared.core.lock();
    }
}

/// What the application has left to the agent, from one tick to the next.
#[derive(Default)]
struct Watch {
    seen: u32,
    /// The last sleep lasted a whole tick.
    ticked: bool,
    /// Ticks in which nothing was left.
    quiet: u32,
    calls: u32,
}

impl Watch {
    /// How often something was left in the last tick.
    fn calls(&mut self, core: &Core) -> u32 {
        if self.ticked {
            self.calls = core.handovers.wrapping_sub(self.seen);
            self.quiet = if self.calls == 0 { self.quiet + 1 } else { 0 };
        }
        self.seen = if self.ticked { core.handovers } else { self.seen };
        self.calls
    }

    /// Whether nothing has changed for so long that everything is where it was going.
    fn is_quiet(&self, core: &Core) -> bool {
        self.quiet >= 2 && core.handovers == self.seen
    }
}

/// It runs nothing of the user's.
const STACK_BYTES: usize = 256 << 10;
/// How late the agent may be if a ring got lost: see `doorbell.rs`.
const TICK: Duration = Duration::from_millis(1);
/// An application that leaves something more often than this is not away between two calls: whoever rang at its door
/// would ring for nothing, and the agent would be in its way.
const CALLS_PER_TICK_MAX: u32 = 200;
