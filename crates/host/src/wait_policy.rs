//! How long a waiting thread spins before it sleeps.

use std::time::{Duration, Instant};

/// The next step of a wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    Look,
    /// Yield the core to another thread, then look again.
    Yield,
    Sleep,
}

/// How long threads of a rank spin before they sleep, where the rank has a core to itself. A thread that was woken soon
/// after it fell asleep should have spun a little longer: otherwise two ranks, each falling asleep while the other
/// wakes up, would go on like that for ever.
pub(crate) struct SpinBudget {
    spin: Duration,
}

impl SpinBudget {
    pub(crate) fn new() -> SpinBudget {
        SpinBudget { spin: SPIN_MIN }
    }

    /// Adjusts the budget after a thread has slept for `slept` and was woken.
    pub(crate) fn learn(&mut self, slept: Duration) {
        self.spin = match slept < SPIN_MAX {
            true => (self.spin * 2).min(SPIN_MAX),
            false => (self.spin / 2).max(SPIN_MIN),
        };
    }
}

/// The course of one wait. Where every rank has a core to itself, spinning is cheaper than sleeping for a while;
/// otherwise a thread that spins keeps others from doing what it waits for.
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

    /// Starts over after something happened, because more may follow.
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

/// Looks between two readings of the clock.
const LOOKS_PER_LAP: u32 = 256;
/// Yields before sleeping, where ranks share cores. A thread that yields first may find what it waits for when it runs
/// again, and has then saved two system calls and a wake-up; if no other thread wants the core, it is soon asleep.
/// Measured with 4, 16 and 32 ranks on two cores: more yields help few ranks little, and slow down many.
const YIELDS_MAX: u32 = 16;
/// About ten times what sleeping and being woken costs on a good day.
const SPIN_MIN: Duration = Duration::from_micros(100);
/// More than it costs on a bad day.
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
