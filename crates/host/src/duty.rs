//! Who drives the NIC of a rank: which thread leads, where the agent is, and which phase the rank is in. All of it is
//! decided under the lock around the NIC, by the transitions in this file and no others.
//!
//! The leader turns the NIC, and the doorbell is armed for it while it sleeps:
//!
//! | event | leader before | leader after | doorbell |
//! |---|---|---|---|
//! | a caller turns once | agent | nobody | disarmed |
//! | a caller begins to wait | nobody, agent | caller | disarmed |
//! | the waiting caller falls asleep | caller | sleeping caller | armed for the caller |
//! | it wakes up | sleeping caller | caller | disarmed, or armed after a nap |
//! | it has what it waited for | caller | nobody | disarmed |
//! | the last caller leaves, and nothing is outstanding | any | the same | as it was |
//! | it leaves something outstanding, and will be back soon | nobody | nobody | disarmed |
//! | it leaves something outstanding for longer | nobody | agent | armed for the agent, who is patient if nothing outstanding needs it |
//! | the agent goes to sleep, and something is left to it | nobody, agent | agent | armed for the agent |
//! | the agent goes to sleep, and nothing is | nobody, agent | nobody | disarmed |
//!
//! While a caller leads, or nothing is left to the agent, the agent sleeps at the same doorbell without having armed
//! it. So a caller hands over by arming: what arrives afterwards wakes the agent, and nothing else has to.
//!
//! **Naps.** Where ringers have no fence, a ringer whose frame is still in the store buffer of its core may miss that
//! the doorbell has just been armed, and the sleeper may miss the frame. So each arming is followed by a nap, and a
//! thread sleeps without a timeout only after the doorbell has been armed throughout a nap and the thread has looked
//! once more: by then the frame is visible. An agent that sleeps without a timeout cannot take that nap, so the caller
//! that arms for it wakes it ([`Duty::hand_over`]). Whatever wakes a patient agent rings with a fence everywhere. The
//! models in `loom/` check these rules.

use crate::shm::doorbell::{Arming, Doorbell, Sleeper};

/// The state of a rank in one plane, as far as threads wait and wake each other.
pub(crate) struct Duty {
    leader: Leader,
    agent: AgentState,
    phase: Phase,
    ringers: Ringers,
}

/// The thread that turns the NIC, or is woken for what arrives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Leader {
    Nobody,
    /// The agent, which is awake, or asleep with the doorbell armed for it in this way.
    Agent(Sleeper),
    /// A waiting application thread.
    Caller(Wants),
    /// A waiting application thread that sleeps at the doorbell.
    SleepingCaller(Wants),
}

/// What a waiting caller wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wants {
    /// One operation to end.
    Ticket,
    /// Any event may be what it waits for.
    Anything,
}

/// Where the agent is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum AgentState {
    NotStarted,
    /// It looks before it sleeps.
    Awake,
    /// It sleeps, and looks by itself soon.
    Napping,
    /// It sleeps until it is rung. The doorbell was armed for it when it fell asleep.
    Asleep,
    /// It sleeps until it is rung. The doorbell was not armed for it.
    OffDuty,
}

/// Which phase of its life the rank is in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    Open,
    /// A thread waits until peers have taken everything that was sent to them.
    Draining,
    /// The rank is leaving: the agent ends, and no thread wakes it any more.
    Closing,
}

/// What wakes a thread that sleeps without a timeout.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ringers {
    /// Every ringer sees that the doorbell is armed, or the sleeper sees the frame.
    Fenced,
    /// The same, but datagrams wake only a thread that sleeps at the socket, with the doorbell armed.
    FencedWithSocket,
    /// A ringer may have missed an arming that was not followed by a nap.
    Unfenced,
}

impl Duty {
    pub(crate) fn new(ringers: Ringers) -> Duty {
        let (leader, agent) = (Leader::Nobody, AgentState::NotStarted);
        Duty { leader, agent, phase: Phase::Open, ringers }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Enters a phase; there is no way back from [`Phase::Closing`].
    pub(crate) fn enter(&mut self, phase: Phase) {
        if self.phase != Phase::Closing {
            self.phase = phase;
        }
    }

    /// Whether a caller leads.
    #[inline(always)]
    pub(crate) fn is_led_by_caller(&self) -> bool {
        matches!(self.leader, Leader::Caller(_) | Leader::SleepingCaller(_))
    }

    /// Whether the agent leads.
    #[inline(always)]
    pub(crate) fn is_led_by_agent(&self) -> bool {
        matches!(self.leader, Leader::Agent(_))
    }

    /// Whether the agent leads, and is woken for all that it has to be.
    #[inline(always)]
    pub(crate) fn is_guarded(&self, by: Sleeper) -> bool {
        self.leader == Leader::Agent(by) || self.leader == Leader::Agent(Sleeper::Agent)
    }

    /// What the leader wants, if it is a caller that sleeps.
    #[inline(always)]
    pub(crate) fn sleeping_caller(&self) -> Option<Wants> {
        match self.leader {
            Leader::SleepingCaller(wants) => Some(wants),
            _ => None,
        }
    }

    /// A caller turns, or the agent has nothing to guard: no arrival has to wake the agent.
    #[inline(always)]
    pub(crate) fn relieve_agent(&mut self, doorbell: &Doorbell) {
        if self.is_led_by_agent() {
            self.leader = Leader::Nobody;
            doorbell.disarm();
        }
    }

    /// A caller begins to wait. No other leads.
    #[inline(always)]
    pub(crate) fn lead(&mut self, wants: Wants, doorbell: &Doorbell) {
        debug_assert!(!self.is_led_by_caller(), "one leader at a time");
        self.relieve_agent(doorbell);
        self.leader = Leader::Caller(wants);
    }

    /// The leading caller is about to sleep.
    pub(crate) fn fall_asleep(&mut self) {
        if let Leader::Caller(wants) = self.leader {
            self.leader = Leader::SleepingCaller(wants);
        }
    }

    /// The leading caller is awake again.
    pub(crate) fn wake_up(&mut self) {
        if let Leader::SleepingCaller(wants) = self.leader {
            self.leader = Leader::Caller(wants);
        }
    }

    /// The leading caller has what it waited for, or has to run an operator.
    #[inline(always)]
    pub(crate) fn step_down(&mut self) {
        self.leader = Leader::Nobody;
    }

    /// Whether the agent looks by itself soon.
    #[inline(always)]
    pub(crate) fn agent_looks_soon(&self) -> bool {
        matches!(self.agent, AgentState::Awake | AgentState::Napping)
    }

    /// Whether the agent still has to be started. From now on it counts as awake.
    pub(crate) fn start_agent(&mut self) -> bool {
        let starts = self.agent == AgentState::NotStarted;
        if starts {
            self.agent = AgentState::Awake;
        }
        starts
    }

    /// A caller leaves what is outstanding to the agent, who will be patient or not. It looks once more afterwards, and
    /// rings if something has arrived. True if it has to ring anyway: the agent sleeps without a timeout, and might not
    /// be woken.
    pub(crate) fn hand_over(&mut self, doorbell: &Doorbell, to: Sleeper) -> bool {
        debug_assert!(!self.is_led_by_caller(), "another caller leads");
        self.leader = Leader::Agent(to);
        doorbell.arm(to);
        let missed = match (self.agent, self.ringers) {
            _ if to == Sleeper::PatientAgent => false,
            (AgentState::NotStarted | AgentState::Awake | AgentState::Napping, _) => false,
            (AgentState::Asleep, ringers) => ringers == Ringers::Unfenced,
            (AgentState::OffDuty, ringers) => ringers != Ringers::Fenced,
        };
        if missed {
            self.agent = AgentState::Awake;
        }
        missed
    }

    /// Somebody waits now for what a patient agent would not be woken for. True if the agent was patient: then the caller
    /// looks once more.
    pub(crate) fn end_patience(&mut self, doorbell: &Doorbell) -> bool {
        let was_patient = self.leader == Leader::Agent(Sleeper::PatientAgent);
        if was_patient {
            self.leader = Leader::Agent(Sleeper::Agent);
            doorbell.arm(Sleeper::Agent);
        }
        was_patient
    }

    /// The agent is about to sleep, with something to guard. It looks once more afterwards. Returns the arming, and
    /// whether the doorbell has been armed ever since `before`: then no ringer has missed it.
    pub(crate) fn guard(
        &mut self,
        doorbell: &Doorbell,
        by: Sleeper,
        before: Option<Arming>,
    ) -> (Arming, bool) {
        let now = doorbell.arming();
        let settled = self.leader == Leader::Agent(by) && before == Some(now) && now.is_for(by);
        self.leader = Leader::Agent(by);
        (if settled { now } else { doorbell.arm(by) }, settled)
    }

    /// The agent falls asleep, to look again by itself if `naps`.
    pub(crate) fn agent_sleeps(&mut self, naps: bool) {
        self.agent = match (naps, self.leader) {
            (true, _) => AgentState::Napping,
            (false, Leader::Agent(_)) => AgentState::Asleep,
            (false, _) => AgentState::OffDuty,
        };
    }

    /// The agent is awake again.
    pub(crate) fn agent_wakes(&mut self) {
        self.agent = AgentState::Awake;
    }
}
