//! How long a thread that waits looks around before it sleeps.

use std::time::{Duration, Instant};

/// What to do next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    /// Look again.
    Look,
    /// Let somebody else have the core, then look again.
    Yield,
    /// Sleep.
    Sleep,
}

/// How long threads of a rank look before they sleep, where it has a core to itself. Whoever was woken soon after
/// it fell asleep would have done better to look a little longer: two ranks of which each falls asleep while the
/// other wakes up would go on like that for ever.
pub(crate) struct SpinBudget {
    spin: Duration,
}

impl SpinBudget {
    pub(crate) fn new() -> SpinBudget {
        SpinBudget { spin: SPIN_MIN }
    }

    /// Somebody has slept for so long, and was woken.
    pub(crate) fn learn(&mut self, slept: Duration) {
        self.spin = match slept < SPIN_MAX {
            true => (self.spin * 2).min(SPIN_MAX),
            false => (self.spin / 2).max(SPIN_MIN),
        };
    }
}

/// How one wait proceeds. Where every rank has a core to itself, looking is cheaper than sleeping
/// for a while; where it has not, whoever looks keeps others from doing what is waited for.
pub(crate) struct WaitPolicy {
    oversubscribed: bool,
    spin: Duration,
    looks: u32,
    since: Option<Instant>,
}

impl WaitPolicy {
    pub(crate) fn new(oversubscribed: bool, spin_budget: &SpinBudget) -> WaitPolicy {
        WaitPolicy { oversubscribed, spin: spin_budget.spin, looks: 0, since: None }
    }

    /// Something happened: more may follow.
    #[inline(always)]
    pub(crate) fn renew(&mut self) {
        self.looks = 0;
        self.since = None;
    }

    #[inline(always)]
    pub(crate) fn next(&mut self) -> Next {
        self.looks += 1;
        if self.oversubscribed {
            return if self.looks <= YIELDS_MAX { Next::Yield } else { Next::Sleep };
        }
        if self.looks < LOOKS_PER_LAP {
            return Next::Look;
        }
        self.lap()
    }

    #[cold]
    fn lap(&mut self) -> Next {
        self.looks = 0;
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() < self.spin { Next::Yield } else { Next::Sleep }
    }
}

/// Looks between two glances at the clock.
const LOOKS_PER_LAP: u32 = 256;
/// Where cores are shared, whoever yields first may find what it waits for when it is its turn again, and
/// has saved two system calls and a wake-up. If nobody else wants the core, it is soon asleep. Measured
/// with 4, 16 and 32 ranks on two cores: more help few ranks little, and are in the way of many.
const YIELDS_MAX: u32 = 16;
/// Sleeping and being woken costs about a tenth of this on a good day.
const SPIN_MIN: Duration = Duration::from_micros(100);
/// And less than this on a bad one.
const SPIN_MAX: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_sleeps_widen_the_spin_budget_and_long_ones_do_not() {
        let mut spin_budget = SpinBudget::new();
        (0..10).for_each(|_| spin_budget.learn(Duration::from_micros(150)));
        assert_eq!(spin_budget.spin, SPIN_MAX);
        (0..10).for_each(|_| spin_budget.learn(Duration::from_millis(20)));
        assert_eq!(spin_budget.spin, SPIN_MIN);
    }
}
