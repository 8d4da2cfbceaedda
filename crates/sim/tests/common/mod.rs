//! Shared by the tests of worlds: rails, bytes that identify their owner, and an application that records.
#![allow(dead_code, reason = "each test file uses its part of it")]

use std::sync::Arc;

use ferrywire_mpi::collective::ReduceOp;
use ferrywire_mpi::group::Group;
use ferrywire_nic::{
    Limits, Outcome, Peer, Posted, Promises, RailId, Schedule, Span, Standard, Ticket,
};
use ferrywire_sim::fabric::{Costs, Fabric, Link, Rule};
use ferrywire_sim::memory::Memory;
use ferrywire_sim::port::{COMPOSE, COMPOSE_LATER, compose, reduce_op};
use ferrywire_sim::random::Random;
use ferrywire_sim::world::{Application, Context, World};

/// A network on which all ranks are equally far from each other.
pub(crate) fn fabric(promises: Promises, ring_frames_max: Option<u32>) -> Fabric {
    let link = Link { promises, latency_ns: 1000, byte_ps: 100 };
    Fabric {
        ranks_per_node: 1,
        local: link,
        remote: link,
        costs: Costs { event_ns: 50, frame_ns: 50, byte_ps: 100 },
        ring_frames_max,
    }
}

/// An application that does nothing but record completions.
#[derive(Default)]
pub(crate) struct Diary {
    pub(crate) told: Vec<(Ticket, Outcome)>,
}

impl Application<Standard> for Diary {
    fn on_wake(&mut self, _: &mut Context<'_, Standard>) {}

    fn on_complete(&mut self, ticket: Ticket, outcome: Outcome, _: &mut Context<'_, Standard>) {
        self.told.push((ticket, outcome));
    }

    fn on_peer_down(&mut self, _: Peer, _: &mut Context<'_, Standard>) {}
}

/// The kind of rail.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rail {
    /// Loses nothing, and is soon full.
    Ring,
    /// Has remote memory access: long messages may overtake each other.
    OneSided,
    /// Loses, repeats and delays.
    Rough,
}

impl Rail {
    pub(crate) const ALL: [Rail; 3] = [Rail::Ring, Rail::OneSided, Rail::Rough];

    /// A world of `ranks` ranks on such rails.
    pub(crate) fn world(self, ranks: u32, seed: u64) -> World<Standard, Diary> {
        let one_sided = matches!(self, Rail::OneSided);
        let promises = Promises {
            rail: RailId(0),
            reliable: !matches!(self, Rail::Rough),
            may_vanish: matches!(self, Rail::Rough),
            puts: one_sided,
            gets: one_sided,
            frame_bytes_max: 1500,
            burst_frames_max: 1,
            initial_credit_bytes: 0,
        };
        let fabric = fabric(promises, matches!(self, Rail::Ring).then_some(4));
        let limits = Limits { eager_bytes_max: 200, ..Limits::default() };
        let mut world = World::new(seed, fabric, &limits, (0..ranks).map(|_| Diary::default()));
        world.rules = vec![
            Rule::Lose { percent: 5 },
            Rule::Repeat { percent: 10, within_ns: 100_000 },
            Rule::Reorder { percent: 20, by_ns: 20_000 },
        ];
        world
    }

    /// A non-commutative operator, which is slow on most rails.
    pub(crate) fn reduce_op(self) -> ReduceOp {
        reduce_op(if matches!(self, Rail::OneSided) { COMPOSE } else { COMPOSE_LATER })
    }
}

/// Runs a schedule on every process, and returns the bytes that each names.
pub(crate) fn run(
    world: &mut World<Standard, Diary>,
    random: &mut Random,
    peers: impl Iterator<Item = Peer>,
    mut build: impl FnMut(usize, &mut Memory) -> (Schedule, Span),
) -> Vec<Vec<u8>> {
    let mut order: Vec<(usize, Peer)> = peers.enumerate().collect();
    // One process starts when everything possible without it has happened.
    let last = order.remove(len(random.below(order.len() as u64)));
    let mut begun: Vec<(usize, Peer, Posted, Span)> = Vec::new();
    for (nth, peer) in order.into_iter().chain([last]) {
        if nth == last.0 {
            world.run_until_quiet();
        }
        // Some start late, after others.
        if random.percent(30) {
            for _ in 0..random.below(100) {
                world.step();
            }
        }
        begun.push(world.act(peer, |_, context| {
            let (schedule, result) = build(nth, &mut context.port.memory);
            let posted = context.nic.post_schedule(Arc::new(schedule), 1, context.port);
            (nth, peer, posted, result)
        }));
    }
    begun.sort_by_key(|&(nth, ..)| nth);
    world.run_until_quiet();
    let results = begun.into_iter().map(|(_, peer, posted, result)| {
        let told = &world.application(peer).told;
        let done = match posted {
            Posted::Done(outcome) => outcome == Outcome::Done,
            Posted::Pending(ticket) => told.contains(&(ticket, Outcome::Done)),
        };
        assert!(done, "{peer:?} is not done: {told:?}");
        assert_eq!(world.nic(peer).holdings().runs, 0);
        world.memory(peer).bytes(result).to_vec()
    });
    results.collect()
}

/// Groups whose ranks equal their peers, and groups whose ranks do not.
pub(crate) fn group(form: usize, size: u32) -> Group {
    let members: Vec<Peer> = match form {
        0 => return Group::whole(size),
        1 => (0..size).rev().map(Peer).collect(),
        2 => (0..size).map(|rank| Peer(5 + rank)).collect(),
        3 => (0..size).map(|rank| Peer(2 + 3 * rank)).collect(),
        // Irregular: odd ones first, then even ones, backwards.
        _ => (0..size)
            .filter(|rank| rank % 2 == 1)
            .chain((0..size).filter(|rank| rank % 2 == 0).rev())
            .map(Peer)
            .collect(),
    };
    Group::of(&members)
}

pub(crate) fn lend(memory: &mut Memory, bytes: Vec<u8>) -> Span {
    let len = bytes.len() as u64;
    Span::new(memory.lend(bytes), 0, len)
}

/// Bytes that identify their owner and their offset.
pub(crate) fn pattern(whose: u32, len: u64) -> Vec<u8> {
    let byte = |at: u64| (u64::from(whose) * 167 + at * 31 + (at >> 7)).to_le_bytes()[0] | 1;
    (0..len).map(byte).collect()
}

/// Functions for [`COMPOSE`] that identify their owner and their offset.
pub(crate) fn functions(whose: u32, len: u64) -> Vec<u8> {
    let part = |at: u64| u64::from(whose) * 2_654_435_761 + at * 40_503 + 3;
    (0..len / 4).flat_map(|at| part(at).to_le_bytes().into_iter().take(4)).collect()
}

pub(crate) fn len(bytes: u64) -> usize {
    usize::try_from(bytes).expect("it fits the machine")
}

/// Fill byte of memory that has not been written to.
pub(crate) const GUARD: u8 = 0;

/// The functions of these ranks, composed one by one.
pub(crate) fn in_order(ranks: std::ops::Range<u32>, len: u64) -> Vec<u8> {
    let mut ranks = ranks.rev();
    let mut result = functions(ranks.next().expect("at least one"), len);
    for rank in ranks {
        compose(&functions(rank, len), &mut result);
    }
    result
}
