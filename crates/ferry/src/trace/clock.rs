//! Relates the clocks of hosts to that of the launcher.
//!
//! The launcher and a host exchange two messages, and both note by their own clocks when each was sent and received. The
//! clock of the host was read after the first was sent and before the second was received, which bounds the difference of
//! the clocks: the estimate in the middle is wrong by half of the round trip at most, however unequal its two ways are.
//!
//! Clocks also drift. So exchanges at the beginning, now and then, and at the end of a job become points between which
//! times are interpolated.

use std::iter::once;

/// One exchange, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct ClockExchange {
    /// When the launcher sent the first message and received the second, by its clock.
    pub(crate) sent_ns: u64,
    pub(crate) returned_ns: u64,
    /// When the host received the first message and sent the second, by its clock.
    pub(crate) received_ns: u64,
    pub(crate) answered_ns: u64,
}

impl ClockExchange {
    /// How long both messages were on their way together.
    fn round_trip_ns(&self) -> u64 {
        let whole = self.returned_ns.saturating_sub(self.sent_ns);
        whole.saturating_sub(self.held_ns())
    }

    fn held_ns(&self) -> u64 {
        self.answered_ns.saturating_sub(self.received_ns)
    }

    fn point(&self) -> ClockPoint {
        // The host may hold the messages for a time that its clock takes for shorter; the rest is rounding.
        let error_ns = self.round_trip_ns().div_ceil(2) + self.held_ns() / DRIFT_ONE_IN + 2;
        ClockPoint {
            host_ns: self.received_ns.midpoint(self.answered_ns),
            launcher_ns: self.sent_ns.midpoint(self.returned_ns),
            error_ns,
        }
    }
}

/// The exchanges with a host: of each stretch of time that with the shortest round trip.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockComparison {
    best: Vec<ClockExchange>,
    /// Exchanges in the stretch that the last of `best` is of; 0 if that is over.
    in_stretch: u32,
}

impl ClockComparison {
    pub(crate) fn add(&mut self, exchange: ClockExchange) {
        match self.best.last_mut().filter(|_| self.in_stretch > 0) {
            None => self.best.push(exchange),
            Some(best) if exchange.round_trip_ns() < best.round_trip_ns() => *best = exchange,
            Some(_) => {}
        }
        self.in_stretch += 1;
        if self.in_stretch == STRETCH {
            self.in_stretch = 0;
        }
    }

    /// The exchanges of the beginning are over.
    pub(crate) fn end_beginning(&mut self) {
        self.in_stretch = 0;
    }

    /// Those of the end follow. A stretch before it that is not complete may have no good exchange, so it is left out.
    pub(crate) fn begin_end(&mut self) {
        if self.in_stretch > 0 && self.best.len() > 1 {
            self.best.pop();
        }
        self.in_stretch = 0;
    }

    pub(crate) fn clock(&self) -> HostClock {
        HostClock::through(self.best.iter().map(ClockExchange::point).collect())
    }
}

/// A moment by the clocks of a host and of the launcher.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ClockPoint {
    host_ns: u64,
    launcher_ns: u64,
    /// How much later or earlier it may have been by that of the launcher.
    error_ns: u64,
}

/// The clock of a host. The default is that of the launcher itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostClock {
    /// In order by both clocks.
    points: Vec<ClockPoint>,
}

impl HostClock {
    fn through(mut points: Vec<ClockPoint>) -> HostClock {
        points.sort_by_key(|point| point.host_ns);
        // Of two points that are closer to each other than they are exact, the better one stays.
        while let Some(at) = points.windows(2).position(|pair| !is_plausible(pair[0], pair[1])) {
            let worse = usize::from(points[at + 1].error_ns > points[at].error_ns);
            points.remove(at + worse);
        }
        HostClock { points }
    }

    /// A time of the host by the clock of the launcher. Order is kept.
    pub(crate) fn launcher_ns(&self, host_ns: u64) -> u64 {
        let after = self.points.partition_point(|point| point.host_ns <= host_ns);
        let before = after.checked_sub(1).and_then(|at| self.points.get(at));
        let at = |point: &ClockPoint| i128::from(host_ns) - i128::from(point.host_ns);
        let time = match (before, self.points.get(after)) {
            (None, None) => return host_ns,
            (Some(near), None) | (None, Some(near)) => i128::from(near.launcher_ns) + at(near),
            (Some(before), Some(after)) => {
                let (host, launcher) = spans(*before, *after);
                i128::from(before.launcher_ns) + at(before) * launcher / host
            }
        };
        u64::try_from(time.max(0)).unwrap_or(u64::MAX)
    }

    /// By how much a time from `first_ns` to `last_ns` may be wrong.
    pub(crate) fn error_ns(&self, first_ns: u64, last_ns: u64) -> u64 {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else { return 0 };
        // Before the first point and after the last, nothing is known about drift.
        let early = first.error_ns + first.host_ns.saturating_sub(first_ns) / DRIFT_ONE_IN;
        let late = last.error_ns + last_ns.saturating_sub(last.host_ns) / DRIFT_ONE_IN;
        let between = self.points.iter().map(|point| point.error_ns);
        between.chain(once(early)).chain(once(late)).max().unwrap_or(0)
    }
}

/// Whether the clocks seem to drift as clocks do between two points, or twice as much, since points are not exact. If they
/// seem to drift more, the errors of the points together are greater than any drift between them.
fn is_plausible(one: ClockPoint, other: ClockPoint) -> bool {
    let (host, launcher) = spans(one, other);
    (launcher - host).abs() * i128::from(DRIFT_ONE_IN) <= 2 * host && host > 0
}

/// The time between two points by the clocks of the host and the launcher.
fn spans(one: ClockPoint, other: ClockPoint) -> (i128, i128) {
    let span = |from: u64, to: u64| i128::from(to) - i128::from(from);
    (span(one.host_ns, other.host_ns), span(one.launcher_ns, other.launcher_ns))
}

/// How many exchanges a stretch in the middle of a job has: those of about a minute.
const STRETCH: u32 = 64;
/// One clock may gain one part of so many on another: quartz is ten times better, but a daemon that sets a clock may make
/// it faster or slower by half of that.
const DRIFT_ONE_IN: u64 = 1000;

#[cfg(test)]
mod tests {
    use ferrywire_sim::random::Random;

    use super::*;

    /// A host whose clock shows another time and runs at another speed than that of the launcher.
    struct TrueClock {
        host_ns: i128,
        launcher_ns: i128,
        /// How much it gains in a billion nanoseconds.
        gain: i128,
    }

    impl TrueClock {
        fn draw(random: &mut Random) -> TrueClock {
            let most = 1_000_000_000 / DRIFT_ONE_IN;
            TrueClock {
                host_ns: random.below(1 << 50).into(),
                launcher_ns: (1 << 40) + i128::from(random.below(1 << 50)),
                gain: i128::from(random.below(2 * most)) - i128::from(most),
            }
        }

        fn launcher_ns(&self, host_ns: i128) -> i128 {
            let since = host_ns - self.host_ns;
            self.launcher_ns + since + since * self.gain / 1_000_000_000
        }

        /// An exchange that reaches the host at a time, with messages that take so long.
        fn exchange(&self, host_ns: i128, held: i128, there: i128, back: i128) -> ClockExchange {
            let of = |ns: i128| u64::try_from(ns).expect("a time");
            let (received, answered) = (host_ns, host_ns + held);
            ClockExchange {
                sent_ns: of(self.launcher_ns(received) - there),
                returned_ns: of(self.launcher_ns(answered) + back),
                received_ns: of(received),
                answered_ns: of(answered),
            }
        }
    }

    /// Eight exchanges at each end of a job, and some between. Returns the time when the last is over.
    fn compare(random: &mut Random, clock: &TrueClock, comparison: &mut ClockComparison) -> i128 {
        let slowest = 1 << random.between(4, 28);
        let mut now = clock.host_ns;
        let middle = random.below(200);
        for (part, count) in [(0, 8), (1, middle), (2, 8)] {
            for _ in 0..count {
                let way = |random: &mut Random| i128::from(random.between(1, slowest));
                // Often one way takes much longer than the other.
                let (there, back) = (way(random) / way(random).min(9), way(random));
                let held = i128::from(random.below(50_000));
                comparison.add(clock.exchange(now, held, there, back));
                now += held + i128::from(random.below(1_000_000_000));
            }
            match part {
                0 => comparison.end_beginning(),
                1 => comparison.begin_end(),
                _ => {}
            }
        }
        now
    }

    fn numbers(seed: u64) -> (Random, TrueClock) {
        let mut random = Random::new(seed);
        let clock = TrueClock::draw(&mut random);
        (random, clock)
    }

    #[test]
    fn times_are_wrong_by_what_is_claimed_at_most() {
        for seed in 0..2000 {
            let (mut random, clock) = numbers(seed);
            let mut comparison = ClockComparison::default();
            let end = compare(&mut random, &clock, &mut comparison);
            let found = comparison.clock();
            let of = |ns: i128| u64::try_from(ns).expect("a time");
            let claimed = found.error_ns(of(clock.host_ns), of(end));
            for _ in 0..50 {
                let host_ns =
                    clock.host_ns + i128::from(random.below(of(end - clock.host_ns).max(1)));
                let is = i128::from(found.launcher_ns(of(host_ns)));
                let error = (is - clock.launcher_ns(host_ns)).abs();
                assert!(error <= i128::from(claimed) + 2, "seed {seed}: {error} > {claimed}");
            }
        }
    }

    #[test]
    fn times_are_wrong_by_half_of_the_best_round_trip_at_most() {
        for seed in 0..2000 {
            let (mut random, clock) = numbers(seed);
            let of = |ns: i128| u64::try_from(ns).expect("a time");
            let length = 10_000_000_000_i128 + i128::from(random.below(1 << 40));
            let mut comparison = ClockComparison::default();
            let mut best = [i128::MAX; 2];
            for (nth, at) in [clock.host_ns, clock.host_ns + length].into_iter().enumerate() {
                for _ in 0..8 {
                    let (there, back) = (random.between(1, 1 << 20), random.between(1, 1 << 20));
                    best[nth] = best[nth].min(i128::from(there + back + 1) / 2);
                    comparison.add(clock.exchange(at, 0, there.into(), back.into()));
                }
                comparison.end_beginning();
            }
            let found = comparison.clock();
            for _ in 0..50 {
                let host_ns = clock.host_ns + i128::from(random.below(of(length)));
                let error =
                    (i128::from(found.launcher_ns(of(host_ns))) - clock.launcher_ns(host_ns)).abs();
                assert!(error <= best[0].max(best[1]) + 4, "seed {seed}: {error} > {best:?}");
            }
        }
    }

    #[test]
    fn equal_ways_leave_no_error_and_all_delay_on_one_way_half_of_it() {
        let (mut random, clock) = numbers(7);
        for (there, back, wrong) in [(500_000, 500_000, 0), (1_000_000, 0, 500_000), (0, 8, 4)] {
            let mut comparison = ClockComparison::default();
            comparison.add(clock.exchange(clock.host_ns, 1000, there, back));
            let host_ns = clock.host_ns + i128::from(random.below(1000));
            let is = comparison.clock().launcher_ns(u64::try_from(host_ns).expect("a time"));
            let error = (i128::from(is) - clock.launcher_ns(host_ns)).abs();
            assert!((error - wrong).abs() <= 4, "{there} {back}: {error}");
        }
    }

    #[test]
    fn the_order_of_times_is_kept() {
        for seed in 0..500 {
            let (mut random, clock) = numbers(seed);
            let mut comparison = ClockComparison::default();
            let end = compare(&mut random, &clock, &mut comparison);
            let found = comparison.clock();
            let range = u64::try_from(end - clock.host_ns).expect("a time") * 2;
            let first = u64::try_from(clock.host_ns).expect("a time").saturating_sub(range / 4);
            let mut times: Vec<u64> = (0..100).map(|_| first + random.below(range)).collect();
            times.sort_unstable();
            let translated: Vec<u64> = times.iter().map(|&ns| found.launcher_ns(ns)).collect();
            assert!(translated.is_sorted(), "seed {seed}");
        }
    }

    #[test]
    fn the_clock_of_the_launcher_is_exact() {
        let clock = HostClock::default();
        assert_eq!((clock.launcher_ns(12_345), clock.error_ns(0, u64::MAX)), (12_345, 0));
    }
}
