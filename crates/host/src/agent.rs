//! The agent: a thread that drives the NIC while the application is away.
//!
//! It is started the first time that the application leaves something outstanding. It sleeps at the
//! doorbell, and wakes when somebody brings something while the doorbell is armed for it. When
//! nothing is outstanding, or a caller looks after it, the agent sleeps until it is woken.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::agent_handover::AgentSleep;
use crate::completion::Sleeping;
use crate::driver::Shared;
use crate::lock::Guard;
use crate::rail::Rail;
use crate::shm::doorbell::Sleeper;
use crate::turn::Core;

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
        // Whoever it wakes may have dropped the driver. Then it ends when it comes back from there.
        if self.thread.thread().id() == std::thread::current().id() {
            return;
        }
        // It may be between two looks, so it is called until it has gone.
        while !self.thread.is_finished() {
            shared.agent_wakeup.call();
            shared.doorbell().arm(Sleeper::Agent, true);
            shared.ring();
            std::thread::yield_now();
        }
        // It has panicked if the NIC has, and whoever called the NIC knows.
        let _ = self.thread.join();
    }
}

fn run(shared: &Shared) {
    crate::sys::schedule::prefer_short_slices();
    let oversubscribed = shared.plane.segment.is_oversubscribed();
    let doorbell = shared.doorbell();
    let mut watch = AgentTick::new();
    let mut sleep = AgentSleep::default();
    let mut core = shared.core.lock();
    while !core.closing {
        if !oversubscribed {
            watch.look(&mut core);
        }
        // A caller who waits turns by itself, and nobody would wake it for what we found.
        let mut busy = false;
        if !core.led {
            core.turns.by_agent += 1;
            busy = core.turn(shared);
        }
        if busy {
            core.wake_waiters();
            core.call_tasks();
        }
        let to_wake = std::mem::take(&mut core.port.completions.to_wake);
        if busy || !to_wake.is_empty() {
            drop(core);
            to_wake.into_iter().for_each(Sleeping::wake);
            core = shared.core.lock();
            continue;
        }
        // A caller who waits arms the doorbell for itself, and one who comes and goes will be back.
        let expecting = core.is_expecting() && !core.led && !core.busy;
        // Where ringers have no fence it looks by itself for as long as the application comes and goes, and naps whenever
        // one of them may have missed it: see `agent_handover.rs`.
        let mut ticks = !watch.is_quiet(&core);
        if expecting {
            let settled = sleep.arm(&mut core.agent_handover, doorbell);
            let moved = core.port.rail.want_room(false);
            if moved || core.has_work(shared) {
                continue;
            }
            ticks |= !settled || core.port.rail.is_stuck();
        } else {
            core.agent_handover.stand_down(doorbell);
        }
        let timeout = (!oversubscribed && ticks).then_some(TICK);
        core.agent_handover.set_idle(timeout.is_none() && !(oversubscribed && expecting));
        // What is due by time is for whoever looks after the NIC.
        let due = core.timeout().filter(|_| expecting);
        let timeout = [timeout, due].into_iter().flatten().min();
        let heard = shared.agent_wakeup.heard();
        drop(core);
        match expecting {
            true => shared.sleep(Sleeper::Agent, timeout),
            false => shared.agent_wakeup.wait(heard, timeout),
        }
        core = enter(shared, oversubscribed);
        core.agent_handover.set_idle(false);
    }
}

/// Where every rank has a core, whoever has the lock for long is a caller who will see to everything itself:
/// the agent keeps out of its way for a while. One who is about to leave, and has just rung, is gone in a
/// moment. On a oversubscribed machine it may be one who sleeps.
fn enter(shared: &Shared, oversubscribed: bool) -> Guard<'_, Core> {
    if oversubscribed {
        return shared.core.lock();
    }
    let mut tries = 0;
    loop {
        match shared.core.try_lock() {
            Some(core) => return core,
            None if tries < TRIES_MAX => std::thread::yield_now(),
            None => std::thread::sleep(TICK / 4),
        }
        tries += 1;
    }
}

/// What the application leaves to the agent, tick by tick.
struct AgentTick {
    /// When the tick began.
    since: Instant,
    seen: u32,
    /// Ticks in which nothing was left.
    quiet: u32,
}

impl AgentTick {
    fn new() -> AgentTick {
        AgentTick { since: Instant::now(), seen: 0, quiet: 0 }
    }

    /// At the end of a tick, says whether the application comes and goes.
    fn look(&mut self, core: &mut Core) {
        if self.since.elapsed() < TICK {
            return;
        }
        let calls = core.agent_handover.handovers().wrapping_sub(self.seen);
        core.busy = calls > CALLS_PER_TICK_MAX;
        self.quiet = if calls == 0 { self.quiet + 1 } else { 0 };
        self.seen = core.agent_handover.handovers();
        self.since = Instant::now();
    }

    /// Whether the application has stayed away for so long that it need not be waited for.
    fn is_quiet(&self, core: &Core) -> bool {
        self.quiet >= 2 && core.agent_handover.handovers() == self.seen
    }
}

/// It runs modules, which their engine keeps to a quarter of this, and nothing else of the user's.
const STACK_BYTES: usize = 256 << 10;
/// How late the agent may be where ringers have no fence, and how long it naps then: see `agent_handover.rs`.
const TICK: Duration = Duration::from_millis(1);
/// How often the agent asks for a lock that is about to be free.
const TRIES_MAX: u32 = 16;
/// An application that leaves something more often than this is not away between two calls: whoever
/// rang its doorbell would ring for nothing, and the agent would be in its way.
const CALLS_PER_TICK_MAX: u32 = 200;
