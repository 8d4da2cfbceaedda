//! One process of a program: performs its plan on any machine, and records the results. It checks collectives only; the
//! model checks the rest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ferrywire_mpi::collective::inter::{self, Root, Sides};
use ferrywire_mpi::collective::{self, Member, Naming, ReduceOp};
use ferrywire_mpi::comm::Comm;
use ferrywire_mpi::group::{self, Group};
use ferrywire_mpi::number_agreement::{NumberPromise, ROOM_BYTES, number_agreement};
use ferrywire_mpi::numbers::{Claim, Numbers};
use ferrywire_mpi::operation::{Number, Operation, operator};
use ferrywire_nic::{Mode, Nic, Outcome, Peer, Port, Posted, Schedule, Span, Ticket, Variant};

use crate::layout::{Elements, Layout, Room, unit_bytes};
use crate::plan::{Collective, CommPlan, How, Kind, Message, Pattern, Plan, Task, pattern};

/// What a world provides to one of its processes.
pub(crate) trait Machine {
    type Variant: Variant;
    type Port: Port;

    /// Lends memory that stays in place until the world ends.
    fn lend(&mut self, bytes: Vec<u8>) -> Span;

    /// The present bytes of a span. No operation in progress may write to it.
    fn bytes(&self, span: Span) -> &[u8];

    /// Calls the NIC. All spans are from [`Machine::lend`].
    fn ask<T>(&mut self, ask: impl FnOnce(&mut Nic<Self::Variant>, &mut Self::Port) -> T) -> T;
}

/// When a process continues.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    /// At once.
    Again,
    /// With the same task, after a while.
    Later,
    /// When an operation ends.
    Idle,
    /// Never: it is finished.
    Over,
}

/// What one process has observed.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Messages in the order of sending.
    pub(crate) sent: Vec<usize>,
    /// When synchronous sends were seen to complete.
    pub(crate) synchronous: BTreeMap<usize, u64>,
    /// Receives in the order of posting.
    pub(crate) receives: Vec<Receive>,
    /// Numbers of communicators, in the order of creation.
    pub(crate) numbers: BTreeMap<usize, u16>,
    /// What went wrong.
    pub(crate) complaints: Vec<String>,
}

/// A receive.
#[derive(Debug)]
pub(crate) struct Receive {
    pub(crate) phase: usize,
    pub(crate) pattern: Pattern,
    pub(crate) into: Elements,
    /// Time before it was posted.
    pub(crate) posted_at: u64,
    /// Cancelled while messages may have been in flight.
    pub(crate) withdrawn: bool,
    pub(crate) end: Option<End>,
}

/// How a receive ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) outcome: Outcome,
    /// The application's memory at that time.
    pub(crate) room: Room,
}

/// A planted bug in the creation of communicators.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Planted {
    /// Messages of an agreement name their senders by their ranks in the new group.
    RanksAsSources,
}

/// A process.
pub(crate) struct Player {
    me: u32,
    plan: Arc<Plan>,
    /// Counts moments across all processes.
    clock: Arc<AtomicU64>,
    phase: usize,
    next: usize,
    stage: Stage,
    /// Whether a task is waiting for an operation.
    blocked: bool,
    /// Whether it fetches leftover messages by probing.
    probing: bool,
    planted: Option<Planted>,
    numbers: Arc<Numbers>,
    comms: BTreeMap<usize, (Comm, Option<Claim>)>,
    pending: BTreeMap<Ticket, Pending>,
    /// Messages of this phase that have not arrived, by communicator.
    missing: BTreeMap<usize, u64>,
    pub(crate) log: Log,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Tasks,
    Draining,
    Bootstrap,
}

#[derive(Debug)]
enum Pending {
    Send {
        message: usize,
    },
    /// Where the bytes go: directly into the application's memory, or into a buffer.
    Receive {
        number: usize,
        landing: Landing,
        any: bool,
    },
    Collective {
        index: usize,
        result: Span,
    },
    /// Agreement on the number of a communicator.
    Number {
        comm: usize,
        promise: NumberPromise,
    },
    Bootstrap,
}

#[derive(Clone, Copy, Debug)]
enum Landing {
    InPlace(Span),
    Packed(Span),
}

impl Player {
    pub(crate) fn new(
        me: u32,
        plan: &Arc<Plan>,
        clock: &Arc<AtomicU64>,
        probing: bool,
        planted: Option<Planted>,
    ) -> Player {
        let numbers = Numbers::new(Peer(me), 1);
        let world = Comm::new(Group::whole(plan.size), me, 0);
        let mut player = Player {
            me,
            plan: Arc::clone(plan),
            clock: Arc::clone(clock),
            phase: 0,
            next: 0,
            stage: Stage::Tasks,
            blocked: false,
            probing,
            planted,
            numbers,
            comms: BTreeMap::from([(0, (world, None))]),
            pending: BTreeMap::new(),
            missing: BTreeMap::new(),
            log: Log::default(),
        };
        player.count_missing();
        player
    }

    /// Operations in progress.
    pub(crate) fn open(&self) -> Vec<Ticket> {
        self.pending.keys().copied().collect()
    }

    /// What it waits for, as text.
    pub(crate) fn describe(&self) -> String {
        format!(
            "rank {} is stuck: phase {}, task {}, {:?}, pending {:?}, missing {:?}, complaints {:?}",
            self.me,
            self.phase,
            self.next,
            self.stage,
            self.pending,
            self.missing,
            self.log.complaints
        )
    }

    /// Performs one operation, if one is possible.
    pub(crate) fn advance(&mut self, machine: &mut impl Machine) -> Next {
        if self.blocked {
            return Next::Idle;
        }
        let plan = Arc::clone(&self.plan);
        let Some(tasks) = plan.phases.get(self.phase) else { return Next::Over };
        match self.stage {
            Stage::Tasks => match tasks[self.me as usize].get(self.next) {
                Some(task) if self.must_wait(task) => Next::Idle,
                Some(task) => {
                    self.next += 1;
                    self.perform(task, machine);
                    Next::Again
                }
                None => {
                    self.stage = Stage::Draining;
                    Next::Again
                }
            },
            Stage::Draining => self.drain(machine),
            Stage::Bootstrap => {
                self.stage = Stage::Tasks;
                (self.phase, self.next) = (self.phase + 1, 0);
                self.count_missing();
                Next::Again
            }
        }
    }

    /// An operation has ended.
    pub(crate) fn conclude(
        &mut self,
        ticket: Ticket,
        outcome: Outcome,
        machine: &mut impl Machine,
    ) {
        match self.pending.remove(&ticket) {
            Some(pending) => self.end(pending, outcome, machine),
            None => self.complain(format!("{ticket} ended and nobody waits: {outcome:?}")),
        }
    }

    fn perform(&mut self, task: &Task, machine: &mut impl Machine) {
        match task {
            Task::Make(comm) => self.make(*comm, machine),
            Task::Free(comm) => {
                self.comms.remove(comm);
            }
            Task::Send(message) => self.send(*message, machine),
            Task::Receive { pattern, into } => self.receive(*pattern, into, false, machine),
            Task::Take { pattern, into } => {
                self.take(*pattern, Some(into), machine);
            }
            Task::Cancel { choice } => self.withdraw(*choice, machine),
            Task::Collective(index) => self.collective(*index, machine),
        }
    }

    /// Agrees on a number with all members. All members of the parent create a duplicate, so that counts as one of its
    /// collectives; other communicators are created by some members, under a tag.
    fn make(&mut self, comm: usize, machine: &mut impl Machine) {
        let made = &self.plan.comms[comm];
        let parent = &self.comms[&made.parent].0;
        let (ours, theirs, first) = groups(parent, made, self.me);
        let everyone = match &theirs {
            None => ours,
            Some(theirs) if first => ours.union(theirs),
            Some(theirs) => theirs.union(&ours),
        };
        let rank = everyone.rank_of(Peer(self.me)).expect("a member");
        let tag = if self.plan.at_once { u32::try_from(comm).expect("few") << 12 } else { 0 };
        let (member, instance) = match made.how {
            How::Dup => (parent.member(), parent.next_instance()),
            _ => parent.part(&everyone, rank, tag),
        };
        let member = match self.planted {
            Some(Planted::RanksAsSources) => Member { naming: Naming::Ranks, ..member },
            None => member,
        };
        let room = machine.lend(vec![0; ROOM_BYTES]);
        let (schedule, promise) = number_agreement(member, &self.numbers, 0, room);
        self.blocked = !self.plan.at_once;
        self.start(schedule, instance, Pending::Number { comm, promise }, machine);
    }

    /// Whether a task must wait for communicators that are being created.
    fn must_wait(&self, task: &Task) -> bool {
        let making = self.pending.values().any(|pending| matches!(pending, Pending::Number { .. }));
        making
            && match task {
                Task::Make(comm) => !self.comms.contains_key(&self.plan.comms[*comm].parent),
                _ => true,
            }
    }

    fn start(
        &mut self,
        schedule: Schedule,
        instance: u16,
        pending: Pending,
        machine: &mut impl Machine,
    ) {
        let posted = machine.ask(|nic, port| nic.post_schedule(schedule.into(), instance, port));
        self.await_end(posted, pending, machine);
    }

    fn send(&mut self, id: usize, machine: &mut impl Machine) {
        let message = &self.plan.messages[id];
        let comm = &self.plan.comms[message.comm];
        let target = comm.targets_of(self.me).iter().position(|&process| process == message.to);
        let target = u32::try_from(target.expect("a target")).expect("few");
        let Elements { layout: Layout { datatype, .. }, count } = &message.elements;
        let room = message.room();
        let mut strayed = false;
        let source = match datatype.one_block(*count) {
            Some(block) if !block.is_empty() => {
                let (at, len) = (room.at(block.start), block.end - block.start);
                machine.lend(room.bytes).part(at as u64, len.cast_unsigned())
            }
            _ => {
                let bytes = usize::try_from(datatype.size() * count).expect("it fits");
                let mut packed = vec![0; bytes];
                datatype.pack(*count, &room, &mut packed);
                strayed = room.strayed.get();
                machine.lend(packed)
            }
        };
        let (to, word) = self.comms[&message.comm].0.address(target, message.tag);
        let mode = message.mode;
        if strayed {
            self.complain(format!("message {id} was packed from beyond its type"));
        }
        self.log.sent.push(id);
        let posted = machine.ask(|nic, port| nic.post_send(to, word, source, mode, port));
        self.await_end(posted, Pending::Send { message: id }, machine);
    }

    fn receive(
        &mut self,
        pattern: Pattern,
        into: &Elements,
        any: bool,
        machine: &mut impl Machine,
    ) {
        let wanted = self.comms[&pattern.comm].0.wanted(pattern.from, pattern.tag);
        let (landing, span) = landing(into, machine);
        let number = self.note_receive(pattern, into);
        let posted = machine
            .ask(|nic, port| nic.post_receive(wanted.from, wanted.word, wanted.mask, span, port));
        self.await_end(posted, Pending::Receive { number, landing, any }, machine);
    }

    /// Probes and receives. Returns whether there was a message.
    fn take(
        &mut self,
        pattern: Pattern,
        into: Option<&Elements>,
        machine: &mut impl Machine,
    ) -> bool {
        let wanted = self.comms[&pattern.comm].0.wanted(pattern.from, pattern.tag);
        let seen = machine.ask(|nic, port| nic.probe(wanted.word, wanted.mask, port));
        let taken = machine.ask(|nic, port| nic.take(wanted.word, wanted.mask, port));
        let Some((ticket, probed)) = taken else {
            if seen.is_some() {
                self.complain(format!("a probe for {pattern:?} saw what could not be taken"));
            }
            return false;
        };
        // The first of the two asks for held messages; perhaps only the second sees them.
        if seen.is_some_and(|seen| seen != probed) {
            self.complain(format!("a probe saw {seen:?}, and {probed:?} was taken"));
        }
        let unit = &self.plan.comms[pattern.comm].unit;
        let exact = Elements { count: probed.len / unit_bytes(unit), layout: Layout::dense(unit) };
        let into = into.unwrap_or(&exact);
        let (landing, span) = landing(into, machine);
        let number = self.note_receive(pattern, into);
        let posted = machine.ask(|nic, port| nic.post_taken(ticket, span, port));
        self.await_end(posted, Pending::Receive { number, landing, any: false }, machine);
        true
    }

    fn note_receive(&mut self, pattern: Pattern, into: &Elements) -> usize {
        let posted_at = self.now();
        let (phase, into) = (self.phase, into.clone());
        let receive = Receive { phase, pattern, into, posted_at, withdrawn: false, end: None };
        self.log.receives.push(receive);
        self.log.receives.len() - 1
    }

    /// Cancels one of the open receives.
    fn withdraw(&mut self, choice: u64, machine: &mut impl Machine) {
        let open: Vec<(Ticket, usize)> = self
            .pending
            .iter()
            .filter_map(|(&ticket, pending)| match pending {
                Pending::Receive { number, .. } => Some((ticket, *number)),
                _ => None,
            })
            .collect();
        let Some(place) = choice.checked_rem(open.len() as u64) else { return };
        let (ticket, number) = open[usize::try_from(place).expect("an index")];
        self.log.receives[number].withdrawn = true;
        machine.ask(|nic, port| nic.cancel(ticket, port));
    }

    fn collective(&mut self, index: usize, machine: &mut impl Machine) {
        let plan = Arc::clone(&self.plan);
        let collective = &plan.collectives[index];
        let (schedule, result) = self.schedule(index, collective, machine);
        self.blocked = collective.blocking;
        let instance = self.comms[&collective.comm].0.next_instance();
        self.start(schedule, instance, Pending::Collective { index, result }, machine);
    }

    fn schedule(
        &self,
        index: usize,
        collective: &Collective,
        machine: &mut impl Machine,
    ) -> (Schedule, Span) {
        let plan = &self.plan.comms[collective.comm];
        let comm = &self.comms[&collective.comm].0;
        let me = comm.member();
        let sides = comm.inter().map(|other| Sides {
            group_id: comm.group_id(),
            ours: comm.group(),
            theirs: &other.remote,
            rank: comm.rank(),
        });
        match collective.kind {
            Kind::Barrier => match sides {
                None => (collective::barrier(me), Span::EMPTY),
                Some(us) => (inter::barrier(us), Span::EMPTY),
            },
            Kind::Broadcast { root, len } => {
                let bytes = match root == self.me {
                    true => block(index, root, root, len),
                    false => vec![GUARD; size(len)],
                };
                let bytes = machine.lend(bytes);
                let schedule = match sides {
                    None => collective::broadcast(me, plan.rank_of(root), bytes),
                    Some(us) if root == self.me => inter::broadcast(us, Root::Us, bytes),
                    Some(us) if plan.group_of(self.me).contains(&root) => {
                        inter::broadcast(us, Root::Ours, bytes)
                    }
                    Some(us) => inter::broadcast(us, Root::Theirs(plan.rank_of(root)), bytes),
                };
                (schedule, bytes)
            }
            Kind::Allreduce { numbers } => {
                let sum = of_u64(Operation::Sum);
                let bytes = machine.lend(contribution(index, self.me, numbers));
                match sides {
                    None => {
                        let work = machine.lend(vec![0; length(bytes)]);
                        (collective::allreduce(me, sum, bytes, bytes, work), bytes)
                    }
                    Some(us) => {
                        let into = machine.lend(vec![GUARD; length(bytes)]);
                        let work = inter::allreduce_work_bytes(us, sum, bytes.len);
                        let work = machine.lend(vec![0; size(work)]);
                        (inter::allreduce(us, sum, bytes, into, work), into)
                    }
                }
            }
            Kind::Alltoall { len } => {
                let others = plan.targets_of(self.me);
                let given = |to: usize| block_len(self.me, others[to], len);
                let got = |from: usize| block_len(others[from], self.me, len);
                let source = others
                    .iter()
                    .flat_map(|&to| block(index, self.me, to, block_len(self.me, to, len)));
                let source = machine.lend(source.collect());
                let comes = (0..others.len()).map(got).sum();
                let into = machine.lend(vec![GUARD; size(comes)]);
                let to = |rank: u32| {
                    let rank = rank as usize;
                    source.part((0..rank).map(given).sum(), given(rank))
                };
                let from = |rank: u32| {
                    let rank = rank as usize;
                    into.part((0..rank).map(got).sum(), got(rank))
                };
                let schedule = match sides {
                    None => {
                        let work = collective::alltoall_blocks_work_bytes(me, to, from);
                        let work = machine.lend(vec![0; size(work)]);
                        collective::alltoall_blocks(me, to, from, work)
                    }
                    Some(us) => inter::alltoall_blocks(us, to, from),
                };
                (schedule, into)
            }
        }
    }

    /// The expected result of a collective in our memory.
    fn expected(&self, index: usize) -> Option<Vec<u8>> {
        let collective = &self.plan.collectives[index];
        let comm = &self.plan.comms[collective.comm];
        let others = comm.targets_of(self.me);
        match collective.kind {
            Kind::Barrier => None,
            Kind::Broadcast { root, .. }
                if comm.is_inter() && root != self.me && !others.contains(&root) =>
            {
                None
            }
            Kind::Broadcast { root, len } => Some(block(index, root, root, len)),
            Kind::Allreduce { numbers } => {
                let mut sums = vec![0_u64; size(numbers)];
                for &member in others {
                    let bytes = contribution(index, member, numbers);
                    let (terms, _) = bytes.as_chunks();
                    for (sum, term) in sums.iter_mut().zip(terms) {
                        *sum = sum.wrapping_add(u64::from_le_bytes(*term));
                    }
                }
                Some(sums.into_iter().flat_map(u64::to_le_bytes).collect())
            }
            Kind::Alltoall { len } => {
                let from = |&from: &u32| block(index, from, self.me, block_len(from, self.me, len));
                Some(others.iter().flat_map(from).collect())
            }
        }
    }

    fn await_end(&mut self, posted: Posted, pending: Pending, machine: &mut impl Machine) {
        match posted {
            Posted::Done(outcome) => self.end(pending, outcome, machine),
            Posted::Pending(ticket) => {
                self.pending.insert(ticket, pending);
            }
        }
    }

    fn end(&mut self, pending: Pending, outcome: Outcome, machine: &mut impl Machine) {
        match (pending, outcome) {
            (Pending::Send { message }, Outcome::Done) => {
                if self.plan.messages[message].mode == Mode::Synchronous {
                    let now = self.now();
                    self.log.synchronous.insert(message, now);
                }
            }
            (Pending::Receive { number, landing, .. }, _) => {
                self.end_receive(number, landing, outcome, machine);
            }
            (Pending::Collective { index, result }, Outcome::Done) => {
                if self.plan.collectives[index].blocking {
                    self.blocked = false;
                }
                if self.expected(index).is_some_and(|bytes| bytes != machine.bytes(result)) {
                    let collective = &self.plan.collectives[index];
                    self.complain(format!("wrong bytes of collective {index}, {collective:?}"));
                }
            }
            (Pending::Number { comm, promise }, Outcome::Done) => {
                self.blocked = false;
                match promise.take() {
                    Some(agreed) => self.found(comm, agreed.claim),
                    None => self.complain(format!("no number for communicator {comm}")),
                }
            }
            (Pending::Bootstrap, Outcome::Done) => self.blocked = false,
            (pending, outcome) => self.complain(format!("{pending:?} ended as {outcome:?}")),
        }
    }

    fn found(&mut self, comm: usize, claim: Claim) {
        let plan = &self.plan.comms[comm];
        let (ours, theirs, first) = groups(&self.comms[&plan.parent].0, plan, self.me);
        let rank = ours.rank_of(Peer(self.me)).expect("a member");
        let number = claim.number();
        let made = match theirs {
            Some(theirs) => Comm::between(ours, rank, theirs, first, number),
            None => match plan.how {
                How::Dup => self.comms[&plan.parent].0.renumbered(number),
                _ => Comm::new(ours, rank, number),
            },
        };
        if made.rank() != plan.rank_of(self.me) {
            self.complain(format!("rank {} in communicator {comm}", made.rank()));
        }
        self.log.numbers.insert(comm, number);
        self.comms.insert(comm, (made, Some(claim)));
    }

    fn end_receive(
        &mut self,
        number: usize,
        landing: Landing,
        outcome: Outcome,
        machine: &mut impl Machine,
    ) {
        let receive = &mut self.log.receives[number];
        let mut room = receive.into.room(|_| GUARD);
        match landing {
            Landing::InPlace(span) => room.bytes.copy_from_slice(machine.bytes(span)),
            Landing::Packed(span) => {
                let len = match outcome {
                    Outcome::Received(received) => received.len.min(span.len),
                    Outcome::Failed(_) => span.len,
                    _ => 0,
                };
                let Elements { layout, count } = &receive.into;
                layout.datatype.unpack(*count, machine.bytes(span.first(len)), &mut room);
            }
        }
        receive.end = Some(End { outcome, room });
        if outcome != Outcome::Cancelled {
            let comm = receive.pattern.comm;
            let missing = self.missing.entry(comm).or_default();
            match missing.checked_sub(1) {
                Some(less) => *missing = less,
                None => self.complain(format!("a message too many in communicator {comm}")),
            }
        }
    }

    /// After the last task of a phase: fetches leftover messages, cancels receives that no message will match, enters
    /// the barrier.
    fn drain(&mut self, machine: &mut impl Machine) -> Next {
        let comms: Vec<usize> = self.missing.keys().copied().collect();
        let mut found = false;
        for comm in comms {
            let anything = Pattern { comm, from: None, tag: None };
            if self.probing && self.missing[&comm] > 0 {
                found |= self.take(anything, None, machine);
            }
            // A receive may match at once, so the number missing changes as we post.
            while !self.probing && self.open_for_anything(comm) < self.missing[&comm] {
                let plan = &self.plan.comms[comm];
                let layout = Layout::dense(&plan.unit);
                let longest = Elements { layout, count: plan.units_max };
                self.receive(anything, &longest, true, machine);
            }
            if self.missing[&comm] == 0 {
                self.give_up(comm, machine);
            }
        }
        if self.probing && self.missing.values().any(|&missing| missing > 0) {
            return if found { Next::Again } else { Next::Later };
        }
        if !self.pending.is_empty() {
            return Next::Idle;
        }
        self.stage = Stage::Bootstrap;
        self.blocked = true;
        let world = &self.comms[&0].0;
        let (schedule, instance) = (collective::barrier(world.member()), world.next_instance());
        self.start(schedule, instance, Pending::Bootstrap, machine);
        Next::Again
    }

    fn open_for_anything(&self, comm: usize) -> u64 {
        let is_open = |pending: &&Pending| match pending {
            Pending::Receive { number, any: true, .. } => {
                self.log.receives[*number].pattern.comm == comm
            }
            _ => false,
        };
        self.pending.values().filter(is_open).count() as u64
    }

    /// Cancels open receives: no message will match them any more.
    fn give_up(&mut self, comm: usize, machine: &mut impl Machine) {
        let of_comm = |pending: &Pending| match pending {
            Pending::Receive { number, .. } => self.log.receives[*number].pattern.comm == comm,
            _ => false,
        };
        let open = self.pending.iter().filter(|(_, pending)| of_comm(pending));
        let open: Vec<Ticket> = open.map(|(&ticket, _)| ticket).collect();
        for ticket in open {
            machine.ask(|nic, port| nic.cancel(ticket, port));
        }
    }

    fn count_missing(&mut self) {
        self.missing.clear();
        let alive = |message: &&Message| message.to == self.me && message.phase == self.phase;
        // A communicator without messages has receives to cancel, too.
        for comm in 0..self.plan.comms.len() {
            self.missing.insert(comm, 0);
        }
        for message in self.plan.messages.iter().filter(alive) {
            *self.missing.entry(message.comm).or_default() += 1;
        }
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn complain(&mut self, what: String) {
        self.log.complaints.push(format!("rank {}: {what}", self.me));
    }
}

/// Our group in a new communicator, the remote one if any, and whether ours is the first.
fn groups(parent: &Comm, plan: &CommPlan, me: u32) -> (Group, Option<Group>, bool) {
    match &plan.how {
        How::World => unreachable!("nobody makes the world"),
        How::Dup => (parent.group().clone(), None, true),
        How::Split { wants } => {
            let ranks = group::split(wants, parent.rank()).expect("we are a member");
            (parent.group().select(&ranks), None, true)
        }
        How::Select { ranks } => (parent.group().select(ranks), None, true),
        How::Between { left, right } => {
            let [left, right] = [left, right].map(|ranks| parent.group().select(ranks));
            match left.rank_of(Peer(me)) {
                Some(_) => (left, Some(right), true),
                None => (right, Some(left), false),
            }
        }
    }
}

/// Memory to receive into, and the span for the NIC: the memory itself if its bytes are contiguous and in order, else a
/// buffer for the packed form.
fn landing(into: &Elements, machine: &mut impl Machine) -> (Landing, Span) {
    let room = into.room(|_| GUARD);
    match into.layout.datatype.one_block(into.count) {
        Some(block) if !block.is_empty() => {
            let at = room.at(block.start) as u64;
            let whole = machine.lend(room.bytes);
            (Landing::InPlace(whole), whole.part(at, (block.end - block.start).cast_unsigned()))
        }
        _ => {
            let bytes = into.layout.datatype.size() * into.count;
            let packed = machine.lend(vec![GUARD; size(bytes)]);
            (Landing::Packed(packed), packed)
        }
    }
}

fn of_u64(operation: Operation) -> ReduceOp {
    let operator = operator(operation, Number::U64).expect("it makes sense");
    ReduceOp { operator, element_bytes: 8, commutative: true }
}

/// What one process sends to another in a collective.
fn block(index: usize, from: u32, to: u32, len: u64) -> Vec<u8> {
    let id = (index as u64) << 16 | u64::from(from) << 8 | u64::from(to);
    (0..len).map(|at| pattern(id, at ^ id)).collect()
}

/// The length of a block: blocks differ, and both ends know how.
fn block_len(from: u32, to: u32, len: u64) -> u64 {
    len * u64::from((from + 2 * to) % 3) / 2
}

/// The contribution of a process.
fn contribution(index: usize, process: u32, numbers: u64) -> Vec<u8> {
    let number = |at| (index as u64 + u64::from(process) + at) * 0x1_0000_0001;
    (0..numbers).flat_map(|at| number(at).to_le_bytes()).collect()
}

fn length(span: Span) -> usize {
    size(span.len)
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("it fits the machine")
}

/// Fill byte of memory that has not been written to.
pub(crate) const GUARD: u8 = 0xa5;
