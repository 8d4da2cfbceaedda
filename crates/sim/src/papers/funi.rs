//! FUNi: a user-level network interface on the bus of a workstation, and a hypercube of routers.

use ferrywire_nic::{Limits, Standard};

use super::{Curve, Figure, Paper, Parameter, Plot};
use crate::machine::{
    BusCosts, Cluster, HostProgram, Linear, Machine, MatchingCosts, NicCosts, Path, Runner,
    WireCosts, reliable,
};

const CYCLE: Parameter =
    Parameter::given("a cycle of the host", 25.0, "ns", "section 5.1.1: 40 MHz");
const REQUEST: Parameter =
    Parameter::given("sending a request", 113.2, "cycles", "table 1: FUNiAM_4, send ovhd");
const REQUESTED: Parameter =
    Parameter::given("receiving a request", 221.3, "cycles", "table 1: FUNiAM_4, recv ovhd");
const REPLY: Parameter =
    Parameter::given("sending a reply", 98.2, "cycles", "table 1: FUNiAM_reply_4, send ovhd");
const REPLIED: Parameter =
    Parameter::given("receiving a reply", 201.3, "cycles", "table 1: FUNiAM_reply_4, recv ovhd");
const BUS_CYCLE: Parameter = Parameter::assumed(
    "a cycle of the bus",
    50.0,
    "ns",
    "SBus of the SPARCstation 2; the text says at most 25 MHz",
);
const DVMA: Parameter =
    Parameter::given("a transfer on the bus", 15.0, "cycles", "section 5.2, of the bus");
const DVMA_WORD: Parameter =
    Parameter::given("each of its words", 2.0, "cycles", "section 5.2, of the bus");
const BURST: Parameter =
    Parameter::given("words of the longest transfer", 8.0, "words", "section 5.2: 1, 4 or 8");
const NET_CYCLE: Parameter =
    Parameter::given("a cycle of the network", 40.0, "ns", "section 5.1.3: 25 MHz");
const ROUTER: Parameter = Parameter::given(
    "a router and a wire",
    7.0,
    "cycles",
    "section 5.1.3: 6 and 1, of the network",
);
const NET_WORD: Parameter =
    Parameter::given("a word on a wire", 1.0, "cycles", "section 5.1.3: two halfwords a cycle");

const PARAMETERS: [Parameter; 12] = [
    CYCLE, REQUEST, REQUESTED, REPLY, REPLIED, BUS_CYCLE, DVMA, DVMA_WORD, BURST, NET_CYCLE,
    ROUTER, NET_WORD,
];

fn machine() -> Machine {
    let burst = DVMA.value + DVMA_WORD.value * BURST.value;
    Machine {
        runner: Runner::Processor,
        // What a request costs more than a reply is in the programs.
        call_ns: REPLY.value * CYCLE.value,
        reap_ns: REPLIED.value * CYCLE.value,
        doorbell_ns: 0.0,
        notice_ns: 0.0,
        nic: NicCosts::default(),
        bus: BusCosts::Dma(Linear::new(0.0, burst * BUS_CYCLE.value / (4.0 * BURST.value))),
        wire: WireCosts {
            promises: reliable(4096, false),
            header_bytes: 0,
            // A hypercube with a router at each node.
            path: Path::of_hops(ROUTER.value * NET_CYCLE.value, |from, to| {
                (from ^ to).count_ones() + 1
            }),
            bytes: vec![Linear::new(0.0, NET_WORD.value * NET_CYCLE.value / 4.0)],
        },
        matching: MatchingCosts::default(),
    }
}

/// The slot of a message of 4 words: one transfer.
const SLOT: u64 = 32;
const NODES: u32 = 32;

/// A request to a node and its reply of so many bytes, in cycles of the host.
fn round_trip(to: u32, reply: u64) -> f64 {
    let mut cluster = Cluster::<Standard>::new(machine(), &Limits::default(), NODES);
    let (mut near, mut far) = (HostProgram::default(), HostProgram::default());
    let [asked, answered] = [0, to].map(|rank| cluster.lend(rank, SLOT));
    let [into, from] = [0, to].map(|rank| cluster.lend(rank, reply));
    for _ in 0..3 {
        let request = far.receive(0, 0, answered);
        let back = near.receive(to, 0, into);
        near.meet();
        far.meet();
        near.note();
        near.compute((REQUEST.value - REPLY.value) * CYCLE.value);
        near.send(to, 0, asked);
        far.wait(&[request]);
        far.compute((REQUESTED.value - REPLIED.value) * CYCLE.value);
        far.send(0, 0, from);
        near.wait(&[back]);
        near.note();
        near.meet();
        far.meet();
    }
    cluster.program(0, near);
    cluster.program(to, far);
    let moments = &cluster.run()[0];
    (moments[5].ns - moments[4].ns) / CYCLE.value
}

/// The same, on average over all other nodes.
fn average(reply: u64) -> f64 {
    (1..NODES).map(|to| round_trip(to, reply)).sum::<f64>() / f64::from(NODES - 1)
}

/// Why a put takes longer.
const LIBRARY: &str = "section 6.1: the calls of the shared-memory library are compiled without optimization, and what they \
    execute beside the messages is not given";

/// Runs the evaluation.
pub(super) fn run() -> Paper {
    let word = average(SLOT);
    let words = [1, 4, 8, 12, 16];
    // Words beyond those of a slot.
    let get = |words: u64| average(SLOT + 4 * words.saturating_sub(4));
    let figures = vec![
        Figure::predicted("table 1", "FUNiAM_4, round trip", "cycles", 1160.8, word),
        Figure::predicted("table 1", "FUNiAM_get, 1 word, latency", "cycles", 1205.0, word),
        Figure::predicted("table 1", "FUNiAM_get, 16 words, latency", "cycles", 1457.6, get(16)),
        Figure::predicted("table 1", "FUNiAM_put, latency", "cycles", 1236.0, word)
            .because(LIBRARY),
    ];
    let plots = vec![Plot {
        file: "funi-1",
        title: "FUNi, table 1: getting words of another node",
        x: "words",
        y: "cycles of 40 MHz",
        log_x: false,
        curves: vec![
            Curve {
                name: "get".into(),
                theirs: false,
                points: words.iter().map(|&words| (words as f64, get(words))).collect(),
            },
            Curve {
                name: "document".into(),
                theirs: true,
                points: vec![(1.0, 1205.0), (16.0, 1457.6)],
            },
        ],
    }];
    Paper {
        name: "funi",
        title: "FUNi, a user-level network interface (Hoe)",
        parameters: PARAMETERS.to_vec(),
        figures,
        plots,
    }
}
