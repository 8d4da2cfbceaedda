//! The agent: a thread that drives the NIC while the application is away.
//!
//! It starts the first time that the application leaves something outstanding. It sleeps at the doorbell, and wakes
//! when something arrives while the doorbell is armed for it. While nothing is outstanding, or a caller drives the NIC,
//! it sleeps until it is called.

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
    /// Starts the agent; `None` if no more threads are allowed. Messages then move only during calls, which is slower
    /// but correct.
    pub(crate) fn start(shared: Arc<Shared>) -> Option<Agent> {
        let builder =
            std::thread::Builder::new().name("ferry-agent".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || run(&shared)).ok()?;
        Some(Agent { thread })
    }

    /// Ends the agent. `closing` is set already.
    pub(crate) fn end(self, shared: &Shared) {
        // Code that the agent wakes may drop the driver on the agent's own thread. The agent then ends when that code
        // returns.
        if self.thread.thread().id() == std::thread::current().id() {
            return;
        }
        // The agent may be between two looks, so it is called until it has ended.
        while !self.thread.is_finished() {
            shared.agent_wakeup.call();
            shared.doorbell().arm(Sleeper::Agent, true);
            shared.ring();
            std::thread::yield_now();
        }
        // The agent has panicked if the NIC has, and then the caller of the NIC knows.
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
        // A leader turns by itself, and nothing would wake it for what the agent found.
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
        // A leader arms the doorbell for itself, and an application that comes and goes will be back.
        let expecting = core.is_expecting() && !core.led && !core.busy;
        // Where ringers have no fence, the agent polls as long as the application comes and goes, and naps whenever a
        // ringer may have missed the doorbell: see `agent_handover.rs`.
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
        // Deadlines concern only the thread that drives the NIC.
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

/// Takes the lock for the agent. Where every rank has a core, a thread that holds the lock for long is a caller that
/// does everything itself, so the agent keeps out of its way for a while; a caller that is about to leave, and has just
/// rung, releases the lock in a moment. On an oversubscribed machine the holder may be off its core.
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

/// Counts, tick by tick, what the application leaves to the agent.
struct AgentTick {
    /// Start of the tick.
    since: Instant,
    seen: u32,
    /// Ticks in a row in which nothing was left.
    quiet: u32,
}

impl AgentTick {
    fn new() -> AgentTick {
        AgentTick { since: Instant::now(), seen: 0, quiet: 0 }
    }

    /// At the end of a tick, sets `busy` if the application comes and goes.
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

    /// Whether the application has been away for so long that the agent need not poll for it.
    fn is_quiet(&self, core: &Core) -> bool {
        self.quiet >= 2 && core.agent_handover.handovers() == self.seen
    }
}

/// The agent runs modules, which their engine limits to a quarter of this, and no other user code.
const STACK_BYTES: usize = 256 << 10;
/// How late the agent may be where ringers have no fence, and how long it naps then: see `agent_handover.rs`.
const TICK: Duration = Duration::from_millis(1);
/// How often the agent tries to take a lock that may be about to be free.
const TRIES_MAX: u32 = 16;
/// An application that leaves something more often than this is not away between two calls: ringing its doorbell would
/// be wasted, and the agent would be in its way.
const CALLS_PER_TICK_MAX: u32 = 200;
