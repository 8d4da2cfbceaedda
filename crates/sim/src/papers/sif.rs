//! SIF: an interface that matches headers in parallel, from a patent. It has no evaluation: what it promises is checked.

mod posting;
mod store;

use super::{Curve, Figure, Paper, Parameter, Plot};
use crate::machine::rounded;
use posting::{Claim, Posting};
use store::{HeaderStore, rate};

const STORE: Parameter =
    Parameter::given("the header store", 1024.0 * 1024.0, "bytes", "1 MB, for example");
const HEADER: Parameter = Parameter::given("a header", 32.0, "bytes", "32 B per header");
const RANKS: Parameter = Parameter::given("ranks", 32.0, "ranks", "32 MPI ranks per SIF");
const QUEUES: Parameter =
    Parameter::given("pairs of queues", 128.0, "queues", "NUM_HDR_QUEUES, for instance");
const MATCHERS: Parameter =
    Parameter::given("matcher units", 64.0, "units", "if the SIF includes 64 matcher units");
const COMPARES: Parameter = Parameter::given(
    "headers that a unit compares in a cycle, if no other wants the same port",
    1.0,
    "headers",
    "1 match per cycle in the absence of memory port conflicts",
);
const DEPTH: Parameter =
    Parameter::given("receives in a queue", 100.0, "receives", "up to 100's of entries per rank");
const BANKS: Parameter = Parameter::assumed(
    "banks of the header store, with a port each",
    256.0,
    "banks",
    "the text says only that they have enough bandwidth to sustain matching: four for each unit",
);

const PARAMETERS: [Parameter; 8] = [STORE, HEADER, RANKS, QUEUES, MATCHERS, COMPARES, DEPTH, BANKS];

/// Messages that are matched for one figure.
const MESSAGES: usize = 1000;

/// Runs what can be run.
pub(super) fn run() -> Paper {
    let whole = |parameter: Parameter| usize::try_from(rounded(parameter.value)).expect("few");
    let (matchers, queues, banks) = (whole(MATCHERS), whole(QUEUES), whole(BANKS));
    let share = |matchers: usize, queues, banks| {
        rate(&HeaderStore { matchers, queues, banks, depth: whole(DEPTH) }, MESSAGES)
    };
    let figures = vec![
        Figure::given(
            "store",
            "headers for each rank, if they share it evenly",
            "headers",
            1024.0,
            STORE.value / HEADER.value / RANKS.value,
        ),
        Figure::given("matcher", "a unit alone", "headers/cycle", 1.0, share(1, queues, banks)),
        Figure::predicted(
            "matcher",
            "64 units, 128 queues: the part of their rate that they reach",
            "of 1",
            0.0,
            share(matchers, queues, banks) / MATCHERS.value,
        )
        .within(0.8, 1.0),
        Figure::predicted(
            "posting",
            "three steps: orders of events that end right",
            "of 1",
            1.0,
            Posting::ThreeSteps.right(),
        ),
        Figure::predicted(
            "posting",
            "optimistic, with the last entry seen: the same",
            "of 1",
            1.0,
            Posting::Optimistic.right(),
        ),
        Figure::predicted(
            "posting",
            "without either: orders that end wrong, so there is a race",
            "of 1",
            0.0,
            1.0 - Posting::Careless.right(),
        )
        .within(0.001, 1.0),
        Figure::predicted(
            "claim",
            "a flag that is fetched and set: orders of events that end right",
            "of 1",
            1.0,
            Claim::FetchAndSet.right(),
        ),
        Figure::predicted(
            "claim",
            "without it: orders that end wrong",
            "of 1",
            0.0,
            1.0 - Claim::None.right(),
        )
        .within(0.001, 1.0),
    ];
    let over = |name: String, counts: &[usize], of: &dyn Fn(usize) -> f64| Curve {
        name,
        theirs: false,
        points: counts.iter().map(|&count| (count as f64, of(count))).collect(),
    };
    let powers = [1, 2, 4, 8, 16, 32, 64];
    let plots = vec![
        Plot {
            file: "sif-matchers",
            title: "SIF: headers compared in a cycle, 128 queues of 100 receives",
            x: "matcher units",
            y: "headers/cycle",
            log_x: true,
            curves: [16, 64, 256]
                .map(|banks| {
                    over(format!("{banks} banks"), &powers, &|units| share(units, queues, banks))
                })
                .into(),
        },
        Plot {
            file: "sif-queues",
            title: "SIF: headers compared in a cycle by 64 units and 256 banks",
            x: "queues",
            y: "headers/cycle",
            log_x: true,
            curves: vec![over("64 units".into(), &[1, 2, 4, 8, 16, 32, 64, 128], &|queues| {
                share(matchers, queues, banks)
            })],
        },
    ];
    Paper {
        name: "sif",
        title: "An interface with parallel header matching, US patent 8,537,828 (Sugumar and others)",
        parameters: PARAMETERS.to_vec(),
        figures,
        plots,
    }
}
