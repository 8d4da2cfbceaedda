//! What a machine costs: one part at a time.

use ferrywire_nic::matcher::{Alpu, List, Matcher};
use ferrywire_nic::{Limits, Span, Standard};
use ferrywire_sim::machine::{
    BusCosts, Cluster, HostProgram, Linear, Machine, MatchingCosts, Moment, NicCosts, Path, Runner,
    WireCosts, reliable,
};
use ferrywire_sim::soak::With;

/// A machine on which nothing costs anything but the wire: 100 ns a hop.
fn free(runner: Runner) -> Machine {
    Machine {
        runner,
        call_ns: 0.0,
        reap_ns: 0.0,
        doorbell_ns: 0.0,
        notice_ns: 0.0,
        nic: NicCosts::default(),
        bus: BusCosts::Copy(Linear::FREE),
        wire: WireCosts {
            promises: reliable(8192, true),
            header_bytes: 0,
            path: Path::of_hops(100.0, |from, to| from.abs_diff(to)),
            bytes: Vec::new(),
        },
        matching: MatchingCosts::default(),
    }
}

/// Rank 0 sends `count` messages of `bytes` to rank `to`, which computes before it waits. Returns what both have noted:
/// before the first call, and after each message.
fn stream(machine: Machine, to: u32, bytes: u64, count: u32, compute_ns: f64) -> [Vec<Moment>; 2] {
    let limits = Limits { eager_bytes_max: 4096, ..Limits::default() };
    let mut cluster = Cluster::<Standard>::new(machine, &limits, to + 1);
    let (mut near, mut far) = (HostProgram::default(), HostProgram::default());
    let receives: Vec<_> = (0..count)
        .map(|tag| {
            let into = cluster.lend(to, bytes);
            far.receive(0, tag, into)
        })
        .collect();
    near.meet();
    far.meet();
    near.note();
    far.note();
    far.compute(compute_ns);
    let sends: Vec<_> = (0..count)
        .map(|tag| {
            let source = cluster.lend(0, bytes);
            near.send(to, tag, source)
        })
        .collect();
    for send in sends {
        near.wait(&[send]);
        near.note();
    }
    for receive in receives {
        far.wait(&[receive]);
        far.note();
    }
    near.meet();
    far.meet();
    cluster.program(0, near);
    cluster.program(to, far);
    let mut moments = cluster.run();
    let far = moments.pop().expect("the last rank");
    [std::mem::take(&mut moments[0]), far]
}

fn after(moments: &[Moment], at: usize) -> f64 {
    moments[at].ns - moments[0].ns
}

#[test]
fn every_hop_takes_its_time() {
    let [_, near] = stream(free(Runner::Processor), 1, 8, 1, 0.0);
    let [_, far] = stream(free(Runner::Processor), 5, 8, 1, 0.0);
    assert_eq!((after(&near, 1), after(&far, 1)), (100.0, 500.0));
}

#[test]
fn a_nic_with_a_processor_goes_on_while_its_host_computes() {
    // A long message needs an answer of its receiver.
    for (runner, waits) in [(Runner::Processor, false), (Runner::Calls, true)] {
        let [sender, receiver] = stream(free(runner), 1, 1 << 20, 1, 1e6);
        assert_eq!(after(&sender, 1) > 1e6, waits, "{runner:?}");
        assert!(after(&receiver, 1) >= 1e6);
    }
}

#[test]
fn time_in_calls_is_counted_and_time_of_computing_is_not() {
    let [sender, receiver] = stream(free(Runner::Calls), 1, 1 << 20, 1, 1e6);
    assert!(sender[1].library_ns > 1e6, "the sender waits in a call");
    assert!(receiver[1].library_ns < 1e3, "the receiver computes");
}

#[test]
fn a_bus_moves_one_message_after_the_other() {
    let bus = BusCosts::Dma(Linear::new(0.0, 10.0));
    let [_, receiver] = stream(Machine { bus, ..free(Runner::Processor) }, 1, 1000, 3, 0.0);
    // Down, over the wire and up; both buses carry the next one meanwhile.
    let times = [1, 2, 3].map(|at| after(&receiver, at));
    assert_eq!(times, [20_100.0, 30_100.0, 40_100.0]);
}

#[test]
fn a_wire_takes_the_cheaper_of_its_lines() {
    let mut machine = free(Runner::Processor);
    machine.wire.bytes = vec![Linear::new(0.0, 10.0), Linear::new(900.0, 1.0)];
    assert_eq!([10, 100, 1000].map(|bytes| machine.wire.busy_ns(bytes)), [100.0, 1000.0, 1900.0]);
}

/// The latency of a message that matches the last of `length` receives.
fn behind<M: Matcher>(length: u32) -> f64 {
    let matching = MatchingCosts { entry_ns: 10.0, look_ns: 40.0, ..MatchingCosts::default() };
    let machine = Machine { matching, ..free(Runner::Processor) };
    let mut cluster = Cluster::<With<M>>::new(machine, &Limits::default(), 2);
    let (mut near, mut far) = (HostProgram::default(), HostProgram::default());
    let receives: Vec<_> = (0..length).map(|tag| far.receive(0, tag, Span::EMPTY)).collect();
    near.meet();
    far.meet();
    near.note();
    near.send(1, length - 1, Span::EMPTY);
    far.wait(&[receives[length as usize - 1]]);
    far.note();
    cluster.program(0, near);
    cluster.program(1, far);
    let moments = cluster.run();
    moments[1][0].ns - moments[0][0].ns
}

#[test]
fn matching_costs_what_the_matcher_says_it_did() {
    assert_eq!(behind::<List>(50), 100.0 + 50.0 * 10.0);
    assert_eq!(behind::<Alpu<128, 8, 1>>(50), 100.0 + 40.0);
    assert_eq!(behind::<Alpu<128, 8, 1>>(128 + 20), 100.0 + 40.0 + 20.0 * 10.0);
}

#[test]
fn the_same_programs_take_the_same_time() {
    let run = || stream(free(Runner::Calls), 3, 5000, 20, 300.0);
    assert_eq!(run(), run());
}

#[test]
#[should_panic(expected = "rank 1 waits for ever")]
fn a_program_that_waits_for_nothing_is_found() {
    let mut cluster = Cluster::<Standard>::new(free(Runner::Calls), &Limits::default(), 2);
    let mut program = HostProgram::default();
    let receive = program.receive(0, 0, Span::EMPTY);
    program.wait(&[receive]);
    cluster.program(1, program);
    cluster.run();
}
