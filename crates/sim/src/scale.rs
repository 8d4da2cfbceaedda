//! Scale: collectives on as many ranks as the machine can hold, each with its own NIC.

use std::sync::Arc;
use std::time::Instant;

use ferrywire_mpi::collective::{self, Locality, Member, Naming, ReduceOp};
use ferrywire_mpi::group::Group;
use ferrywire_mpi::operation::{self, Number};
use ferrywire_nic::{
    Limits, Outcome, Peer, Posted, Promises, RailId, Schedule, Span, Standard, Ticket,
};
use serde::Serialize;

use crate::fabric::{Costs, Fabric, Link};
use crate::memory::Memory;
use crate::world::{Application, Context, World};

/// The result of a scale run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Number of ranks.
    pub ranks: u32,
    /// Bytes of NIC state per rank before anything is exchanged.
    pub bytes_before_contact: u64,
    /// Bytes that each contacted peer adds in the end, at the rank where this is most.
    pub bytes_per_peer_max: u64,
    /// The same, on average over all ranks.
    pub bytes_per_peer: u64,
    /// The collectives that were run.
    pub phases: Vec<Phase>,
    /// Whether every rank has finished every phase with the right result.
    pub right: bool,
}

/// One collective, on all ranks.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// Frames that a rank has sent, on average.
    pub frames_per_rank: f64,
    /// Peers that a rank has contacted so far, on average.
    pub peers_per_rank: f64,
    /// Bytes of NIC state per rank after it, on average.
    pub bytes_per_rank: u64,
    /// From the first post to the last completion.
    pub virtual_us: f64,
    /// Wall-clock time.
    pub real_seconds: f64,
    /// Ranks that finished with the right result.
    pub right: u32,
}

/// The most bytes before first contact.
pub const BEFORE_CONTACT_BYTES_MAX: u64 = 1024;
/// The most bytes for each contacted peer.
pub const PER_PEER_BYTES_MAX: u64 = 512;

type ScaleWorld = World<Standard, Waiter>;

/// Runs barrier, broadcast, allreduce and a nearest-neighbour exchange on `ranks` ranks. `told` is called with each
/// phase as it ends.
pub fn run(ranks: u32, mut told: impl FnMut(&Phase)) -> Report {
    let waiters = (0..ranks).map(|_| Waiter::default());
    let mut world: ScaleWorld = World::new(0, fabric(), &Limits::default(), waiters);
    let bytes_before_contact = average(&world, |rank| world.nic(rank).footprint() as u64);
    let mut phases = Vec::new();
    for (instance, phase) in (0..).zip(&PHASES) {
        let result = run_phase(&mut world, instance, phase);
        told(&result);
        phases.push(result);
    }
    let per_peer = |rank: Peer| {
        let nic = world.nic(rank);
        (nic.footprint() as u64 - bytes_before_contact) / (nic.peers() as u64).max(1)
    };
    Report {
        ranks,
        bytes_before_contact,
        bytes_per_peer: average(&world, per_peer),
        bytes_per_peer_max: (0..ranks).map(|rank| per_peer(Peer(rank))).max().unwrap_or(0),
        right: phases.iter().all(|phase| phase.right == ranks),
        phases,
    }
}

/// One collective: how a rank takes part, and the result that it must have.
pub(crate) struct ScalePlan {
    pub(crate) name: &'static str,
    pub(crate) schedule: fn(Member<'_>, Room) -> Schedule,
    expected: fn(Member<'_>) -> [u64; 3],
}

/// Three numbers in a rank's memory.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub(crate) first: Span,
    pub(crate) second: Span,
    pub(crate) third: Span,
}

pub(crate) const BARRIER: ScalePlan = ScalePlan {
    name: "barrier",
    schedule: |me, _| collective::barrier(me),
    expected: |me| [u64::from(me.rank), 0, 0],
};

pub(crate) const BROADCAST: ScalePlan = ScalePlan {
    name: "broadcast",
    schedule: |me, room| collective::broadcast(me, 0, room.first),
    expected: |_| [0, 0, 0],
};

pub(crate) const ALLREDUCE: ScalePlan = ScalePlan {
    name: "allreduce",
    schedule: |me, room| {
        let operator = operation::operator(operation::Operation::Sum, Number::U64);
        let operator = operator.expect("numbers have sums");
        let sum = ReduceOp { operator, element_bytes: 8, commutative: true };
        collective::allreduce(me, sum, room.first, room.first, room.second)
    },
    expected: |me| [u64::from(me.size()) * u64::from(me.size() - 1) / 2, ANYTHING, 0],
};

const PHASES: [ScalePlan; 4] = [
    BARRIER,
    BROADCAST,
    ALLREDUCE,
    ScalePlan {
        name: "neighbours",
        schedule: |me, room| collective::neighbours(me, room.first, room.second, room.third),
        expected: |me| {
            let left = (me.rank + me.size() - 1) % me.size();
            let right = (me.rank + 1) % me.size();
            [me.rank.into(), left.into(), right.into()]
        },
    },
];

impl ScalePlan {
    /// Whether a rank has the right numbers.
    pub(crate) fn is_right(&self, me: Member<'_>, room: Room, memory: &Memory) -> bool {
        let found = [room.first, room.second, room.third];
        let found = found.map(|span| memory.number(span.region, span.offset));
        (self.expected)(me).iter().zip(found).all(|(&e, f)| e == ANYTHING || e == f)
    }
}

impl Room {
    /// The numbers in 24 bytes.
    pub(crate) fn of(all: Span) -> Room {
        Room { first: all.part(0, 8), second: all.part(8, 8), third: all.part(16, 8) }
    }

    /// What they are before each collective: the rank, and zeros.
    pub(crate) fn begin(self, rank: u32, memory: &mut Memory) {
        memory.bytes_mut(self.first).copy_from_slice(&u64::from(rank).to_le_bytes());
        for unused in [self.second, self.third] {
            memory.bytes_mut(unused).fill(0);
        }
    }
}

/// A rank, as a member of a group of all.
pub(crate) fn member(group: &Group, rank: u32) -> Member<'_> {
    Member { group_id: 1, group, rank, locality: Locality::Unknown, naming: Naming::Ranks }
}

/// A number that may have any value afterwards.
const ANYTHING: u64 = u64::MAX;

fn run_phase(world: &mut ScaleWorld, instance: u16, plan: &ScalePlan) -> Phase {
    let began = Instant::now();
    let start = world.now();
    let ranks = world.size();
    let frames_before = total_frames(world);
    let group = Group::whole(ranks);
    for rank in 0..ranks {
        let me = member(&group, rank);
        world.act(Peer(rank), |waiter, context| waiter.begin(me, instance, plan, context));
    }
    world.run_until_quiet();
    let right = (0..ranks).filter(|&rank| {
        let waiter = world.application(Peer(rank));
        let room = waiter.room.expect("it has begun");
        waiter.done && plan.is_right(member(&group, rank), room, world.memory(Peer(rank)))
    });
    let right = right.count() as u64;
    Phase {
        name: plan.name,
        frames_per_rank: (total_frames(world) - frames_before) as f64 / f64::from(ranks),
        peers_per_rank: (0..ranks).map(|rank| world.nic(Peer(rank)).peers()).sum::<usize>() as f64
            / f64::from(ranks),
        bytes_per_rank: average(world, |rank| world.nic(rank).footprint() as u64),
        virtual_us: world.now().since(start) as f64 / 1000.0,
        real_seconds: began.elapsed().as_secs_f64(),
        right: u32::try_from(right).expect("at most all ranks"),
    }
}

fn average(world: &ScaleWorld, of: impl Fn(Peer) -> u64) -> u64 {
    (0..world.size()).map(|rank| of(Peer(rank))).sum::<u64>() / u64::from(world.size())
}

fn total_frames(world: &ScaleWorld) -> u64 {
    (0..world.size()).map(|rank| world.nic(Peer(rank)).stats().frames_sent).sum()
}

/// A fast network with reliable rails, 64 ranks to a node.
fn fabric() -> Fabric {
    let promises = Promises {
        rail: RailId(0),
        reliable: true,
        may_vanish: false,
        puts: true,
        gets: true,
        frame_bytes_max: 8192,
        burst_frames_max: 1,
        initial_credit_bytes: 0,
    };
    Fabric {
        ranks_per_node: 64,
        local: Link { promises, latency_ns: 200, byte_ps: 80 },
        remote: Link { promises, latency_ns: 1500, byte_ps: 80 },
        costs: Costs { event_ns: 50, frame_ns: 50, byte_ps: 50 },
        ring_frames_max: None,
    }
}

/// Waits for one schedule at a time.
#[derive(Default)]
struct Waiter {
    room: Option<Room>,
    pending: Option<Ticket>,
    done: bool,
}

impl Waiter {
    fn begin(
        &mut self,
        me: Member,
        instance: u16,
        plan: &ScalePlan,
        context: &mut Context<'_, Standard>,
    ) {
        let memory = &mut context.port.memory;
        let room = *self.room.get_or_insert_with(|| Room::of(memory.lend_filled(24, 0)));
        room.begin(me.rank, memory);
        let schedule = Arc::new((plan.schedule)(me, room));
        self.done = false;
        match context.nic.post_schedule(schedule, instance, context.port) {
            Posted::Pending(ticket) => self.pending = Some(ticket),
            Posted::Done(outcome) => self.done = outcome == Outcome::Done,
        }
    }
}

impl Application<Standard> for Waiter {
    fn on_wake(&mut self, _: &mut Context<'_, Standard>) {}

    fn on_complete(&mut self, ticket: Ticket, outcome: Outcome, _: &mut Context<'_, Standard>) {
        self.done = self.pending == Some(ticket) && outcome == Outcome::Done;
        self.pending = None;
    }

    fn on_peer_down(&mut self, _: Peer, _: &mut Context<'_, Standard>) {}
}
