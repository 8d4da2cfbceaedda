//! Idle peers: farewells, credit given back, peers forgotten and met again.

use ferrywire_nic::{Envelope, Fault, Kind, Marks, Mode, Outcome, Posted, Promises, Verdict};

use crate::common::{LOSSY, PLAIN, World, limits, pattern, peer};
use crate::modules;

/// Sends one message and receives it.
fn exchange(world: &mut World, from: usize, to: usize, tag: u32, text: &[u8]) {
    let into = world.room(to, text.len());
    let receive = world.receive(to, from, tag, into);
    let send = world.send_text(from, to, tag, text);
    world.calm();
    world.assert_done(from, send);
    world.assert_received(to, receive, into, text);
}

/// Receives a message that has arrived or is on its way.
fn collect(world: &mut World, at: usize, from: usize, tag: u32, text: &[u8]) {
    let into = world.room(at, text.len());
    let receive = world.receive(at, from, tag, into);
    world.calm();
    world.assert_received(at, receive, into, text);
}

/// Ranks 0 and 1 have exchanged messages in both directions; ranks from 2 on have met no peer.
fn acquainted(rail: Promises) -> World {
    let mut world = World::new(6, rail, &limits());
    exchange(&mut world, 0, 1, 1, b"hello");
    exchange(&mut world, 1, 0, 1, b"hello");
    world.clear_records();
    world
}

/// The same after a long idle time.
fn rested(rail: Promises) -> World {
    let mut world = acquainted(rail);
    rest(&mut world);
    world
}

fn rest(world: &mut World) {
    world.pass(limits().idle_ns_max + 1);
}

/// Makes a rank contact a new peer, and so check its old ones. Nothing arrives yet.
fn look_around(world: &mut World, rank: usize, stranger: usize) {
    let into = world.room(stranger, 2);
    world.receive(stranger, rank, 99, into);
    world.send_text(rank, stranger, 99, b"hi");
}

/// Rank 0 says farewell, rank 1 answers with its own, and both have arrived.
fn parted(rail: Promises) -> World {
    let mut world = rested(rail);
    look_around(&mut world, 0, 2);
    world.calm();
    for (rank, other) in [(0, 1), (1, 0)] {
        assert_eq!(farewells(&world, rank, other), 1);
    }
    world
}

fn farewells(world: &World, from: usize, to: usize) -> usize {
    let said = |(at, envelope): &&(_, Envelope)| *at == peer(to) && envelope.kind == Kind::Farewell;
    world.ports[from].sent.iter().filter(said).count()
}

/// The marks of the last frame from one rank to the other.
fn last_marks(world: &World, from: usize, to: usize) -> Marks {
    let mut sent = world.ports[from].sent.iter().rev();
    let (_, last) = sent.find(|(at, _)| *at == peer(to)).expect("a frame");
    last.marks.expect("a frame with marks")
}

/// Bytes that a rank has reserved for others.
fn promised(world: &World, rank: usize) -> u32 {
    world.holdings(rank).promised
}

#[track_caller]
fn assert_no_harm(mut world: World) {
    world.assert_quiet();
    for nic in &world.nics {
        assert_eq!((nic.stats().malformed, nic.stats().downs), (0, 0), "{:?}", nic.me());
    }
}

#[test]
fn after_a_rest_both_say_farewell_and_give_their_credit_back() {
    for rail in [PLAIN, LOSSY] {
        let mut world = rested(rail);
        assert!(world.ports[0].sent.is_empty(), "nobody looks before another comes");
        look_around(&mut world, 0, 2);
        assert_eq!(world.on_the_way(0, 1), [Kind::Farewell]);
        assert_eq!((promised(&world, 0), promised(&world, 1)), (2048, 2048));
        world.deliver_next(0, 1);
        assert_eq!(world.on_the_way(1, 0), [Kind::Farewell]);
        assert_eq!((promised(&world, 0), promised(&world, 1)), (2048, 0), "one is taken back");
        world.deliver_next(1, 0);
        assert_eq!((promised(&world, 0), promised(&world, 1)), (0, 0), "and the other");
        world.calm();
        assert_eq!(farewells(&world, 0, 1) + farewells(&world, 1, 0), 2, "it is said once");
        assert_eq!(world.nics[0].stats().forgotten, 0, "not yet");
        assert_no_harm(world);
    }
}

#[test]
fn a_short_rest_changes_nothing() {
    for rail in [PLAIN, LOSSY] {
        let mut world = acquainted(rail);
        world.pass(limits().idle_ns_max - 1_000_000_000);
        look_around(&mut world, 0, 2);
        assert_eq!(world.waiting(0, 1), 0);
        world.send_text(0, 1, 1, b"hello");
        assert!(matches!(world.on_the_way(0, 1)[..], [Kind::Eager { secured: true, .. }]));
        collect(&mut world, 1, 0, 1, b"hello");
        assert_no_harm(world);
    }
}

#[test]
fn both_may_say_farewell_at_the_same_time() {
    for rail in [PLAIN, LOSSY] {
        let mut world = rested(rail);
        look_around(&mut world, 0, 2);
        look_around(&mut world, 1, 3);
        world.calm();
        assert_eq!((farewells(&world, 0, 1), farewells(&world, 1, 0)), (1, 1));
        for text in [b"one", b"two"] {
            exchange(&mut world, 0, 1, 1, text);
            exchange(&mut world, 1, 0, 1, text);
        }
        assert_no_harm(world);
    }
}

#[test]
fn whoever_has_parted_and_rested_again_is_forgotten_and_may_come_back() {
    for rail in [PLAIN, LOSSY] {
        let mut world = parted(rail);
        rest(&mut world);
        look_around(&mut world, 0, 3);
        assert_eq!(world.nics[0].stats().forgotten, 1);
        assert_eq!(world.nics[0].peers(), 2, "the strangers");
        world.calm();
        assert_eq!(world.nics[1].stats().forgotten, 0, "rank 1 has not looked");
        // First the rank that remembers the other sends, then the one that does not.
        exchange(&mut world, 1, 0, 1, b"back");
        exchange(&mut world, 0, 1, 1, b"back");
        exchange(&mut world, 1, 0, 1, b"again");
        assert_no_harm(world);
    }
}

#[test]
fn two_that_have_forgotten_each_other_meet_again() {
    for rail in [PLAIN, LOSSY] {
        let mut world = parted(rail);
        rest(&mut world);
        look_around(&mut world, 0, 3);
        look_around(&mut world, 1, 4);
        world.calm();
        assert_eq!(world.nics[0].stats().forgotten, 1);
        assert_eq!(world.nics[1].stats().forgotten, 1);
        for text in [b"one", b"two"] {
            exchange(&mut world, 0, 1, 1, text);
            exchange(&mut world, 1, 0, 1, text);
        }
        assert_no_harm(world);
    }
}

#[test]
fn whoever_has_not_answered_a_farewell_is_not_forgotten() {
    for rail in [PLAIN, LOSSY] {
        let mut world = acquainted(rail);
        // Rank 1 has an operation open: its offer has not been received.
        let long = world.send_text(1, 0, 5, &pattern(5000));
        world.calm();
        for stranger in 2..5 {
            rest(&mut world);
            look_around(&mut world, 0, stranger);
            world.calm();
        }
        assert_eq!((farewells(&world, 0, 1), farewells(&world, 1, 0)), (1, 0));
        assert_eq!(world.nics[0].stats().forgotten, 1, "the first of the strangers, not rank 1");
        collect(&mut world, 0, 1, 5, &pattern(5000));
        world.assert_done(1, long);
        assert_no_harm(world);
    }
}

#[test]
fn whoever_wants_something_says_no_farewell() {
    for rail in [PLAIN, LOSSY] {
        let mut world = acquainted(rail);
        let long = world.send_text(0, 1, 2, &pattern(5000));
        world.calm();
        rest(&mut world);
        look_around(&mut world, 0, 2);
        look_around(&mut world, 1, 3);
        world.calm();
        assert_eq!(farewells(&world, 0, 1), 0, "its message has not been received");
        assert_eq!(farewells(&world, 1, 0), 1, "the receiver wants nothing of it");
        collect(&mut world, 1, 0, 2, &pattern(5000));
        world.assert_done(0, long);
        assert_no_harm(world);
    }
}

#[test]
fn a_message_that_a_rank_keeps_survives_the_farewell_of_its_sender() {
    for rail in [PLAIN, LOSSY] {
        let mut world = acquainted(rail);
        for text in [b"one", b"two"] {
            world.send_text(0, 1, 7, text);
        }
        world.calm();
        rest(&mut world);
        look_around(&mut world, 0, 2);
        world.calm();
        assert_eq!(farewells(&world, 0, 1), 1);
        assert_eq!(promised(&world, 1), 0);
        rest(&mut world);
        look_around(&mut world, 1, 3);
        world.calm();
        assert_eq!(world.nics[1].stats().forgotten, 0, "something of it is left");
        world.clear_records();
        for text in [b"one", b"two"] {
            collect(&mut world, 1, 0, 7, text);
        }
        let credits = world.ports[1].count(|kind| matches!(kind, Kind::Credit { .. }));
        assert_eq!((credits, promised(&world, 1)), (0, 0), "its room is anybody's again");
        exchange(&mut world, 0, 1, 1, b"after");
        assert_no_harm(world);
    }
}

#[test]
fn a_message_that_a_rank_keeps_survives_its_own_farewell() {
    for rail in [PLAIN, LOSSY] {
        let mut world = acquainted(rail);
        world.send_text(0, 1, 7, &pattern(500));
        world.send_text(0, 1, 7, &pattern(500));
        world.calm();
        rest(&mut world);
        // Rank 0 cannot answer with a farewell: an offer of its own is open.
        let long = world.send_text(0, 1, 8, &pattern(5000));
        world.calm();
        rest(&mut world);
        look_around(&mut world, 1, 3);
        world.calm();
        assert_eq!((farewells(&world, 0, 1), farewells(&world, 1, 0)), (0, 1));
        // Rank 0 still has its credit, and what it has used comes back to it.
        for _ in 0..2 {
            collect(&mut world, 1, 0, 7, &pattern(500));
        }
        assert_eq!(world.ports[1].count(|kind| matches!(kind, Kind::Credit { .. })), 1);
        collect(&mut world, 1, 0, 8, &pattern(5000));
        world.assert_done(0, long);
        world.send_text(0, 1, 1, b"under credit");
        let (_, last) = world.ports[0].sent.last().expect("a frame");
        assert!(matches!(last.kind, Kind::Eager { secured: true, .. }));
        collect(&mut world, 1, 0, 1, b"under credit");
        assert_no_harm(world);
    }
}

/// Rank 0 stores two messages of rank 1 and owes it their room; rank 1 says farewell.
fn crossing(rail: Promises) -> World {
    let mut world = acquainted(rail);
    for _ in 0..2 {
        world.send_text(1, 0, 7, &pattern(500));
    }
    world.calm();
    rest(&mut world);
    look_around(&mut world, 1, 2);
    assert_eq!(world.on_the_way(1, 0), [Kind::Farewell]);
    world
}

fn receive_both(world: &mut World) {
    for _ in 0..2 {
        let into = world.room(0, 500);
        let receive = world.receive(0, 1, 7, into);
        world.assert_received(0, receive, into, &pattern(500));
    }
}

/// Sends more than any credit that could still be valid.
fn send_much(world: &mut World) {
    let sends: Vec<_> = (0..6).map(|n| world.send_text(1, 0, 3, &pattern(500 + n))).collect();
    world.calm();
    for (n, send) in sends.into_iter().enumerate() {
        collect(world, 0, 1, 3, &pattern(500 + n));
        world.assert_done(1, send);
    }
}

#[test]
fn credit_that_crosses_a_farewell_is_void() {
    for rail in [PLAIN, LOSSY] {
        for early in [true, false] {
            let mut world = crossing(rail);
            receive_both(&mut world);
            let [Kind::Credit { bytes, .. }] = world.on_the_way(0, 1)[..] else {
                panic!("credit for both");
            };
            assert_eq!((bytes, promised(&world, 0)), (2 * 768, 2048));
            if early {
                world.deliver_next(0, 1);
            }
            world.deliver_next(1, 0);
            assert_eq!(promised(&world, 0), 0, "all of it is taken back");
            world.send_text(1, 0, 2, b"without credit");
            let (_, last) = world.ports[1].sent.last().expect("a frame");
            assert!(matches!(last.kind, Kind::Eager { secured: false, .. }));
            collect(&mut world, 0, 1, 2, b"without credit");
            send_much(&mut world);
            assert_no_harm(world);
        }
    }
}

#[test]
fn what_is_received_after_a_farewell_gives_no_credit() {
    for rail in [PLAIN, LOSSY] {
        let mut world = crossing(rail);
        world.deliver_next(1, 0);
        world.clear_records();
        receive_both(&mut world);
        assert_eq!(world.ports[0].count(|kind| matches!(kind, Kind::Credit { .. })), 0);
        assert_eq!(promised(&world, 0), 0);
        send_much(&mut world);
        assert_no_harm(world);
    }
}

#[test]
fn the_answer_to_the_first_message_after_a_farewell_brings_credit() {
    for rail in [PLAIN, LOSSY] {
        let mut world = parted(rail);
        exchange(&mut world, 0, 1, 1, b"asks");
        assert_eq!(promised(&world, 1), 2048, "once, not twice");
        world.send_text(0, 1, 1, b"has");
        let (_, last) = world.ports[0].sent.last().expect("a frame");
        assert!(matches!(last.kind, Kind::Eager { secured: true, .. }));
        collect(&mut world, 1, 0, 1, b"has");
        assert_no_harm(world);
    }
}

#[test]
fn a_message_may_follow_a_farewell_that_has_not_arrived() {
    let disturbances: [fn(&mut World); 5] = [
        |_| {},
        |world| {
            world.lose(0, 1);
        },
        |world| world.swap(0, 1),
        |world| world.repeat(0, 1),
        |world| {
            world.lose(0, 1);
            world.lose(0, 1);
        },
    ];
    for (rail, disturbances) in [(PLAIN, &disturbances[..1]), (LOSSY, &disturbances[..])] {
        for disturb in disturbances {
            let mut world = rested(rail);
            look_around(&mut world, 0, 2);
            let send = world.send_text(0, 1, 1, b"one more thing");
            let on_the_way = world.on_the_way(0, 1);
            let [Kind::Farewell, Kind::Eager { secured: false, .. }] = on_the_way[..] else {
                panic!("{on_the_way:?}");
            };
            disturb(&mut world);
            collect(&mut world, 1, 0, 1, b"one more thing");
            world.assert_done(0, send);
            exchange(&mut world, 1, 0, 1, b"and another");
            exchange(&mut world, 0, 1, 1, b"and the last");
            assert_no_harm(world);
        }
    }
}

#[test]
fn a_message_may_follow_a_farewell_that_has_arrived() {
    for rail in [PLAIN, LOSSY] {
        let mut world = rested(rail);
        look_around(&mut world, 0, 2);
        world.deliver_next(0, 1);
        // Rank 1's farewell, which is an ack too, is on its way.
        let send = world.send_text(0, 1, 1, b"one more thing");
        collect(&mut world, 1, 0, 1, b"one more thing");
        world.assert_done(0, send);
        exchange(&mut world, 1, 0, 1, b"and another");
        assert_no_harm(world);
    }
}

#[test]
fn what_follows_an_acked_farewell_is_another_conversation() {
    for (from, to) in [(0, 1), (1, 0)] {
        let mut world = parted(LOSSY);
        let before = last_marks(&world, from, to);
        let into = world.room(to, 5);
        let receive = world.receive(to, from, 1, into);
        world.send_text(from, to, 1, b"hello");
        let first = last_marks(&world, from, to);
        assert!(first.epoch > before.epoch, "{before:?} {first:?}");
        assert_eq!(first.sequence, 0);
        world.calm();
        world.assert_received(to, receive, into, b"hello");
        exchange(&mut world, from, to, 1, b"hello");
        assert_eq!(last_marks(&world, from, to).epoch, first.epoch);
        assert_no_harm(world);
    }
}

#[test]
fn the_first_two_frames_after_a_farewell_may_change_places() {
    let mut world = parted(LOSSY);
    let sends = [b"a", b"b"].map(|text| world.send_text(0, 1, 1, text));
    world.swap(0, 1);
    for text in [b"a", b"b"] {
        collect(&mut world, 1, 0, 1, text);
    }
    sends.into_iter().for_each(|send| world.assert_done(0, send));
    assert_no_harm(world);
}

#[test]
fn a_reply_after_a_farewell_takes_it_back() {
    for rail in [PLAIN, LOSSY] {
        let mut world = parted(rail);
        // Rank 1 answers a message of rank 0. It has sent a frame again, so it is not forgotten.
        exchange(&mut world, 0, 1, 1, b"question");
        rest(&mut world);
        world.clear_records();
        look_around(&mut world, 0, 3);
        world.calm();
        assert_eq!((farewells(&world, 0, 1), farewells(&world, 1, 0)), (1, 1));
        assert_eq!(world.nics[0].stats().forgotten, 0);
        assert_no_harm(world);
    }
}

#[test]
fn a_farewell_that_finds_the_rail_full_goes_when_there_is_room() {
    let mut world = rested(PLAIN);
    world.ports[0].full = true;
    look_around(&mut world, 0, 2);
    let send = world.send_text(0, 1, 1, b"behind it");
    world.ports[0].full = false;
    for to in [1, 2] {
        world.act(0, |nic, port| nic.on_room(peer(to), port));
    }
    let on_the_way = world.on_the_way(0, 1);
    assert!(
        matches!(on_the_way[..], [Kind::Farewell, Kind::Eager { secured: false, .. }]),
        "{on_the_way:?}"
    );
    collect(&mut world, 1, 0, 1, b"behind it");
    world.assert_done(0, send);
    assert_no_harm(world);
}

#[test]
fn a_repeat_from_an_old_conversation_is_ignored() {
    for forget in [false, true] {
        let mut world = World::new(6, LOSSY, &limits());
        let into = world.room(1, 5);
        let receive = world.receive(1, 0, 1, into);
        world.send_text(0, 1, 1, b"first");
        let old = world.lose(0, 1);
        world.arrive(0, 1, &old);
        world.calm();
        world.assert_received(1, receive, into, b"first");
        rest(&mut world);
        look_around(&mut world, 0, 2);
        let farewell = world.lose(0, 1);
        world.arrive(0, 1, &farewell);
        world.calm();
        if forget {
            rest(&mut world);
            look_around(&mut world, 1, 3);
            assert_eq!(world.nics[1].stats().forgotten, 1);
            world.calm();
        }
        exchange(&mut world, 0, 1, 1, b"newer");
        let (unexpected, promised) = (world.nics[1].stats().unexpected, promised(&world, 1));
        for frame in [&old, &farewell, &old] {
            world.arrive(0, 1, frame);
        }
        assert_eq!(world.nics[1].stats().unexpected, unexpected);
        assert_eq!(world.holdings(1).promised, promised, "nor is a farewell heard twice");
        exchange(&mut world, 0, 1, 1, b"after");
        exchange(&mut world, 1, 0, 1, b"after");
        assert_no_harm(world);
    }
}

#[test]
fn a_peer_that_was_stopped_finds_all_that_was_sent_to_it() {
    let mut world = acquainted(PLAIN);
    world.stopped = Some(1);
    let credited = world.send_text(0, 1, 7, b"under credit");
    assert_eq!(credited, Posted::Done(Outcome::Done));
    let long = world.send_text(0, 1, 8, &pattern(5000));
    world.calm();
    rest(&mut world);
    look_around(&mut world, 0, 2);
    world.calm();
    rest(&mut world);
    world.stopped = None;
    // Before it looks at its ring, it meets another rank, and says farewell to rank 0.
    look_around(&mut world, 1, 3);
    assert_eq!(world.on_the_way(1, 0), [Kind::Farewell]);
    collect(&mut world, 1, 0, 8, &pattern(5000));
    collect(&mut world, 1, 0, 7, b"under credit");
    world.assert_done(0, long);
    exchange(&mut world, 1, 0, 1, b"back");
    assert_no_harm(world);
}

#[test]
fn a_peer_that_was_stopped_before_a_farewell_and_what_followed_it_loses_neither() {
    let mut world = acquainted(PLAIN);
    world.stopped = Some(1);
    world.send_text(0, 1, 7, b"under credit");
    rest(&mut world);
    look_around(&mut world, 0, 2);
    world.calm();
    let after = world.send_text(0, 1, 7, b"without");
    assert!(matches!(
        world.on_the_way(0, 1)[..],
        [Kind::Eager { secured: true, .. }, Kind::Farewell, Kind::Eager { secured: false, .. }]
    ));
    rest(&mut world);
    world.stopped = None;
    look_around(&mut world, 1, 3);
    for text in [&b"under credit"[..], b"without"] {
        collect(&mut world, 1, 0, 7, text);
    }
    world.assert_done(0, after);
    exchange(&mut world, 1, 0, 1, b"back");
    assert_no_harm(world);
}

#[test]
fn a_peer_that_forgets_with_frames_in_its_ring_loses_none_of_them() {
    let mut world = parted(PLAIN);
    world.stopped = Some(1);
    let sends = [b"one", b"two"].map(|text| world.send_text(0, 1, 7, text));
    rest(&mut world);
    world.stopped = None;
    look_around(&mut world, 1, 3);
    assert_eq!(world.nics[1].stats().forgotten, 1);
    for text in [b"one", b"two"] {
        collect(&mut world, 1, 0, 7, text);
    }
    sends.into_iter().for_each(|send| world.assert_done(0, send));
    exchange(&mut world, 1, 0, 1, b"back");
    assert_no_harm(world);
}

/// Rank 1 is stopped before it learns that its farewell has arrived, and rank 0 forgets it.
#[test]
fn a_peer_that_was_stopped_right_after_its_farewell_is_heard() {
    let mut world = rested(LOSSY);
    look_around(&mut world, 0, 2);
    world.deliver_next(0, 1);
    world.stopped = Some(1);
    world.calm();
    rest(&mut world);
    look_around(&mut world, 0, 3);
    assert_eq!(world.nics[0].stats().forgotten, 1);
    world.stopped = None;
    let send = world.send_text(1, 0, 1, b"hello");
    collect(&mut world, 0, 1, 1, b"hello");
    world.assert_done(1, send);
    assert_no_harm(world);
}

#[test]
fn a_farewell_to_a_peer_that_is_stopped_does_not_kill_it() {
    let mut world = rested(LOSSY);
    world.stopped = Some(1);
    look_around(&mut world, 0, 2);
    world.calm();
    world.pass(2 * limits().silence_ns_max);
    world.stopped = None;
    exchange(&mut world, 1, 0, 1, b"back");
    exchange(&mut world, 0, 1, 1, b"back");
    assert_no_harm(world);
}

#[test]
fn a_peer_that_was_stopped_does_not_blame_the_other() {
    let mut world = acquainted(LOSSY);
    let send = world.send_text(1, 0, 1, b"hello");
    world.stopped = Some(1);
    world.calm();
    rest(&mut world);
    world.stopped = None;
    // Its timer fires before it looks at its ring, where the ack has been for long.
    world.act(1, |nic, port| nic.on_timer(port));
    collect(&mut world, 0, 1, 1, b"hello");
    world.assert_done(1, send);
    assert_no_harm(world);
}

#[test]
fn the_dead_are_neither_bidden_farewell_nor_forgotten() {
    for rail in [PLAIN, LOSSY] {
        let mut world = acquainted(rail);
        world.act(0, |nic, port| nic.on_peer_down(peer(1), port));
        for stranger in 2..5 {
            rest(&mut world);
            look_around(&mut world, 0, stranger);
            world.calm();
        }
        assert!(world.ports[0].sent.iter().all(|(to, _)| *to != peer(1)));
        let down = Outcome::Failed(Fault::PeerDown(peer(1)));
        assert_eq!(world.send_text(0, 1, 1, b"hello"), Posted::Done(down));
        assert_eq!(promised(&world, 0), 0);
    }
}

#[test]
fn a_table_of_many_peers_that_come_and_go_stays_small() {
    for rail in [PLAIN, LOSSY] {
        let ranks = 60;
        let mut world = World::new(ranks, rail, &limits());
        for stranger in 1..ranks as usize {
            exchange(&mut world, stranger, 0, 1, b"hello");
            exchange(&mut world, 0, stranger, 1, b"hello");
            rest(&mut world);
        }
        assert!(world.nics[0].peers() < 10, "{} peers", world.nics[0].peers());
        let set_aside = world.holdings(0).stores[0].reserved;
        assert!(set_aside <= 2 * limits().credit_bytes, "{set_aside} bytes set aside");
        assert_no_harm(world);
    }
}

#[test]
fn a_rank_that_has_not_spoken_to_itself_for_long_says_farewell_to_itself() {
    let mut world = World::new(4, PLAIN, &limits());
    for stranger in 1..4 {
        exchange(&mut world, 0, 0, 1, b"hello");
        for _ in 0..4 {
            let into = world.room(0, 5);
            let receive = world.receive(0, 0, 1, into);
            let send = world.send_text(0, 0, 1, b"hello");
            assert_eq!(send, Posted::Done(Outcome::Done), "under credit");
            world.run_until_quiet();
            world.assert_received(0, receive, into, b"hello");
        }
        rest(&mut world);
        look_around(&mut world, 0, stranger);
        assert_eq!(world.on_the_way(0, 0), [Kind::Farewell]);
        world.calm();
    }
    assert_no_harm(world);
}

/// While rank 0 handles a message of rank 3, its module contacts two new peers, and rank 1, which has said
/// farewell, is forgotten. The frames for rank 3 still go to rank 3, wherever it is in the table.
#[test]
fn a_peer_is_forgotten_while_another_is_spoken_to() {
    for rail in [PLAIN, LOSSY] {
        let mut world = parted(rail);
        modules::load(&mut world, |hook| {
            if hook.message().tag == 2 {
                hook.send(4, 9, b"on")?;
                hook.send(5, 9, b"on")?;
            }
            Ok(Verdict::Consume)
        });
        let greeting = modules::send(&mut world, 3, 0, 1, b"hello");
        world.calm();
        world.assert_done(3, greeting);
        rest(&mut world);
        let source = world.lend(3, b"tell the others");
        let word = modules::word(3, 2);
        let sent =
            world.act(3, |nic, port| nic.post_send(peer(0), word, source, Mode::Synchronous, port));
        assert!(matches!(world.on_the_way(3, 0)[..], [Kind::Eager { secured: true, .. }]));
        world.calm();
        assert_eq!(world.nics[0].stats().forgotten, 1, "rank 1");
        world.assert_done(3, sent);
        modules::unload(&mut world);
        assert_no_harm(world);
    }
}
