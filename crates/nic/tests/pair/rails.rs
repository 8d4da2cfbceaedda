//! Rails without room: what waits, and what goes first.

use ferrywire_nic::{Kind, Mode, Outcome, Posted};

use crate::common::{LOSSY, PLAIN, World, limits, pattern, peer};

#[test]
fn what_finds_the_rail_full_goes_when_there_is_room() {
    let mut world = World::acquainted(PLAIN, &limits());
    world.ports[0].full = true;
    let sends: Vec<_> = (1..=3).map(|len| world.send_text(0, 1, 1, &pattern(len))).collect();
    for &send in &sends {
        world.assert_pending(0, send);
    }
    assert_eq!(world.holdings(0).backlog, 3);
    world.act(0, |nic, port| nic.on_room(peer(1), port));
    assert_eq!(world.holdings(0).backlog, 3, "it was not true");
    world.ports[0].full = false;
    world.act(0, |nic, port| nic.on_room(peer(1), port));
    for send in sends {
        world.assert_done(0, send);
    }
    world.run_until_quiet();
    for len in 1..=3 {
        let into = world.room(1, 3);
        let receive = world.receive(1, 0, 1, into);
        world.assert_received(1, receive, into, &pattern(len));
    }
    world.assert_quiet();
}

#[test]
fn replies_go_before_requests_and_messages_keep_their_order() {
    let mut world = World::acquainted(PLAIN, &limits());
    let source = world.lend(1, b"hello");
    let synchronous = world.send_as(Mode::Synchronous, 1, 0, 1, source);
    world.run_until_quiet();
    world.ports[0].full = true;
    world.send_text(0, 1, 1, b"a");
    world.send_text(0, 1, 1, b"b");
    let into = world.room(0, 5);
    let receive = world.receive(0, 1, 1, into);
    world.assert_received(0, receive, into, b"hello");
    world.ports[0].full = false;
    world.act(0, |nic, port| nic.on_room(peer(1), port));
    let kinds = world.on_the_way(0, 1);
    assert!(matches!(kinds[..], [Kind::Matched { .. }, Kind::Eager { .. }, Kind::Eager { .. }]));
    world.run_until_quiet();
    world.assert_done(1, synchronous);
    for text in [b"a", b"b"] {
        let into = world.room(1, 1);
        let receive = world.receive(1, 0, 1, into);
        world.assert_received(1, receive, into, text);
    }
    world.assert_quiet();
}

#[test]
fn a_long_message_and_a_short_one_take_turns() {
    let mut world = World::acquainted(PLAIN, &limits());
    let into = world.room(1, 40_000);
    let receive = world.receive(1, 0, 1, into);
    let long = world.send_text(0, 1, 1, &pattern(40_000));
    world.deliver_next(0, 1);
    world.ports[0].full = true;
    world.deliver_next(1, 0);
    world.send_text(0, 1, 2, b"short");
    world.ports[0].full = false;
    world.act(0, |nic, port| nic.on_room(peer(1), port));
    let kinds = world.on_the_way(0, 1);
    let short = kinds.iter().position(|kind| matches!(kind, Kind::Eager { .. }));
    assert!(short.expect("it went") <= 1, "{kinds:?}");
    world.run_until_quiet();
    world.assert_received(1, receive, into, &pattern(40_000));
    world.assert_done(0, long);
    let into = world.room(1, 5);
    let receive = world.receive(1, 0, 2, into);
    world.assert_received(1, receive, into, b"short");
    world.assert_quiet();
}

#[test]
fn chunks_go_on_where_a_full_rail_stopped_them() {
    let mut world = World::acquainted(PLAIN, &limits());
    let into = world.room(1, 40_000);
    let receive = world.receive(1, 0, 1, into);
    let send = world.send_text(0, 1, 1, &pattern(40_000));
    world.deliver_next(0, 1);
    world.ports[0].full = true;
    world.deliver_next(1, 0);
    assert_eq!(world.waiting(0, 1), 0);
    world.ports[0].full = false;
    world.act(0, |nic, port| nic.on_room(peer(1), port));
    world.run_until_quiet();
    world.assert_received(1, receive, into, &pattern(40_000));
    world.assert_done(0, send);
    world.assert_quiet();
}

#[test]
fn a_put_that_finds_the_rail_full_is_sent_once() {
    for len in [0, 5, 9000] {
        let mut world = World::acquainted(PLAIN, &limits());
        let window = world.room(1, 9000);
        world.nics[1].open_piece(window);
        let source = world.lend(0, &pattern(len));
        world.ports[0].full = true;
        let put =
            world.act(0, |nic, port| nic.post_put(peer(1), source, window.region, 0, None, port));
        world.act(0, |nic, port| nic.on_room(peer(1), port));
        world.ports[0].full = false;
        world.act(0, |nic, port| nic.on_room(peer(1), port));
        world.run_until_quiet();
        world.assert_done(0, put);
        assert_eq!(world.bytes(1, window.first(len as u64)), &pattern(len)[..]);
        assert_eq!(world.ports[0].sent.len(), len.div_ceil(4016).max(1));
        world.assert_quiet();
    }
}

#[test]
fn a_frame_that_finds_a_lossy_rail_full_is_lost_and_goes_again() {
    let mut world = World::acquainted(LOSSY, &limits());
    world.ports[0].full = true;
    let sends = [1, 2, 3].map(|len| world.send_text(0, 1, 1, &pattern(len)));
    world.pass(limits().retry_ns_first * 4);
    world.ports[0].full = false;
    world.calm();
    for (len, send) in (1..).zip(sends) {
        world.assert_done(0, send);
        let into = world.room(1, 3);
        let receive = world.receive(1, 0, 1, into);
        world.assert_received(1, receive, into, &pattern(len));
    }
    world.assert_quiet();
}

#[test]
fn what_waits_for_room_ends_with_its_peer() {
    let mut world = World::acquainted(PLAIN, &limits());
    world.ports[0].full = true;
    let sends = [5, 9000].map(|len| world.send_text(0, 1, 1, &pattern(len)));
    world.act(0, |nic, port| nic.on_peer_down(peer(1), port));
    for send in sends {
        assert!(matches!(world.outcome(0, send), Some(Outcome::Failed(_))));
        assert!(matches!(send, Posted::Pending(_)));
    }
    world.ports[0].full = false;
    world.act(0, |nic, port| nic.on_room(peer(1), port));
    assert!(world.ports[0].sent.is_empty());
    world.assert_empty(0);
}

#[test]
fn several_long_messages_and_several_short_ones_take_turns() {
    let mut world = World::acquainted(PLAIN, &limits());
    let rooms = [1, 2].map(|_| world.room(1, 12_000));
    let receives = [0, 1].map(|n| world.receive(1, 0, 1, rooms[n]));
    let longs = [1, 2].map(|_| world.send_text(0, 1, 1, &pattern(12_000)));
    while world.deliver_next(0, 1) {}
    world.ports[0].full = true;
    while world.deliver_next(1, 0) {}
    let shorts: Vec<_> = (1..=3).map(|len| world.send_text(0, 1, 2, &pattern(len))).collect();
    assert_eq!(world.holdings(0).backlog, 5);
    world.ports[0].full = false;
    world.act(0, |nic, port| nic.on_room(peer(1), port));
    let turns: Vec<_> = world
        .on_the_way(0, 1)
        .into_iter()
        .map(|kind| match kind {
            Kind::Chunk { ticket, .. } if ticket == crate::common::ticket(receives[0]) => 'a',
            Kind::Chunk { ticket, .. } if ticket == crate::common::ticket(receives[1]) => 'b',
            Kind::Eager { .. } => '.',
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(turns.into_iter().collect::<String>(), "a.b.a.bab");
    world.run_until_quiet();
    for at in [0, 1] {
        world.assert_received(1, receives[at], rooms[at], &pattern(12_000));
        world.assert_done(0, longs[at]);
    }
    for (len, send) in (1..).zip(shorts) {
        world.assert_done(0, send);
        let into = world.room(1, 3);
        let receive = world.receive(1, 0, 2, into);
        world.assert_received(1, receive, into, &pattern(len));
    }
    world.assert_quiet();
}

#[test]
fn a_long_message_whose_receive_is_short_stops_where_it_is_full() {
    let mut world = World::acquainted(PLAIN, &limits());
    let into = world.room(1, 5000);
    world.receive(1, 0, 1, into);
    let send = world.send_text(0, 1, 1, &pattern(40_000));
    world.run_until_quiet();
    world.assert_done(0, send);
    assert_eq!(world.ports[0].count(|kind| matches!(kind, Kind::Chunk { .. })), 2);
    assert_eq!(world.bytes(1, into), &pattern(5000)[..]);
    world.assert_quiet();
}
