//! The program in the simulator: rails that lose, repeat and delay, little memory, ranks that stop for a while.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ferrywire_nic::{
    Limits, Nic, Outcome, Peer, Promises, RailId, Span, Standard, Ticket, Variant,
};
use ferrywire_sim::fabric::{Costs, Fabric, Link, Rule};
use ferrywire_sim::port::SimPort;
use ferrywire_sim::random::Random;
use ferrywire_sim::world::{Application, Context, World};

use crate::model::{Coverage, judge};
use crate::plan::Plan;
use crate::player::{Machine, Next, Planted, Player};

/// Runs a seed; returns the violations, and what it has exercised.
pub(crate) fn run<V: Variant>(seed: u64) -> (Vec<String>, Coverage) {
    run_planted::<V>(seed, None)
}

/// The same with a planted bug: messages name their senders by rank.
pub(crate) fn run_with_ranks_as_sources(seed: u64) -> (Vec<String>, Coverage) {
    run_planted::<Standard>(seed, Some(Planted::RanksAsSources))
}

fn run_planted<V: Variant>(seed: u64, planted: Option<Planted>) -> (Vec<String>, Coverage) {
    let plan = Arc::new(Plan::new(seed));
    let root = Random::new(seed);
    let clock = Arc::new(AtomicU64::new(0));
    let ranks = (0..plan.size).map(|me| {
        let mut random = root.split(100 + u64::from(me));
        let player = Player::new(me, &plan, &clock, random.percent(30), planted);
        Rank { player, random, idle: false, over: false }
    });
    let fabric = fabric(plan.size, &mut root.split(2));
    let mut world: World<V, Rank> = World::new(seed, fabric, &limits(&mut root.split(3)), ranks);
    let mut random = root.split(4);
    world.rules = rules(&mut random);
    if random.percent(30) {
        let from = random.between(0, 300_000);
        let until = from + random.between(1, 50_000_000);
        world.stop_between(from, until, Peer(random.small(0, plan.size - 1)));
    }
    world.begin();
    while world.step().is_some() && world.now().0 < BOUND_NS {}
    let processes: Vec<Peer> = (0..plan.size).map(Peer).collect();
    let unfinished =
        processes.iter().map(|&rank| world.application(rank)).filter(|rank| !rank.over);
    let stuck: Vec<String> = unfinished.map(|rank| rank.player.describe()).collect();
    if !stuck.is_empty() {
        return (stuck, Coverage::default());
    }
    let left: Vec<String> = processes
        .iter()
        .map(|&rank| (rank, world.nic(rank).holdings()))
        .filter(|(_, left)| left.tickets + left.posted + left.unexpected + left.runs > 0)
        .map(|(rank, left)| format!("rank {} has leaked: {left:?}", rank.0))
        .collect();
    let mut logs = Vec::new();
    for &rank in &processes {
        logs.push(world.act(rank, |rank, _| std::mem::take(&mut rank.player.log)));
    }
    let (mut wrong, mut coverage) = judge(&plan, &logs);
    wrong.extend(left);
    processes.iter().for_each(|&rank| coverage.count(world.nic(rank).stats()));
    (wrong, coverage)
}

/// A process in the simulator.
struct Rank {
    player: Player,
    random: Random,
    /// Whether it waits for an operation to end.
    idle: bool,
    over: bool,
}

impl<V: Variant> Application<V> for Rank {
    fn on_wake(&mut self, context: &mut Context<'_, V>) {
        for _ in 0..self.random.between(1, 4) {
            match self.player.advance(&mut SimulatedMachine(context)) {
                Next::Again => {}
                Next::Later => return context.wake_in(PROBE_NS),
                Next::Idle => {
                    self.idle = true;
                    return;
                }
                Next::Over => {
                    self.over = true;
                    return;
                }
            }
        }
        let rest = self.random.between(100, 20_000);
        context.wake_in(rest);
    }

    fn on_complete(&mut self, ticket: Ticket, outcome: Outcome, context: &mut Context<'_, V>) {
        self.player.conclude(ticket, outcome, &mut SimulatedMachine(context));
        if std::mem::take(&mut self.idle) {
            context.wake_in(100);
        }
    }

    fn on_peer_down(&mut self, peer: Peer, _: &mut Context<'_, V>) {
        self.player.log.complaints.push(format!("{peer:?} is believed to be dead"));
    }
}

struct SimulatedMachine<'a, 'b, V: Variant>(&'a mut Context<'b, V>);

impl<V: Variant> Machine for SimulatedMachine<'_, '_, V> {
    type Variant = V;
    type Port = SimPort;

    fn lend(&mut self, bytes: Vec<u8>) -> Span {
        let len = bytes.len() as u64;
        Span::new(self.0.port.memory.lend(bytes), 0, len)
    }

    fn bytes(&self, span: Span) -> &[u8] {
        self.0.port.memory.bytes(span)
    }

    fn ask<T>(&mut self, ask: impl FnOnce(&mut Nic<V>, &mut SimPort) -> T) -> T {
        ask(self.0.nic, self.0.port)
    }
}

fn fabric(size: u32, random: &mut Random) -> Fabric {
    let rail = |random: &mut Random, reliable: bool| Link {
        promises: Promises {
            rail: RailId(u8::from(!reliable)),
            reliable,
            may_vanish: !reliable,
            // A rail that loses frames has no remote memory access.
            puts: reliable && random.percent(50),
            gets: reliable && random.percent(50),
            frame_bytes_max: random.pick(&[256, 1500, 9000]),
            burst_frames_max: if reliable { 1 } else { 3 },
            initial_credit_bytes: if reliable { random.pick(&[0, 512, 4096]) } else { 0 },
        },
        latency_ns: random.between(100, 20_000),
        byte_ps: random.between(10, 1000),
    };
    Fabric {
        ranks_per_node: random.pick(&[1, 1, 2, 4, size]),
        local: rail(random, true),
        remote: rail(random, false),
        costs: Costs { event_ns: 50, frame_ns: 50, byte_ps: 100 },
        ring_frames_max: random.pick(&[Some(1), Some(4), None]),
    }
}

fn limits(random: &mut Random) -> Limits {
    Limits {
        queues: random.pick(&[1, 2, 4]),
        unexpected_bytes_max: random.pick(&[256, 2048, 16 << 10, 1 << 20]),
        eager_bytes_max: random.pick(&[0, 32, 200, 4096]),
        credit_bytes: random.pick(&[0, 256, 1024, 8192]),
        piece_bytes_max: random.pick(&[500, 5000, 1 << 20]),
        sweep_frames_max: random.pick(&[1, 4, 16]),
        frames_in_flight_max: random.pick(&[4, 64]),
        early_bytes_max: random.pick(&[0, 4000, 256 << 10]),
        retry_ns_first: 1_000_000,
        retry_ns_min: 100_000,
        retry_ns_max: 20_000_000,
        silence_ns_max: 20_000_000_000,
        idle_ns_max: 30_000_000_000,
        ..Limits::default()
    }
}

fn rules(random: &mut Random) -> Vec<Rule> {
    vec![
        Rule::Lose { percent: random.pick(&[0, 2, 15]) },
        Rule::Repeat {
            percent: random.pick(&[0, 10, 40]),
            within_ns: random.pick(&[10_000, 1_000_000]),
        },
        Rule::Reorder {
            percent: random.pick(&[0, 10, 40]),
            by_ns: random.pick(&[5_000, 100_000, 2_000_000]),
        },
    ]
}

/// Interval between probes.
const PROBE_NS: u64 = 300_000;
/// The time by which all ranks must have finished.
const BOUND_NS: u64 = 120_000_000_000;
