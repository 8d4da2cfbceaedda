//! Random networks, limits and faults for a soak.

use ferrywire_nic::{Limits, Peer, Promises, RailId};

use crate::fabric::{Costs, Fabric, Link, Rule};
use crate::random::Random;

pub(crate) fn kills(size: u32, random: &mut Random) -> Vec<(u64, Peer)> {
    let mut kills = Vec::new();
    if random.percent(20) {
        for _ in 0..random.between(1, 2) {
            let at = random.between(0, 600_000);
            kills.push((at, Peer(random.small(0, size - 1))));
        }
    }
    kills
}

/// The ranks of one host of several, in some scenarios.
pub(crate) fn vanishing(size: u32, ranks_per_node: u32, random: &mut Random) -> Vec<(u64, Peer)> {
    let hosts = size.div_ceil(ranks_per_node);
    if hosts == 1 || !random.percent(15) {
        return Vec::new();
    }
    let at = random.between(0, 600_000);
    let first = random.small(0, hosts - 1) * ranks_per_node;
    let last = size.min(first + ranks_per_node);
    (first..last).map(|rank| (at, Peer(rank))).collect()
}

pub(crate) fn fabric(size: u32, random: &mut Random) -> Fabric {
    let rail = |random: &mut Random, reliable: bool| Link {
        promises: Promises {
            rail: RailId(u8::from(!reliable)),
            reliable,
            may_vanish: !reliable,
            puts: random.percent(50),
            gets: random.percent(50),
            frame_bytes_max: random.pick(&[256, 1500, 9000]),
            burst_frames_max: 1,
            initial_credit_bytes: if reliable { random.pick(&[0, 512, 4096]) } else { 0 },
        },
        latency_ns: random.between(100, 20_000),
        byte_ps: random.between(10, 1000),
    };
    let local = rail(random, true);
    let mut remote = rail(random, false);
    // A rail that loses frames has no remote memory access.
    remote.promises.puts = false;
    remote.promises.gets = false;
    remote.promises.burst_frames_max = match remote.promises.frame_bytes_max {
        256 => 44,
        1500 => 3,
        _ => 1,
    };
    Fabric {
        ranks_per_node: random.pick(&[1, 2, 4, size, size]),
        local,
        remote,
        costs: Costs { event_ns: 50, frame_ns: 50, byte_ps: 100 },
        ring_frames_max: random.pick(&[Some(1), Some(4), Some(64), None]),
    }
}

/// Makes the rail between nodes reliable, in some scenarios; its peers may still vanish.
pub(crate) fn make_reliable(remote: &mut Promises, random: &mut Random) {
    if random.percent(25) {
        remote.reliable = true;
        remote.gets = random.percent(50);
    }
}

pub(crate) fn limits(random: &mut Random) -> Limits {
    Limits {
        queues: random.pick(&[1, 2, 4]),
        unexpected_bytes_max: random.pick(&[128, 256, 512, 2048, 16 << 10, 1 << 20]),
        eager_bytes_max: random.pick(&[0, 32, 200, 4096]),
        credit_bytes: random.pick(&[0, 256, 1024, 8192]),
        piece_bytes_max: random.pick(&[500, 5000, 1 << 20]),
        sweep_frames_max: random.pick(&[1, 4, 16]),
        frames_in_flight_max: random.pick(&[1, 4, 64, 256]),
        frames_per_ack_max: random.pick(&[1, 2, 8]),
        early_bytes_max: random.pick(&[0, 4000, 256 << 10]),
        ack_ns_max: random.pick(&[1_000, 50_000]),
        retry_ns_first: 1_000_000,
        retry_ns_min: 100_000,
        retry_ns_max: 20_000_000,
        ask_ns: 200_000_000,
        silence_ns_max: 2_000_000_000,
        idle_ns_max: 3_000_000_000,
        ..Limits::default()
    }
}

pub(crate) fn rules(size: u32, random: &mut Random) -> Vec<Rule> {
    let mut rules = Vec::new();
    if random.percent(70) {
        rules.push(Rule::Lose { percent: random.between(0, 30) });
    }
    if random.percent(50) {
        let within_ns = random.pick(&[10_000, 1_000_000, 100_000_000]);
        rules.push(Rule::Repeat { percent: random.between(0, 50), within_ns });
    }
    if random.percent(50) {
        let by_ns = random.pick(&[5_000, 100_000, 5_000_000]);
        rules.push(Rule::Reorder { percent: random.between(1, 50), by_ns });
    }
    let moment = |random: &mut Random| {
        let from_ns = random.between(0, 500_000);
        (from_ns, from_ns + random.between(1, 300_000_000))
    };
    if random.percent(20) {
        let (from_ns, until_ns) = moment(random);
        rules.push(Rule::Spike { from_ns, until_ns, by_ns: random.between(1, 50_000_000) });
    }
    if random.percent(25) {
        let (from_ns, until_ns) = moment(random);
        rules.push(Rule::Cut { from_ns, until_ns, border: random.small(1, size - 1) });
    }
    rules
}
