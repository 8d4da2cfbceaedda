//! The agent: a thread that drives the NIC while the application is away.
//!
//! It starts the first time that the application leaves something outstanding. It sleeps at the doorbell, and wakes
//! when something arrives while the doorbell is armed for it. While nothing is outstanding, or a caller drives the NIC,
//! it sleeps until it is called.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferrywire_nic::Port;

use crate::completion::Sleeping;
use crate::driver::Shared;
use crate::duty::Phase;
use crate::lock::Guard;
use crate::rail::Rail;
use crate::shm::doorbell::Sleeper;
use crate::sys::schedule::{current_core, prefer_short_slices};
use crate::sys::threads::OwnThread;
use crate::trace::AgentWork;
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

    /// Ends the agent. The rank is closing already.
    pub(crate) fn end(self, shared: &Shared) {
        // Code that the agent wakes may drop the driver on the agent's own thread. The agent then ends when that code
        // returns.
        if self.thread.thread().id() == std::thread::current().id() {
            return;
        }
        // The agent may be between two looks, so it is called until it has ended.
        while !self.thread.is_finished() {
            shared.doorbell().arm(Sleeper::Agent);
            shared.ring();
            std::thread::yield_now();
        }
        // The agent has panicked if the NIC has, and then the caller of the NIC knows.
        let _ = self.thread.join();
    }
}

fn run(shared: &Shared) {
    prefer_short_slices();
    let _own = OwnThread::begin();
    // Naps replace the fence of ringers, so this stays as it was in the beginning.
    let fenced = shared.plane.segment.is_fenced();
    let doorbell = shared.doorbell();
    let mut tick = AgentTick::new();
    // The arming with which it last fell asleep as a guard.
    let mut arming = None;
    let mut work = AgentWork::default();
    let mut core = shared.core.lock();
    let mut awake_ns = core.port.clock().0;
    while core.duty.phase() != Phase::Closing {
        if !fenced {
            tick.look(&mut core);
        }
        // A leader turns by itself, and nothing would wake it for what the agent found.
        let mut busy = false;
        if !core.duty.is_led_by_caller() {
            core.turns.by_agent += 1;
            work.begin();
            busy = core.turn(shared);
            if core.is_asked && !busy {
                core.answer(shared, false);
            }
        }
        if busy {
            work.happened();
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
        // Where ringers have no fence, the agent polls as long as the application comes and goes, and naps whenever a
        // ringer may have missed the doorbell: see `duty.rs`.
        let mut naps = !fenced && !tick.is_quiet(&core);
        // A leader arms the doorbell for itself, and an application that will be back soon needs no agent: a nap will
        // tell whether it is.
        let guards = core.is_expecting()
            && !core.duty.is_led_by_caller()
            && !(naps && core.absence.is_short(|| core.port.clock().0));
        if guards {
            let by = core.guarding_agent(shared);
            let (now, settled) = core.duty.guard(doorbell, by, arming);
            arming = Some(now);
            let moved = core.port.rail.want_room(false);
            if moved || core.has_work(shared) {
                continue;
            }
            naps |= !fenced && (!settled || core.port.rail.is_stuck());
        } else {
            core.duty.relieve_agent(doorbell);
            arming = None;
        }
        work.end();
        core.duty.agent_sleeps(naps);
        let now_ns = core.port.clock().0;
        core.absence.agent_ran(current_core(), now_ns.saturating_sub(awake_ns));
        // Deadlines concern only the thread that drives the NIC.
        let due = core.timeout().filter(|_| guards);
        let timeout = [naps.then_some(TICK), due].into_iter().flatten().min();
        let asleep_at = arming.unwrap_or_else(|| doorbell.arming());
        drop(core);
        shared.sleep(asleep_at, Sleeper::Agent, timeout);
        core = enter(shared, fenced);
        awake_ns = core.port.clock().0;
        core.duty.agent_wakes();
    }
}

/// Takes the lock for the agent. Where every rank has a core, a thread that holds the lock for long is a caller that
/// does everything itself, so the agent keeps out of its way for a while; a caller that is about to leave, and has just
/// rung, releases the lock in a moment. On an oversubscribed machine the holder may be off its core.
fn enter(shared: &Shared, fenced: bool) -> Guard<'_, Core> {
    if fenced {
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

    /// At the end of a tick, counts how often the application came and went.
    fn look(&mut self, core: &mut Core) {
        let elapsed = self.since.elapsed();
        if elapsed < TICK {
            return;
        }
        let leaves = core.absence.leaves().wrapping_sub(self.seen);
        core.absence.on_tick(leaves, u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        self.quiet = if leaves == 0 { self.quiet + 1 } else { 0 };
        self.seen = core.absence.leaves();
        self.since = Instant::now();
    }

    /// Whether the application has been away for so long that the agent need not poll for it.
    fn is_quiet(&self, core: &Core) -> bool {
        self.quiet >= 2 && core.absence.leaves() == self.seen
    }
}

/// The agent runs modules, which their engine limits to a quarter of this, and no other user code.
const STACK_BYTES: usize = 256 << 10;
/// How late the agent may be where ringers have no fence, and how long it naps then: see `duty.rs`.
const TICK: Duration = Duration::from_millis(1);
/// How often the agent tries to take a lock that may be about to be free.
const TRIES_MAX: u32 = 16;
