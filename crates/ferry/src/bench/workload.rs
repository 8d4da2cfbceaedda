//! The work that `ferry bench match` measures: a queue is kept at one depth while its entries
//! leave and are replaced.
//!
//! Every entry has a number, and its source and its tag are each a bijection of that number. So exactly one
//! entry matches a message, whichever of the two its receive leaves open. The order in which entries leave is
//! drawn before the clock starts.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ferrywire_nic::matcher::{Age, Alpu, Arrival, Indexed, List, Matcher, Post};
use ferrywire_nic::{Mask, MatchWord};
use serde::Serialize;

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Case {
    pub(crate) queue: Side,
    pub(crate) mix: Mix,
    pub(crate) position: Position,
    pub(crate) matcher: WorkloadKind,
    pub(crate) depth: u32,
}

/// The queue that is kept deep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Side {
    Posted,
    Unexpected,
}

/// Which wildcard some receives have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mix {
    Exact,
    AnySource,
    AnyTag,
}

/// The position in the queue of the entry that is matched.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Position {
    End,
    Random,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WorkloadKind {
    Indexed,
    Alpu,
    List,
}

pub(crate) const SIDES: [Side; 2] = [Side::Posted, Side::Unexpected];
pub(crate) const MIXES: [Mix; 3] = [Mix::Exact, Mix::AnySource, Mix::AnyTag];
pub(crate) const POSITIONS: [Position; 2] = [Position::End, Position::Random];
pub(crate) const KINDS: [WorkloadKind; 3] =
    [WorkloadKind::Indexed, WorkloadKind::Alpu, WorkloadKind::List];
pub(crate) const DEPTHS: [u32; 5] = [1, 16, 256, 4096, 65536];

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) repetitions: usize,
    /// About how long one repetition should take.
    pub(crate) repetition: Duration,
}

impl Case {
    /// Nanoseconds per post and match: the median of several repetitions.
    pub(crate) fn measure(self, effort: Effort) -> f64 {
        match self.matcher {
            WorkloadKind::Indexed => Workload::<Indexed>::new(self).measure(effort),
            WorkloadKind::Alpu => Workload::<Alpu>::new(self).measure(effort),
            WorkloadKind::List => Workload::<List>::new(self).measure(effort),
        }
    }

    /// Does the work [`COUNTED_STEPS`] times between two calls of [`counting_mark`].
    pub(crate) fn count(self) {
        match self.matcher {
            WorkloadKind::Indexed => Workload::<Indexed>::new(self).count(),
            WorkloadKind::Alpu => Workload::<Alpu>::new(self).count(),
            WorkloadKind::List => Workload::<List>::new(self).count(),
        }
    }
}

/// How many steps [`Case::count`] does.
pub(crate) const COUNTED_STEPS: usize = 1000;

/// A matcher whose queue has the depth of the case.
struct Workload<M> {
    matcher: M,
    case: Case,
    entries: Vec<Number>,
    next: u32,
    random: u64,
}

/// The number of an entry; the top bit says that its receive has a wildcard.
type Number = u32;
const OPEN: Number = 1 << 31;

/// The entry that leaves, and the one that replaces it.
type WorkStep = (Number, Number);

impl<M: Matcher> Workload<M> {
    fn new(case: Case) -> Workload<M> {
        let mut workload =
            Workload { matcher: M::default(), case, entries: Vec::new(), next: 0, random: 1 };
        for _ in 0..case.depth {
            let number = workload.number();
            workload.entries.push(number);
            workload.enter(number);
        }
        workload
    }

    fn measure(&mut self, effort: Effort) -> f64 {
        let steps = self.steps_for(effort.repetition);
        let mut times: Vec<f64> = (0..effort.repetitions).map(|_| self.repetition(steps)).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    /// Drawing the steps evicts cached memory, so the first steps are not timed: they warm up the caches.
    fn repetition(&mut self, count: usize) -> f64 {
        let warm_up = self.draw(count / 4);
        let steps = self.draw(count);
        self.run(&warm_up);
        self.time(&steps).as_secs_f64() * 1e9 / count as f64
    }

    /// How many steps take about `time`. A chunk may be slow because a table grew in it, so two of them
    /// have to take long enough.
    fn steps_for(&mut self, time: Duration) -> usize {
        let mut count = 4;
        loop {
            let chunks = [self.draw(count), self.draw(count)];
            if chunks.map(|steps| self.time(&steps) * 2 > time) == [true; 2] {
                return count * 2;
            }
            count *= 2;
        }
    }

    fn time(&mut self, steps: &[WorkStep]) -> Duration {
        let start = Instant::now();
        self.run(steps);
        start.elapsed()
    }

    fn count(&mut self) {
        let warm_up = self.draw(COUNTED_STEPS);
        self.run(&warm_up);
        let steps = self.draw(COUNTED_STEPS);
        counting_mark();
        self.run(&steps);
        counting_mark();
    }

    fn run(&mut self, steps: &[WorkStep]) {
        match self.case.queue {
            Side::Posted => steps.iter().for_each(|&(old, new)| {
                let arrival = self.matcher.arrive(word(old), Age::MAX, || None);
                assert_eq!(black_box(arrival), Arrival::Matched(old));
                self.enter(new);
            }),
            Side::Unexpected => steps.iter().for_each(|&(old, new)| {
                let post = self.matcher.post(word(old), self.mask(old), 0);
                assert_eq!(black_box(post), Post::Matched(old));
                self.enter(new);
            }),
        }
    }

    #[inline(always)]
    fn enter(&mut self, number: Number) {
        match self.case.queue {
            Side::Posted => {
                black_box(self.matcher.post(word(number), self.mask(number), number));
            }
            Side::Unexpected => {
                black_box(self.matcher.arrive(word(number), Age::MAX, || Some(number)));
            }
        }
    }

    #[inline]
    fn mask(&self, number: Number) -> Mask {
        match self.case.mix {
            Mix::AnySource if number & OPEN != 0 => Mask::ANY_SOURCE,
            Mix::AnyTag if number & OPEN != 0 => Mask::ANY_TAG,
            _ => Mask::EXACT,
        }
    }

    fn draw(&mut self, count: usize) -> Vec<WorkStep> {
        (0..count).map(|_| self.draw_step()).collect()
    }

    fn draw_step(&mut self) -> WorkStep {
        let depth = u64::from(self.case.depth);
        let new = self.number();
        let at = match self.case.position {
            Position::End => depth - 1,
            Position::Random => self.random() % depth,
        };
        let at = usize::try_from(at).expect("below the depth");
        (std::mem::replace(&mut self.entries[at], new), new)
    }

    /// A number that no entry has: they repeat after 2^24, long after the entry has left.
    fn number(&mut self) -> Number {
        self.next = (self.next + 1) % (1 << 24);
        let open = if self.random().is_multiple_of(10) { OPEN } else { 0 };
        self.next | open
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        self.random >> 32
    }
}

/// Called before and after the steps to count, for callgrind to see where they begin and end.
#[inline(never)]
fn counting_mark() {
    black_box(());
}

/// The match word of an entry. Its source and its tag are each a bijection of the number.
#[inline]
fn word(number: Number) -> MatchWord {
    let number = u64::from(number & !OPEN);
    let source = number.wrapping_mul(0x5_9e37_79b1) & u64::from(MatchWord::SOURCE_MAX);
    let tag = number.wrapping_mul(0x2_c1b3_c6d5) & u64::from(MatchWord::TAG_MAX);
    MatchWord::from_bits(1 << 48 | source << 24 | tag)
}

#[cfg(test)]
mod tests {
    use ferrywire_nic::matcher::Queue;

    use super::*;

    #[test]
    fn every_case_keeps_its_depth_and_its_order() {
        for matcher in KINDS {
            for queue in SIDES {
                for mix in MIXES {
                    for position in POSITIONS {
                        Case { queue, mix, position, matcher, depth: 16 }.count();
                    }
                }
            }
        }
    }

    #[test]
    fn the_queue_is_the_one_that_was_asked_for() {
        for queue in SIDES {
            let case = Case {
                queue,
                mix: Mix::AnyTag,
                position: Position::Random,
                matcher: WorkloadKind::List,
                depth: 16,
            };
            let mut workload = Workload::<List>::new(case);
            workload.count();
            let lengths = [Queue::Posted, Queue::Unexpected].map(|q| workload.matcher.len(q));
            assert_eq!(lengths, if queue == Side::Posted { [16, 0] } else { [0, 16] });
        }
    }
}
