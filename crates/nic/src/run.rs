//! Running schedules: a step begins when all that it waits for is done.
//!
//! Runs of the same schedule may be open at the same time. Their messages carry the run's
//! instance number in the tag, so that an early message waits for its own run and a late one
//! finds it, whatever else is going on.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::canary::Bug;
use crate::nic::{Nic, Variant};
use crate::op::{Owner, State};
use crate::port::{Port, Progress, StepRef};
use crate::schedule::{Schedule, Step};
use crate::types::{Fault, Mode, Outcome, Posted, Ticket};
use crate::word::{Mask, MatchWord};

#[derive(Debug)]
pub(crate) struct Run {
    schedule: Arc<Schedule>,
    instance: u16,
    /// The operation that its owner knows it by.
    ticket: Ticket,
    /// For each step, how many it still waits for.
    needs: Vec<u16>,
    /// Steps that are not done.
    left: u16,
    /// Steps that have begun and are not done.
    busy: u16,
    failed: Option<Fault>,
}

impl Run {
    pub(crate) fn group(&self) -> u16 {
        self.schedule.group
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        // A schedule that several share is counted by none of them.
        let own =
            if Arc::strong_count(&self.schedule) == 1 { self.schedule.heap_bytes() } else { 0 };
        self.needs.capacity() * size_of::<u16>() + own
    }
}

/// Steps whose time has come, the first first.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    steps: Vec<StepRef>,
    taken: usize,
}

impl Ready {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    #[inline]
    fn push(&mut self, step: StepRef) {
        self.steps.push(step);
    }

    /// The next one. All are done before anything else is, so that room is made only then.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<StepRef> {
        let next = *self.steps.get(self.taken)?;
        self.taken += 1;
        if self.taken == self.steps.len() {
            self.steps.clear();
            self.taken = 0;
        }
        Some(next)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.steps.capacity() * size_of::<StepRef>()
    }
}

impl<V: Variant> Nic<V> {
    /// Runs `schedule`. `instance` must be the same for all members of the group, and differ from
    /// that of every other run of the group that is still open anywhere.
    pub fn post_schedule(
        &mut self,
        schedule: Arc<Schedule>,
        instance: u16,
        port: &mut impl Port,
    ) -> Posted {
        if schedule.is_empty() {
            return Posted::Done(Outcome::Done);
        }
        if let Some(fault) = self.ended_under(schedule.group, false) {
            return Posted::Done(Outcome::Failed(fault));
        }
        let ticket = self.open(Owner::User, None, State::Waiting);
        let (run, steps) = self.claim_run(ticket, schedule, instance);
        // Steps that wait for nothing need not queue. The run may be over before we have seen all.
        for step in 0..steps {
            let Some(found) = self.runs.find(run) else { break };
            if found.schedule.needs[usize::from(step)] == 0 {
                self.start_step(StepRef { run, step }, port);
            }
        }
        self.settle(port);
        Posted::Pending(ticket)
    }

    /// Makes a waiting operation a run.
    pub(crate) fn start_run(
        &mut self,
        ticket: Ticket,
        schedule: Arc<Schedule>,
        instance: u16,
        port: &mut impl Port,
    ) {
        let (run, _) = self.claim_run(ticket, schedule, instance);
        let needs = &self.runs.find(run).expect("just claimed").needs;
        for (step, _) in (0..).zip(needs).filter(|&(_, &needs)| needs == 0) {
            self.ready.push(StepRef { run, step });
        }
        self.end_run_if_over(run, port);
    }

    /// The run that a waiting operation is from now on, and how many steps it has.
    #[inline]
    fn claim_run(
        &mut self,
        ticket: Ticket,
        schedule: Arc<Schedule>,
        instance: u16,
    ) -> (Ticket, u16) {
        let mut needs = core::mem::take(&mut self.spare_needs);
        needs.extend_from_slice(&schedule.needs);
        let left = u16::try_from(needs.len()).expect("a schedule has fewer than 65,536 steps");
        let run =
            self.runs.claim(Run { schedule, instance, ticket, needs, left, busy: 0, failed: None });
        self.op_mut(ticket).state = State::Running { run };
        (run, left)
    }

    /// A step has nothing to wait for any more.
    pub(crate) fn start_step(&mut self, at: StepRef, port: &mut impl Port) {
        let Some(run) = self.runs.find_mut(at.run).filter(|run| run.failed.is_none()) else {
            return;
        };
        run.busy += 1;
        let (group, me, ticket) = (run.schedule.group, run.schedule.rank, run.ticket);
        let instance = if V::BUG == Some(Bug::StaleInstance) { 0 } else { run.instance };
        let tag = |strand: u8| u32::from(instance) << 8 | u32::from(strand);
        let owner = Owner::Step(at);
        let posted = match &run.schedule.steps[usize::from(at.step)] {
            &Step::Send { to, source, strand } => {
                let word = MatchWord::new(group, me, tag(strand));
                self.begin_send(owner, to, word, source, Mode::Standard, port)
            }
            &Step::Receive { from, rank, into, strand } => {
                let word = MatchWord::new(group, rank, tag(strand));
                self.begin_receive(owner, Some(from), word, Mask::EXACT, into, port)
            }
            &Step::Reduce { operator, source, into } => {
                match port.reduce(at, operator, source, into) {
                    Progress::Done => Posted::Done(Outcome::Done),
                    Progress::Later => return,
                }
            }
            &Step::Copy { source, into } => {
                port.copy(source, into);
                Posted::Done(Outcome::Done)
            }
            &Step::Wait { counter, at_least } => match self.wait_in_step(counter, at_least, at) {
                None => return,
                Some(outcome) => Posted::Done(outcome),
            },
            Step::Start(schedule) if schedule.is_empty() => Posted::Done(Outcome::Done),
            Step::Start(schedule) => {
                let (schedule, instance) = (Arc::clone(schedule), run.instance);
                let inner = self.open(owner, None, State::Waiting);
                self.start_run(inner, schedule, instance, port);
                return;
            }
            Step::Release => {
                self.release_caller(ticket, port);
                Posted::Done(Outcome::Done)
            }
        };
        if let Posted::Done(outcome) = posted {
            self.end_step(at, outcome, port);
        }
    }

    fn release_caller(&mut self, ticket: Ticket, port: &mut impl Port) {
        if self.ops.find(ticket).is_some_and(|op| matches!(op.owner, Owner::User)) {
            port.complete(ticket, Outcome::Released);
        }
    }

    /// The port has done a reduction that it had put off.
    pub fn on_reduced(&mut self, step: StepRef, port: &mut impl Port) {
        self.end_step(step, Outcome::Done, port);
        self.settle(port);
    }

    /// A step is over.
    pub(crate) fn end_step(&mut self, at: StepRef, outcome: Outcome, port: &mut impl Port) {
        let Some(run) = self.runs.find_mut(at.run) else { return };
        run.busy -= 1;
        run.left -= 1;
        match outcome {
            Outcome::Failed(fault) => return self.fail_run(at.run, fault, port),
            Outcome::Cancelled => return self.fail_run(at.run, Fault::Abandoned, port),
            _ => {}
        }
        let Run { schedule, needs, left, failed, .. } = run;
        let mut tell = |successor: u16| {
            needs[usize::from(successor)] -= 1;
            if needs[usize::from(successor)] == 0 {
                self.ready.push(StepRef { run: at.run, step: successor });
            }
        };
        if let Some(first) = schedule.first_successor(at.step) {
            tell(first);
            if schedule.branches() {
                schedule.further_successors(at.step).for_each(tell);
            }
        }
        if *left == 0 || failed.is_some() {
            self.end_run_if_over(at.run, port);
        }
    }

    /// No further step begins; those under way are taken back or run out.
    pub(crate) fn fail_run(&mut self, at: Ticket, fault: Fault, port: &mut impl Port) {
        let Some(run) = self.runs.find_mut(at) else { return };
        if run.failed.is_none() {
            run.failed = Some(fault);
            let waits = self.counters.forget_run(at);
            if let Some(run) = self.runs.find_mut(at) {
                run.busy -= waits;
                run.left -= waits;
            }
            let of_run = |owner: &Owner| matches!(owner, Owner::Step(step) if step.run == at);
            let open: Vec<Ticket> = self
                .ops
                .iter()
                .filter(|(_, op)| of_run(&op.owner))
                .map(|(ticket, _)| ticket)
                .collect();
            for ticket in open {
                self.begin_cancel(ticket, port);
            }
        }
        self.end_run_if_over(at, port);
    }

    fn end_run_if_over(&mut self, at: Ticket, port: &mut impl Port) {
        let Some(run) = self.runs.find(at) else { return };
        let outcome = match run.failed {
            Some(fault) if run.busy == 0 => Outcome::Failed(fault),
            None if run.left == 0 => Outcome::Done,
            _ => return,
        };
        let Some(Run { ticket, mut needs, .. }) = self.runs.release(at) else { return };
        if needs.capacity() <= SPARE_STEPS_MAX {
            needs.clear();
            self.spare_needs = needs;
        }
        self.complete(ticket, outcome, port);
    }
}

/// The most steps of a run whose memory is kept for the next: most collectives of few ranks.
const SPARE_STEPS_MAX: usize = 64;
