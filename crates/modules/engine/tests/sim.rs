//! The example modules in the simulator: the same bytes on simulated ranks, on lossless rails and on rails that lose,
//! repeat and reorder, and among ranks that die.
#![allow(missing_docs)]

mod support;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use ferrywire_modules::{Budget, Code, Engine};
use ferrywire_mpi::comm::Comm;
use ferrywire_mpi::group::Group;
use ferrywire_nic::{
    Fault, Limits, Mode, ModuleStats, Outcome, Peer, Posted, Promises, RailId, Span, Standard,
    Ticket, Trap,
};
use ferrywire_sim::fabric::{Costs, Fabric, Link, Rule};
use ferrywire_sim::random::Random;
use ferrywire_sim::world::{Application, Context, World};
use support::example::histogram::{self, What};
use support::example::{code, echo_as_text, pattern, queue, seeds, sum_of_tree, table};

/// In one frame, by rendezvous in chunks, and the longest.
const LENGTHS: [usize; 6] = [1, 7, 199, 201, 3000, 64 << 10];

/// The kind of rail.
#[derive(Clone, Copy, Debug)]
enum Rail {
    /// Loses nothing, and is soon full.
    Ring,
    /// Loses, repeats and delays.
    Rough,
}

const RAILS: [Rail; 2] = [Rail::Ring, Rail::Rough];

/// An application that does nothing but record completions.
#[derive(Default)]
struct Diary {
    told: HashMap<Ticket, Outcome>,
}

impl Application<Standard> for Diary {
    fn on_wake(&mut self, _: &mut Context<'_, Standard>) {}

    fn on_complete(&mut self, ticket: Ticket, outcome: Outcome, _: &mut Context<'_, Standard>) {
        let before = self.told.insert(ticket, outcome);
        assert_eq!(before, None, "{ticket} is told twice");
    }

    fn on_peer_down(&mut self, _: Peer, _: &mut Context<'_, Standard>) {}
}

/// Ranks with a module on a communicator, and the name of the run for messages.
struct Ranks {
    world: World<Standard, Diary>,
    comms: Vec<Comm>,
    random: Random,
    name: String,
    receives: Vec<Receive>,
}

/// A receive, by its number.
#[derive(Clone, Copy)]
struct Receive {
    rank: u32,
    posted: Posted,
    into: Span,
}

impl Ranks {
    fn new(rail: Rail, ranks: u32, seed: u64, code: &Code) -> Ranks {
        let promises = Promises {
            rail: RailId(0),
            reliable: matches!(rail, Rail::Ring),
            may_vanish: !matches!(rail, Rail::Ring),
            puts: false,
            gets: false,
            frame_bytes_max: 1500,
            burst_frames_max: 1,
            initial_credit_bytes: 0,
        };
        let link = Link { promises, latency_ns: 1000, byte_ps: 100 };
        let fabric = Fabric {
            ranks_per_node: 1,
            local: link,
            remote: link,
            costs: Costs { event_ns: 50, frame_ns: 50, byte_ps: 100 },
            ring_frames_max: matches!(rail, Rail::Ring).then_some(4),
        };
        let limits = Limits { eager_bytes_max: 200, ..Limits::default() };
        let mut world = World::new(
            seed << 8 | u64::from(ranks),
            fabric,
            &limits,
            (0..ranks).map(|_| Diary::default()),
        );
        world.rules = vec![
            Rule::Lose { percent: 10 },
            Rule::Repeat { percent: 10, within_ns: 100_000 },
            Rule::Reorder { percent: 20, by_ns: 20_000 },
        ];
        let comm = |rank| Comm::new(Group::whole(ranks), rank, 3).with_module();
        let name = format!("SEED={seed}, {ranks} ranks, {rail:?}");
        let comms = (0..ranks).map(comm).collect();
        let random = Random::new(seed).split(ranks.into());
        let mut ranks = Ranks { world, comms, random, name, receives: Vec::new() };
        ranks.load(code);
        ranks
    }

    /// Loads an instance on every rank.
    fn load(&mut self, code: &Code) {
        for rank in self.all() {
            let (group, placement) = self.comms[rank as usize].module_place();
            let module = Box::new(code.start().expect("the examples are good"));
            self.world.act(Peer(rank), |_, context| {
                context.nic.load(group, module, placement, context.port);
            });
        }
    }

    fn all(&self) -> std::ops::Range<u32> {
        0..self.world.size()
    }

    fn living(&self) -> Vec<u32> {
        self.all().filter(|&rank| !self.world.is_dead(Peer(rank))).collect()
    }

    /// Performs a few events, or none.
    fn pass_time(&mut self) {
        if self.random.percent(40) {
            for _ in 0..self.random.below(30) {
                self.world.step();
            }
        }
    }

    fn send(&mut self, from: u32, to: u32, tag: u32, bytes: &[u8]) {
        let (peer, word) = self.comms[from as usize].address(to, tag);
        if self.world.is_dead(Peer(from)) {
            return;
        }
        self.world.act(Peer(from), |_, context| {
            let region = context.port.memory.lend(bytes.to_vec());
            let source = Span::new(region, 0, bytes.len() as u64);
            context.nic.post_send(peer, word, source, Mode::Standard, context.port);
        });
        self.pass_time();
    }

    /// Posts a receive. None stands for any.
    fn receive(&mut self, rank: u32, from: Option<u32>, tag: Option<u32>, room: usize) -> usize {
        let wanted = self.comms[rank as usize].wanted(from, tag);
        let (posted, into) = self.world.act(Peer(rank), |_, context| {
            let into = context.port.memory.lend_filled(room as u64, 0);
            let (nic, port) = (&mut *context.nic, &mut *context.port);
            (nic.post_receive(wanted.from, wanted.word, wanted.mask, into, port), into)
        });
        self.receives.push(Receive { rank, posted, into });
        self.receives.len() - 1
    }

    /// Posts the receive of an answer, and sends the request.
    fn ask(&mut self, rank: u32, to: u32, tag: u32, bytes: &[u8], room: usize) -> usize {
        let receive = self.receive(rank, Some(to), Some(tag + 1), room);
        self.send(rank, to, tag, bytes);
        receive
    }

    /// The outcome of a receive. None if it is pending.
    fn outcome(&self, receive: usize) -> Option<Outcome> {
        let Receive { rank, posted, .. } = self.receives[receive];
        match posted {
            Posted::Done(outcome) => Some(outcome),
            Posted::Pending(ticket) => {
                self.world.application(Peer(rank)).told.get(&ticket).copied()
            }
        }
    }

    /// What a receive got, if it has succeeded.
    fn got(&self, receive: usize) -> Option<Vec<u8>> {
        let Receive { rank, into, .. } = self.receives[receive];
        match self.outcome(receive) {
            Some(Outcome::Received(got)) => {
                Some(self.world.memory(Peer(rank)).bytes(into.first(got.len)).to_vec())
            }
            _ => None,
        }
    }

    /// What a receive got; it must have succeeded.
    fn must_get(&self, receive: usize) -> Vec<u8> {
        let outcome = self.outcome(receive);
        self.got(receive).unwrap_or_else(|| panic!("{}: {outcome:?}", self.name))
    }

    fn tag_of(&self, receive: usize) -> u32 {
        let Some(Outcome::Received(got)) = self.outcome(receive) else { panic!("{}", self.name) };
        got.word.tag()
    }

    fn stats(&self, rank: u32) -> ModuleStats {
        let (group, _) = self.comms[rank as usize].module_place();
        self.world.nic(Peer(rank)).module_stats(group).expect("it is loaded")
    }

    /// A receive from a rank fails when that rank is known to be dead, and some of its messages may arrive later:
    /// forwarded by others, or from the module's queue. Nothing else may be left.
    fn receive_from_the_dead(&mut self) {
        self.world.run_until_quiet();
        for rank in self.living() {
            let wanted = self.comms[rank as usize].wanted(None, None);
            while let Some(seen) = self.world.act(Peer(rank), |_, context| {
                context.nic.probe(wanted.word, wanted.mask, context.port)
            }) {
                let source = Peer(seen.word.source());
                assert!(self.world.is_dead(source), "{}: one too many: {seen:?}", self.name);
                let receive = self.receive(rank, None, None, 64 << 10);
                self.world.run_until_quiet();
                self.must_get(receive);
            }
        }
    }

    /// Waits for everything, cancels receives that no longer matter, unloads, and checks that nothing is left.
    fn unload(mut self) {
        self.world.run_until_quiet();
        for receive in 0..self.receives.len() {
            let Receive { rank, posted, .. } = self.receives[receive];
            if let (None, Posted::Pending(ticket)) = (self.outcome(receive), posted)
                && !self.world.is_dead(Peer(rank))
            {
                self.world.act(Peer(rank), |_, context| context.nic.cancel(ticket, context.port));
            }
        }
        self.receive_from_the_dead();
        for rank in self.living() {
            let (group, _) = self.comms[rank as usize].module_place();
            let module =
                self.world.act(Peer(rank), |_, context| context.nic.unload(group, context.port));
            assert!(module.is_some(), "{}", self.name);
        }
        self.world.run_until_quiet();
        for rank in self.living() {
            let holds = self.world.nic(Peer(rank)).holdings();
            let left = [holds.tickets, holds.runs, holds.posted, holds.unexpected, holds.timers];
            assert_eq!(left, [0; 5], "{} rank {rank}: {holds:?}", self.name);
            let left = [holds.kept, holds.backlog, holds.early_bytes];
            assert_eq!(left, [0; 3], "{} rank {rank}: {holds:?}", self.name);
            assert!(holds.stores.iter().all(|store| store.used == 0), "{}", self.name);
        }
    }
}

/// An example, compiled once for all worlds of a test.
fn compiled(name: &'static str) -> Option<Code> {
    Some(compile(&code(name)?))
}

fn compile(bytes: &[u8]) -> Code {
    let engine = Engine::open(|_| None).expect("the build put it here");
    engine.compile(bytes, &Budget::default()).expect("the examples are good")
}

/// Runs a test in worlds of all sizes, on both rails.
fn in_worlds(code: &Code, sizes: &[u32], runs: u64, test: impl Fn(Ranks)) {
    for seed in seeds(runs) {
        for rail in RAILS {
            for &size in sizes {
                test(Ranks::new(rail, size, seed, code));
            }
        }
    }
}

// Loading and unloading.

/// Messages that are in flight when a module is unloaded may be lost, but take no more room; later messages wait for
/// the next module.
#[test]
fn a_module_may_go_while_messages_are_on_their_way() {
    let code = compile(&echo_as_text());
    in_worlds(&code, &[1, 2, 4], 10, |mut ranks| {
        let size = ranks.world.size();
        for round in 0..6 {
            for _ in 0..10 {
                let (rank, to) = (ranks.random.small(0, size - 1), ranks.random.small(0, size - 1));
                let len = ranks.random.pick(&LENGTHS);
                ranks.ask(rank, to, 2 * round, &pattern(rank, len), len);
            }
            let (rank, other) = (ranks.random.small(0, size - 1), ranks.random.percent(50));
            let (group, placement) = ranks.comms[rank as usize].module_place();
            let module = Box::new(code.start().expect("it is good"));
            ranks.world.act(Peer(rank), |_, context| {
                let old = match other {
                    true => context.nic.replace(group, module),
                    false => {
                        let old = context.nic.unload(group, context.port);
                        context.nic.load(group, module, placement, context.port);
                        old
                    }
                };
                assert!(old.is_some());
            });
        }
        ranks.world.run_until_quiet();
        for receive in 0..ranks.receives.len() {
            // A later answer may match the receive of one that was lost.
            if let Some(bytes) = ranks.got(receive) {
                let expected = pattern(ranks.receives[receive].rank, bytes.len());
                assert!(bytes == expected, "{}", ranks.name);
            }
        }
        // It works as before.
        let receive = ranks.ask(0, size - 1, 100, b"hello", 5);
        ranks.world.run_until_quiet();
        assert_eq!(ranks.must_get(receive), b"hello", "{}", ranks.name);
        ranks.unload();
    });
}

/// Sixteen bytes that belong to no vector end where they arrive, and the sums of others are exact.
#[test]
fn bad_messages_end_with_a_fault_and_disturb_nobody() {
    let Some(code) = compiled("reduce") else { return };
    in_worlds(&code, &[4, 7], 4, |mut ranks| {
        let size = ranks.world.size();
        let mut bad = Vec::new();
        for number in 0..10 {
            // Seven bytes are not a whole number of doubles.
            let from = ranks.random.small(0, size - 1);
            let tag = 1000 + 2 * number;
            bad.push((ranks.receive(size - 1, None, Some(tag), 7), from, tag));
            ranks.send(from, size - 1, tag, &[0; 7]);
        }
        let receives = reduce_all(&mut ranks);
        for (receive, number) in receives.into_iter().zip(0..) {
            let all: Vec<_> = ranks.all().map(|rank| vector(rank, number)).collect();
            let sum = bytes_of(&sum_of_tree(0, &all));
            assert!(ranks.must_get(receive) == sum, "{} {number}", ranks.name);
        }
        for (receive, from, tag) in bad {
            let outcome = ranks.outcome(receive);
            let Some(Outcome::Failed(Fault::Module { word, trap })) = outcome else {
                panic!("{}: {outcome:?}", ranks.name);
            };
            assert_eq!((word.source(), word.tag(), trap), (from, tag, Trap::Unreachable));
        }
        assert_eq!(ranks.stats(size - 1).faults, 10, "{}", ranks.name);
        ranks.unload();
    });
}

// Broadcast.

/// Whether a broadcast passes `above` on its way to `below`.
fn is_above(root: u32, above: u32, below: u32, size: u32) -> bool {
    let mut at = (below + size - root) % size;
    let above = (above + size - root) % size;
    while at > above {
        at = (at - 1) / 2;
    }
    at == above
}

/// Begins a broadcast from every root; returns the receives, each with its root and its length.
fn broadcast_from_all(ranks: &mut Ranks) -> Vec<(usize, u32, usize)> {
    let mut receives = Vec::new();
    for root in ranks.all() {
        let len = ranks.random.pick(&LENGTHS);
        let late = ranks.random.percent(50);
        if late {
            ranks.send(root, root, root, &pattern(root, len));
        }
        for rank in ranks.all().filter(|&rank| rank != root) {
            if !ranks.world.is_dead(Peer(rank)) {
                let receive = ranks.receive(rank, Some(root), Some(root), len);
                receives.push((receive, root, len));
            }
        }
        if !late {
            ranks.send(root, root, root, &pattern(root, len));
        }
    }
    ranks.world.run_until_quiet();
    receives
}

#[test]
fn a_broadcast_reaches_every_rank_once_from_every_root() {
    let Some(code) = compiled("broadcast") else { return };
    in_worlds(&code, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 20], 4, |mut ranks| {
        let receives = broadcast_from_all(&mut ranks);
        for (receive, root, len) in receives {
            assert!(ranks.must_get(receive) == pattern(root, len), "{} {root}", ranks.name);
        }
        let size = u64::from(ranks.world.size());
        for rank in ranks.all() {
            let stats = ranks.stats(rank);
            assert_eq!((stats.messages, stats.consumed, stats.faults), (size, 1, 0));
        }
        ranks.unload();
    });
}

#[test]
fn a_broadcast_reaches_ranks_that_do_not_depend_on_the_dead() {
    let Some(code) = compiled("broadcast") else { return };
    in_worlds(&code, &[2, 3, 5, 8, 13], 12, |mut ranks| {
        let size = ranks.world.size();
        let dead = ranks.random.small(0, size - 1);
        let when = ranks.random.below(60_000);
        ranks.world.kill_at(when, Peer(dead));
        let receives = broadcast_from_all(&mut ranks);
        assert!(ranks.world.is_dead(Peer(dead)));
        for (receive, root, len) in receives {
            let rank = ranks.receives[receive].rank;
            if rank == dead {
                continue;
            }
            if !is_above(root, dead, rank, size) {
                ranks.must_get(receive);
            }
            if let Some(bytes) = ranks.got(receive) {
                assert!(bytes == pattern(root, len), "{} {root}", ranks.name);
            }
        }
        for rank in ranks.living() {
            assert!(ranks.stats(rank).messages <= size.into(), "{}: one from each", ranks.name);
        }
        ranks.unload();
    });
}

// Echo.

/// Every rank asks every rank; returns the receives, each with its target and its request.
fn everybody_asks_everybody(ranks: &mut Ranks) -> Vec<(usize, u32, Vec<u8>)> {
    let mut receives = Vec::new();
    for number in 0..3 {
        for rank in ranks.all() {
            for to in ranks.all() {
                if ranks.world.is_dead(Peer(rank)) {
                    continue;
                }
                let request = pattern(rank, ranks.random.pick(&LENGTHS));
                let receive = ranks.ask(rank, to, 2 * number, &request, request.len());
                receives.push((receive, to, request));
            }
        }
    }
    ranks.world.run_until_quiet();
    receives
}

fn echo_answers(code: &Code) {
    in_worlds(code, &[1, 2, 3, 6], 3, |mut ranks| {
        for (receive, _, request) in everybody_asks_everybody(&mut ranks) {
            assert!(ranks.must_get(receive) == request, "{}", ranks.name);
        }
        ranks.unload();
    });
    in_worlds(code, &[2, 3, 6], 6, |mut ranks| {
        let size = ranks.world.size();
        let dead = ranks.random.small(0, size - 1);
        let when = ranks.random.below(100_000);
        ranks.world.kill_at(when, Peer(dead));
        for (receive, to, request) in everybody_asks_everybody(&mut ranks) {
            if ranks.receives[receive].rank == dead {
                continue;
            }
            match ranks.got(receive) {
                Some(answer) => assert!(answer == request, "{}", ranks.name),
                None => {
                    let fault = Outcome::Failed(Fault::PeerDown(Peer(dead)));
                    assert_eq!((to, ranks.outcome(receive)), (dead, Some(fault)));
                }
            }
        }
        ranks.unload();
    });
}

#[test]
fn echo_as_text_answers_ranks_that_outlive_others() {
    echo_answers(&compile(&echo_as_text()));
}

#[test]
fn echo_answers_ranks_that_outlive_others() {
    let Some(code) = compiled("echo") else { return };
    echo_answers(&code);
}

// Reduce.

/// As many as a module has rows for.
const PIPELINED: u32 = 32;

fn vector(rank: u32, reduction: u32) -> Vec<f64> {
    let len = [1, 2, 17, 200, 512][(reduction % 5) as usize];
    let element = |at: u32| f64::from(rank + 1) * 0.1 + f64::from(reduction) / 3.0 + f64::from(at);
    (0..len).map(element).collect()
}

fn bytes_of(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Begins as many reductions as possible, each rank in its own order, with ranks interleaved.
fn reduce_all(ranks: &mut Ranks) -> Vec<usize> {
    let receives = (0..PIPELINED)
        .map(|number| ranks.receive(0, Some(0), Some(2 * number + 1), 4096))
        .collect();
    let mut begun: Vec<(u32, u32)> =
        ranks.all().flat_map(|rank| (0..PIPELINED).map(move |number| (rank, number))).collect();
    ranks.random.shuffle(&mut begun);
    for (rank, number) in begun {
        ranks.send(rank, rank, 2 * number, &bytes_of(&vector(rank, number)));
    }
    ranks.world.run_until_quiet();
    receives
}

#[test]
fn sums_are_exact_whoever_comes_first() {
    let Some(code) = compiled("reduce") else { return };
    in_worlds(&code, &[1, 2, 3, 4, 7, 12], 2, |mut ranks| {
        for _ in 0..2 {
            let receives = reduce_all(&mut ranks);
            for (receive, number) in receives.into_iter().zip(0..) {
                let all: Vec<_> = ranks.all().map(|rank| vector(rank, number)).collect();
                let sum = bytes_of(&sum_of_tree(0, &all));
                assert!(ranks.must_get(receive) == sum, "{} {number}", ranks.name);
            }
        }
        for rank in ranks.all() {
            assert_eq!(ranks.stats(rank).faults, 0, "{}", ranks.name);
        }
        ranks.unload();
    });
}

#[test]
fn a_sum_is_exact_or_never_arrives_if_a_rank_dies() {
    let Some(code) = compiled("reduce") else { return };
    in_worlds(&code, &[2, 4, 7], 4, |mut ranks| {
        let (size, when) = (ranks.world.size(), ranks.random.below(300_000));
        let dead = ranks.random.small(1, size - 1);
        ranks.world.kill_at(when, Peer(dead));
        let receives = reduce_all(&mut ranks);
        for (receive, number) in receives.into_iter().zip(0..) {
            let all: Vec<_> = ranks.all().map(|rank| vector(rank, number)).collect();
            if let Some(sum) = ranks.got(receive) {
                assert!(sum == bytes_of(&sum_of_tree(0, &all)), "{} {number}", ranks.name);
            }
        }
        ranks.unload();
    });
}

// Steal.

/// The rank that pushed it, and a number.
type Task = (u32, u32);

/// Random pushes and thefts. Returns the tasks whose push was answered with OK, and those stolen.
fn push_and_steal(ranks: &mut Ranks) -> (HashSet<Task>, Vec<Task>) {
    let size = ranks.world.size();
    let (mut pushes, mut thefts) = (Vec::new(), Vec::new());
    for number in 0..40 * size {
        let (rank, to) = (ranks.random.small(0, size - 1), ranks.random.small(0, size - 1));
        if ranks.world.is_dead(Peer(rank)) {
            continue;
        }
        if ranks.random.percent(50) {
            let task = queue::task(rank, number);
            pushes.push((ranks.ask(rank, to, queue::PUSH, &task, 40), (rank, number)));
        } else {
            // Some thieves are willing to wait.
            let may_wait = u32::from(ranks.random.percent(10)).to_le_bytes();
            thefts.push(ranks.ask(rank, to, queue::STEAL, &may_wait, 40));
        }
    }
    ranks.world.run_until_quiet();
    // Waiting thieves are released; then all queues are emptied.
    for rank in ranks.living() {
        ranks.ask(rank, rank, queue::RELEASE, &[], 40);
    }
    ranks.world.run_until_quiet();
    for rank in ranks.living() {
        for _ in 0..40 * size {
            let theft = ranks.ask(rank, rank, queue::STEAL, &[0; 4], 40);
            ranks.world.run_until_quiet();
            thefts.push(theft);
            let empty = queue::answer(&ranks.must_get(theft)).0 == queue::NONE;
            if empty {
                break;
            }
        }
    }
    let pushed = pushes.into_iter().filter_map(|(push, task)| {
        let (status, ..) = queue::answer(&ranks.got(push)?);
        assert_eq!(status, queue::OK);
        Some(task)
    });
    let stolen =
        thefts.into_iter().filter_map(|theft| queue::answer(&ranks.got(theft)?).2).collect();
    (pushed.collect(), stolen)
}

#[test]
fn each_task_is_stolen_once() {
    let Some(code) = compiled("steal") else { return };
    in_worlds(&code, &[1, 2, 3, 6], 5, |mut ranks| {
        let (pushed, stolen) = push_and_steal(&mut ranks);
        assert_eq!(stolen.len(), pushed.len(), "{}", ranks.name);
        let stolen: HashSet<_> = stolen.into_iter().collect();
        assert_eq!(stolen, pushed, "{}", ranks.name);
        // Each request has one answer.
        let answered = (0..ranks.receives.len()).all(|receive| ranks.got(receive).is_some());
        assert!(answered, "{}", ranks.name);
        ranks.unload();
    });
}

#[test]
fn no_task_is_stolen_twice_if_a_thief_or_a_victim_dies() {
    let Some(code) = compiled("steal") else { return };
    in_worlds(&code, &[2, 3, 6], 6, |mut ranks| {
        let (size, when) = (ranks.world.size(), ranks.random.below(200_000));
        let dead = ranks.random.small(0, size - 1);
        ranks.world.kill_at(when, Peer(dead));
        let (_, stolen) = push_and_steal(&mut ranks);
        let (count, stolen) = (stolen.len(), HashSet::<_>::from_iter(stolen));
        assert_eq!(stolen.len(), count, "{}", ranks.name);
        ranks.unload();
    });
}

// Histogram.

#[test]
fn what_passes_a_histogram_is_counted_once_and_stays_as_it_is() {
    const WATCHED: u32 = 5;
    let Some(code) = compiled("histogram") else { return };
    in_worlds(&code, &[1, 2, 3, 6], 4, |mut ranks| {
        let what = ranks.random.pick(&[What::Lengths, What::Values]);
        let size = ranks.world.size();
        let watch: Vec<u8> =
            histogram::watch(WATCHED, what).into_iter().flat_map(u32::to_le_bytes).collect();
        for rank in ranks.all() {
            let begun = ranks.ask(rank, rank, histogram::WATCH, &watch, 4);
            ranks.world.run_until_quiet();
            assert_eq!(ranks.must_get(begun), [0; 4]);
        }
        let mut counts = vec![[0u64; histogram::COUNTS]; size as usize];
        let mut receives = Vec::new();
        for number in 0..40 {
            for rank in ranks.all() {
                let to = (rank + 1) % size;
                let len = ranks.random.pick(&LENGTHS[..5]);
                let tag = ranks.random.pick(&[4, WATCHED, WATCHED, 6]);
                let bytes = pattern(number, len);
                if tag == WATCHED {
                    counts[to as usize][histogram::place(what, &bytes)] += 1;
                }
                receives.push((ranks.receive(to, Some(rank), None, 4000), tag, bytes.clone()));
                ranks.send(rank, to, tag, &bytes);
            }
        }
        ranks.world.run_until_quiet();
        for (receive, tag, bytes) in receives {
            assert!(ranks.must_get(receive) == bytes, "{}: unchanged, in order", ranks.name);
            assert_eq!(ranks.tag_of(receive), tag, "{}", ranks.name);
        }
        for rank in ranks.all() {
            let asked = (rank + 1) % size;
            let query = ranks.ask(rank, asked, histogram::QUERY, &[], 8 * histogram::COUNTS);
            ranks.world.run_until_quiet();
            let counts = counts[asked as usize].iter().flat_map(|count| count.to_le_bytes());
            assert_eq!(ranks.must_get(query), counts.collect::<Vec<u8>>(), "{}", ranks.name);
        }
        ranks.unload();
    });
}

// Table.

/// Random operations. Each key belongs to one rank, which so knows its value.
fn operate(ranks: &mut Ranks) -> Vec<(usize, u32, (u32, Vec<u8>))> {
    let size = ranks.world.size();
    let mut oracle = HashMap::new();
    let mut asked = Vec::new();
    for _ in 0..100 * size {
        let rank = ranks.random.small(0, size - 1);
        if ranks.world.is_dead(Peer(rank)) {
            continue;
        }
        let key = ranks.random.below(12) * u64::from(size) + u64::from(rank);
        let to = u32::try_from(key / 7 % u64::from(size)).expect("a rank");
        let (tag, request, expected) = table::operation(&mut ranks.random, key, &mut oracle);
        asked.push((ranks.ask(rank, to, tag, &request, 56), to, expected));
    }
    ranks.world.run_until_quiet();
    asked
}

#[test]
fn tables_answer_as_a_map_does() {
    let Some(code) = compiled("table") else { return };
    in_worlds(&code, &[1, 2, 3, 6], 4, |mut ranks| {
        for (receive, _, expected) in operate(&mut ranks) {
            assert_eq!(table::answer(&ranks.must_get(receive)), expected, "{}", ranks.name);
        }
        ranks.unload();
    });
}

#[test]
fn tables_answer_ranks_that_outlive_others() {
    let Some(code) = compiled("table") else { return };
    in_worlds(&code, &[2, 3, 6], 6, |mut ranks| {
        let (size, when) = (ranks.world.size(), ranks.random.below(300_000));
        let dead = ranks.random.small(0, size - 1);
        ranks.world.kill_at(when, Peer(dead));
        for (receive, to, expected) in operate(&mut ranks) {
            if ranks.receives[receive].rank == dead {
                continue;
            }
            match ranks.got(receive) {
                Some(answer) => assert_eq!(table::answer(&answer), expected, "{}", ranks.name),
                None => assert_eq!(to, dead, "{}: {:?}", ranks.name, ranks.outcome(receive)),
            }
        }
        ranks.unload();
    });
}

/// The simulator is deterministic: the same seed gives the same history, user code included.
#[test]
fn the_same_seed_is_the_same_history() {
    let code = compile(&echo_as_text());
    let history = |seed| {
        let mut ranks = Ranks::new(Rail::Rough, 4, seed, &code);
        let lines = Rc::new(RefCell::new(Vec::new()));
        let told = Rc::clone(&lines);
        ranks.world.trace = Some(Box::new(move |line| told.borrow_mut().push(line.to_owned())));
        everybody_asks_everybody(&mut ranks);
        let stats: Vec<ModuleStats> = ranks.all().map(|rank| ranks.stats(rank)).collect();
        (lines.take(), stats)
    };
    assert!(history(7) == history(7));
    assert!(history(7).0 != history(8).0);
}
