//! What callers and the agent agree on under the lock around the NIC: who is woken by what arrives while the application
//! is away, and how the agent sleeps.
//!
//! The agent sleeps at the doorbell while something is outstanding, else at its own wakeup. A caller that leaves something
//! outstanding arms the doorbell, and calls an agent that does not look by itself; it does neither if the agent guards
//! the doorbell already. So whoever stops guarding says so: an agent that has nothing left to do, as much as a caller
//! that turns by itself.
//!
//! Where ringers have no fence, one whose frame is still in the store buffer of its core may miss that the doorbell has
//! just been armed, and the agent may miss the frame. So each arming is followed by a nap, and the agent sleeps for good
//! only when the doorbell has been armed all through a nap, and it has looked once more: by then the frame is there.
//! The models in `loom/` check both rules, with a nap that is as long as a store is on its way.

use crate::shm::doorbell::{Doorbell, Sleeper};

/// What is agreed on.
#[derive(Default)]
pub(crate) struct AgentHandover {
    /// The doorbell is armed for the agent, or the agent is awake and arms it before it sleeps.
    guarded: bool,
    /// The agent sleeps until it is called: it does not look by itself for what is left to it.
    idle: bool,
    /// How often the application has left something outstanding.
    handovers: u32,
}

impl AgentHandover {
    /// Whether the agent guards the doorbell.
    #[inline(always)]
    pub(crate) fn is_guarded(&self) -> bool {
        self.guarded
    }

    /// How often the application has left something outstanding.
    pub(crate) fn handovers(&self) -> u32 {
        self.handovers
    }

    /// Nobody rings for the agent from now on.
    #[inline(always)]
    pub(crate) fn stand_down(&mut self, doorbell: &Doorbell) {
        if self.guarded {
            self.guarded = false;
            doorbell.disarm();
        }
    }

    /// The application leaves something outstanding.
    #[inline(always)]
    pub(crate) fn count_handover(&mut self) {
        self.handovers = self.handovers.wrapping_add(1);
    }

    /// A caller arms the doorbell for the agent. True if the agent has to be called.
    pub(crate) fn hand_over(&mut self, doorbell: &Doorbell, fenced: bool) -> bool {
        self.guarded = true;
        doorbell.arm(Sleeper::Agent, fenced);
        std::mem::take(&mut self.idle)
    }

    /// The agent goes to sleep, until it is called if it is `idle`.
    pub(crate) fn set_idle(&mut self, idle: bool) {
        self.idle = idle;
    }
}

/// What the agent remembers of its sleep.
#[derive(Default)]
pub(crate) struct AgentSleep {
    /// The doorbell was armed before the last sleep, when there had been so many handovers.
    armed_at: Option<u32>,
}

impl AgentSleep {
    /// Arms the doorbell for the agent, which looks once more before it sleeps. True if it has been armed since before the
    /// last sleep: then nobody who brought something in the meantime has missed it.
    #[must_use]
    pub(crate) fn arm(&mut self, wakeup: &mut AgentHandover, doorbell: &Doorbell) -> bool {
        let handovers = wakeup.handovers;
        let settled = wakeup.guarded && self.armed_at == Some(handovers) && doorbell.is_armed();
        if !settled {
            wakeup.guarded = true;
            doorbell.arm(Sleeper::Agent, true);
        }
        self.armed_at = Some(handovers);
        settled
    }
}
