//! The wakeup of an agent that has nothing to guard.
//!
//! Such an agent cannot sleep at the doorbell, which may be armed for another thread. The agent decides to sleep, and
//! callers call it, under the lock around the NIC; a call that comes between releasing the lock and sleeping is noticed
//! by the count.

use std::time::Duration;

use crate::sync::{AtomicU32, Ordering, park};

/// Counts the calls.
pub(crate) struct AgentWakeup {
    count: AtomicU32,
}

impl AgentWakeup {
    pub(crate) fn new() -> AgentWakeup {
        AgentWakeup { count: AtomicU32::new(0) }
    }

    /// The calls so far. The lock orders this and `call`.
    pub(crate) fn heard(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Wakes the agent.
    pub(crate) fn call(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        park::wake(&self.count, u32::MAX);
    }

    /// Sleeps until there are more calls than were `heard`, or for `timeout`. May return spuriously.
    pub(crate) fn wait(&self, heard: u32, timeout: Option<Duration>) {
        park::wait(&self.count, heard, u32::MAX, timeout);
    }
}
