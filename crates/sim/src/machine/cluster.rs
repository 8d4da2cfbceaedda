//! Ranks on machines, in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use ferrywire_nic::matcher::{Queue, Work};
use ferrywire_nic::{
    Envelope, Kind, Limits, Mask, MatchWord, Mode, Module, Nic, Outcome, Peer, Placement, Posted,
    RailId, Schedule, Seal, Span, Ticket, Time, Variant,
};

use super::port::{Deed, MachinePort};
use super::{BusCosts, Machine, NicCosts, Runner, rounded};
use crate::memory::Memory;
use crate::random::Random;

/// Ranks on machines of one kind.
pub struct Cluster<V: Variant> {
    machine: Rc<Machine>,
    computers: Vec<Computer<V>>,
    due: BinaryHeap<Reverse<Due>>,
    order: u64,
    now: u64,
    /// Programs that have neither ended nor wait for all others.
    running: usize,
    losses: Random,
}

/// What the host of a rank does, in order.
#[derive(Clone, Debug, Default)]
pub struct HostProgram {
    instructions: VecDeque<Instruction>,
    posted: usize,
}

/// Names an operation of a program: how many it has posted before.
#[derive(Clone, Copy, Debug)]
pub struct Operation(usize);

impl HostProgram {
    /// Computes.
    pub fn compute(&mut self, ns: f64) {
        self.instructions.push_back(Instruction::Compute(ns));
    }

    /// Sends a span to a rank.
    pub fn send(&mut self, to: u32, tag: u32, source: Span) -> Operation {
        self.post(Call::Send { to, group: GROUP, tag, source })
    }

    /// Sends a span to the modules of a group at a rank.
    pub fn send_to_module(&mut self, to: u32, group: u16, source: Span) -> Operation {
        self.post(Call::Send { to, group, tag: 0, source })
    }

    /// Receives a message of a rank.
    pub fn receive(&mut self, from: u32, tag: u32, into: Span) -> Operation {
        self.post(Call::Receive { from, tag, into })
    }

    /// Receives what the module of a group lets through.
    pub fn receive_from_module(&mut self, group: u16, into: Span) -> Operation {
        self.post(Call::Delivery { group, into })
    }

    /// Writes a span into one that a rank has opened.
    pub fn put(&mut self, to: u32, source: Span, into: Span) -> Operation {
        self.post(Call::Put { to, source, into })
    }

    /// Runs a schedule.
    pub fn run(&mut self, schedule: Schedule, instance: u16) -> Operation {
        self.post(Call::Run { schedule: Arc::new(schedule), instance })
    }

    /// Waits until these operations are over.
    pub fn wait(&mut self, operations: &[Operation]) {
        let numbers = operations.iter().map(|operation| operation.0).collect();
        self.instructions.push_back(Instruction::Wait(numbers));
    }

    /// Waits until all ranks are here and nothing moves any more, which takes no time: between two measurements.
    pub fn meet(&mut self) {
        self.instructions.push_back(Instruction::Meet);
    }

    /// Notes the time.
    pub fn note(&mut self) {
        self.instructions.push_back(Instruction::Note);
    }

    fn post(&mut self, call: Call) -> Operation {
        self.instructions.push_back(Instruction::Post(call));
        self.posted += 1;
        Operation(self.posted - 1)
    }
}

#[derive(Clone, Debug)]
enum Instruction {
    Compute(f64),
    Post(Call),
    Wait(Box<[usize]>),
    Meet,
    Note,
}

/// What the host asks its NIC for.
#[derive(Clone, Debug)]
enum Call {
    Send { to: u32, group: u16, tag: u32, source: Span },
    Receive { from: u32, tag: u32, into: Span },
    Delivery { group: u16, into: Span },
    Put { to: u32, source: Span, into: Span },
    Run { schedule: Arc<Schedule>, instance: u16 },
}

/// What [`HostProgram::note`] has noted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// The time.
    pub ns: f64,
    /// The time that the program has spent in calls, and that signals have taken from it.
    pub library_ns: f64,
}

/// One rank: its host, its NIC, and what lies between them.
struct Computer<V: Variant> {
    nic: Nic<V>,
    port: MachinePort,
    program: VecDeque<Instruction>,
    state: HostState,
    /// Operations in the order of posting; true if they are over.
    posted: Vec<bool>,
    tickets: BTreeMap<u64, usize>,
    /// What has reached the NIC while nothing ran it.
    inbox: VecDeque<Stimulus>,
    moments: Vec<Moment>,
    library: u64,
    host_free: u64,
    nic_free: u64,
    bus_free: u64,
    egress_free: u64,
    cache: Option<super::MemoryCosts>,
    /// The timer of the NIC that is among the events.
    listed: Option<Time>,
    /// Entries of both queues after the last event, and the work done for them.
    seen: [(Vec<u32>, Work); 2],
    module: Option<u16>,
    module_seen: (u64, u64),
}

#[derive(Clone, Debug, PartialEq)]
enum HostState {
    /// An event says when it goes on.
    Running,
    /// In a call that waits for these operations, since this time.
    Waiting(Box<[usize]>, u64),
    Meeting,
    Ended,
}

/// Something that reaches a NIC.
enum Stimulus {
    Post(usize, Call),
    Frame(Peer, Box<[u8]>),
    Landed(Peer, Ticket, Box<[u8]>, Span),
    Written(Ticket),
    Timer,
    Turn,
}

struct Due {
    at: u64,
    order: u64,
    rank: usize,
    what: Occasion,
}

enum Occasion {
    /// The program goes on.
    Host,
    Nic(Stimulus),
    /// The host sees that an operation is over.
    Told(usize),
    /// A timer of the NIC expires.
    Expired(Time),
}

impl<V: Variant> Cluster<V> {
    /// A cluster of `size` ranks.
    pub fn new(machine: Machine, limits: &Limits, size: u32) -> Cluster<V> {
        let machine = Rc::new(machine);
        let computers = (0..size).map(|me| Computer {
            nic: Nic::new(Peer(me), JOB, limits.clone()),
            port: MachinePort::new(Peer(me), Rc::clone(&machine)),
            program: VecDeque::new(),
            state: HostState::Running,
            posted: Vec::new(),
            tickets: BTreeMap::new(),
            inbox: VecDeque::new(),
            moments: Vec::new(),
            library: 0,
            host_free: 0,
            nic_free: 0,
            bus_free: 0,
            egress_free: 0,
            cache: machine.matching.memory.clone(),
            listed: None,
            seen: Default::default(),
            module: None,
            module_seen: (0, 0),
        });
        let computers = computers.collect();
        Cluster {
            machine,
            computers,
            due: BinaryHeap::new(),
            order: 0,
            now: 0,
            running: 0,
            losses: Random::new(0),
        }
    }

    /// Memory of the host of a rank.
    pub fn lend(&mut self, rank: u32, bytes: u64) -> Span {
        self.computers[rank as usize].port.memory.lend_filled(bytes, 0)
    }

    /// Lets peers write into memory of a rank.
    pub fn open(&mut self, rank: u32, piece: Span) {
        self.computers[rank as usize].nic.open_piece(piece);
    }

    /// The memory of the host of a rank.
    pub fn memory(&self, rank: u32) -> &Memory {
        &self.computers[rank as usize].port.memory
    }

    /// The same, to change.
    pub fn memory_mut(&mut self, rank: u32) -> &mut Memory {
        &mut self.computers[rank as usize].port.memory
    }

    /// The NIC of a rank.
    pub fn nic(&self, rank: u32) -> &Nic<V> {
        &self.computers[rank as usize].nic
    }

    /// Gives a rank its program. The one before has ended.
    pub fn program(&mut self, rank: u32, program: HostProgram) {
        let computer = &mut self.computers[rank as usize];
        computer.program = program.instructions;
        computer.posted.clear();
    }

    /// Loads a module at a rank, before the programs begin.
    pub fn load(&mut self, rank: u32, group: u16, module: Box<dyn Module>) {
        let size = u32::try_from(self.computers.len()).expect("ranks are counted in 32 bits");
        let peer_of = Box::new(|rank| Some(Peer(rank)));
        let computer = &mut self.computers[rank as usize];
        computer.nic.load(group, module, Placement { rank, size, peer_of }, &mut computer.port);
        computer.port.deeds.clear();
        computer.module = Some(group);
    }

    /// Runs all programs to their ends and returns what each has noted.
    ///
    /// # Panics
    ///
    /// If a program waits for something that never comes.
    pub fn run(mut self) -> Vec<Vec<Moment>> {
        self.play()
    }

    /// Like [`Cluster::run`], and more programs may follow.
    pub fn play(&mut self) -> Vec<Vec<Moment>> {
        self.running = self.computers.len();
        for rank in 0..self.computers.len() {
            self.push(self.now, rank, Occasion::Host);
        }
        loop {
            while let Some(Reverse(Due { at, rank, what, .. })) = self.next() {
                match what {
                    Occasion::Host => self.go_on(rank, at),
                    Occasion::Nic(stimulus) => self.reach(rank, at, stimulus),
                    Occasion::Told(slot) => self.tell(rank, at, slot),
                    Occasion::Expired(timer) => self.expire(rank, at, timer),
                }
            }
            let free = self.computers.iter().map(|c| c.host_free.max(c.nic_free)).max();
            self.now = self.now.max(free.unwrap_or(0));
            let now = self.now;
            if self.computers.iter().all(|computer| computer.state == HostState::Ended) {
                let moments = self.computers.iter_mut().map(|c| std::mem::take(&mut c.moments));
                return moments.collect();
            }
            for (rank, computer) in self.computers.iter_mut().enumerate() {
                let met = matches!(computer.state, HostState::Meeting | HostState::Ended);
                assert!(met, "rank {rank} waits for ever: {:?}", computer.state);
            }
            for rank in 0..self.computers.len() {
                if self.computers[rank].state == HostState::Meeting {
                    self.computers[rank].state = HostState::Running;
                    self.running += 1;
                    self.push(now, rank, Occasion::Host);
                }
            }
        }
    }

    /// The next event. None if nothing is left but timers, which NICs on links that lose frames always have, and no
    /// program waits for one of them.
    fn next(&mut self) -> Option<Reverse<Due>> {
        let Reverse(next) = self.due.peek()?;
        if self.running == 0 && matches!(next.what, Occasion::Expired(_)) {
            return None;
        }
        self.due.pop()
    }

    fn expire(&mut self, rank: usize, at: u64, timer: Time) {
        let computer = &mut self.computers[rank];
        // It may have been set anew since.
        if computer.port.armed == Some(timer) {
            computer.port.armed = None;
            computer.listed = None;
            self.reach(rank, at, Stimulus::Timer);
        }
    }

    fn list_timer(&mut self, rank: usize) {
        let computer = &mut self.computers[rank];
        let armed = computer.port.armed;
        if computer.listed != armed {
            computer.listed = armed;
            if let Some(Time(at)) = armed {
                self.push(at * 1000, rank, Occasion::Expired(Time(at)));
            }
        }
    }

    /// Lets the host of a rank do the next part of its program.
    fn go_on(&mut self, rank: usize, at: u64) {
        let machine = Rc::clone(&self.machine);
        let computer = &mut self.computers[rank];
        if computer.host_free > at {
            let at = computer.host_free;
            return self.push(at, rank, Occasion::Host);
        }
        computer.host_free = at;
        computer.state = HostState::Running;
        match computer.program.pop_front() {
            None => {
                computer.state = HostState::Ended;
                self.running -= 1;
            }
            Some(Instruction::Meet) => {
                computer.state = HostState::Meeting;
                self.running -= 1;
            }
            Some(Instruction::Compute(ns)) => {
                computer.host_free += ps(ns);
                let end = computer.host_free;
                self.push(end, rank, Occasion::Host);
            }
            Some(Instruction::Note) => {
                computer.moments.push(Moment { ns: ns(at), library_ns: ns(computer.library) });
                self.push(at, rank, Occasion::Host);
            }
            Some(Instruction::Wait(operations)) => {
                computer.state = HostState::Waiting(operations, at);
                self.drain(rank);
                let at = self.computers[rank].host_free;
                self.end_wait(rank, at);
            }
            Some(Instruction::Post(call)) => {
                let slot = computer.posted.len();
                computer.posted.push(false);
                computer.host_free += ps(machine.call_ns);
                if machine.runner == Runner::Processor {
                    let seen = computer.host_free + ps(machine.doorbell_ns);
                    self.push(seen, rank, Occasion::Nic(Stimulus::Post(slot, call)));
                } else {
                    self.drain(rank);
                    let start = self.computers[rank].host_free;
                    self.stimulate(rank, start, Stimulus::Post(slot, call));
                }
                let computer = &mut self.computers[rank];
                computer.library += computer.host_free - at;
                let end = computer.host_free;
                self.push(end, rank, Occasion::Host);
            }
        }
    }

    /// Something reaches the NIC of a rank.
    fn reach(&mut self, rank: usize, at: u64, stimulus: Stimulus) {
        let computer = &mut self.computers[rank];
        match self.machine.runner {
            Runner::Processor => {
                let start = at.max(computer.nic_free);
                self.stimulate(rank, start, stimulus);
            }
            Runner::Calls | Runner::CallsAndSignals(_)
                if matches!(computer.state, HostState::Waiting(..)) =>
            {
                let start = at.max(computer.host_free);
                self.stimulate(rank, start, stimulus);
                let at = self.computers[rank].host_free;
                self.end_wait(rank, at);
            }
            Runner::CallsAndSignals(signal_ns) if computer.nic.holdings().runs > 0 => {
                let interrupted = computer.host_free.max(at);
                self.stimulate(rank, at + ps(signal_ns), stimulus);
                self.drain(rank);
                // What the program was doing ends so much later.
                let computer = &mut self.computers[rank];
                let spent = computer.host_free - at;
                computer.library += spent;
                computer.host_free = interrupted + spent;
            }
            Runner::Calls | Runner::CallsAndSignals(_) => computer.inbox.push_back(stimulus),
        }
    }

    /// Handles what has arrived while nothing ran the NIC.
    fn drain(&mut self, rank: usize) {
        while let Some(stimulus) = self.computers[rank].inbox.pop_front() {
            let start = self.computers[rank].host_free;
            self.stimulate(rank, start, stimulus);
        }
    }

    fn tell(&mut self, rank: usize, at: u64, slot: usize) {
        self.computers[rank].posted[slot] = true;
        self.end_wait(rank, at);
    }

    /// Ends the wait of a rank, if what it waits for is over.
    fn end_wait(&mut self, rank: usize, at: u64) {
        let computer = &mut self.computers[rank];
        let HostState::Waiting(operations, since) = &computer.state else { return };
        if operations.iter().any(|&slot| !computer.posted[slot]) {
            return;
        }
        computer.host_free = at.max(computer.host_free) + ps(self.machine.reap_ns);
        computer.library += computer.host_free - since;
        computer.state = HostState::Running;
        let end = computer.host_free;
        self.push(end, rank, Occasion::Host);
    }

    /// Lets the NIC of a rank handle something, from `start` on, and carries out what it asks for.
    fn stimulate(&mut self, rank: usize, start: u64, stimulus: Stimulus) {
        let machine = Rc::clone(&self.machine);
        let computer = &mut self.computers[rank];
        let costs = &machine.nic;
        computer.port.now = Time(start / 1000);
        let Computer { nic, port, tickets, .. } = computer;
        let mut at_once = None;
        let cost = match stimulus {
            Stimulus::Post(slot, call) => {
                let cost = match call {
                    Call::Send { .. } | Call::Put { .. } | Call::Run { .. } => costs.send_ns,
                    Call::Receive { .. } | Call::Delivery { .. } => costs.receive_ns,
                };
                let posted = match call {
                    Call::Send { to, group, tag, source } => {
                        let word = MatchWord::new(group, nic.me().0, tag);
                        nic.post_send(Peer(to), word, source, Mode::Standard, port)
                    }
                    Call::Receive { from, tag, into } => {
                        let word = MatchWord::new(GROUP, from, tag);
                        nic.post_receive(Some(Peer(from)), word, Mask::EXACT, into, port)
                    }
                    Call::Delivery { group, into } => {
                        let word = MatchWord::new(group, 0, 0);
                        nic.post_receive(None, word, Mask::ANY_BOTH, into, port)
                    }
                    Call::Put { to, source, into: Span { region, offset, .. } } => {
                        nic.post_put(Peer(to), source, region, offset, None, port)
                    }
                    Call::Run { schedule, instance } => nic.post_schedule(schedule, instance, port),
                };
                match posted {
                    Posted::Done(_) => at_once = Some(slot),
                    Posted::Pending(ticket) => _ = tickets.insert(ticket.bits(), slot),
                }
                cost
            }
            Stimulus::Frame(from, bytes) => {
                let via = match from == nic.me() {
                    true => RailId(u8::MAX),
                    false => machine.wire.promises.rail,
                };
                nic.on_frame(from, via, Seal::Intact, &bytes, port);
                match kind_of(&bytes) {
                    Some(Kind::Credit { .. }) => 0.0,
                    // What a NIC sends to itself does not leave it.
                    _ if from == nic.me() => 0.0,
                    _ => costs.frame_in_ns,
                }
            }
            Stimulus::Landed(from, ticket, bytes, into) => {
                port.memory.bytes_mut(into).copy_from_slice(&bytes);
                nic.on_landed(from, ticket, into.len, port);
                costs.put_end_ns
            }
            Stimulus::Written(ticket) => {
                nic.on_written(ticket, port);
                costs.put_end_ns
            }
            Stimulus::Timer => {
                nic.on_timer(port);
                0.0
            }
            Stimulus::Turn => {
                nic.on_turn(port);
                0.0
            }
        };
        let cost = cost + computer.matching_ns(&machine) + computer.module_ns(&machine);
        let end = self.carry_out(rank, start + ps(cost), at_once);
        let computer = &mut self.computers[rank];
        match machine.runner {
            Runner::Processor => computer.nic_free = end,
            Runner::Calls | Runner::CallsAndSignals(_) => computer.host_free = end,
        }
        if computer.nic.is_busy() {
            self.push(end, rank, Occasion::Nic(Stimulus::Turn));
        }
        self.list_timer(rank);
    }

    /// Carries out what a NIC has asked for, from `start` on. Returns when its processor is free again.
    fn carry_out(&mut self, rank: usize, start: u64, at_once: Option<usize>) -> u64 {
        let machine = Rc::clone(&self.machine);
        let costs = &machine.nic;
        let me = Peer(u32::try_from(rank).expect("ranks are counted in 32 bits"));
        let mut now = start;
        // When the bytes of what completes are in the memory of the host.
        let mut settled = start;
        let deeds = std::mem::take(&mut self.computers[rank].port.deeds);
        let mut over: Vec<usize> = Vec::new();
        for deed in deeds {
            match deed {
                Deed::Move(bytes) => {
                    settled = self.computers[rank].move_bytes(&mut now, &machine, bytes)
                }
                Deed::Reduce(bytes) => now += ps(costs.reduce.of(bytes)),
                Deed::Frame { to, bytes, payload, from_host } => {
                    let [before, after] = costs.of_frame(&bytes);
                    now += ps(before);
                    let computer = &mut self.computers[rank];
                    let mut ready = now;
                    if from_host {
                        ready = computer.move_bytes(&mut now, &machine, payload);
                    }
                    let arrives = computer.leave(&machine, me, to, ready, payload);
                    now += ps(after);
                    if costs.one_by_one && payload > 0 && !from_host && to != me {
                        let back = machine.wire.busy_ns(0) + machine.wire.latency_ns(to.0, me.0);
                        now = now.max(arrives + ps(costs.frame_in_ns + back));
                    }
                    let lost = machine.wire.path.lost_in_a_million;
                    if to == me || lost == 0 || self.losses.below(1_000_000) >= lost {
                        let frame = Occasion::Nic(Stimulus::Frame(me, bytes));
                        self.push(arrives, to.0 as usize, frame);
                    }
                }
                Deed::Put { to, bytes, into, ticket, notify } => {
                    now += ps(costs.put_ns);
                    let computer = &mut self.computers[rank];
                    let payload = bytes.len() as u64;
                    let arrives = computer.leave(&machine, me, to, now, payload);
                    self.push(arrives, rank, Occasion::Nic(Stimulus::Written(ticket)));
                    let landed = Stimulus::Landed(me, notify, bytes, into);
                    self.push(arrives, to.0 as usize, Occasion::Nic(landed));
                }
                Deed::Complete(ticket, outcome) => {
                    let failed = matches!(outcome, Outcome::Failed(_) | Outcome::Cancelled);
                    assert!(!failed, "no operation fails in a cluster: {outcome:?}");
                    // A schedule that has released its caller completes once more.
                    if let Some(slot) = self.computers[rank].tickets.remove(&ticket.bits()) {
                        over.push(slot);
                    }
                }
            }
        }
        for slot in over.into_iter().chain(at_once) {
            now += ps(costs.completion_ns);
            let seen = now.max(settled) + ps(machine.notice_ns);
            match machine.runner {
                Runner::Processor => self.push(seen, rank, Occasion::Told(slot)),
                Runner::Calls | Runner::CallsAndSignals(_) => {
                    self.computers[rank].posted[slot] = true;
                }
            }
        }
        now
    }

    fn push(&mut self, at: u64, rank: usize, what: Occasion) {
        self.order += 1;
        self.due.push(Reverse(Due { at, order: self.order, rank, what }));
    }
}

impl<V: Variant> Computer<V> {
    /// Moves bytes between the memories of host and NIC, and returns when they are there.
    fn move_bytes(&mut self, now: &mut u64, machine: &Machine, bytes: u64) -> u64 {
        match machine.bus {
            BusCosts::Copy(cost) => {
                *now += ps(cost.of(bytes));
                *now
            }
            BusCosts::Dma(cost) => {
                self.bus_free = self.bus_free.max(*now) + ps(cost.of(bytes));
                self.bus_free
            }
        }
    }

    /// When a frame that is ready to leave has arrived.
    fn leave(&mut self, machine: &Machine, me: Peer, to: Peer, ready: u64, payload: u64) -> u64 {
        if to == me {
            return ready;
        }
        self.egress_free = self.egress_free.max(ready) + ps(machine.wire.busy_ns(payload));
        self.egress_free + ps(machine.wire.latency_ns(me.0, to.0))
    }

    /// What matching has cost since the last call.
    fn matching_ns(&mut self, machine: &Machine) -> f64 {
        let costs = &machine.matching;
        let mut total = 0.0;
        for queue in [Queue::Posted, Queue::Unexpected] {
            let work = self.nic.work(queue);
            let (items, before) = &mut self.seen[queue as usize];
            let searched = usize::try_from(work.searched - before.searched).expect("few entries");
            total += (work.looks - before.looks) as f64 * costs.look_ns
                + (work.insert_modes - before.insert_modes) as f64 * costs.insert_mode_ns
                + (work.inserts - before.inserts) as f64 * costs.insert_ns;
            if let Some(memory) = &mut self.cache {
                // Software has compared the entries that are not in the unit, from the oldest on.
                let compared = items.iter().skip(before.loaded).take(searched);
                let kind = (queue as u64) << 32;
                total += compared
                    .map(|&item| memory.entry_ns(kind | u64::from(item), costs.entry_ns))
                    .sum::<f64>();
                let known = std::mem::take(items);
                self.nic.show_entries(queue, |entry| items.push(entry.item));
                if items.len() > known.len() {
                    items[known.len()..]
                        .iter()
                        .for_each(|&item| _ = memory.touch(kind | u64::from(item)));
                }
            } else {
                total += searched as f64 * costs.entry_ns;
            }
            *before = work;
        }
        total
    }

    /// What the module has cost since the last call.
    fn module_ns(&mut self, machine: &Machine) -> f64 {
        let Some(stats) = self.module.and_then(|group| self.nic.module_stats(group)) else {
            return 0.0;
        };
        let (messages, fuel) =
            std::mem::replace(&mut self.module_seen, (stats.messages, stats.fuel));
        let module = machine.nic.module;
        (stats.messages - messages) as f64 * module.fixed_ns
            + (stats.fuel - fuel) as f64 * module.each_ns
    }
}

impl super::MemoryCosts {
    /// Compares an entry. The processor fetches its lines together.
    fn entry_ns(&mut self, entry: u64, compare_ns: f64) -> f64 {
        match self.touch(entry) {
            true => compare_ns,
            false => compare_ns.max(self.miss_ns),
        }
    }

    /// Uses all lines of an entry. False if one of them was not in the cache.
    fn touch(&mut self, entry: u64) -> bool {
        // Entries are not a whole number of lines: some have one more than others.
        let lines = self.entry_bytes / self.cache.line_bytes() as f64;
        let whole = lines.floor();
        let more = (scatter(entry, u64::MAX) % 1000) as f64 / 1000.0 < lines - whole;
        let mut all = true;
        for line in 0..rounded(whole) + u64::from(more) {
            all &= self.cache.touch(scatter(entry, line));
        }
        all
    }
}

/// The line at which a part of an entry lies: anywhere, but always the same.
fn scatter(entry: u64, part: u64) -> u64 {
    let mixed =
        (entry ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ mixed >> 29
}

impl NicCosts {
    /// What a frame costs its sender before and after it leaves. Returned credit costs nothing: a document's machine
    /// returns it in a register, or counts it in another cost.
    fn of_frame(&self, bytes: &[u8]) -> [f64; 2] {
        match kind_of(bytes) {
            Some(Kind::Credit { .. }) => [0.0; 2],
            Some(Kind::Grant { .. }) => [self.frame_out_ns + self.grant_ns, self.frame_gone_ns],
            _ => [self.frame_out_ns, self.frame_gone_ns],
        }
    }
}

fn kind_of(bytes: &[u8]) -> Option<Kind> {
    Envelope::parse(bytes).map(|(envelope, _)| envelope.kind)
}

/// Picoseconds, in which the cluster counts: no clock of a document is a whole number of nanoseconds.
fn ps(ns: f64) -> u64 {
    rounded(ns * 1000.0)
}

fn ns(ps: u64) -> f64 {
    ps as f64 / 1000.0
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// The group of ordinary messages.
const GROUP: u16 = 1;

/// The job of all ranks of a cluster.
const JOB: u32 = 0x6d61_6368;
