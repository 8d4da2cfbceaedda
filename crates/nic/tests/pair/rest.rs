//! Peers that have rested: conversations begun anew, peers forgotten, credit taken back.

use ferrywire_nic::{Kind, Limits, Outcome, Posted, Promises};

use crate::common::{LOSSY, PLAIN, World, limits, pattern};

/// Sends one message and receives it.
fn exchange(world: &mut World, from: usize, to: usize, tag: u32, text: &[u8]) {
    let into = world.room(to, text.len());
    let receive = world.receive(to, from, tag, into);
    let send = world.send_text(from, to, tag, text);
    world.calm();
    world.assert_done(from, send);
    world.assert_received(to, receive, into, text);
}

fn rested(rail: Promises, ns: u64) -> World {
    let mut world = World::acquainted(rail, &limits());
    world.pass(ns);
    world
}

#[test]
fn after_a_rest_a_conversation_is_begun_anew() {
    let Limits { idle_ns_max, credit_bytes, .. } = limits();
    for rail in [PLAIN, LOSSY] {
        let mut world = rested(rail, idle_ns_max + 1);
        let send = world.send_text(0, 1, 1, b"hello");
        world.assert_pending(0, send);
        let (_, envelope) = world.ports[0].sent[0];
        assert!(envelope.fresh);
        assert!(matches!(envelope.kind, Kind::Eager { secured: false, .. }), "old credit is void");
        let into = world.room(1, 5);
        let receive = world.receive(1, 0, 1, into);
        world.calm();
        world.assert_received(1, receive, into, b"hello");
        for rank in [0, 1] {
            assert!(world.holdings(rank).stores[0].reserved <= credit_bytes, "reserved twice");
        }
        assert_eq!(world.nics[0].stats().forgotten, 0);
        world.assert_quiet();
    }
}

#[test]
fn a_short_rest_changes_nothing() {
    for rail in [PLAIN, LOSSY] {
        let mut world = rested(rail, limits().idle_ns_max - 1_000_000_000);
        let into = world.room(1, 5);
        let receive = world.receive(1, 0, 1, into);
        world.send_text(0, 1, 1, b"hello");
        let (_, envelope) = world.ports[0].sent[0];
        assert!(!envelope.fresh);
        assert!(matches!(envelope.kind, Kind::Eager { secured: true, .. }));
        world.calm();
        world.assert_received(1, receive, into, b"hello");
        world.assert_quiet();
    }
}

#[test]
fn a_peer_that_has_rested_for_long_is_forgotten_when_another_comes() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::new(3, rail, &limits());
        exchange(&mut world, 0, 1, 1, b"hello");
        assert_eq!(world.holdings(1).stores[0].reserved, limits().credit_bytes);
        world.pass(2 * limits().idle_ns_max + 1);
        assert_eq!(world.nics[1].peers(), 1, "nobody looks");
        exchange(&mut world, 2, 1, 1, b"another");
        assert_eq!(world.nics[1].peers(), 1);
        assert_eq!(world.nics[1].stats().forgotten, 1);
        assert_eq!(world.holdings(1).stores[0].reserved, limits().credit_bytes, "the new one's");
        // The forgotten one comes back, and has to begin anew.
        exchange(&mut world, 0, 1, 2, b"back");
        exchange(&mut world, 1, 0, 2, b"back");
        world.assert_quiet();
    }
}

#[test]
fn a_peer_with_something_open_is_not_forgotten() {
    let mut world = World::new(3, PLAIN, &limits());
    world.send_text(0, 1, 1, b"kept");
    let long = world.send_text(0, 1, 2, &pattern(5000));
    world.calm();
    world.pass(10 * limits().idle_ns_max);
    exchange(&mut world, 2, 1, 1, b"another");
    exchange(&mut world, 2, 0, 1, b"another");
    assert_eq!(world.nics[0].peers(), 2);
    assert_eq!(world.nics[1].peers(), 2);
    for (tag, text) in [(1, b"kept".to_vec()), (2, pattern(5000))] {
        let into = world.room(1, text.len());
        let receive = world.receive(1, 0, tag, into);
        world.calm();
        world.assert_received(1, receive, into, &text);
    }
    world.assert_done(0, long);
    world.assert_quiet();
}

#[test]
fn a_repeat_from_an_old_conversation_is_ignored() {
    let mut world = World::new(2, LOSSY, &limits());
    let into = world.room(1, 5);
    let receive = world.receive(1, 0, 1, into);
    world.send_text(0, 1, 1, b"first");
    let old = world.lose(0, 1);
    world.arrive(0, 1, &old);
    world.calm();
    world.assert_received(1, receive, into, b"first");
    world.pass(limits().idle_ns_max + 1);
    exchange(&mut world, 0, 1, 1, b"newer");
    let unexpected = world.nics[1].stats().unexpected;
    world.arrive(0, 1, &old);
    assert_eq!(world.nics[1].stats().unexpected, unexpected);
    assert_eq!(world.holdings(1).unexpected, 0);
    exchange(&mut world, 0, 1, 1, b"after");
    world.assert_quiet();
}

#[test]
#[ignore = "shows: credit that arrives between a new beginning and its news is void there and good here: messages are lost"]
fn credit_that_comes_just_after_a_rest_is_good() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::acquainted(rail, &limits());
        // Rank 0 owes rank 1 the room of this message, and has not said so.
        exchange(&mut world, 1, 0, 1, b"under credit");
        world.pass(limits().idle_ns_max + 1);
        exchange(&mut world, 0, 1, 1, b"credit goes with this");
        for text in [b"one", b"two"] {
            exchange(&mut world, 1, 0, 1, text);
        }
        assert_eq!(world.nics[0].stats().malformed, 0);
        world.assert_quiet();
    }
}

#[test]
#[ignore = "shows: credit that arrives between a new beginning and its news is void there and good here: messages are lost"]
fn credit_that_crosses_a_new_beginning_is_good_or_void() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::acquainted(rail, &limits());
        for _ in 0..2 {
            let send = world.send_text(1, 0, 1, &pattern(500));
            world.calm();
            world.assert_done(1, send);
        }
        world.pass(limits().idle_ns_max + 1);
        // Rank 1 begins anew, and does not know that its credit is on its way back.
        let fresh = world.send_text(1, 0, 2, b"fresh");
        for _ in 0..2 {
            let into = world.room(0, 500);
            let receive = world.receive(0, 1, 1, into);
            world.assert_received(0, receive, into, &pattern(500));
        }
        world.calm();
        world.assert_done(1, fresh);
        let into = world.room(0, 5);
        let receive = world.receive(0, 1, 2, into);
        world.assert_received(0, receive, into, b"fresh");
        // More than any credit that is still good.
        let sends: Vec<_> = (0..6).map(|_| world.send_text(1, 0, 3, &pattern(500))).collect();
        world.calm();
        for send in sends {
            world.assert_done(1, send);
            let into = world.room(0, 500);
            let receive = world.receive(0, 1, 3, into);
            world.calm();
            world.assert_received(0, receive, into, &pattern(500));
        }
        assert_eq!(world.nics[0].stats().malformed, 0);
        world.assert_quiet();
    }
}

#[test]
#[ignore = "shows: a rank that begins anew with itself keeps its old credit set aside"]
fn a_rank_that_has_not_spoken_to_itself_for_long_still_has_credit_to() {
    let mut world = World::new(1, PLAIN, &limits());
    for _ in 0..3 {
        exchange(&mut world, 0, 0, 1, b"hello");
        for _ in 0..4 {
            let into = world.room(0, 5);
            let receive = world.receive(0, 0, 1, into);
            let send = world.send_text(0, 0, 1, b"hello");
            assert_eq!(send, Posted::Done(Outcome::Done), "under credit");
            world.assert_received(0, receive, into, b"hello");
        }
        world.pass(limits().idle_ns_max + 1);
    }
    world.assert_quiet();
}
