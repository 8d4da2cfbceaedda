//! How the agent is called when it has nothing to guard.
//!
//! It cannot sleep at the doorbell then, which may be armed for somebody else. Whoever decides to
//! sleep, and whoever calls, does so under the lock around the NIC; between letting go of the lock
//! and sleeping a call may come, and the count tells.

use std::time::Duration;

use crate::sync::{AtomicU32, Ordering, park};

/// Calls, counted.
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

    /// Calls whoever waits.
    pub(crate) fn call(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        park::wake(&self.count, u32::MAX);
    }

    /// Sleeps until there are more calls than were `heard`, or for `timeout`. May come back for no
    /// reason.
    pub(crate) fn wait(&self, heard: u32, timeout: Option<Duration>) {
        park::wait(&self.count, heard, u32::MAX, timeout);
    }
}
