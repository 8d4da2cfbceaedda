//! Put, get, accumulate, fetch, compare-and-swap; counters and triggers.

use ferrywire_nic::{
    Counter, Fault, Kind, Limits, Mask, MatchWord, Mode, Nic, Notice, Outcome, Posted, Region,
    Schedule, Span, Step, Triggered,
};

use crate::common::schedules::GROUP;
use crate::common::{LOSSY, Memory, PLAIN, SUM, World, limits, pattern, peer};

const DENIED: Outcome = Outcome::Failed(Fault::Denied);

/// Two ranks, and a region of 20,000 bytes that rank 1 has opened.
fn opened(rail: ferrywire_nic::Promises) -> (World, Region) {
    let mut world = World::new(2, rail, &limits());
    let window = world.room(1, 20_000);
    world.nics[1].open_piece(window);
    (world, window.region)
}

#[test]
fn a_put_arrives_whether_it_is_one_frame_or_many() {
    for rail in [PLAIN, LOSSY] {
        for len in [0, 1, 5, 4016, 4017, 15_000] {
            let (mut world, region) = opened(rail);
            let source = world.lend(0, &pattern(len));
            let put =
                world.act(0, |nic, port| nic.post_put(peer(1), source, region, 77, None, port));
            world.assert_pending(0, put);
            world.calm();
            world.assert_done(0, put);
            let there = Span::new(region, 77, len as u64);
            assert_eq!(world.bytes(1, there), &pattern(len)[..]);
            world.assert_quiet();
        }
    }
}

#[test]
fn a_get_reads_whether_it_is_one_frame_or_many() {
    for rail in [PLAIN, LOSSY] {
        for len in [0, 1, 4024, 4025, 15_000] {
            let (mut world, region) = opened(rail);
            let there = Span::new(region, 5000, len as u64);
            world.act(1, |_, port| port.at_mut(there).copy_from_slice(&pattern(len)));
            let into = world.room(0, len);
            let get = world.act(0, |nic, port| nic.post_get(peer(1), there, into, port));
            world.calm();
            world.assert_received(0, get, into, &pattern(len));
            world.assert_quiet();
        }
    }
}

#[test]
fn an_accumulate_adds_whether_it_is_one_frame_or_many() {
    for rail in [PLAIN, LOSSY] {
        for len in [0, 8, 4016, 15_000] {
            let (mut world, region) = opened(rail);
            let source = world.lend(0, &vec![3; len]);
            for _ in 0..2 {
                let done = world
                    .act(0, |nic, port| nic.post_accumulate(peer(1), source, region, 8, SUM, port));
                world.calm();
                world.assert_done(0, done);
            }
            assert_eq!(world.bytes(1, Span::new(region, 8, len as u64)), &vec![6; len][..]);
            world.assert_quiet();
        }
    }
}

#[test]
fn a_swap_happens_if_the_value_is_what_was_expected() {
    for rail in [PLAIN, LOSSY] {
        let (mut world, region) = opened(rail);
        for (expected, value, found) in [(0, 7, 0), (0, 8, 7), (7, 9, 7), (9, 0, 9)] {
            let swap = world.act(0, |nic, port| {
                nic.post_compare_swap(peer(1), Span::new(region, 16, 8), expected, value, port)
            });
            world.calm();
            assert_eq!(world.outcome(0, swap), Some(Outcome::Found(found)));
        }
        world.assert_quiet();
    }
}

#[test]
fn a_fetch_returns_what_was_there_and_changes_it() {
    for rail in [PLAIN, LOSSY] {
        for len in [1, 8, 3000] {
            let (mut world, region) = opened(rail);
            let there = Span::new(region, 40, len as u64);
            world.act(1, |_, port| port.at_mut(there).copy_from_slice(&pattern(len)));
            let source = world.lend(0, &vec![3; len]);
            let before = world.room(0, len);
            let fetch = world
                .act(0, |nic, port| nic.post_fetch(peer(1), source, region, 40, SUM, before, port));
            world.assert_pending(0, fetch);
            world.calm();
            world.assert_received(0, fetch, before, &pattern(len));
            let after: Vec<u8> = pattern(len).iter().map(|byte| byte.wrapping_add(3)).collect();
            assert_eq!(world.bytes(1, there), &after[..]);
            world.assert_quiet();
        }
    }
}

#[test]
fn a_fetch_of_a_peer_that_dies_ends() {
    let (mut world, region) = opened(LOSSY);
    let source = world.lend(0, &[1; 8]);
    let before = world.room(0, 8);
    let fetch =
        world.act(0, |nic, port| nic.post_fetch(peer(1), source, region, 0, SUM, before, port));
    world.act(0, |nic, port| nic.on_peer_down(peer(1), port));
    assert_eq!(world.outcome(0, fetch), Some(Outcome::Failed(Fault::PeerDown(peer(1)))));
}

#[test]
fn accumulates_change_memory_in_the_order_of_their_posts() {
    // The first needs more frames than may be in flight.
    let mut world = World::new(2, LOSSY, &Limits { frames_in_flight_max: 2, ..limits() });
    let window = world.room(1, 20_000);
    world.nics[1].open_piece(window);
    let region = window.region;
    let long = world.lend(0, &[1; 18_016]);
    let short = world.lend(0, &[1; 8]);
    let posts = [(long, 0), (short, 18_008)].map(|(source, offset)| {
        world.act(0, |nic, port| nic.post_accumulate(peer(1), source, region, offset, SUM, port))
    });
    world.calm();
    posts.into_iter().for_each(|posted| world.assert_done(0, posted));
    let kinds = world.ports[0].sent.iter().map(|(_, envelope)| envelope.kind);
    let ends: Vec<_> = kinds
        .filter_map(|kind| match kind {
            Kind::Accumulate { ticket, last: true, .. } => Some(ticket),
            _ => None,
        })
        .collect();
    assert_eq!(ends, posts.map(crate::common::ticket));
}

#[test]
fn pieces_of_a_region_are_opened_and_closed_one_by_one() {
    let (mut world, region) = opened(PLAIN);
    world.nics[1].close_region(region);
    for (offset, len) in [(100, 50), (150, 10), (200, 8)] {
        world.nics[1].open_piece(Span::new(region, offset, len));
    }
    let put = |world: &mut World, offset, len| {
        let source = world.lend(0, &pattern(len));
        let put =
            world.act(0, |nic, port| nic.post_put(peer(1), source, region, offset, None, port));
        world.calm();
        world.outcome(0, put) == Some(Outcome::Done)
    };
    assert!(put(&mut world, 100, 60) && put(&mut world, 149, 2) && put(&mut world, 200, 8));
    assert!(!put(&mut world, 99, 2) && !put(&mut world, 159, 2) && !put(&mut world, 207, 2));
    world.nics[1].close_piece(region, 150);
    assert!(put(&mut world, 100, 50) && !put(&mut world, 149, 2));
    world.nics[1].close_region(region);
    assert!(!put(&mut world, 100, 1));
    world.assert_quiet();
}

#[test]
fn what_is_out_of_bounds_is_denied() {
    for rail in [PLAIN, LOSSY] {
        let (mut world, region) = opened(rail);
        let source = world.lend(0, &pattern(9000));
        let into = world.room(0, 9000);
        for (region, offset) in
            [(region, 11_001), (region, 20_001), (region, u64::MAX), (Region(99), 0)]
        {
            let offsets = offset.clamp(19_993, 30_000);
            let posts = [
                world
                    .act(0, |nic, port| nic.post_put(peer(1), source, region, offsets, None, port)),
                world.act(0, |nic, port| {
                    nic.post_get(peer(1), Span::new(region, offset, 9000), into, port)
                }),
                world.act(0, |nic, port| {
                    nic.post_compare_swap(peer(1), Span::new(region, offsets, 8), 0, 1, port)
                }),
            ];
            world.calm();
            for posted in posts {
                assert_eq!(world.outcome(0, posted), Some(DENIED));
            }
        }
        world.assert_quiet();
    }
}

#[test]
fn an_accumulate_out_of_bounds_is_denied() {
    let (mut world, region) = opened(PLAIN);
    let source = world.lend(0, &pattern(9000));
    let posted =
        world.act(0, |nic, port| nic.post_accumulate(peer(1), source, region, 19_000, SUM, port));
    world.calm();
    assert_eq!(world.outcome(0, posted), Some(DENIED));
    world.assert_quiet();
}

#[test]
fn a_put_at_the_end_of_the_world_causes_no_panic() {
    let (mut world, region) = opened(PLAIN);
    let source = world.lend(0, &pattern(9000));
    let put = world
        .act(0, |nic, port| nic.post_put(peer(1), source, region, u64::MAX - 5000, None, port));
    world.calm();
    assert_eq!(world.outcome(0, put), Some(DENIED));
    world.assert_quiet();
}

#[test]
fn a_region_that_is_closed_again_is_denied() {
    let (mut world, region) = opened(PLAIN);
    world.nics[1].close_region(region);
    let source = world.lend(0, b"late");
    let put = world.act(0, |nic, port| nic.post_put(peer(1), source, region, 0, None, port));
    world.calm();
    assert_eq!(world.outcome(0, put), Some(DENIED));
    world.assert_quiet();
}

#[test]
fn a_put_raises_the_counter_that_it_names_when_all_of_it_is_there() {
    for rail in [PLAIN, LOSSY] {
        let (mut world, region) = opened(rail);
        let [_, counter] = counters(&mut world, region);
        let wait = world.nics[1].post_wait(counter, 2);
        let source = world.lend(0, &pattern(15_000));
        for raised in [1, 2] {
            world.act(0, |nic, port| nic.post_put(peer(1), source, region, 0, Some(1), port));
            world.assert_pending(1, wait);
            assert_eq!(world.nics[1].counter(counter), raised - 1);
            world.calm();
            assert_eq!(world.nics[1].counter(counter), raised);
        }
        world.assert_done(1, wait);
        assert_eq!(world.nics[1].post_wait(counter, 2), Posted::Done(Outcome::Done));
        world.assert_quiet();
    }
}

/// Counters that belong to a region of rank 1.
fn counters(world: &mut World, region: Region) -> [Counter; 2] {
    let counters = [1, 2].map(|_| world.nics[1].open_counter());
    world.nics[1].set_region_counters(region, counters.into());
    counters
}

#[test]
fn a_put_of_nothing_raises_a_counter_wherever_it_goes() {
    let (mut world, region) = opened(PLAIN);
    let [counter, _] = counters(&mut world, region);
    let put = world
        .act(0, |nic, port| nic.post_put(peer(1), Span::EMPTY, region, 1 << 40, Some(0), port));
    world.calm();
    world.assert_done(0, put);
    assert_eq!(world.nics[1].counter(counter), 1);
    world.assert_quiet();
}

#[test]
fn a_denied_put_raises_no_counter() {
    let (mut world, region) = opened(PLAIN);
    let [counter, _] = counters(&mut world, region);
    let source = world.lend(0, b"outside");
    let put =
        world.act(0, |nic, port| nic.post_put(peer(1), source, region, 1 << 40, Some(0), port));
    world.calm();
    assert_eq!(world.outcome(0, put), Some(DENIED));
    assert_eq!(world.nics[1].counter(counter), 0);
    world.assert_quiet();
}

#[test]
fn a_counter_that_is_set_ends_the_waits_that_it_reaches() {
    let mut world = World::new(1, PLAIN, &limits());
    let counter = world.nics[0].open_counter();
    let waits = [3, 8].map(|value| world.nics[0].post_wait(counter, value));
    world.act(0, |nic, port| nic.set_counter(counter, 5, port));
    world.assert_done(0, waits[0]);
    world.act(0, |nic, port| nic.set_counter(counter, 2, port));
    assert_eq!(world.nics[0].counter(counter), 2);
    world.assert_pending(0, waits[1]);
    world.cancel(0, waits[1]);
    world.assert_quiet();
}

#[test]
fn a_put_that_names_no_counter_of_ours_arrives_all_the_same() {
    let (mut world, region) = opened(PLAIN);
    let source = world.lend(0, b"hello");
    let put = world.act(0, |nic, port| nic.post_put(peer(1), source, region, 0, Some(42), port));
    world.calm();
    world.assert_done(0, put);
    world.assert_quiet();
}

#[test]
fn one_sided_operations_on_oneself_work() {
    let mut world = World::new(1, PLAIN, &limits());
    let window = world.room(0, 64);
    world.nics[0].open_piece(window.first(64));
    let source = world.lend(0, b"hello");
    let put = world.act(0, |nic, port| nic.post_put(peer(0), source, window.region, 8, None, port));
    world.run_until_quiet();
    world.assert_done(0, put);
    let into = world.room(0, 5);
    let there = Span::new(window.region, 8, 5);
    let get = world.act(0, |nic, port| nic.post_get(peer(0), there, into, port));
    world.run_until_quiet();
    world.assert_received(0, get, into, b"hello");
    world.assert_quiet();
}

#[test]
fn the_end_of_an_operation_raises_a_counter() {
    let mut world = World::new(2, PLAIN, &limits());
    let counter = world.nics[1].open_counter();
    let into = world.room(1, 5);
    let receive = world.receive(1, 0, 1, into);
    world.act(1, |nic, _| nic.count(crate::common::ticket(receive), counter));
    world.send_text(0, 1, 1, b"hello");
    assert_eq!(world.nics[1].counter(counter), 0);
    world.run_until_quiet();
    assert_eq!(world.nics[1].counter(counter), 1);
    world.assert_quiet();
}

#[test]
fn a_wait_can_be_cancelled_and_a_counter_closed() {
    let mut world = World::new(1, PLAIN, &limits());
    let counter = world.nics[0].open_counter();
    let waits = [1, 2].map(|value| world.nics[0].post_wait(counter, value));
    world.cancel(0, waits[0]);
    assert_eq!(world.outcome(0, waits[0]), Some(Outcome::Cancelled));
    world.act(0, |nic, port| nic.raise(counter, 1, port));
    world.assert_pending(0, waits[1]);
    world.act(0, |nic, port| nic.close_counter(counter, port));
    assert_eq!(world.outcome(0, waits[1]), Some(Outcome::Cancelled));
    assert_eq!(world.nics[0].counter(counter), 0);
    world.assert_quiet();
}

#[test]
fn a_counter_that_is_closed_ends_all_that_waits_for_it() {
    let mut world = World::new(1, PLAIN, &limits());
    let [counter, other] = [1, 2].map(|_| world.nics[0].open_counter());
    let into = world.room(0, 1);
    let waits = [1, 2].map(|value| world.nics[0].post_wait(counter, value));
    let elsewhere = world.nics[0].post_wait(other, 1);
    // A run that waits for the counter twice, for another one, and for a message.
    let mut schedule = Schedule::new(GROUP, 0);
    for (counter, at_least) in [(counter, 1), (counter, 2), (other, 1)] {
        schedule.push(Step::Wait { counter, at_least }, &[]);
    }
    schedule.push(Step::Receive { from: peer(0), rank: 0, into, subtag: 9 }, &[]);
    let run = world.act(0, |nic, port| nic.post_schedule(schedule.into(), 1, port));
    let started = self::schedule(reply(into), 2);
    let trigger = world.act(0, |nic, port| nic.post_trigger(counter, 1, started, port));
    // A cancelled wait raises a counter like any other operation that ends.
    world.act(0, |nic, _| nic.count(crate::common::ticket(waits[0]), other));
    world.act(0, |nic, port| nic.close_counter(counter, port));
    for wait in waits.into_iter().chain([Posted::Pending(trigger)]) {
        assert_eq!(world.outcome(0, wait), Some(Outcome::Cancelled));
    }
    assert_eq!(world.outcome(0, run), Some(Outcome::Failed(Fault::Abandoned)));
    world.assert_done(0, elsewhere);
    assert_eq!(world.nics[0].counter(other), 1);
    world.act(0, |nic, port| nic.close_counter(counter, port));
    world.act(0, |nic, port| nic.raise(counter, 5, port));
    assert_eq!(world.nics[0].counter(counter), 0);
    world.assert_quiet();
}

/// A wait for a closed counter is cancelled, and so is a trigger.
#[test]
fn a_counter_that_is_closed_reaches_no_value() {
    let mut world = World::new(1, PLAIN, &limits());
    let counter = world.nics[0].open_counter();
    world.act(0, |nic, port| nic.close_counter(counter, port));
    assert_eq!(world.nics[0].post_wait(counter, 1), Posted::Done(Outcome::Cancelled));
    let (source, into) = (world.lend(0, b"x"), world.room(0, 1));
    let mut schedule = Schedule::new(GROUP, 0);
    schedule.push(Step::Copy { source, into }, &[]);
    let run =
        world.act(0, |nic, port| nic.post_trigger(counter, 1, self::schedule(schedule, 0), port));
    assert_eq!(world.outcome(0, Posted::Pending(run)), Some(Outcome::Cancelled));
    assert_eq!(world.bytes(0, into), b"\0");
    world.assert_quiet();
}

/// A schedule that sends `source` to rank 0.
fn reply(source: Span) -> Schedule {
    let mut schedule = Schedule::new(GROUP, 1);
    schedule.push(Step::Send { to: peer(0), source, subtag: 0 }, &[]);
    schedule
}

/// A schedule for a trigger.
fn schedule(schedule: Schedule, instance: u16) -> Triggered {
    Triggered::Schedule { schedule: schedule.into(), instance }
}

#[test]
fn triggers_send_and_receive_messages() {
    for (rail, len) in [(PLAIN, 10), (PLAIN, 100_000), (LOSSY, 10), (LOSSY, 100_000)] {
        for mode in [Mode::Standard, Mode::Synchronous] {
            let (mut world, region) = opened(rail);
            let [there, _] = counters(&mut world, region);
            let here = world.nics[0].open_counter();
            let (source, into) = (world.lend(1, &pattern(len)), world.room(0, len));
            let word = MatchWord::new(GROUP, 1, 77);
            let send = Triggered::Send { to: peer(0), word, source, mode };
            let mask = Mask::EXACT;
            let receive = Triggered::Receive { from: Some(peer(1)), word, mask, into };
            let send = world.act(1, |nic, port| nic.post_trigger(there, 2, send, port));
            let receive = world.act(0, |nic, port| nic.post_trigger(here, 1, receive, port));
            let put = |nic: &mut Nic, port: &mut Memory| {
                nic.post_put(peer(1), Span::EMPTY, region, 0, Some(0), port)
            };
            world.act(0, put);
            world.calm();
            world.assert_pending(1, Posted::Pending(send));
            world.act(0, put);
            world.calm();
            world.assert_pending(0, Posted::Pending(receive));
            world.act(0, |nic, port| nic.raise(here, 1, port));
            world.calm();
            world.assert_done(1, Posted::Pending(send));
            world.assert_received(0, Posted::Pending(receive), into, &pattern(len));
            world.assert_quiet();
        }
    }
}

#[test]
fn triggers_put_and_their_puts_fire_triggers() {
    for (rail, len) in [(PLAIN, 10), (PLAIN, 3000), (LOSSY, 10), (LOSSY, 3000)] {
        let (mut world, region) = opened(rail);
        let [there, answered] = counters(&mut world, region);
        let here = world.nics[0].open_counter();
        let source = world.lend(0, &pattern(len));
        let put = |notify| Triggered::Put { to: peer(1), source, region, offset: 8, notify };
        let first = world.act(0, |nic, port| nic.post_trigger(here, 1, put(Some(0)), port));
        // What arrives starts a put into a region of its own NIC.
        let own =
            Triggered::Put { to: peer(1), source: Span::EMPTY, region, offset: 0, notify: Some(1) };
        let second = world.act(1, |nic, port| nic.post_trigger(there, 1, own, port));
        world.calm();
        world.assert_pending(0, Posted::Pending(first));
        world.act(0, |nic, port| nic.raise(here, 1, port));
        world.calm();
        world.assert_done(0, Posted::Pending(first));
        world.assert_done(1, Posted::Pending(second));
        assert_eq!([there, answered].map(|counter| world.nics[1].counter(counter)), [1, 1]);
        world.assert_quiet();
    }
}

#[test]
fn a_put_that_a_trigger_starts_fails_like_any_other() {
    let (mut world, region) = opened(PLAIN);
    let counter = world.nics[0].open_counter();
    let source = world.lend(0, b"never");
    let put = |offset| Triggered::Put { to: peer(1), source, region, offset, notify: None };
    let armed = [u64::MAX, 1 << 40]
        .map(|offset| world.act(0, |nic, port| nic.post_trigger(counter, 1, put(offset), port)));
    world.act(0, |nic, port| nic.raise(counter, 1, port));
    world.calm();
    for ticket in armed {
        let outcome = world.outcome(0, Posted::Pending(ticket));
        assert_eq!(outcome, Some(Outcome::Failed(Fault::Denied)));
    }
    world.assert_quiet();
}

/// At the owner of the region, with the bytes that the peer wanted.
#[test]
fn denied_accesses_are_reported() {
    let (mut world, region) = opened(PLAIN);
    let source = world.lend(0, b"12345678");
    let outside = Span::new(region, 19_999, 8);
    let into = world.room(0, 8);
    let posts = [
        world.act(0, |nic, port| nic.post_put(peer(1), source, region, 19_999, None, port)),
        world.act(0, |nic, port| nic.post_get(peer(1), outside, into, port)),
        world.act(0, |nic, port| nic.post_accumulate(peer(1), source, region, 19_999, SUM, port)),
        world.act(0, |nic, port| nic.post_fetch(peer(1), source, region, 19_999, SUM, into, port)),
        world.act(0, |nic, port| nic.post_compare_swap(peer(1), outside, 0, 1, port)),
    ];
    world.calm();
    for post in posts {
        assert_eq!(world.outcome(0, post), Some(DENIED));
    }
    assert_eq!(world.ports[1].notices, [Notice::Denied { from: peer(0), span: outside }; 5]);
    assert_eq!(world.ports[0].notices, []);
    world.assert_quiet();
}

/// Also those whose counter is raised later.
#[test]
fn waits_and_triggers_end_with_the_peers_that_could_raise_them() {
    let (mut world, region) = opened(PLAIN);
    let counter = world.nics[0].open_counter();
    let wait = world.nics[0].post_wait(counter, 1);
    let put = Triggered::Put { to: peer(1), source: Span::EMPTY, region, offset: 0, notify: None };
    let trigger = world.act(0, |nic, port| nic.post_trigger(counter, 1, put, port));
    world.act(0, |nic, port| nic.abandon_unbound(peer(1), port));
    world.act(0, |nic, port| nic.raise(counter, 1, port));
    for posted in [wait, Posted::Pending(trigger)] {
        assert_eq!(world.outcome(0, posted), Some(Outcome::Failed(Fault::PeerDown(peer(1)))));
    }
    world.assert_quiet();
}

#[test]
fn a_message_that_a_trigger_has_started_can_be_cancelled() {
    let mut world = World::new(2, PLAIN, &limits());
    let counter = world.nics[0].open_counter();
    let (word, into) = (MatchWord::new(GROUP, 1, 77), world.room(0, 8));
    let receive = Triggered::Receive { from: Some(peer(1)), word, mask: Mask::EXACT, into };
    let receive = world.act(0, |nic, port| nic.post_trigger(counter, 1, receive, port));
    world.act(0, |nic, port| nic.raise(counter, 1, port));
    world.assert_pending(0, Posted::Pending(receive));
    world.cancel(0, Posted::Pending(receive));
    assert_eq!(world.outcome(0, Posted::Pending(receive)), Some(Outcome::Cancelled));
    world.assert_quiet();
}

/// Whether the group ends before the trigger is set or after it.
#[test]
fn a_trigger_for_a_group_that_has_ended_fails() {
    for early in [false, true] {
        let mut world = World::new(2, PLAIN, &limits());
        let counter = world.nics[0].open_counter();
        let fault = Fault::PeerDown(peer(1));
        let end = |world: &mut World| world.act(0, |nic, port| nic.end_group(GROUP, fault, port));
        if early {
            end(&mut world);
        }
        let (word, source) = (MatchWord::new(GROUP, 0, 77), world.lend(0, b"never"));
        let send = Triggered::Send { to: peer(1), word, source, mode: Mode::Standard };
        let whats = [send, schedule(reply(source), 0)];
        let armed =
            whats.map(|what| world.act(0, |nic, port| nic.post_trigger(counter, 1, what, port)));
        if !early {
            end(&mut world);
        }
        world.act(0, |nic, port| nic.raise(counter, 1, port));
        for ticket in armed {
            let outcome = world.outcome(0, Posted::Pending(ticket));
            assert_eq!(outcome, Some(Outcome::Failed(fault)));
        }
        world.calm();
    }
}

#[test]
fn a_trigger_starts_a_schedule_with_no_help_from_anybody() {
    let (mut world, region) = opened(PLAIN);
    let [counter, _] = counters(&mut world, region);
    let source = world.lend(1, b"pong");
    let run =
        world.act(1, |nic, port| nic.post_trigger(counter, 1, schedule(reply(source), 7), port));
    let into = world.room(0, 4);
    let word = MatchWord::new(GROUP, 1, 7 << 8);
    let receive =
        world.act(0, |nic, port| nic.post_receive(Some(peer(1)), word, Mask::EXACT, into, port));
    let ping = world.lend(0, b"ping");
    world.act(0, |nic, port| nic.post_put(peer(1), ping, region, 0, Some(0), port));
    world.calm();
    world.assert_received(0, receive, into, b"pong");
    world.assert_done(1, Posted::Pending(run));
    assert_eq!(world.ports[1].count(|kind| matches!(kind, Kind::Eager { .. })), 1);
    world.assert_quiet();
}

#[test]
fn a_trigger_whose_value_is_reached_starts_at_once() {
    let mut world = World::new(1, PLAIN, &limits());
    let counter = world.nics[0].open_counter();
    let (from, into) = (world.lend(0, b"x"), world.room(0, 1));
    let mut schedule = Schedule::new(GROUP, 0);
    schedule.push(Step::Copy { source: from, into }, &[]);
    let run =
        world.act(0, |nic, port| nic.post_trigger(counter, 0, self::schedule(schedule, 0), port));
    world.assert_done(0, Posted::Pending(run));
    assert_eq!(world.bytes(0, into), b"x");
    world.assert_quiet();
}

#[test]
fn a_trigger_that_starts_nothing_is_done_when_it_fires() {
    let mut world = World::new(1, PLAIN, &limits());
    let counter = world.nics[0].open_counter();
    let empty = Schedule::new(GROUP, 0);
    let run = world.act(0, |nic, port| nic.post_trigger(counter, 1, schedule(empty, 0), port));
    world.act(0, |nic, port| nic.raise(counter, 1, port));
    world.assert_done(0, Posted::Pending(run));
    world.assert_quiet();
}

#[test]
fn a_trigger_can_be_cancelled() {
    let mut world = World::new(1, PLAIN, &limits());
    let counter = world.nics[0].open_counter();
    let source = world.lend(0, b"never");
    let run =
        world.act(0, |nic, port| nic.post_trigger(counter, 1, schedule(reply(source), 0), port));
    world.cancel(0, Posted::Pending(run));
    assert_eq!(world.outcome(0, Posted::Pending(run)), Some(Outcome::Cancelled));
    world.act(0, |nic, port| nic.raise(counter, 1, port));
    world.assert_quiet();
}
