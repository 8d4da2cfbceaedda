//! RDMA: MPI on processors whose interface writes into the memory of others and counts what has arrived.

use ferrywire_nic::{Limits, Standard};

use super::{Curve, Figure, Paper, Parameter, Plot};
use crate::machine::{
    BusCosts, Cluster, HostProgram, Linear, Machine, MatchingCosts, NicCosts, Path, Runner,
    WireCosts, reliable, rounded,
};

const CYCLE: Parameter = Parameter::given("a cycle", 1e3 / 75.0, "ns", "section 4.1: 75 MHz");
const CALL: Parameter = Parameter::given(
    "between two calls",
    60.5,
    "cycles",
    "section 4.4.2: 59 to 62, calls and returns",
);
const BEFORE_SEND: Parameter =
    Parameter::given("before an RDMA write", 53.0, "cycles", "table 4.2, few samples");
const AFTER_SEND: Parameter = Parameter::given(
    "waiting for its end, and after it",
    94.0,
    "cycles",
    "table 4.2, few samples: 77 and 17",
);
const BEFORE_RECEIVE: Parameter =
    Parameter::given("before polling", 33.0, "cycles", "table 4.3, few samples");
const ARRIVED: Parameter =
    Parameter::given("after arrival", 45.0, "cycles", "table 4.3, few samples");
const NOTIFICATION: Parameter = Parameter::given(
    "from the end of a write until its notification is seen",
    37.0,
    "cycles",
    "section 4.4.5: 93 less 52 and 4",
);
const WRITE_16: Parameter =
    Parameter::given("an RDMA write of 16 bytes", 34.0, "cycles", "section 4.4.2");
const WRITE_64: Parameter =
    Parameter::given("an RDMA write of 64 bytes", 52.0, "cycles", "section 4.4.5");
const HEADER: Parameter = Parameter::given("a header", 16.0, "bytes", "section 4.4.1");
const GRANT: Parameter = Parameter::given(
    "writing an address into a CTS",
    38.0,
    "cycles",
    "section 4.4.5: 250 for a CTS, 212 for an RTS",
);
const PREPARE: Parameter = Parameter::given(
    "preparing the write of a message",
    62.0,
    "cycles",
    "section 4.4.5: 80 and 44",
);
const ISSUE: Parameter =
    Parameter::given("issuing a write", 4.0, "cycles", "section 4.4.2: 4 stores");
const BULK: Parameter = Parameter::fitted(
    "each further byte of a long write",
    0.206,
    "cycles",
    "table 4.4: 2048 and 4096 bytes",
);
const COPY: Parameter = Parameter::fitted("a copy", 184.0, "cycles", "table 4.1: 16 and 496 bytes");
const COPY_BYTE: Parameter =
    Parameter::fitted("each byte of a copy", 1.376, "cycles", "table 4.1: 16 and 496 bytes");

const PARAMETERS: [Parameter; 16] = [
    CYCLE,
    CALL,
    BEFORE_SEND,
    AFTER_SEND,
    BEFORE_RECEIVE,
    ARRIVED,
    NOTIFICATION,
    WRITE_16,
    WRITE_64,
    HEADER,
    GRANT,
    PREPARE,
    ISSUE,
    BULK,
    COPY,
    COPY_BYTE,
];

fn machine() -> Machine {
    let ns = |cycles: f64| cycles * CYCLE.value;
    let short = Linear::through((16.0, ns(WRITE_16.value)), (64.0, ns(WRITE_64.value)));
    let long = Linear::new(ns(WRITE_64.value - 64.0 * BULK.value), ns(BULK.value));
    Machine {
        runner: Runner::Calls,
        call_ns: ns(CALL.value),
        reap_ns: 0.0,
        doorbell_ns: 0.0,
        notice_ns: 0.0,
        nic: NicCosts {
            receive_ns: ns(BEFORE_RECEIVE.value),
            frame_out_ns: ns(BEFORE_SEND.value),
            frame_gone_ns: ns(AFTER_SEND.value),
            frame_in_ns: ns(ARRIVED.value),
            grant_ns: ns(GRANT.value),
            put_ns: ns(PREPARE.value + ISSUE.value),
            put_end_ns: ns(ARRIVED.value),
            ..NicCosts::default()
        },
        bus: BusCosts::Copy(Linear::new(ns(COPY.value), ns(COPY_BYTE.value))),
        wire: WireCosts {
            promises: reliable(4096, true),
            header_bytes: rounded(HEADER.value),
            path: Path::of_hops(ns(NOTIFICATION.value), |_, _| 1),
            bytes: vec![short, long],
        },
        matching: MatchingCosts::default(),
    }
}

/// Half a round trip, in cycles, of messages that are sent whole up to `eager_bytes_max`; and how much of it is in the
/// send.
fn one_way_cycles(bytes: u64, eager_bytes_max: u32) -> (f64, f64) {
    let limits = Limits { eager_bytes_max, credit_bytes: 1 << 20, ..Limits::default() };
    let mut cluster = Cluster::<Standard>::new(machine(), &limits, 2);
    let spans = [0, 1].map(|rank| [cluster.lend(rank, bytes), cluster.lend(rank, bytes)]);
    let mut programs = [HostProgram::default(), HostProgram::default()];
    for _ in 0..ROUNDS {
        for (rank, program) in (0..).zip(&mut programs) {
            let peer = 1 - rank;
            let [source, into] = spans[rank as usize];
            let mut receives = rank == 1;
            for _ in 0..2 {
                program.note();
                let operation = match receives {
                    true => program.receive(peer, 0, into),
                    false => program.send(peer, 0, source),
                };
                program.wait(&[operation]);
                receives = !receives;
            }
        }
    }
    (0..).zip(programs).for_each(|(rank, program)| cluster.program(rank, program));
    let moments = &cluster.run()[0];
    let last = moments.len() - 2;
    let round_trip = moments[last].ns - moments[last - 2].ns;
    let send = moments[last - 1].ns - moments[last - 2].ns;
    (round_trip / 2.0 / CYCLE.value, send / CYCLE.value)
}

/// The first ones are warm-up.
const ROUNDS: usize = 20;

/// Why the curves of eager and rendezvous cross elsewhere.
const CROSSING: &str = "section 4.4.5 leaves 163 cycles of a rendezvous to loops, calls and polling that it cannot tell \
    apart; ours lacks 80 of them, and the two curves are so close that this moves their crossing by 30 bytes";

/// Runs the evaluation.
pub(super) fn run() -> Paper {
    let eager = |bytes| one_way_cycles(bytes, 512).0;
    let rendezvous = |bytes| one_way_cycles(bytes, 32).0;
    let eager_table: [(u32, f64); 6] =
        [(0, 217.0), (16, 644.0), (48, 737.0), (112, 924.0), (240, 1297.0), (496, 2065.0)];
    let rendezvous_table: [(u32, f64); 8] = [
        (48, 716.0),
        (64, 718.0),
        (128, 731.0),
        (256, 761.0),
        (512, 817.0),
        (1024, 923.0),
        (2048, 1139.0),
        (4096, 1561.0),
    ];
    let mut figures = Vec::new();
    for (bytes, cycles) in eager_table {
        let figure = if matches!(bytes, 16 | 496) { Figure::fitted } else { Figure::predicted };
        figures.push(figure(
            "4.1",
            format!("eager, {bytes} bytes"),
            "cycles",
            cycles,
            eager(bytes.into()),
        ));
    }
    let (one_way, call_and_send) = one_way_cycles(0, 512);
    let send = call_and_send - CALL.value;
    let receive = 2.0 * one_way - send - CALL.value;
    figures.push(Figure::given("4.7", "MPI_Send, 0 bytes", "cycles", 144.0, send));
    figures.push(Figure::predicted(
        "4.7",
        "MPI_Recv, 0 bytes: what is left of a round trip",
        "cycles",
        237.0,
        receive,
    ));
    for (bytes, cycles) in rendezvous_table {
        let figure = if bytes >= 2048 { Figure::fitted } else { Figure::predicted };
        let what = format!("rendezvous, {bytes} bytes");
        figures.push(figure("4.4", what, "cycles", cycles, rendezvous(bytes.into())));
    }
    let slope = (rendezvous(4096) - rendezvous(2048)) / 2048.0;
    figures.push(Figure::fitted(
        "4.4",
        "each byte, from 2048 to 4096",
        "cycles",
        422.0 / 2048.0,
        slope,
    ));
    // A message that is sent both ways takes equally long at the threshold.
    let threshold = (1..64).find(|&bytes| eager(bytes) > one_way_cycles(bytes, 0).0);
    let threshold = threshold.map_or(f64::NAN, |bytes| bytes as f64);
    figures.push(
        Figure::predicted(
            "4.9",
            "rendezvous is faster from this length on",
            "bytes",
            0.0,
            threshold,
        )
        .within(32.0, 48.0)
        .because(CROSSING),
    );
    let curve = |name: &str, of: &dyn Fn(u64) -> f64, lengths: &[u64]| Curve {
        name: name.into(),
        theirs: false,
        points: lengths.iter().map(|&bytes| (bytes as f64, of(bytes))).collect(),
    };
    let table = |name: &str, table: &[(u32, f64)]| Curve {
        name: name.into(),
        theirs: true,
        points: table.iter().map(|&(bytes, cycles)| (bytes.into(), cycles)).collect(),
    };
    let plots = vec![Plot {
        file: "rdma-4",
        title: "RDMA, tables 4.1 and 4.4: latency",
        x: "bytes",
        y: "cycles of 75 MHz",
        log_x: false,
        curves: vec![
            curve("eager", &eager, &[1, 16, 48, 112, 240, 496]),
            curve("rendezvous", &rendezvous, &[48, 64, 128, 256, 512, 1024, 2048, 4096]),
            table("document, eager", &eager_table[1..]),
            table("document, rendezvous", &rendezvous_table),
        ],
    }];
    Paper {
        name: "rdma",
        title: "MPI primitives on a multicore with RDMA (Katsamani)",
        parameters: PARAMETERS.to_vec(),
        figures,
        plots,
    }
}
