//! Predicts how long the application stays away from the library when it leaves something outstanding: about as long
//! as the last time that it left so much.
//!
//! An application that is back within microseconds is faster than an agent that has to be woken, and would be in its
//! way. One that computes for longer needs the agent.
//!
//! An application that comes and goes all the time is not measured by the clock, unless something outstanding has to
//! be driven, such as a long receive, a schedule or a put: short messages arrive without our help, and reading the
//! clock would take longer than they do. The agent counts once in a tick how often the application has left.
//!
//! Time for which the agent has the application's core is no absence: the application would have been back earlier.
//! Otherwise an agent that is woken needlessly would make each absence long, and be woken again.

/// The prediction for one rank in one plane.
pub(crate) struct Absence {
    /// How the application left, if it has not come back since.
    left: Option<Left>,
    /// How long it stayed away, in ns, by how much was outstanding.
    lengths_ns: [u64; CLASSES],
    /// How often it has left something outstanding.
    leaves: u32,
    /// It left so often in the last tick that it was back soon each time.
    is_frequent: bool,
}

struct Left {
    /// When it left, later by as long as the agent has had its core since then.
    since_ns: u64,
    /// How much it left outstanding.
    class: usize,
    /// The core that it computes on.
    core: u32,
}

/// Until the agent has counted, the application is taken for one that comes and goes.
impl Default for Absence {
    fn default() -> Absence {
        Absence { left: None, lengths_ns: [0; CLASSES], leaves: 0, is_frequent: true }
    }
}

impl Absence {
    /// The application leaves this many operations outstanding, on this core. True if it will be away for long.
    pub(crate) fn begin(&mut self, now_ns: u64, outstanding: usize, core: u32) -> bool {
        let class = outstanding % CLASSES;
        self.left = Some(Left { since_ns: now_ns, class, core });
        self.leaves = self.leaves.wrapping_add(1);
        self.lengths_ns[class] > SOON_NS
    }

    /// The application leaves something that arrives without our help. True if it comes and goes all the time; then
    /// its absence need not be measured.
    #[inline(always)]
    pub(crate) fn is_one_of_many(&mut self) -> bool {
        self.leaves = self.leaves.wrapping_add(u32::from(self.is_frequent));
        self.is_frequent
    }

    /// Whether the application is away, measured by the clock.
    #[inline(always)]
    pub(crate) fn is_measured(&self) -> bool {
        self.left.is_some()
    }

    /// The application is back.
    #[cold]
    pub(crate) fn end(&mut self, now_ns: u64) {
        if let Some(Left { since_ns, class, .. }) = self.left.take() {
            // A short absence among long ones is forgotten soon.
            let before = self.lengths_ns[class];
            self.lengths_ns[class] = now_ns.saturating_sub(since_ns).max(before - before / 4);
        }
    }

    /// The agent has run for so long, on this core.
    pub(crate) fn agent_ran(&mut self, core: u32, ns: u64) {
        if let Some(left) = self.left.as_mut().filter(|left| left.core == core) {
            left.since_ns += ns;
        }
    }

    /// How often the application has left something outstanding.
    pub(crate) fn leaves(&self) -> u32 {
        self.leaves
    }

    /// Sets how often the application has left something outstanding in the last tick of this length.
    pub(crate) fn on_tick(&mut self, leaves: u32, tick_ns: u64) {
        self.is_frequent = u64::from(leaves) * SOON_NS > 3 * tick_ns;
    }

    /// Whether the application, which is away, is expected back soon.
    pub(crate) fn is_short(&self, now_ns: impl FnOnce() -> u64) -> bool {
        match self.left {
            // It may be away for longer than it was.
            Some(Left { since_ns, class, .. }) => {
                self.lengths_ns[class] <= SOON_NS && now_ns().saturating_sub(since_ns) <= SOON_NS
            }
            None => self.is_frequent,
        }
    }
}

/// Numbers of outstanding operations that are told apart.
const CLASSES: usize = 16;
/// Waking the agent for a shorter absence takes longer than the absence.
const SOON_NS: u64 = 15_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_expects_what_it_has_seen() {
        let mut absence = Absence::default();
        assert!(!absence.begin(0, 1, 0), "nothing is known yet");
        absence.end(200_000);
        assert!(absence.begin(300_000, 1, 0));
        absence.end(301_000);
        assert!(absence.begin(400_000, 1, 0), "one short absence is no habit");
        (0..20).for_each(|_| {
            absence.end(401_000);
            absence.begin(400_000, 1, 0);
        });
        assert!(!absence.begin(400_000, 1, 0));
        absence.end(500_000);
        assert!(absence.begin(600_000, 1, 0));
        assert!(!absence.begin(600_000, 2, 0), "one operation says nothing of two");
    }

    #[test]
    fn an_absence_that_lasts_is_not_short() {
        let mut absence = Absence::default();
        absence.begin(0, 1, 0);
        assert!(absence.is_short(|| 1_000) && !absence.is_short(|| 100_000));
    }

    #[test]
    fn time_that_the_agent_takes_from_the_application_is_no_absence() {
        let mut absence = Absence::default();
        absence.begin(0, 1, 3);
        absence.agent_ran(3, 170_000);
        absence.end(180_000);
        assert!(!absence.begin(200_000, 1, 3), "it was away for 10 us");
        absence.agent_ran(4, 170_000);
        absence.end(380_000);
        assert!(absence.begin(400_000, 1, 3), "the agent had another core");
    }

    #[test]
    fn many_leaves_in_a_tick_are_short() {
        let mut absence = Absence::default();
        assert!(absence.is_one_of_many(), "nothing is known yet");
        absence.on_tick(100, 1_000_000);
        assert!(!absence.is_one_of_many() && absence.leaves() == 1);
        absence.on_tick(250, 1_000_000);
        assert!(absence.is_one_of_many() && absence.leaves() == 2);
        assert!(absence.is_short(|| unreachable!("the clock is not read")));
    }
}
