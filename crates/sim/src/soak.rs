//! The soak: random programs under random faults, from one seed, and the oracles that judge them.
//!
//! The oracles: MPI's order for each pair and group; every message exactly once, with the right bytes, or cancelled and
//! received by no rank; credit belongs to its receiver and its sender only; every module runs once for each message on
//! its way; nothing leaked; memory within its budget at every step; a rank that falls silent is given up in time by
//! those that wait for it, and one that lives never; every rank finishes, or is told of a death, in bounded virtual
//! time. Windows have oracles of their own: see [`windows`].

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

use ferrywire_nic::{
    Key, Kind, Limits, Mask, MatchWord, Mode, Peer, RailId, Region, Span, Ticket, Variant, matcher,
};

use crate::audit;
use crate::conditions;
use crate::fabric::{Fabric, Rule};
use crate::modules::{Errands, Fate, Log};
use crate::random::Random;
use crate::script::{
    AREA_BYTES, Collective, LATE_BYTES, LONGEST, Message, Plan, Ranks, Script, Task, ranks,
};
use crate::windows;
use crate::world::{Trace, World};

/// The result of one seed.
#[derive(Clone, Debug)]
pub struct SeedResult {
    /// The seed.
    pub seed: u64,
    /// What it was about, in one line.
    pub scenario: String,
    /// Violations found; empty if none.
    pub violations: Vec<String>,
    /// Events that happened.
    pub events: u64,
    /// Virtual time that passed.
    pub virtual_ns: u64,
    /// What it has exercised.
    pub coverage: Coverage,
}

/// How much of what can go wrong did.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Coverage {
    /// Messages that matched.
    pub messages: u64,
    /// Collectives.
    pub collectives: u64,
    /// Frames sent again.
    pub retries: u64,
    /// Frames that arrived again.
    pub repeats: u64,
    /// Messages that arrived before their receive.
    pub unexpected: u64,
    /// Messages refused for lack of room.
    pub refused: u64,
    /// Sweeps requested.
    pub invited: u64,
    /// Messages cancelled.
    pub withdrawn: u64,
    /// Ranks killed.
    pub killed: u64,
    /// Ranks that fell silent.
    pub vanished: u64,
    /// Peers declared down.
    pub downs: u64,
    /// Peers forgotten.
    pub forgotten: u64,
    /// Accesses to windows that completed.
    pub accesses: u64,
    /// Locks of windows that were taken.
    pub locks: u64,
    /// Locks of windows that were not free, and were asked for again.
    pub retried_locks: u64,
    /// Runs of modules for a message.
    pub module_runs: u64,
    /// Messages that modules sent or forwarded.
    pub module_sends: u64,
    /// Messages ended by traps.
    pub module_traps: u64,
    /// Times that a module took no more messages because too much of what it had sent was still in flight.
    pub module_stalls: u64,
}

impl Coverage {
    /// Adds the coverage of another seed.
    pub fn add(&mut self, other: &Coverage) {
        self.messages += other.messages;
        self.collectives += other.collectives;
        self.retries += other.retries;
        self.repeats += other.repeats;
        self.unexpected += other.unexpected;
        self.refused += other.refused;
        self.invited += other.invited;
        self.withdrawn += other.withdrawn;
        self.killed += other.killed;
        self.vanished += other.vanished;
        self.downs += other.downs;
        self.forgotten += other.forgotten;
        self.accesses += other.accesses;
        self.locks += other.locks;
        self.retried_locks += other.retried_locks;
        self.module_runs += other.module_runs;
        self.module_sends += other.module_sends;
        self.module_traps += other.module_traps;
        self.module_stalls += other.module_stalls;
    }
}

/// A NIC with another matcher than the production one.
pub struct With<M>(std::marker::PhantomData<M>);

impl<M: matcher::Matcher> Variant for With<M> {
    type Matcher = M;
}

/// Runs one seed on the production NIC or, for some seeds, on one with another matcher. `trace` is called with each
/// event.
pub fn run(seed: u64, trace: Option<Trace>) -> SeedResult {
    match seed % 8 {
        6 => run_variant::<With<matcher::Alpu>>(seed, trace),
        7 => run_variant::<With<matcher::List>>(seed, trace),
        _ => run_variant::<ferrywire_nic::Standard>(seed, trace),
    }
}

/// Runs one seed on a NIC of variant `V`: a world with messages and, for some seeds, another with windows.
pub fn run_variant<V: Variant>(seed: u64, trace: Option<Trace>) -> SeedResult {
    let (mut result, trace) = run_messages::<V>(seed, trace);
    if result.violations.is_empty()
        && let Some(windows) = windows::run::<V>(seed, trace)
    {
        result.scenario = format!("{}; {}", result.scenario, windows.scenario);
        result.violations = windows.violations;
        result.events += windows.events;
        result.virtual_ns += windows.virtual_ns;
        result.coverage.accesses = windows.accesses;
        result.coverage.locks = windows.locks;
        result.coverage.retried_locks = windows.retried_locks;
    }
    result
}

/// Runs the world with messages. Returns the trace for the next world.
fn run_messages<V: Variant>(seed: u64, trace: Option<Trace>) -> (SeedResult, Option<Trace>) {
    let scenario = Scenario::new(seed);
    let mut world: World<V, Script> = scenario.world(trace);
    let mut violations = audit::run(&mut world, scenario.bound_ns());
    if violations.is_empty() {
        check_finished(&world, &mut violations);
    }
    let coverage = cover(&scenario, &world);
    if violations.is_empty() {
        let groups = [scenario.plan.cancelled_group(), scenario.plan.collective_group()];
        let groups: Vec<u16> = scenario.plan.message_groups().chain(groups).collect();
        audit::drain(&groups, scenario.someone_dies(), &mut world, &mut violations);
        check_order(&scenario.plan, &world, &mut violations);
        check_effects(&scenario, &world, &mut violations);
        check_cancelled(&scenario, &world, &mut violations);
        check_modules(&scenario, &mut world, &mut violations);
        audit::check_leaks(&world, &mut violations);
        audit::check_credit(&scenario.limits, &world, &mut violations);
    }
    for rank in scenario.ranks() {
        let script = world.application(rank);
        violations.extend(script.complaints.iter().cloned());
        let log = script.log.lock().unwrap_or_else(PoisonError::into_inner);
        violations.extend(log.complaints.iter().map(|what| format!("rank {}: {what}", rank.0)));
    }
    violations.append(&mut world.complaints);
    let result = SeedResult {
        seed,
        scenario: scenario.describe(),
        violations,
        events: world.handled(),
        virtual_ns: world.now().0,
        coverage,
    };
    (result, world.trace)
}

/// Everything that a seed decides.
struct Scenario {
    seed: u64,
    plan: Rc<Plan>,
    tasks: Vec<Vec<Task>>,
    fabric: Fabric,
    limits: Limits,
    rules: Vec<Rule>,
    kills: Vec<(u64, Peer)>,
    /// The ranks of a host that fall silent, and when.
    vanishing: Vec<(u64, Peer)>,
    stops: Vec<(u64, u64, Peer)>,
    forged: Vec<Forged>,
    detection_ns: u64,
    refused_percent: u64,
    paused_ns: u64,
}

/// A forged frame.
struct Forged {
    at: u64,
    from: Peer,
    to: Peer,
    via: RailId,
    kind: Kind,
}

impl Scenario {
    fn new(seed: u64) -> Scenario {
        let root = Random::new(seed);
        let mut random = root.split(2);
        let size = random.pick(&[2, 2, 3, 4, 5, 7, 8, 12, 16, 24, 33, 64]);
        let mut plan = plan(size, &mut root.split(3));
        let mut limits = conditions::limits(&mut root.split(5));
        let detection_ns = random.between(10_000, 50_000_000);
        let kills = conditions::kills(size, &mut random);
        let mut fabric = conditions::fabric(size, &mut root.split(4));
        conditions::make_reliable(&mut fabric.remote.promises, &mut root.split(12));
        let vanishing = conditions::vanishing(size, fabric.ranks_per_node, &mut root.split(13));
        if root.split(8).percent(40) {
            let someone_dies = !kills.is_empty() || !vanishing.is_empty();
            add_modules(&mut plan, &mut limits, someone_dies, &mut root.split(9));
        }
        let mut scenario = Scenario {
            seed,
            tasks: Vec::new(),
            fabric,
            limits,
            rules: conditions::rules(size, &mut root.split(6)),
            kills,
            vanishing,
            stops: Vec::new(),
            forged: Vec::new(),
            detection_ns,
            refused_percent: root.split(11).pick(&[0, 0, 5, 30]),
            paused_ns: 0,
            plan: Rc::new(plan),
        };
        scenario.tasks = (0..size).map(|me| scenario.program(me, &root.split(100))).collect();
        scenario.forged = scenario.forgeries(&mut root.split(10));
        if random.percent(30) {
            let from = random.between(0, 500_000);
            let until = from + random.between(1, 300_000_000);
            scenario.stops.push((from, until, Peer(random.small(0, size - 1))));
        }
        if random.percent(8) {
            // Pauses long enough for farewells, and then for all peers to be forgotten.
            let pause = 2 * scenario.limits.idle_ns_max;
            scenario.paused_ns = PAUSES * pause;
            for tasks in &mut scenario.tasks {
                for _ in 0..PAUSES {
                    let at = random.below(tasks.len() as u64 + 1);
                    tasks.insert(usize::try_from(at).expect("an index"), Task::Pause(pause));
                }
            }
        }
        scenario
    }

    /// Frames of an attacker on the network, or garbage from a rank of the same node.
    fn forgeries(&self, random: &mut Random) -> Vec<Forged> {
        let (size, per_node) = (self.plan.size, self.fabric.ranks_per_node);
        let count = if random.percent(30) { random.between(1, 8) } else { 0 };
        let forged = (0..count).map(|_| {
            let to = random.small(0, size - 1);
            let first = to / per_node * per_node;
            let neighbour = random.small(first, (first + per_node).min(size) - 1);
            let at = random.between(0, 600_000);
            let word = MatchWord::new(random.pick(&[0, self.plan.cancelled_group()]), neighbour, 0);
            let ticket = Ticket::from_bits(random.below(4));
            let wild = Span::new(Region(random.small(0, 1 << 20)), random.any(), random.any());
            let lost = Span::new(Region(0), u64::MAX - random.below(100), 101);
            let key = Key(random.any());
            let offer =
                |source| Kind::Offer { word, secured: false, first: false, ticket, source, key };
            let strange = neighbour == to || random.percent(70);
            let kind = match random.below(6) {
                _ if !strange => offer(lost),
                0 => offer(wild),
                1 => Kind::Eager { word, secured: false, synchronous: None },
                2 => Kind::Get { ticket, from: wild },
                3 => Kind::Answer { queue: 0, accepted: true, wanted: true, credit: 1 << 20 },
                4 => Kind::Credit { queue: 0, bytes: 1 << 20 },
                _ => Kind::Farewell,
            };
            let link = if strange { &self.fabric.remote } else { &self.fabric.local };
            Forged { at, from: Peer(neighbour), to: Peer(to), via: link.promises.rail, kind }
        });
        forged.collect()
    }

    /// The program of rank `me`: its sends, receives of all kinds for its messages, and the rest.
    fn program(&self, me: u32, random: &Random) -> Vec<Task> {
        let mut random = random.split(me.into());
        let plan = &self.plan;
        let wildcards = random.pick(&[0, 10, 50, 100]);
        let mut tasks = Vec::new();
        for message in &plan.messages {
            let errand = plan.errands_of(message).map(|errands| errands.errand(message.id));
            if message.source == me && errand.is_none_or(|errand| errand.cause.is_none()) {
                tasks.push(Task::Send(message.id));
            }
            if message.target == me && plan.fate(message) != Fate::Consumed {
                tasks.push(receive_for(message, wildcards, &mut random));
            }
        }
        let others = |random: &mut Random| random.small(0, plan.size - 1);
        for _ in 0..random.between(0, 6) {
            let to = others(&mut random);
            tasks.push(match random.below(6) {
                0 => Task::PutOutside { to },
                1 if random.percent(50) => Task::ReceiveLate { from: to },
                1 => Task::SendAndCancel {
                    to,
                    len: random.pick(&[0, 100, LATE_BYTES]),
                    at_once: random.percent(50),
                },
                2 | 3 => Task::Put { to, len: random.between(0, AREA_BYTES) },
                4 => Task::Accumulate { to, value: random.between(1, 1000) },
                _ => Task::Increment { to },
            });
        }
        random.shuffle(&mut tasks);
        // Collectives may start in any order: their instances tell them apart.
        for index in 0..plan.collectives.len() {
            let at = random.below(tasks.len() as u64 + 1);
            let task = Task::Collective(u16::try_from(index).expect("few collectives"));
            tasks.insert(usize::try_from(at).expect("an index"), task);
        }
        if plan.errands.is_some() {
            // Sometimes messages arrive before the module is loaded.
            let at = if random.percent(30) { random.below(tasks.len() as u64 + 1) } else { 0 };
            tasks.insert(usize::try_from(at).expect("an index"), Task::Load);
        }
        tasks
    }

    fn world<V: Variant>(&self, trace: Option<Trace>) -> World<V, Script> {
        let random = Random::new(self.seed).split(7);
        let scripts = self.tasks.iter().zip(0..).map(|(tasks, me)| {
            Script::new(me, Rc::clone(&self.plan), tasks.clone(), random.split(me.into()))
        });
        let mut world = World::new(self.seed, self.fabric.clone(), &self.limits, scripts);
        world.rules.clone_from(&self.rules);
        world.detection_ns = self.detection_ns;
        world.refused_percent = self.refused_percent;
        world.trace = trace;
        for &(at, rank) in &self.kills {
            world.kill_at(at, rank);
        }
        for &(at, rank) in &self.vanishing {
            world.vanish_at(at, rank);
        }
        for &Forged { at, from, to, via, kind } in &self.forged {
            world.forge_at(at, from, to, via, kind);
        }
        for &(from, until, rank) in &self.stops {
            world.stop_between(from, until, rank);
        }
        world
    }

    fn ranks(&self) -> impl Iterator<Item = Peer> + use<> {
        (0..self.plan.size).map(Peer)
    }

    fn someone_dies(&self) -> bool {
        !self.kills.is_empty() || !self.vanishing.is_empty()
    }

    /// The time by which all ranks must have finished.
    fn bound_ns(&self) -> u64 {
        120_000_000_000 + self.paused_ns
    }

    fn describe(&self) -> String {
        let mut parts = vec![
            format!("{} ranks", self.plan.size),
            format!("{} per node", self.fabric.ranks_per_node),
            format!("{} messages", self.plan.messages.len()),
            format!("{} collectives", self.plan.collectives.len()),
            format!("budget {} bytes", self.limits.unexpected_bytes_max),
            format!("eager {} bytes", self.limits.eager_bytes_max),
        ];
        if self.plan.errands.is_some() {
            let Limits { module_bytes_max, module_sends_max, module_kept_bytes_max, .. } =
                self.limits;
            parts.push(format!(
                "modules take {module_bytes_max} bytes, send {module_sends_max}, \
                 keep {module_kept_bytes_max} bytes"
            ));
        }
        if self.fabric.remote.promises.reliable {
            parts.push("all rails reliable".into());
        }
        if self.refused_percent > 0 {
            parts.push(format!("{}% of puts and gets are refused", self.refused_percent));
        }
        parts.extend(self.rules.iter().map(|rule| rule.to_string()));
        parts.extend(
            self.kills.iter().map(|(at, rank)| format!("rank {} dies at {} us", rank.0, at / 1000)),
        );
        parts.extend(
            self.vanishing
                .iter()
                .map(|(at, rank)| format!("rank {} falls silent at {} us", rank.0, at / 1000)),
        );
        parts.extend(self.stops.iter().map(|(from, until, rank)| {
            format!("rank {} stopped from {} to {} us", rank.0, from / 1000, until / 1000)
        }));
        parts.join(", ")
    }
}

/// Number of pauses, in scenarios with pauses.
const PAUSES: u64 = 4;

fn plan(size: u32, random: &mut Random) -> Plan {
    let groups = u16::try_from(random.between(1, 3)).expect("few groups");
    let count = random.between(1, 40) * u64::from(size).min(24);
    let tags = random.pick(&[1, 2, 5]);
    let pairs = random.pick(&[2, size, size]);
    let longest = random.pick(&[64, 3000, LONGEST]);
    let messages = (0..count).map(|id| {
        let len = match random.below(6) {
            0 => 0,
            1 => random.between(1, 7),
            2 | 3 => random.between(8, 200),
            _ => random.between(8, longest),
        };
        Message {
            id,
            source: random.small(0, pairs - 1),
            target: random.small(0, pairs - 1),
            group: u16::try_from(random.below(groups.into())).expect("a group"),
            tag: match len < 8 {
                true => 1000 + u32::try_from(id).expect("few messages"),
                false => random.small(0, tags - 1),
            },
            len,
            mode: random.pick(&[Mode::Standard, Mode::Standard, Mode::Synchronous, Mode::Ready]),
            needs: 0,
        }
    });
    let alone = |message: Message| Message { needs: ranks([message.source]), ..message };
    let messages = messages.map(alone).collect();
    let block_bytes = [0, 5, 300, if size <= 16 { 3000 } else { 300 }];
    let collectives = (0..random.below(12)).map(|_| match random.below(8) {
        0 => Collective::Barrier,
        1 => Collective::Broadcast {
            root: random.small(0, size - 1),
            len: random.pick(&[0, 8, 100, 3000]),
        },
        2 => Collective::Reduce {
            root: random.small(0, size - 1),
            numbers: random.pick(&[1, 4, 300]),
            later: random.percent(30),
        },
        3 => Collective::Allreduce { numbers: random.pick(&[1, 4, 300, 3000]) },
        4 => Collective::Gather { root: random.small(0, size - 1), len: random.pick(&block_bytes) },
        5 => {
            Collective::Scatter { root: random.small(0, size - 1), len: random.pick(&block_bytes) }
        }
        6 => Collective::Allgather { len: random.pick(&block_bytes) },
        _ => Collective::Alltoall { len: random.pick(&block_bytes) },
    });
    let (collectives, awaits) = (collectives.collect(), random.percent(50));
    Plan { size, groups, messages, collectives, errands: None, awaits }
}

/// Gives every rank a module, with bounds of all sizes.
fn add_modules(plan: &mut Plan, limits: &mut Limits, someone_dies: bool, random: &mut Random) {
    limits.module_bytes_max = random.pick(&[16, 300, 4096, 64 << 10]);
    limits.module_sends_max = random.pick(&[1, 3, 64]);
    // Messages of dead ranks may arrive when no rank receives them any more. A module with little room would wait for a
    // receiver for ever.
    let little = !someone_dies && random.percent(50);
    let kept = if little { random.pick(&[0, 300, 5000]) } else { u32::MAX };
    limits.module_kept_bytes_max = kept;
    // The fate of a message must not depend on earlier ones, or the oracle could not predict it.
    limits.module_traps_max = u32::MAX;
    let first = plan.messages.len() as u64;
    let (messages, errands) = Errands::plan(plan.size, first, plan.module_group(), limits, random);
    plan.messages.extend(messages);
    plan.errands = Some(Arc::new(errands));
}

fn receive_for(message: &Message, wildcards: u64, random: &mut Random) -> Task {
    let mask = match random.percent(wildcards) {
        false => Mask::EXACT,
        true => random.pick(&[Mask::ANY_SOURCE, Mask::ANY_TAG, Mask::ANY_BOTH]),
    };
    let word = message.word();
    if random.percent(10) {
        return Task::Take { word, mask };
    }
    // Some are too short for their message, but long enough to identify it.
    let room = if random.percent(10) { random.between(8, 100) } else { LONGEST };
    Task::Receive { word, mask, room }
}

fn check_finished<V: Variant>(world: &World<V, Script>, violations: &mut Vec<String>) {
    for rank in (0..world.size()).map(Peer).filter(|&rank| !world.is_dead(rank)) {
        let script = world.application(rank);
        if !script.is_finished() {
            violations.push(format!("rank {} is stuck: {}", rank.0, script.unfinished()));
        }
        for &dead in script.believed_dead() {
            if !world.is_dead(Peer(dead)) {
                violations.push(format!("rank {} believes that {dead} is dead", rank.0));
            }
        }
    }
}

/// MPI 5.0 section 3.5: if a receive got a message, every earlier message of the same source and group that it would
/// have matched has gone to an earlier receive.
fn check_order<V: Variant>(plan: &Plan, world: &World<V, Script>, violations: &mut Vec<String>) {
    let ranks = || (0..world.size()).map(Peer);
    let message = |id: u64| &plan.messages[usize::try_from(id).expect("an index")];
    let mut sent: BTreeMap<_, Vec<&Message>> = BTreeMap::new();
    for rank in ranks() {
        let script = world.application(rank);
        let by_module = &script.log.lock().unwrap_or_else(PoisonError::into_inner).sent;
        for message in script.sent.iter().chain(by_module).map(|&id| message(id)) {
            if plan.fate(message) != Fate::Consumed {
                sent.entry(line_of(plan, message)).or_default().push(message);
            }
        }
    }
    let dead = dead(world);
    for rank in ranks().filter(|&rank| !world.is_dead(rank)) {
        let matches = &world.application(rank).matches;
        let mut order_of = BTreeMap::new();
        for found in matches {
            if order_of.insert(found.message, found.order).is_some() {
                violations.push(format!("message {} arrived twice", found.message));
            }
        }
        for found in matches {
            let message = message(found.message);
            if message.needs & dead != 0 {
                continue;
            }
            let line = &sent[&line_of(plan, message)];
            let earlier = line.iter().take_while(|earlier| earlier.id != message.id);
            let earlier = earlier.filter(|earlier| earlier.needs & dead == 0);
            for earlier in earlier.filter(|m| m.word().agrees(found.word, found.mask)) {
                if order_of.get(&earlier.id).is_none_or(|&order| order > found.order) {
                    violations.push(format!(
                        "rank {}: message {} overtook {} from {}",
                        rank.0, message.id, earlier.id, message.source
                    ));
                }
            }
        }
    }
}

/// What messages that keep their order have in common: sender, group, and route.
fn line_of<'a>(plan: &'a Plan, message: &Message) -> (u32, u16, u32, bool, &'a [u32]) {
    let errand = plan.errands_of(message).map(|errands| errands.errand(message.id));
    let (by_module, route) =
        errand.map_or((false, &[][..]), |errand| (errand.cause.is_some(), &errand.route));
    (message.source, message.group, message.target, by_module, route)
}

fn dead<V: Variant>(world: &World<V, Script>) -> Ranks {
    ranks((0..world.size()).filter(|&rank| world.is_dead(Peer(rank))))
}

/// Checks that modules have seen and done what was planned, and that nothing is left of them.
fn check_modules<V: Variant>(
    scenario: &Scenario,
    world: &mut World<V, Script>,
    violations: &mut Vec<String>,
) {
    let Some(errands) = &scenario.plan.errands else { return };
    let dead = dead(world);
    let logs: Vec<Log> = scenario.ranks().map(|rank| log(world, rank)).collect();
    errands.check_seen(&logs, dead, violations);
    for rank in scenario.ranks().filter(|&rank| dead & ranks([rank.0]) == 0) {
        let log = &logs[rank.0 as usize];
        for (counter, &raised) in (0..).zip(&log.raised) {
            let found = world.act(rank, |_, context| {
                let counter = context.nic.module_counter(errands.group, counter);
                counter.map(|counter| context.nic.counter(counter))
            });
            if found != Some(raised) {
                violations.push(format!(
                    "rank {}: counter {counter} of its module is {found:?}, not {raised}",
                    rank.0
                ));
            }
        }
        let stats = world.nic(rank).module_stats(errands.group).unwrap_or_default();
        if let Some(what) = errands.check_stats(rank.0, log, &stats, dead) {
            violations.push(format!("rank {}: {what}", rank.0));
        }
        world.act(rank, |_, context| context.nic.unload(errands.group, context.port));
        world.run_until_quiet();
        let claimed = world.claimed(rank);
        if claimed > OUTBOXES {
            violations.push(format!("rank {} has {claimed} spans claimed", rank.0));
        }
    }
}

/// Spans that a NIC keeps for the next message of a module.
const OUTBOXES: u32 = 3;

fn log<V: Variant>(world: &World<V, Script>, rank: Peer) -> Log {
    world.application(rank).log.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Checks that one-sided operations happened exactly once; those of dead ranks, at most once.
fn check_effects<V: Variant>(
    scenario: &Scenario,
    world: &World<V, Script>,
    violations: &mut Vec<String>,
) {
    for target in scenario.ranks().filter(|&rank| !world.is_dead(rank)) {
        let [sum, number, counter] = world.application(target).changed(world);
        let mut asked = [0; 3];
        let mut done = [0; 3];
        for origin in scenario.ranks() {
            let Some(effects) = world.application(origin).effects.get(&target.0) else { continue };
            let kinds = [effects.added, effects.incremented, effects.notified];
            for (kind, [wanted, known]) in kinds.into_iter().enumerate() {
                asked[kind] += wanted;
                done[kind] += known;
            }
        }
        let fetched =
            scenario.ranks().filter_map(|origin| world.application(origin).fetched.get(&target.0));
        let mut fetched: Vec<[u64; 2]> = fetched.flatten().copied().collect();
        fetched.sort_unstable();
        // Fetches that nothing came in between have seen sums that do not overlap, up to the last.
        let ends = fetched.iter().skip(1).map(|&[before, _]| before).chain([sum]);
        if let Some(([before, after], end)) =
            fetched.iter().zip(ends).find(|&(&[_, after], end)| after > end)
        {
            violations.push(format!(
                "rank {}: a fetch has made {after} of {before}, but the next found {end}",
                target.0
            ));
        }
        let names = ["sum", "number", "counter"];
        for (kind, found) in [sum, number, counter].into_iter().enumerate() {
            if !(done[kind]..=asked[kind]).contains(&found) {
                violations.push(format!(
                    "rank {}: its {} is {found}, not {} to {}",
                    target.0, names[kind], done[kind], asked[kind]
                ));
            }
        }
    }
}

/// Checks that a cancelled message was not received, and that one that could not be cancelled was received once.
fn check_cancelled<V: Variant>(
    scenario: &Scenario,
    world: &World<V, Script>,
    violations: &mut Vec<String>,
) {
    let alive: Vec<Peer> = scenario.ranks().filter(|&rank| !world.is_dead(rank)).collect();
    for (&from, &to) in alive.iter().flat_map(|from| alive.iter().map(move |to| (from, to))) {
        let count =
            |counts: &BTreeMap<u32, u64>, rank: Peer| counts.get(&rank.0).copied().unwrap_or(0);
        let kept = count(&world.application(from).not_withdrawn, to);
        let got = count(&world.application(to).got_late, from);
        if kept != got {
            violations.push(format!(
                "rank {} has sent {kept} messages to rank {} that it could not take back, and {got} have come",
                from.0, to.0
            ));
        }
    }
}

fn cover<V: Variant>(scenario: &Scenario, world: &World<V, Script>) -> Coverage {
    let mut coverage = Coverage {
        collectives: scenario.plan.collectives.len() as u64,
        killed: scenario.ranks().filter(|&rank| world.is_dead(rank)).count() as u64,
        vanished: scenario.vanishing.len() as u64,
        ..Coverage::default()
    };
    for rank in scenario.ranks() {
        let stats = world.nic(rank).stats();
        let script = world.application(rank);
        coverage.messages += script.matches.len() as u64;
        coverage.retries += stats.retries;
        coverage.repeats += stats.repeats;
        coverage.unexpected += stats.unexpected;
        coverage.refused += stats.refused;
        coverage.invited += stats.invited;
        coverage.withdrawn += script.withdrawn;
        coverage.downs += stats.downs;
        coverage.forgotten += stats.forgotten;
        let modules = scenario.plan.errands.as_ref();
        let modules = modules.and_then(|errands| world.nic(rank).module_stats(errands.group));
        let modules = modules.unwrap_or_default();
        coverage.module_runs += modules.messages;
        coverage.module_sends += modules.sent;
        coverage.module_traps += modules.faults;
        coverage.module_stalls += modules.stalls;
    }
    coverage
}
