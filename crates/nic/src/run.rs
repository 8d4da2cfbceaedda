//! Running schedules: a step begins when all that it waits for is done.
//!
//! Runs of the same schedule may be open at the same time. Their messages carry the run's instance number in the
//! tag, so that an early message waits for its own run and a late one finds it.
//!
//! Instance numbers have few bits. A run whose group and instance are those of an open run waits until that one
//! has ended here. That keeps their messages apart: messages between two members travel in order, a member that
//! sends for the second run has sent everything for the first, and a member that receives for the second has
//! received everything for the first. No member waits for another because of this, since the first run ends
//! without the second.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::canary::Bug;
use crate::nic::{Nic, Variant};
use crate::op::{OpState, Owner};
use crate::port::{Port, Progress, StepRef};
use crate::schedule::{Consult, Schedule, Step};
use crate::short::Awaited;
use crate::types::{Fault, Mode, Outcome, Posted, Span, Ticket};
use crate::word::{Mask, MatchWord};

#[derive(Debug)]
pub(crate) struct Run {
    schedule: Arc<Schedule>,
    instance: u16,
    /// The operation by which its owner knows it.
    ticket: Ticket,
    /// For each step, how many others it still waits for. Empty while the run is in order: all steps before the one
    /// under way are done, and all after it wait for it.
    needs: Vec<u16>,
    /// Steps that are not done.
    left: u16,
    /// Steps that have begun and are not done.
    busy: u16,
    failed: Option<Fault>,
    /// Whether it is part of another run, whose group and instance it uses.
    inner: bool,
}

/// How far beginning a step has got.
enum Begun {
    Ended(Outcome),
    /// It is under way, perhaps as an operation.
    Pending(Option<Ticket>),
    /// Nothing has happened: it needs a run.
    NeedsRun,
}

/// Where a schedule stops that is done in order.
enum Halt {
    Over(Outcome),
    /// It is a run now, under this ticket of its owner.
    Run(Ticket),
    /// This step is awaited.
    Awaited(u16),
}

/// A schedule of which one step is awaited, and all before it are done. It is no run yet.
#[derive(Debug)]
pub(crate) struct AwaitedRun {
    schedule: Arc<Schedule>,
    instance: u16,
    step: u16,
}

/// A run that waits for another of the same group and instance.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) ticket: Ticket,
    pub(crate) schedule: Arc<Schedule>,
    pub(crate) instance: u16,
}

impl Deferred {
    pub(crate) fn group(&self) -> u16 {
        self.schedule.group
    }
}

/// Group and instance, which tell open runs apart.
type RunKey = (u16, u16);

/// The keys of open runs, sorted. Usually there are few, and a new one comes last.
#[derive(Debug, Default)]
pub(crate) struct OpenRuns(Vec<RunKey>);

impl OpenRuns {
    #[inline]
    fn has(&self, key: RunKey) -> bool {
        self.0.last().is_some_and(|&last| last >= key) && self.0.binary_search(&key).is_ok()
    }

    /// Adds a run. False if one with this key is open.
    #[inline]
    fn insert(&mut self, key: RunKey) -> bool {
        let place = match self.0.last() {
            Some(&last) if last >= key => self.0.binary_search(&key),
            _ => Err(self.0.len()),
        };
        if let Err(place) = place {
            self.0.insert(place, key);
        }
        place.is_err()
    }

    #[inline]
    fn remove(&mut self, key: RunKey) {
        if let Ok(place) = self.0.binary_search(&key) {
            self.0.remove(place);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<RunKey>()
    }
}

impl Run {
    pub(crate) fn group(&self) -> u16 {
        self.schedule.group
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        // A schedule shared by several runs is not counted.
        let own =
            if Arc::strong_count(&self.schedule) == 1 { self.schedule.heap_bytes() } else { 0 };
        self.needs.capacity() * size_of::<u16>() + own
    }
}

/// Steps that may start, in order.
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

    /// The next step. All are taken before anything else is done, so memory is reclaimed only at the end.
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
    /// Runs `schedule`. `instance` must be the same for all members of the group. All members post the runs of one
    /// instance in the same order, and each run begins when the one before has ended here.
    pub fn post_schedule(
        &mut self,
        schedule: Arc<Schedule>,
        instance: u16,
        port: &mut impl Port,
    ) -> Posted {
        let ended = self.begin_schedule::<false>(&schedule, instance, port);
        // Dropping the schedule may let its consulted functions make way for others.
        drop(schedule);
        self.after_schedule(ended, port)
    }

    /// Like [`Nic::post_schedule`], for a schedule that its owner keeps to run it again. It consults no functions.
    #[inline]
    pub fn post_kept_schedule(
        &mut self,
        schedule: &Arc<Schedule>,
        instance: u16,
        port: &mut impl Port,
    ) -> Posted {
        let ended = self.begin_schedule::<false>(schedule, instance, port);
        self.after_schedule(ended, port)
    }

    /// Like [`Nic::post_kept_schedule`], for a caller that does nothing but wait for the schedule: a receive that all
    /// later steps wait for is awaited, and the caller does as for [`Nic::await_receive`].
    #[inline]
    pub fn await_schedule(
        &mut self,
        schedule: &Arc<Schedule>,
        instance: u16,
        port: &mut impl Port,
    ) -> Awaited {
        match self.begin_schedule::<true>(schedule, instance, port) {
            Halt::Awaited(step) => {
                let schedule = Arc::clone(schedule);
                self.awaited.run = Some(AwaitedRun { schedule, instance, step });
                Awaited::Open
            }
            ended => self.after_schedule(ended, port).into(),
        }
    }

    #[inline(always)]
    fn after_schedule(&mut self, ended: Halt, port: &mut impl Port) -> Posted {
        let posted = match ended {
            Halt::Over(outcome) => {
                self.consult_again();
                Posted::Done(outcome)
            }
            Halt::Run(ticket) => Posted::Pending(ticket),
            Halt::Awaited(_) => unreachable!("the caller looks for it"),
        };
        self.settle(port);
        posted
    }

    #[inline]
    fn begin_schedule<const AWAIT: bool>(
        &mut self,
        schedule: &Arc<Schedule>,
        instance: u16,
        port: &mut impl Port,
    ) -> Halt {
        if let Some(fault) = self.ended_under(schedule.group, false) {
            let outcome = Outcome::Failed(fault);
            return Halt::Over(if schedule.is_empty() { Outcome::Done } else { outcome });
        }
        if self.open_runs.has((schedule.group, instance)) {
            return self.defer(schedule, instance);
        }
        self.go_in_order::<AWAIT>(schedule, instance, 0, port)
    }

    /// Does the steps of a schedule from `first` on, in order, while each of them ends at once. Only a schedule with a
    /// step that does not needs a run.
    #[inline]
    fn go_in_order<const AWAIT: bool>(
        &mut self,
        schedule: &Arc<Schedule>,
        instance: u16,
        first: u16,
        port: &mut impl Port,
    ) -> Halt {
        if !schedule.is_orderly() {
            return self.continue_as_run(schedule, instance, 0, Begun::NeedsRun);
        }
        for step in first..schedule.steps_u16() {
            if self.send_step_at_once(schedule, instance, step, port) {
                continue;
            }
            if AWAIT && self.may_await_step(schedule, instance, step) {
                return Halt::Awaited(step);
            }
            let at = StepRef { run: self.runs.next_ticket(), step };
            match self.begin_step(Some((schedule, instance)), at, port) {
                Begun::Ended(outcome) => {
                    if let Some(fault) = fault_of(outcome) {
                        return Halt::Over(Outcome::Failed(fault));
                    }
                }
                begun => return self.continue_as_run(schedule, instance, step, begun),
            }
        }
        Halt::Over(Outcome::Done)
    }

    /// Does a step, if it is a send that can go out at once.
    #[inline(always)]
    fn send_step_at_once(
        &mut self,
        schedule: &Schedule,
        instance: u16,
        step: u16,
        port: &mut impl Port,
    ) -> bool {
        let &Step::Send { to, source, subtag } = &schedule.steps[usize::from(step)] else {
            return false;
        };
        let word = MatchWord::new(schedule.group, schedule.rank, tag::<V>(instance, subtag));
        self.send_at_once(to, word, source, Mode::Standard, port)
    }

    /// Awaits a step, if it is a receive that all later steps wait for.
    #[inline(always)]
    fn may_await_step(&mut self, schedule: &Schedule, instance: u16, step: u16) -> bool {
        let &Step::Receive { from, rank, into, subtag } = &schedule.steps[usize::from(step)] else {
            return false;
        };
        let word = MatchWord::new(schedule.group, rank, tag::<V>(instance, subtag));
        schedule.is_gate(step) && self.await_receive(Some(from), word, Mask::EXACT, into)
    }

    /// The awaited step of a schedule is over: does the steps after it.
    #[inline(never)]
    pub(crate) fn continue_awaited(
        &mut self,
        run: AwaitedRun,
        outcome: Outcome,
        port: &mut impl Port,
    ) {
        let AwaitedRun { schedule, instance, step } = run;
        let ended = match fault_of(outcome) {
            Some(fault) => Halt::Over(Outcome::Failed(fault)),
            None => self.go_in_order::<true>(&schedule, instance, step + 1, port),
        };
        let awaited = match ended {
            Halt::Over(outcome) => Awaited::Over(outcome),
            Halt::Run(ticket) => Awaited::Posted(ticket),
            Halt::Awaited(step) => {
                self.awaited.run = Some(AwaitedRun { schedule, instance, step });
                Awaited::Open
            }
        };
        self.awaited.end(awaited);
        self.settle(port);
    }

    /// Makes an ordinary receive of the awaited step of a schedule.
    pub(crate) fn post_awaited_step(&mut self, run: AwaitedRun, port: &mut impl Port) -> Awaited {
        let AwaitedRun { schedule, instance, step } = run;
        match self.go_in_order::<false>(&schedule, instance, step, port) {
            Halt::Over(outcome) => Awaited::Over(outcome),
            Halt::Run(ticket) => Awaited::Posted(ticket),
            Halt::Awaited(_) => unreachable!("nothing is awaited"),
        }
    }

    #[cold]
    fn defer(&mut self, schedule: &Arc<Schedule>, instance: u16) -> Halt {
        if schedule.is_empty() {
            return Halt::Over(Outcome::Done);
        }
        let ticket = self.open(Owner::User, None, OpState::Waiting);
        let schedule = Arc::clone(schedule);
        self.deferred.push_back(Deferred { ticket, schedule, instance });
        Halt::Run(ticket)
    }

    /// Makes a run of a schedule whose steps before `step` are done.
    #[inline(never)]
    fn continue_as_run(
        &mut self,
        schedule: &Arc<Schedule>,
        instance: u16,
        step: u16,
        begun: Begun,
    ) -> Halt {
        self.open_runs.insert((schedule.group, instance));
        let ticket = self.open(Owner::User, None, OpState::Waiting);
        let run = self.runs.claim(Run {
            schedule: Arc::clone(schedule),
            instance,
            ticket,
            needs: Vec::new(),
            left: schedule.steps_u16() - step,
            busy: 0,
            failed: None,
            inner: false,
        });
        self.op_mut(ticket).state = OpState::Running { run };
        let at = StepRef { run, step };
        match begun {
            Begun::Pending(operation) => {
                if let Some(operation) = operation {
                    self.op_mut(operation).owner = Owner::Step(at);
                }
                self.look_past(at);
            }
            _ => self.make_ready(at),
        }
        Halt::Run(ticket)
    }

    /// Turns a waiting operation into a run, or defers it while its group and instance are in use.
    pub(crate) fn start_run(
        &mut self,
        ticket: Ticket,
        schedule: Arc<Schedule>,
        instance: u16,
        port: &mut impl Port,
    ) {
        if schedule.is_empty() {
            self.complete(ticket, Outcome::Done, port);
        } else if self.open_runs.insert((schedule.group, instance)) {
            self.begin_run(ticket, schedule, instance, false);
        } else {
            self.deferred.push_back(Deferred { ticket, schedule, instance });
        }
    }

    /// Turns a waiting operation into a run of a schedule that is not empty.
    fn begin_run(&mut self, ticket: Ticket, schedule: Arc<Schedule>, instance: u16, inner: bool) {
        let left = schedule.steps_u16();
        let (needs, busy, failed) = (Vec::new(), 0, None);
        let run =
            self.runs.claim(Run { schedule, instance, ticket, needs, left, busy, failed, inner });
        self.op_mut(ticket).state = OpState::Running { run };
        self.make_ready(StepRef { run, step: 0 });
    }

    /// Makes the first step of a run that is not done ready, or all first steps of a run that cannot go in order.
    fn make_ready(&mut self, at: StepRef) {
        let Some(run) = self.runs.find_mut(at.run) else { return };
        if run.schedule.is_orderly() {
            return self.ready.push(at);
        }
        run.needs = core::mem::take(&mut self.spare_needs);
        run.needs.extend_from_slice(&run.schedule.needs);
        for (step, _) in (0..).zip(&run.needs).filter(|&(_, &needs)| needs == 0) {
            self.ready.push(StepRef { run: at.run, step });
        }
    }

    /// Starts a step that waits for nothing any more, and those after it while the run is in order.
    pub(crate) fn start_step(&mut self, mut at: StepRef, port: &mut impl Port) {
        while self.runs.find(at.run).is_some_and(|run| run.failed.is_none()) {
            match self.begin_step(None, at, port) {
                Begun::Ended(outcome) => match self.pass_step(at, outcome, port) {
                    Some(step) => at.step = step,
                    None => return,
                },
                _ => return self.look_past(at),
            }
        }
    }

    /// Begins a step of a run, or of a schedule that has no run yet.
    #[inline(always)]
    fn begin_step(
        &mut self,
        given: Option<(&Arc<Schedule>, u16)>,
        at: StepRef,
        port: &mut impl Port,
    ) -> Begun {
        let (schedule, instance) = match given {
            Some(given) => given,
            None => {
                let run = self.runs.find(at.run).expect("the run is open");
                (&run.schedule, run.instance)
            }
        };
        let (group, me) = (schedule.group, schedule.rank);
        // Before a run is claimed another may end, so what it will be called is known only to steps that call nobody.
        let owner = if given.is_some() { Owner::Nobody } else { Owner::Step(at) };
        let posted = match &schedule.steps[usize::from(at.step)] {
            &Step::Send { to, source, subtag } => {
                let word = MatchWord::new(group, me, tag::<V>(instance, subtag));
                self.begin_send(owner, to, word, source, Mode::Standard, port)
            }
            &Step::Receive { from, rank, into, subtag } => {
                let word = MatchWord::new(group, rank, tag::<V>(instance, subtag));
                self.begin_receive(owner, Some(from), word, Mask::EXACT, into, port)
            }
            &Step::Reduce { operator, source, into } => {
                match port.reduce(at, operator, source, into) {
                    Progress::Done => Posted::Done(Outcome::Done),
                    Progress::Later => return Begun::Pending(None),
                }
            }
            &Step::Copy { source, into } => {
                port.copy(source, into);
                Posted::Done(Outcome::Done)
            }
            &Step::Wait { counter, at_least } => match self.wait_in_step(counter, at_least, at) {
                None => return Begun::Pending(None),
                Some(outcome) => Posted::Done(outcome),
            },
            Step::Start(schedule) if schedule.is_empty() => Posted::Done(Outcome::Done),
            Step::Start(_) | Step::Release if given.is_some() => return Begun::NeedsRun,
            Step::Start(schedule) => {
                let schedule = Arc::clone(schedule);
                let inner = self.open(owner, None, OpState::Waiting);
                self.begin_run(inner, schedule, instance, true);
                return Begun::Pending(None);
            }
            Step::Consult { whom, bytes } => {
                let (whom, bytes) = (Arc::clone(whom), *bytes);
                if !consult(&*whom, bytes, port) {
                    self.undecided.push(at);
                    return Begun::Pending(None);
                }
                self.consult_again();
                Posted::Done(Outcome::Done)
            }
            Step::Release => {
                self.release_caller(at.run, port);
                Posted::Done(Outcome::Done)
            }
        };
        match posted {
            Posted::Done(outcome) => Begun::Ended(outcome),
            Posted::Pending(ticket) => Begun::Pending(Some(ticket)),
        }
    }

    /// A step is under way: steps that do not wait for it may begin. The run is no longer in order if there are any.
    fn look_past(&mut self, at: StepRef) {
        let Some(run) = self.runs.find_mut(at.run) else { return };
        run.busy += 1;
        let Run { schedule, needs, .. } = run;
        if !needs.is_empty() || schedule.is_gate(at.step) {
            return;
        }
        *needs = core::mem::take(&mut self.spare_needs);
        needs.extend_from_slice(&schedule.needs);
        for done in 0..at.step {
            schedule.successors(done).for_each(|successor| needs[usize::from(successor)] -= 1);
        }
        for (step, _) in
            (0..).zip(needs).skip(usize::from(at.step) + 1).filter(|(_, needs)| **needs == 0)
        {
            self.ready.push(StepRef { run: at.run, step });
        }
    }

    fn release_caller(&mut self, run: Ticket, port: &mut impl Port) {
        let Some(&Run { ticket, .. }) = self.runs.find(run) else { return };
        if self.ops.find(ticket).is_some_and(|op| matches!(op.owner, Owner::User)) {
            port.complete(ticket, Outcome::Released);
        }
    }

    /// Consults undecided steps again: something that they may depend on has changed.
    #[inline]
    pub(crate) fn consult_again(&mut self) {
        if self.undecided.is_empty() {
            return;
        }
        for at in core::mem::take(&mut self.undecided) {
            if let Some(run) = self.runs.find_mut(at.run) {
                run.busy -= 1;
                self.ready.push(at);
            }
        }
    }

    /// Something outside the NIC has changed that undecided steps may depend on.
    pub fn on_change(&mut self, port: &mut impl Port) {
        self.consult_again();
        self.settle(port);
    }

    /// The port has finished a reduction that it had postponed.
    pub fn on_reduced(&mut self, step: StepRef, port: &mut impl Port) {
        self.end_step(step, Outcome::Done, port);
        self.settle(port);
    }

    /// Ends a step that was under way, and makes its successors ready.
    pub(crate) fn end_step(&mut self, at: StepRef, outcome: Outcome, port: &mut impl Port) {
        let Some(run) = self.runs.find_mut(at.run) else { return };
        run.busy -= 1;
        if let Some(step) = self.pass_step(at, outcome, port) {
            self.ready.push(StepRef { step, ..at });
        }
    }

    /// A step has ended. If the run is in order, returns the next step; if it is not, makes the successors ready.
    #[inline]
    fn pass_step(&mut self, at: StepRef, outcome: Outcome, port: &mut impl Port) -> Option<u16> {
        let run = self.runs.find_mut(at.run)?;
        run.left -= 1;
        if let Some(fault) = fault_of(outcome) {
            self.fail_run(at.run, fault, port);
            return None;
        }
        if run.left == 0 || run.failed.is_some() {
            self.end_run_if_over(at.run, port);
            return None;
        }
        if run.needs.is_empty() {
            return Some(at.step + 1);
        }
        for successor in run.schedule.successors(at.step) {
            let needs = &mut run.needs[usize::from(successor)];
            *needs -= 1;
            if *needs == 0 {
                self.ready.push(StepRef { run: at.run, step: successor });
            }
        }
        None
    }

    /// Fails a run: no further step begins; those that have begun are cancelled or run to their end.
    pub(crate) fn fail_run(&mut self, at: Ticket, fault: Fault, port: &mut impl Port) {
        let Some(run) = self.runs.find_mut(at) else { return };
        if run.failed.is_none() {
            run.failed = Some(fault);
            let undecided = self.undecided.extract_if(.., |step| step.run == at).count();
            let undecided = u16::try_from(undecided).expect("steps of one schedule");
            let waits = self.counters.forget_run(at) + undecided;
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
        let Some(run) = self.runs.release(at) else { return };
        let Run { ticket, mut needs, schedule, instance, inner, .. } = run;
        if !inner {
            self.open_runs.remove((schedule.group, instance));
            self.begin_deferred(schedule.group, instance, port);
        }
        // Dropping the schedule may let its consulted functions make way for others.
        drop(schedule);
        self.consult_again();
        if needs.capacity() > 0 && needs.capacity() <= SPARE_STEPS_MAX {
            needs.clear();
            self.spare_needs = needs;
        }
        self.complete(ticket, outcome, port);
    }

    /// Begins the run that has waited longest for this group and instance.
    #[inline]
    fn begin_deferred(&mut self, group: u16, instance: u16, port: &mut impl Port) {
        if self.deferred.is_empty() {
            return;
        }
        let is_next = |next: &Deferred| (next.group(), next.instance) == (group, instance);
        if let Some(at) = self.deferred.iter().position(is_next)
            && let Some(next) = self.deferred.remove(at)
        {
            self.start_run(next.ticket, next.schedule, instance, port);
        }
    }
}

/// The tag of a message of a schedule.
#[inline]
fn tag<V: Variant>(instance: u16, subtag: u8) -> u32 {
    let shown = if V::has(Bug::StaleInstance) { 0 } else { instance };
    u32::from(shown) << 8 | u32::from(subtag)
}

/// Why a run fails if one of its steps ends like this.
#[inline]
fn fault_of(outcome: Outcome) -> Option<Fault> {
    match outcome {
        Outcome::Failed(fault) => Some(fault),
        Outcome::Cancelled => Some(Fault::Abandoned),
        _ => None,
    }
}

/// Lets a function read and change bytes. False if it cannot answer yet.
fn consult(whom: &dyn Consult, span: Span, port: &mut impl Port) -> bool {
    let mut bytes = vec![0; usize::try_from(span.len).expect("it fits the machine")];
    port.load(span, &mut bytes);
    let answered = whom.consult(&mut bytes);
    if answered {
        port.deliver(&bytes, span);
    }
    answered
}

/// Memory of a run with at most this many steps is kept for the next: most collectives of few ranks.
const SPARE_STEPS_MAX: usize = 64;
