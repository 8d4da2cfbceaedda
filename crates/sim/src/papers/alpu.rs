//! ALPU: an associative unit that matches, beside the processor of a NIC.

use std::fmt::Debug;

use ferrywire_nic::matcher::{Alpu, List, Matcher};
use ferrywire_nic::{Limits, Span};

use super::{Curve, Figure, Paper, Parameter, Plot};
use crate::machine::{
    BusCosts, Cache, Cluster, HostProgram, Linear, Machine, MatchingCosts, MemoryCosts, NicCosts,
    Path, Runner, WireCosts, reliable, rounded,
};
use crate::soak::With;

const CYCLE: Parameter =
    Parameter::given("a cycle of the NIC's processor", 2.0, "ns", "table III: 500 MHz");
const BUS: Parameter = Parameter::given("a crossing of the NIC's bus", 20.0, "ns", "section V.B");
const WIRE: Parameter = Parameter::given("the wire", 200.0, "ns", "table III");
const CACHE: Parameter =
    Parameter::given("the cache of the NIC's processor, 64 ways", 32768.0, "bytes", "table III");
const MISS: Parameter =
    Parameter::given("a miss of that cache", 31.0, "cycles", "table III: 30-32");
const LINE: Parameter = Parameter::assumed(
    "a line of that cache",
    32.0,
    "bytes",
    "that of the PowerPC 440, which section V.B names",
);
const ENTRY: Parameter = Parameter::fitted(
    "comparing an entry that is in the cache",
    15.0,
    "ns",
    "5a: 15 ns for each entry",
);
const ENTRY_BYTES: Parameter =
    Parameter::fitted("a queue entry", 74.0, "bytes", "5a: 13 us for 400 entries, all traversed");
const TURN: Parameter = Parameter::assumed(
    "a turn of the NIC's loop: a command, a frame or a completion",
    126.0,
    "cycles",
    "a latency of 1 us, of which the text says nothing",
);
const LOOK: Parameter = Parameter::fitted(
    "asking the unit: 4 crossings of the bus, and some cycles",
    95.0,
    "ns",
    "5c: 80 ns at length 0",
);
const MATCH: Parameter = Parameter::given("a match in the unit", 7.0, "cycles", "section V.D");
const INSERT: Parameter = Parameter::given("an insert into the unit", 2.0, "cycles", "section V.D");

const PARAMETERS: [Parameter; 12] =
    [CYCLE, BUS, WIRE, CACHE, MISS, LINE, ENTRY, ENTRY_BYTES, TURN, LOOK, MATCH, INSERT];

fn machine() -> Machine {
    let turn = TURN.value * CYCLE.value;
    let cache = Cache::new(rounded(CACHE.value), 64, rounded(LINE.value));
    Machine {
        runner: Runner::Processor,
        call_ns: 0.0,
        reap_ns: 0.0,
        doorbell_ns: BUS.value,
        notice_ns: BUS.value,
        nic: NicCosts {
            send_ns: turn,
            receive_ns: turn,
            frame_in_ns: turn,
            completion_ns: turn,
            ..NicCosts::default()
        },
        bus: BusCosts::Dma(Linear::FREE),
        wire: WireCosts {
            promises: reliable(4096, false),
            header_bytes: 0,
            path: Path::of_hops(WIRE.value, |_, _| 1),
            bytes: Vec::new(),
        },
        matching: MatchingCosts {
            entry_ns: ENTRY.value,
            memory: Some(MemoryCosts {
                cache,
                entry_bytes: ENTRY_BYTES.value,
                miss_ns: MISS.value * CYCLE.value,
            }),
            // The header reaches the unit beside the processor, so its match is over when the processor asks.
            look_ns: LOOK.value,
            // A command, the request for its answer and the answer, and the command that ends it.
            insert_mode_ns: 4.0 * BUS.value,
            insert_ns: BUS.value.max(INSERT.value * CYCLE.value),
        },
    }
}

/// The matchers of figures 5 and 6, without heuristics: every entry enters the unit at once.
type Unit128 = Alpu<128, 16, 1>;
type Unit256 = Alpu<256, 16, 1>;

/// The latency of an empty message that matches the receive at `traversed` of `length` posted ones, plus one.
fn posted_ns<M: Matcher + Debug>(length: u32, traversed: u32) -> f64 {
    let mut cluster = Cluster::<With<M>>::new(machine(), &limits(), 2);
    let (mut near, mut far) = (HostProgram::default(), HostProgram::default());
    // The benchmark posts its receives anew for each message, so its own writes fill the cache.
    for _ in 0..3 {
        let mut posted: Vec<_> = (0..length + 1)
            .map(|at| far.receive(0, if at == traversed { PING } else { OTHER + at }, Span::EMPTY))
            .collect();
        let ping = posted.remove(traversed as usize);
        near.meet();
        far.meet();
        near.note();
        near.send(1, PING, Span::EMPTY);
        far.wait(&[ping]);
        far.note();
        near.meet();
        far.meet();
        // The others are received, too.
        (0..length + 1)
            .filter(|&at| at != traversed)
            .for_each(|at| _ = near.send(1, OTHER + at, Span::EMPTY));
        far.wait(&posted);
    }
    cluster.program(0, near);
    cluster.program(1, far);
    let moments = cluster.run();
    moments[1][2].ns - moments[0][2].ns
}

/// Half a round trip of empty messages, with `length` unexpected ones in the queue of the rank that answers. The time to
/// post the receive is included.
fn unexpected_ns<M: Matcher + Debug>(length: u32) -> f64 {
    let mut cluster = Cluster::<With<M>>::new(machine(), &limits(), 2);
    let (mut near, mut far) = (HostProgram::default(), HostProgram::default());
    (0..length).for_each(|at| _ = near.send(1, OTHER + at, Span::EMPTY));
    near.meet();
    far.meet();
    for _ in 0..5 {
        near.note();
        near.send(1, PING, Span::EMPTY);
        let pong = near.receive(1, PONG, Span::EMPTY);
        near.wait(&[pong]);
        let ping = far.receive(0, PING, Span::EMPTY);
        far.wait(&[ping]);
        far.send(0, PONG, Span::EMPTY);
    }
    near.note();
    near.meet();
    far.meet();
    let rest: Vec<_> = (0..length).map(|at| far.receive(0, OTHER + at, Span::EMPTY)).collect();
    far.wait(&rest);
    cluster.program(0, near);
    cluster.program(1, far);
    let moments = cluster.run();
    (moments[0][5].ns - moments[0][3].ns) / 4.0
}

const PING: u32 = 1;
const PONG: u32 = 2;
const OTHER: u32 = 10;

fn limits() -> Limits {
    Limits { unexpected_bytes_max: 64 << 20, credit_bytes: 1 << 20, ..Limits::default() }
}

/// The cycles of a match: five stages, and the priority between blocks in one cycle for up to eight blocks.
fn match_cycles(cells: u32, block: u32) -> f64 {
    5.0 + if cells / block > 8 { 2.0 } else { 1.0 }
}

/// Runs the evaluation.
pub(super) fn run() -> Paper {
    let lengths: Vec<u32> =
        (0..=16).map(|n| n * 8).chain((5..=40).map(|n| n * 32)).filter(|&n| n <= 640).collect();
    let sweep = |of: fn(u32) -> f64| -> Vec<(u32, f64)> {
        lengths.iter().map(|&length| (length, of(length))).collect()
    };
    let list = sweep(|n| posted_ns::<List>(n, n));
    let unit_128 = sweep(|n| posted_ns::<Unit128>(n, n));
    let unit_256 = sweep(|n| posted_ns::<Unit256>(n, n));
    let list_6 = sweep(unexpected_ns::<List>);
    let unit_6 = sweep(unexpected_ns::<Unit256>);
    let at = |curve: &[(u32, f64)], length: u32| {
        curve.iter().find(|point| point.0 == length).map_or(f64::NAN, |point| point.1)
    };
    let slope = |from, to| (at(&list, to) - at(&list, from)) / f64::from(to - from);
    let flat_until = |of: fn(u32) -> f64, cells: u32| {
        let base = of(0);
        // The receive itself takes a cell, too.
        let end = (cells - 16..cells + 16).find(|&n| of(n) > base + ENTRY.value);
        end.map_or(f64::NAN, f64::from)
    };
    // Where the two curves cross, between two lengths.
    let gain = |of: fn(u32) -> f64, with: fn(u32) -> f64| {
        let lost = |n| with(n) - of(n);
        let first = (1..200).find(|&n| lost(n) < 0.0);
        first.map_or(f64::NAN, |n| f64::from(n) + lost(n) / (lost(n - 1) - lost(n)))
    };
    let knee = |curve: &[(u32, f64)]| {
        let mut steps = curve
            .windows(2)
            .map(|pair| (pair[0].0, (pair[1].1 - pair[0].1) / f64::from(pair[1].0 - pair[0].0)));
        steps
            .find(|&(_, slope)| slope > ENTRY.value)
            .map_or(f64::NAN, |(length, _)| f64::from(length))
    };
    let mut figures = vec![
        Figure::fitted(
            "5a, 5b",
            "each entry, while the list fits the cache",
            "ns",
            15.0,
            slope(8, 128),
        ),
        Figure::predicted("5a, 5b", "each entry, beyond the cache", "ns", 64.0, slope(544, 640)),
        Figure::fitted(
            "5a",
            "400 entries, all traversed",
            "us",
            13.0,
            posted_ns::<List>(400, 400) / 1e3,
        ),
        Figure::predicted(
            "5a",
            "500 entries, 80 % traversed",
            "us",
            24.0,
            posted_ns::<List>(500, 400) / 1e3,
        ),
        Figure::predicted(
            "5c, 5d",
            "flat until this length, 128 cells",
            "entries",
            128.0,
            flat_until(|n| posted_ns::<Unit128>(n, n), 128),
        ),
        Figure::predicted(
            "5e, 5f",
            "flat until this length, 256 cells",
            "entries",
            256.0,
            flat_until(|n| posted_ns::<Unit256>(n, n), 256),
        ),
        Figure::fitted(
            "5c-f",
            "what the unit adds at length 0",
            "ns",
            80.0,
            at(&unit_256, 0) - at(&list, 0),
        ),
        Figure::predicted(
            "5c-f",
            "the unit breaks even at",
            "entries",
            5.0,
            gain(|n| posted_ns::<List>(n, n), |n| posted_ns::<Unit256>(n, n)),
        ),
        Figure::predicted(
            "6",
            "the unit gains from this length on",
            "messages",
            70.0,
            gain(unexpected_ns::<List>, unexpected_ns::<Unit256>),
        ),
        Figure::predicted(
            "6",
            "what the unit adds at length 0",
            "ns",
            0.0,
            at(&unit_6, 0) - at(&list_6, 0),
        )
        .within(10.0, 99.0),
        Figure::predicted(
            "6",
            "the list rises more steeply from this length on",
            "messages",
            0.0,
            knee(&list_6),
        )
        .within(300.0, 450.0),
    ];
    for (cells, block, place, cycles) in [
        (256, 8, "IV, V", 7.0),
        (256, 16, "IV, V", 7.0),
        (256, 32, "IV, V", 6.0),
        (128, 8, "IV, V", 7.0),
        (128, 16, "IV, V", 6.0),
        (128, 32, "IV, V", 6.0),
    ] {
        let what = format!("a match, {cells} cells in blocks of {block}");
        figures.push(Figure::given(place, what, "cycles", cycles, match_cycles(cells, block)));
    }
    let curve = |name: &str, of: &[(u32, f64)]| Curve {
        name: name.into(),
        theirs: false,
        points: of.iter().map(|&(n, ns)| (n.into(), ns / 1e3)).collect(),
    };
    let plots = vec![
        Plot {
            file: "alpu-5",
            title: "ALPU, figure 5: a message that matches the last of the posted receives",
            x: "posted receives",
            y: "latency, us",
            log_x: false,
            curves: vec![
                curve("list", &list),
                curve("unit of 128 cells", &unit_128),
                curve("unit of 256 cells", &unit_256),
                Curve { name: "document".into(), theirs: true, points: vec![(400.0, 13.0)] },
            ],
        },
        Plot {
            file: "alpu-6",
            title: "ALPU, figure 6: a message behind unexpected ones",
            x: "unexpected messages",
            y: "latency, us",
            log_x: false,
            curves: vec![curve("list", &list_6), curve("unit of 256 cells", &unit_6)],
        },
    ];
    Paper {
        name: "alpu",
        title: "A Hardware Acceleration Unit for MPI Queue Processing (Brightwell and others)",
        parameters: PARAMETERS.to_vec(),
        figures,
        plots,
    }
}
