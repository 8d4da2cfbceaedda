//! The agreement between callers and the agent, under the lock around the NIC: which of them is woken by what arrives
//! while the application is away, and how the agent sleeps.
//!
//! The agent sleeps at the doorbell while something is outstanding, otherwise at its own wakeup. A caller that leaves
//! something outstanding arms the doorbell, and calls the agent if the agent is idle; it does neither if the agent
//! guards the doorbell already. So a thread that stops guarding must say so: an agent with nothing left to do, as well
//! as a caller that turns by itself.
//!
//! Where ringers have no fence, a ringer whose frame is still in the store buffer of its core may miss that the
//! doorbell has just been armed, and the agent may miss the frame. So each arming is followed by a nap, and the agent
//! sleeps without a timeout only after the doorbell has been armed throughout a nap and the agent has looked once more:
//! by then the frame is visible. The models in `loom/` check both rules, with a nap that is as long as a store takes to
//! arrive.

use crate::shm::doorbell::{Doorbell, Sleeper};

/// The agreed state.
#[derive(Default)]
pub(crate) struct AgentHandover {
    /// The doorbell is armed for the agent, or the agent is awake and arms it before it sleeps.
    guarded: bool,
    /// The agent sleeps until it is called: it does not poll for what is left to it.
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

    /// The agent stops guarding the doorbell.
    #[inline(always)]
    pub(crate) fn stand_down(&mut self, doorbell: &Doorbell) {
        if self.guarded {
            self.guarded = false;
            doorbell.disarm();
        }
    }

    /// Counts that the application leaves something outstanding.
    #[inline(always)]
    pub(crate) fn count_handover(&mut self) {
        self.handovers = self.handovers.wrapping_add(1);
    }

    /// Arms the doorbell for the agent, on behalf of a caller. True if the agent has to be called.
    pub(crate) fn hand_over(&mut self, doorbell: &Doorbell, fenced: bool) -> bool {
        self.guarded = true;
        doorbell.arm(Sleeper::Agent, fenced);
        std::mem::take(&mut self.idle)
    }

    /// Sets, as the agent goes to sleep, whether it sleeps until it is called.
    pub(crate) fn set_idle(&mut self, idle: bool) {
        self.idle = idle;
    }
}

/// What the agent remembers of its last sleep.
#[derive(Default)]
pub(crate) struct AgentSleep {
    /// The number of handovers when the doorbell was armed before the last sleep.
    armed_at: Option<u32>,
}

impl AgentSleep {
    /// Arms the doorbell for the agent, which looks once more before it sleeps. True if the doorbell has been armed
    /// since before the last sleep: then no ringer since has missed it.
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
