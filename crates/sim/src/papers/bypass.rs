//! Bypass: reductions that go on without the application, by signals, on a Myrinet cluster.

use ferrywire_mpi::collective::{self, Locality, Member, Naming, ReduceOp};
use ferrywire_mpi::group::Group;
use ferrywire_mpi::operation::{self, Number};
use ferrywire_nic::{Limits, Span, Standard};

use super::{Curve, Figure, Paper, Parameter, Plot};
use crate::machine::{
    BusCosts, Cluster, HostProgram, Linear, Machine, MatchingCosts, NicCosts, Path, Runner,
    WireCosts, reliable, rounded,
};
use crate::random::Random;

const WIRE: Parameter = Parameter::given("the wire", 250.0, "MB/s", "Myrinet-2000: 2 Gb/s");
const PCI: Parameter = Parameter::given(
    "the bus, at either end",
    132.0,
    "MB/s",
    "section 3.5: 33 MHz, 32 bits in half of the nodes",
);
const SIDE: Parameter = Parameter::assumed(
    "what a host does for a message, at either end",
    2.0,
    "us",
    "short messages of about 10 us, of which the text says nothing",
);
const LATENCY: Parameter =
    Parameter::assumed("a message, between its hosts", 6.0, "us", "the same");
const COPY: Parameter =
    Parameter::assumed("copying", 400.0, "MB/s", "a Pentium III; small beside the rest");
const ADD: Parameter =
    Parameter::assumed("adding two numbers", 10.0, "ns", "a Pentium III; small beside the rest");
const SIGNAL: Parameter = Parameter::fitted(
    "a signal",
    12.0,
    "us",
    "3.6: 5.1 times less, 32 nodes, 4 numbers, 1000 us of skew",
);
const SKEW: Parameter =
    Parameter::given("the longest delay of a rank", 1000.0, "us", "section 3.5.1");

const PARAMETERS: [Parameter; 8] = [WIRE, PCI, SIDE, LATENCY, COPY, ADD, SIGNAL, SKEW];

fn machine(runner: Runner) -> Machine {
    let side = SIDE.value * 1e3;
    Machine {
        runner,
        call_ns: 0.0,
        reap_ns: 0.0,
        doorbell_ns: 0.0,
        notice_ns: 0.0,
        nic: NicCosts {
            frame_out_ns: side,
            frame_in_ns: side,
            reduce: Linear::new(0.0, ADD.value / 8.0),
            ..NicCosts::default()
        },
        bus: BusCosts::Copy(Linear::new(0.0, 1e3 / COPY.value)),
        wire: WireCosts {
            promises: reliable(8192, false),
            header_bytes: 16,
            path: Path::of_hops(LATENCY.value * 1e3, |_, _| 1),
            bytes: vec![Linear::new(0.0, 1e3 / WIRE.value + 2e3 / PCI.value)],
        },
        matching: MatchingCosts::default(),
    }
}

/// A series of reductions.
#[derive(Clone, Copy)]
struct Reduction {
    nodes: u32,
    numbers: u64,
    skew_us: f64,
}

impl Reduction {
    /// The time in calls, and taken by signals, for each rank and reduction; and the time from the first call until the
    /// root has the result.
    fn run(self, bypass: bool) -> [f64; 2] {
        let runner = match bypass {
            true => Runner::CallsAndSignals(SIGNAL.value * 1e3),
            false => Runner::Calls,
        };
        let Reduction { nodes, numbers, skew_us } = self;
        let bytes = 8 * numbers;
        let limits = Limits { credit_bytes: 1 << 20, ..Limits::default() };
        let mut cluster = Cluster::<Standard>::new(machine(runner), &limits, nodes);
        let group = Group::whole(nodes);
        let operator =
            operation::operator(operation::Operation::Sum, Number::F64).expect("numbers have sums");
        let sum = ReduceOp { operator, element_bytes: 8, commutative: true };
        let mut random = Random::new(3);
        for rank in 0..nodes {
            let mut program = HostProgram::default();
            let (own, work) = (cluster.lend(rank, bytes), cluster.lend(rank, 16 * bytes));
            for round in 0..ROUNDS {
                program.meet();
                program.note();
                program.compute(random.below(rounded(skew_us * 1e3) + 1) as f64);
                let me = Member {
                    group_id: 1,
                    group: &group,
                    rank,
                    locality: Locality::Unknown,
                    naming: Naming::Ranks,
                };
                if bypass {
                    let reduction = program.run(collective::reduce(me, 0, sum, own, work), round);
                    program.wait(&[reduction]);
                } else {
                    climb(&mut program, nodes, rank, own, work.part(0, bytes));
                }
                program.note();
                // Catching up.
                program.compute(skew_us * 1e3 + 5e5);
            }
            program.meet();
            program.note();
            cluster.program(rank, program);
        }
        let moments = cluster.run();
        let rounds = f64::from(ROUNDS);
        let in_calls =
            moments.iter().map(|rank| rank[rank.len() - 1].library_ns - rank[0].library_ns);
        let root = moments[0].chunks_exact(2).map(|round| round[1].ns - round[0].ns).sum::<f64>();
        [in_calls.sum::<f64>() / f64::from(nodes) / rounds / 1e3, root / rounds / 1e3]
    }

    fn factor(nodes: u32, numbers: u64, skew_us: f64) -> f64 {
        let reduction = Reduction { nodes, numbers, skew_us };
        reduction.run(false)[0] / reduction.run(true)[0]
    }
}

/// MPICH's reduction: up a binomial tree, by messages that the caller waits for.
fn climb(program: &mut HostProgram, nodes: u32, rank: u32, own: Span, part: Span) {
    let bits = (0..32).map(|bit| 1 << bit).take_while(|&bit: &u32| bit < nodes && rank & bit == 0);
    for child in bits.map(|bit| rank + bit).filter(|&child| child < nodes) {
        let received = program.receive(child, 0, part);
        program.wait(&[received]);
        program.compute(part.len as f64 / 8.0 * ADD.value);
    }
    if rank > 0 {
        let sent = program.send(rank & (rank - 1), 0, own);
        program.wait(&[sent]);
    }
}

const ROUNDS: u16 = 60;

/// Why the latency differs at 4 nodes.
const AT_ONCE: &str = "section 3.3 delays the return from MPI_Reduce by the number of processes, so that a child that is \
    nearly in time causes no signal; ours returns at once, and the ranks of our cluster leave a barrier at the same instant";

/// Runs the evaluation.
pub(super) fn run() -> Paper {
    let skewed = |nodes, numbers| Reduction::factor(nodes, numbers, SKEW.value);
    let latency = |nodes| {
        let reduction = Reduction { nodes, numbers: 1, skew_us: 0.0 };
        reduction.run(true)[1] / reduction.run(false)[1]
    };
    let sizes = [4, 32, 128];
    let nodes = [2, 4, 8, 16, 32];
    let least = sizes
        .iter()
        .flat_map(|&numbers| {
            [200.0, 600.0, 1000.0].map(|skew_us| Reduction::factor(32, numbers, skew_us))
        })
        .fold(f64::INFINITY, f64::min);
    let growth = nodes
        .windows(2)
        .map(|pair| skewed(pair[1], 4) / skewed(pair[0], 4))
        .fold(f64::INFINITY, f64::min);
    let figures = vec![
        Figure::fitted(
            "3.6",
            "less time in calls: 32 nodes, 4 numbers, with skew",
            "times",
            5.1,
            skewed(32, 4),
        ),
        Figure::predicted("3.6", "the least, over sizes and skews, 32 nodes", "times", 0.0, least)
            .within(1.0, 5.1),
        Figure::predicted(
            "3.7",
            "growth with each doubling of the nodes, at least",
            "times",
            0.0,
            growth,
        )
        .within(1.0, 3.0),
        Figure::predicted(
            "3.7",
            "small sizes gain more: 4 numbers against 128",
            "times",
            0.0,
            skewed(32, 4) / skewed(32, 128),
        )
        .within(1.0, 5.1),
        Figure::predicted(
            "3.8",
            "less time in calls: 32 nodes, 128 numbers, no skew",
            "times",
            1.5,
            Reduction::factor(32, 128, 0.0),
        ),
        Figure::predicted(
            "3.9",
            "latency, against that without bypass, 2 nodes",
            "times",
            1.0,
            latency(2),
        ),
        Figure::predicted(
            "3.9",
            "latency, against that without bypass, 4 nodes",
            "times",
            1.0,
            latency(4),
        )
        .because(AT_ONCE),
        Figure::predicted(
            "3.9",
            "latency, against that without bypass, 32 nodes: a penalty",
            "times",
            0.0,
            latency(32),
        )
        .within(1.0, 3.0),
    ];
    let plots = vec![Plot {
        file: "bypass-3.7",
        title: "Bypass, figure 3.7: less time in calls of a reduction, with skew",
        x: "nodes",
        y: "times less",
        log_x: true,
        curves: sizes
            .map(|numbers| Curve {
                name: format!("{numbers} numbers"),
                theirs: false,
                points: nodes.iter().map(|&nodes| (nodes.into(), skewed(nodes, numbers))).collect(),
            })
            .into_iter()
            .chain([Curve { name: "document".into(), theirs: true, points: vec![(32.0, 5.1)] }])
            .collect(),
    }];
    Paper {
        name: "bypass",
        title: "Application-bypass reduction, in: Static and dynamic offload on Myrinet (Wagner)",
        parameters: PARAMETERS.to_vec(),
        figures,
        plots,
    }
}
