//! A schedule: steps, and their dependencies.
//!
//! Every collective is one. It says what to do and in which order, never when: the NIC runs it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;

use crate::counter::Counter;
use crate::port::Operator;
use crate::types::{Peer, Span};

/// One operation of a schedule.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends `source` to `to`. `subtag` tells apart messages that the same two ranks exchange in no fixed order
    /// within one run.
    Send {
        /// The receiver.
        to: Peer,
        /// The bytes.
        source: Span,
        /// Which of several messages between the two ranks.
        subtag: u8,
    },
    /// Receives a message from `from`, which is `rank` in the schedule's group.
    Receive {
        /// The sender.
        from: Peer,
        /// The rank of the sender in the schedule's group.
        rank: u32,
        /// Where the bytes go.
        into: Span,
        /// Which of several messages between the two ranks.
        subtag: u8,
    },
    /// Combines `source` into `into`.
    Reduce {
        /// The operator.
        operator: Operator,
        /// The first operand.
        source: Span,
        /// The second operand, and the result.
        into: Span,
    },
    /// Copies `source` to `into`.
    Copy {
        /// The bytes.
        source: Span,
        /// Where they go.
        into: Span,
    },
    /// Waits until a counter has reached a value.
    Wait {
        /// The counter.
        counter: Counter,
        /// The value.
        at_least: u64,
    },
    /// Runs another schedule under the same instance, and ends with it.
    Start(Arc<Schedule>),
    /// Consults a function of the schedule's author.
    Consult {
        /// The function.
        whom: Arc<dyn Consult>,
        /// The bytes that it reads and changes. A few, since they are copied.
        bytes: Span,
    },
    /// Releases the caller: its ticket completes as released, and the run goes on.
    Release,
}

/// A function of the schedule's author, which a step consults. It runs wherever the NIC does, so it must neither
/// wait nor call the NIC.
pub trait Consult: Debug + Send + Sync {
    /// Reads and changes the bytes of the step, and ends it. False if it cannot answer yet, whatever it did to the
    /// bytes: it is consulted again when another such step or a run has ended.
    fn consult(&self, bytes: &mut [u8]) -> bool;
}

/// Names a step within its schedule.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct StepId(u16);

/// Steps with dependencies.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The group of the messages.
    pub(crate) group: u16,
    /// Our rank in that group.
    pub(crate) rank: u32,
    pub(crate) steps: Vec<Step>,
    /// How many steps each step waits for.
    pub(crate) needs: Vec<u16>,
    /// The first step that waits for each step. 0 if there is none: step 0 waits for nothing.
    first_successors: Vec<u16>,
    /// Sorted pairs of a step and a further successor.
    edges: Vec<(u16, u16)>,
    /// Steps that all later ones wait for, directly or through others, in order.
    gates: Vec<u16>,
    /// Whether no step is ready before an earlier one: see [`Schedule::is_orderly`].
    orderly: bool,
    /// The last step that the last step waits for.
    last_awaited: Option<StepId>,
}

impl Schedule {
    /// An empty schedule for the member `rank` of `group`.
    pub fn new(group: u16, rank: u32) -> Schedule {
        Schedule {
            group,
            rank,
            steps: Vec::new(),
            needs: Vec::new(),
            first_successors: Vec::new(),
            edges: Vec::new(),
            gates: Vec::new(),
            orderly: true,
            last_awaited: None,
        }
    }

    /// `schedule`, which begins when `first` is done.
    pub fn preceded_by(first: Step, schedule: Arc<Schedule>) -> Schedule {
        let mut both = Schedule::new(schedule.group, schedule.rank);
        let first = both.push(first, &[]);
        both.push(Step::Start(schedule), &[first]);
        both
    }

    /// Adds a step that begins when all of `after` are done.
    pub fn push(&mut self, step: Step, after: &[StepId]) -> StepId {
        let id = u16::try_from(self.steps.len()).expect("fewer than 65,536 steps");
        reserve(&mut self.steps);
        self.steps.push(step);
        reserve(&mut self.first_successors);
        self.first_successors.push(0);
        reserve(&mut self.needs);
        self.needs.push(u16::try_from(after.len()).expect("fewer than there are steps"));
        for &StepId(earlier) in after {
            assert!(earlier < id, "a step waits for earlier ones only");
            let first = &mut self.first_successors[usize::from(earlier)];
            if *first == 0 {
                *first = id;
                continue;
            }
            let at = self.edges.partition_point(|&edge| edge < (earlier, id));
            reserve(&mut self.edges);
            self.edges.insert(at, (earlier, id));
        }
        // The new step waits for a gate if it waits for the gate itself or for a step after it.
        let last = after.iter().copied().max();
        while let Some(&gate) = self.gates.last()
            && last.is_none_or(|StepId(last)| last < gate)
        {
            self.gates.pop();
        }
        self.orderly &= self.last_awaited <= last;
        self.last_awaited = last;
        reserve(&mut self.gates);
        self.gates.push(id);
        StepId(id)
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    #[inline]
    pub(crate) fn steps_u16(&self) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "push lets no more in")]
        let steps = self.steps.len() as u16;
        steps
    }

    /// Whether steps that end at once begin in order. A step begins when the last one that it waits for has ended, so
    /// no step may wait for an earlier one than the step before it does. Where two messages go to the same rank under
    /// the same tag, the order matters.
    #[inline]
    pub(crate) fn is_orderly(&self) -> bool {
        self.orderly
    }

    /// Whether all later steps wait for `step`, so that nothing else can begin meanwhile.
    #[inline]
    pub(crate) fn is_gate(&self, step: u16) -> bool {
        usize::from(step) + 1 == self.steps.len() || self.gates.binary_search(&step).is_ok()
    }

    /// The steps that wait for `step`.
    #[inline]
    pub(crate) fn successors(&self, step: u16) -> impl Iterator<Item = u16> + '_ {
        let first = Some(self.first_successors[usize::from(step)]).filter(|&first| first != 0);
        // Few schedules branch.
        let further = if self.edges.is_empty() { &[] } else { self.further_edges(step) };
        first.into_iter().chain(further.iter().map(|&(_, successor)| successor))
    }

    fn further_edges(&self, step: u16) -> &[(u16, u16)] {
        let first = self.edges.partition_point(|&(earlier, _)| earlier < step);
        let rest = &self.edges[first..];
        &rest[..rest.partition_point(|&(earlier, _)| earlier == step)]
    }

    /// Bytes of heap memory.
    pub fn heap_bytes(&self) -> usize {
        self.steps.capacity() * size_of::<Step>()
            + (self.needs.capacity() + self.first_successors.capacity()) * size_of::<u16>()
            + self.edges.capacity() * size_of::<(u16, u16)>()
            + self.gates.capacity() * size_of::<u16>()
    }
}

/// Makes room for one more by growing a quarter: a million ranks may have a schedule each, and doubling costs too
/// much.
fn reserve<T>(items: &mut Vec<T>) {
    if items.len() == items.capacity() {
        items.reserve_exact(items.len() / 4 + 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `later` waits for `earlier`, directly or through others.
    fn waits(schedule: &Schedule, earlier: u16, later: u16) -> bool {
        let mut reached = alloc::vec![false; schedule.len()];
        reached[usize::from(earlier)] = true;
        for step in earlier..later {
            if reached[usize::from(step)] {
                for successor in schedule.successors(step) {
                    reached[usize::from(successor)] = true;
                }
            }
        }
        reached[usize::from(later)]
    }

    #[test]
    fn all_later_steps_wait_for_a_gate_and_for_no_other_step() {
        let nothing = || Step::Copy { source: Span::EMPTY, into: Span::EMPTY };
        // Every graph of five steps in which a step waits for at most two.
        let pairs = |id: u16| (0..=id).flat_map(move |a| (0..=a).map(move |b| (a, b)));
        let mut schedules = alloc::vec![Schedule::new(0, 0)];
        for id in 0..5 {
            schedules = schedules
                .iter()
                .flat_map(|before| pairs(id).map(move |(a, b)| (before.clone(), a, b)))
                .map(|(mut schedule, a, b)| {
                    // `id` stands for none.
                    let mut after: Vec<StepId> =
                        [a, b].into_iter().filter(|&step| step < id).map(StepId).collect();
                    after.dedup();
                    schedule.push(nothing(), &after);
                    schedule
                })
                .collect();
        }
        for schedule in schedules {
            let steps = u16::try_from(schedule.len()).expect("five");
            for step in 0..steps {
                let all = (step + 1..steps).all(|later| waits(&schedule, step, later));
                assert_eq!(schedule.is_gate(step), all, "step {step} of {schedule:?}");
            }
        }
    }
}
