//! Windows in the soak: random epochs and accesses under random faults, against a sequential model.
//!
//! The oracles: after each round, a window has what the model has; an access finds what the rules of its epoch demand;
//! sums fetched from a cell are those of some order of all additions; no update under an exclusive lock is lost or seen
//! in part. After a death every rank finishes or stops, each word has a value that somebody wrote there, and nothing
//! that is known to be complete is missing.

pub mod lock;
pub mod plan;
pub mod program;

use std::collections::BTreeSet;
use std::rc::Rc;

use ferrywire_nic::{Limits, Peer, Span, Variant};

use crate::audit;
use crate::conditions;
use crate::fabric::{Fabric, Rule};
use crate::random::Random;
use crate::world::{Trace, World};
use plan::{Accessing, CELLS_AT, Cell, WORD_BYTES, WindowPlan};
use program::{FetchedSum, GROUP, LOCK, WINDOW, WindowProgram};

/// The result of a world with windows.
pub(crate) struct WindowResult {
    pub(crate) scenario: String,
    pub(crate) violations: Vec<String>,
    pub(crate) events: u64,
    pub(crate) virtual_ns: u64,
    /// Accesses that are complete.
    pub(crate) accesses: u64,
    /// Locks that were taken.
    pub(crate) locks: u64,
    /// Locks that were asked for again.
    pub(crate) retried_locks: u64,
}

/// Runs the world with windows that belongs to a seed, if it has one. Its randomness is separate from that of the
/// seed's other world.
pub(crate) fn run<V: Variant>(seed: u64, trace: Option<Trace>) -> Option<WindowResult> {
    let root = Random::new(seed).split(14);
    if !root.split(1).percent(SEEDS_PERCENT) {
        return None;
    }
    let scenario = WindowScenario::new(&root);
    let mut world: World<V, WindowProgram> = scenario.world(root.split(2).any());
    world.trace = trace;
    let mut violations = audit::run(&mut world, BOUND_NS);
    if violations.is_empty() {
        check_finished(&world, &mut violations);
    }
    if violations.is_empty() {
        audit::drain(&[GROUP], scenario.someone_dies(), &mut world, &mut violations);
        check_fetches(&world, &mut violations);
        match scenario.someone_dies() {
            false => check_locks(&mut world, &mut violations),
            true => check_survivors(&scenario.plan, &world, &mut violations),
        }
        audit::check_leaks(&world, &mut violations);
        audit::check_credit(&scenario.limits, &world, &mut violations);
    }
    let programs: Vec<&WindowProgram> = ranks(&world).map(|rank| world.application(rank)).collect();
    violations.extend(programs.iter().flat_map(|program| program.complaints.clone()));
    let count = |of: fn(&WindowProgram) -> u64| programs.iter().map(|program| of(program)).sum();
    let (accesses, locks) = (count(|program| program.completed.len() as u64), count(|p| p.locks));
    let retried_locks = count(|program| program.retried_locks);
    violations.append(&mut world.complaints);
    Some(WindowResult {
        scenario: scenario.describe(),
        violations,
        events: world.handled(),
        virtual_ns: world.now().0,
        accesses,
        locks,
        retried_locks,
    })
}

/// How many of a hundred seeds have windows.
const SEEDS_PERCENT: u64 = 50;

/// The time by which all ranks must have finished.
const BOUND_NS: u64 = 120_000_000_000;

/// Everything that a seed decides for windows.
struct WindowScenario {
    plan: Rc<WindowPlan>,
    fabric: Fabric,
    limits: Limits,
    rules: Vec<Rule>,
    kills: Vec<(u64, Peer)>,
    vanishing: Vec<(u64, Peer)>,
    detection_ns: u64,
}

impl WindowScenario {
    fn new(root: &Random) -> WindowScenario {
        let mut random = root.split(3);
        let size = random.pick(&[1, 2, 2, 3, 4, 5, 8]);
        let mut fabric = conditions::fabric(size, &mut root.split(4));
        conditions::make_reliable(&mut fabric.remote.promises, &mut root.split(5));
        WindowScenario {
            plan: Rc::new(WindowPlan::new(size, &mut root.split(6))),
            limits: conditions::limits(&mut root.split(7)),
            rules: if size > 1 { conditions::rules(size, &mut root.split(8)) } else { Vec::new() },
            kills: conditions::kills(size, &mut root.split(9)),
            vanishing: conditions::vanishing(size, fabric.ranks_per_node, &mut root.split(10)),
            fabric,
            detection_ns: random.between(10_000, 50_000_000),
        }
    }

    fn someone_dies(&self) -> bool {
        !self.kills.is_empty() || !self.vanishing.is_empty()
    }

    fn world<V: Variant>(&self, seed: u64) -> World<V, WindowProgram> {
        let programs = (0..self.plan.size).map(|me| WindowProgram::new(me, Rc::clone(&self.plan)));
        let mut world = World::new(seed, self.fabric.clone(), &self.limits, programs);
        world.rules.clone_from(&self.rules);
        world.detection_ns = self.detection_ns;
        for &(at, rank) in &self.kills {
            world.kill_at(at, rank);
        }
        for &(at, rank) in &self.vanishing {
            world.vanish_at(at, rank);
        }
        world
    }

    fn describe(&self) -> String {
        let mut parts = vec![
            format!("windows of {} ranks", self.plan.size),
            format!("{} per node", self.fabric.ranks_per_node),
            format!("{} accesses", self.plan.accesses.len()),
        ];
        parts.extend(self.rules.iter().map(|rule| rule.to_string()));
        let deaths = self.kills.iter().chain(&self.vanishing);
        parts.extend(deaths.map(|(at, rank)| format!("rank {} dies at {} us", rank.0, at / 1000)));
        parts.join(", ")
    }
}

fn ranks<V: Variant>(world: &World<V, WindowProgram>) -> impl Iterator<Item = Peer> + use<V> {
    (0..world.size()).map(Peer)
}

fn check_finished<V: Variant>(world: &World<V, WindowProgram>, violations: &mut Vec<String>) {
    for rank in ranks(world).filter(|&rank| !world.is_dead(rank)) {
        let program = world.application(rank);
        if !program.is_finished() {
            violations.push(format!("rank {} is stuck: {}", rank.0, program.unfinished()));
        }
        for &dead in program.believed_dead() {
            if !world.is_dead(Peer(dead)) {
                violations.push(format!("rank {} believes that {dead} is dead", rank.0));
            }
        }
    }
}

/// Checks that the sums fetched from each cell are those of some order: none overlaps the next.
fn check_fetches<V: Variant>(world: &World<V, WindowProgram>, violations: &mut Vec<String>) {
    let fetched = ranks(world).flat_map(|rank| world.application(rank).fetched.clone());
    let mut fetched: Vec<FetchedSum> = fetched.collect();
    fetched.sort_unstable();
    for pair in fetched.windows(2) {
        let [one, next] = [pair[0], pair[1]];
        if (one.target, one.cell) == (next.target, next.cell) && one.after > next.before {
            violations.push(format!("{one:?}, and the next found {}", next.before));
        }
    }
}

/// Checks that all locks are free.
fn check_locks<V: Variant>(world: &mut World<V, WindowProgram>, violations: &mut Vec<String>) {
    for rank in ranks(world) {
        if !world.act(rank, |_, context| context.port.locks[&LOCK].is_free()) {
            violations.push(format!("the lock of rank {} is still held", rank.0));
        }
    }
}

/// Checks the windows of those that live after a death.
fn check_survivors<V: Variant>(
    plan: &WindowPlan,
    world: &World<V, WindowProgram>,
    violations: &mut Vec<String>,
) {
    let of_all = |set: fn(&WindowProgram) -> &BTreeSet<usize>| -> BTreeSet<usize> {
        ranks(world).flat_map(|rank| set(world.application(rank)).iter().copied()).collect()
    };
    let (asked, completed) = (of_all(|p| &p.asked), of_all(|p| &p.completed));
    for target in ranks(world).filter(|&rank| !world.is_dead(rank)) {
        let memory = world.memory(target);
        // What each word may be, and the least and the most that cells and the record may be: an access that was asked
        // for may have happened, and one that is complete has.
        let mut model = plan.model(target.0, 0).clone();
        let mut words: Vec<Vec<u64>> = words_of(&model.blocks).map(|word| vec![word]).collect();
        let mut least = model.clone();
        let accesses = plan.accesses.iter().enumerate();
        for (index, access) in accesses.filter(|(_, access)| access.target == target.0) {
            if !asked.contains(&index) {
                continue;
            }
            model.apply(&access.what);
            let complete = completed.contains(&index);
            if complete {
                least.apply(&access.what);
            }
            let Some(touched) = words_touched(&access.what) else { continue };
            let values = words_of(&model.blocks).enumerate();
            for (word, value) in values.skip(touched.start).take(touched.len()) {
                if complete {
                    words[word].clear();
                }
                words[word].push(value);
            }
        }
        let blocks = memory.bytes(Span::new(WINDOW, 0, CELLS_AT));
        for ((at, found), allowed) in words_of(blocks).enumerate().zip(&words) {
            if !allowed.contains(&found) {
                violations.push(format!(
                    "rank {}: word {at} is {found}, not one of {allowed:?}",
                    target.0
                ));
            }
        }
        for cell in Cell::all() {
            let allowed = least.cells[cell.index()]..=model.cells[cell.index()];
            let found = program::cell_value(memory, cell);
            if !found.is_some_and(|found| allowed.contains(&found)) {
                violations
                    .push(format!("rank {}: {cell:?} is {found:?}, not in {allowed:?}", target.0));
            }
        }
        // A rank that died while it wrote the record has left a part of it as it was, and the lock.
        let record = program::record(memory);
        let allowed = least.record..=model.record;
        let span = record.iter().max().zip(record.iter().min());
        let torn = span.is_some_and(|(most, least)| most - least > 1);
        if torn || record.iter().any(|found| !allowed.contains(found)) {
            violations
                .push(format!("rank {}: its record is {record:?}, not in {allowed:?}", target.0));
        }
    }
}

fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(program::number)
}

/// The words of the blocks that an access writes to.
fn words_touched(what: &Accessing) -> Option<std::ops::Range<usize>> {
    let (at, len) = match what {
        Accessing::Put { at, bytes }
        | Accessing::Accumulate { at, bytes, .. }
        | Accessing::Fetch { at, bytes, .. } => (*at, bytes.len() as u64),
        Accessing::Swap { at, width, .. } => (*at, *width),
        _ => return None,
    };
    let word = |at: u64| usize::try_from(at / WORD_BYTES).expect("a small window");
    Some(word(at)..word(at + len - 1) + 1)
}
