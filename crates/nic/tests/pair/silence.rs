//! Reliable rails whose peers may vanish without a notice.

use ferrywire_nic::{Fault, Kind, Outcome, Promises};

use crate::common::{DIRECT, PLAIN, VANISHING, World, limits, pattern, peer};

const READING: Promises = Promises { puts: false, may_vanish: true, ..DIRECT };

fn asks(world: &World, rank: usize) -> usize {
    world.ports[rank].count(|kind| kind == &Kind::Ask)
}

#[test]
fn an_idle_peer_is_asked_once_and_answers() {
    let mut world = World::acquainted(VANISHING, &limits());
    world.send_text(0, 1, 1, b"hello");
    world.run_until_quiet();
    world.pass(limits().ask_ns);
    assert_eq!(world.on_the_way(0, 1), [Kind::Ask]);
    world.run_until_quiet();
    assert_eq!(world.ports[1].count(|kind| kind == &Kind::Ack), 1);
    world.pass(100 * limits().silence_ns_max);
    assert_eq!((asks(&world, 0), asks(&world, 1)), (1, 0));
    assert_eq!(world.nics[0].stats().downs, 0);
    let into = world.room(1, 5);
    let receive = world.receive(1, 0, 1, into);
    world.assert_received(1, receive, into, b"hello");
    world.assert_quiet();
}

#[test]
fn peers_that_cannot_vanish_are_not_asked() {
    let mut world = World::acquainted(PLAIN, &limits());
    let into = world.room(1, 5);
    let receive = world.receive(1, 0, 1, into);
    world.send_text(0, 1, 1, b"hello");
    world.run_until_quiet();
    world.assert_received(1, receive, into, b"hello");
    assert_eq!(world.ports[0].armed, None);
    world.pass(100 * limits().silence_ns_max);
    assert_eq!(asks(&world, 0), 0);
    world.assert_quiet();
}

#[test]
fn a_question_is_asked_after_a_pause_and_not_while_the_peer_talks() {
    let mut world = World::acquainted(VANISHING, &limits());
    for round in 0..40 {
        let text = [round; 5];
        for (from, to) in [(0, 1), (1, 0)] {
            let into = world.room(to, 5);
            let receive = world.receive(to, from, 1, into);
            world.send_text(from, to, 1, &text);
            world.run_until_quiet();
            world.assert_received(to, receive, into, &text);
        }
        world.pass(limits().ask_ns / 4);
    }
    assert_eq!((asks(&world, 0), asks(&world, 1)), (0, 0));
    world.assert_quiet();
    assert_eq!((asks(&world, 0), asks(&world, 1)), (1, 1));
}

#[test]
fn a_peer_that_takes_no_frames_is_given_up() {
    let mut world = World::acquainted(VANISHING, &limits());
    world.ports[0].full = true;
    let into = world.room(0, 8);
    let send = world.send_text(0, 1, 1, &pattern(9000));
    let receive = world.receive(0, 1, 2, into);
    world.pass(limits().silence_ns_max - 1);
    world.assert_pending(0, send);
    world.pass(1);
    for posted in [send, receive] {
        assert_eq!(world.outcome(0, posted), Some(Outcome::Failed(Fault::PeerDown(peer(1)))));
    }
    world.assert_empty(0);
}

#[test]
fn what_was_sent_before_the_question_is_no_answer_to_it() {
    let mut world = World::acquainted(VANISHING, &limits());
    world.send_text(0, 1, 1, b"hello");
    world.send_text(1, 0, 1, b"hello");
    world.pass(limits().ask_ns);
    assert_eq!(asks(&world, 0), 1);
    // Its message arrives, and the host of the peer is gone.
    while world.deliver_next(1, 0) {}
    world.stopped = Some(1);
    world.pass(limits().silence_ns_max + limits().ask_ns);
    assert_eq!(world.nics[0].stats().downs, 1);
}

#[test]
fn a_peer_that_is_read_from_is_asked_as_long_as_the_read_takes() {
    let mut world = World::acquainted(READING, &limits());
    let into = world.room(1, 9000);
    let receive = world.receive(1, 0, 1, into);
    let send = world.send_text(0, 1, 1, &pattern(9000));
    while world.deliver_next(0, 1) {}
    let read = world.put_off_transfer();
    world.clear_records();
    for _ in 0..30 {
        world.pass(limits().ask_ns);
        world.run_until_quiet();
    }
    assert!((10..=15).contains(&asks(&world, 1)), "{}", asks(&world, 1));
    world.resume_transfer(read);
    world.calm();
    world.assert_received(1, receive, into, &pattern(9000));
    world.assert_done(0, send);
    world.assert_quiet();
}

#[test]
fn memory_that_is_being_read_into_is_not_given_back_when_the_peer_is_given_up() {
    let mut world = World::acquainted(READING, &limits());
    let into = world.room(1, 9000);
    let receive = world.receive(1, 0, 1, into);
    world.send_text(0, 1, 1, &pattern(9000));
    while world.deliver_next(0, 1) {}
    world.ports[1].reads_on = true;
    world.stopped = Some(0);
    world.pass(2 * limits().silence_ns_max);
    assert_eq!(world.ports[1].given_up, [peer(0)]);
    world.assert_pending(1, receive);
    assert_eq!(world.ports[1].armed, None);
    world.act(1, |nic, port| nic.on_peer_down(peer(0), port));
    assert_eq!(world.outcome(1, receive), Some(Outcome::Failed(Fault::PeerDown(peer(0)))));
    world.assert_empty(1);
}

#[test]
fn a_peer_that_was_stopped_finds_nobody_gone() {
    let mut world = World::acquainted(VANISHING, &limits());
    world.send_text(0, 1, 1, b"hello");
    world.pass(limits().ask_ns);
    world.stopped = Some(0);
    world.run_until_quiet();
    world.pass(10 * limits().silence_ns_max);
    world.stopped = None;
    // Its timer fires before it reads the answer.
    world.pass(1);
    assert_eq!(world.nics[0].stats().downs, 0);
    world.run_until_quiet();
    world.pass(10 * limits().silence_ns_max);
    assert_eq!(world.nics[0].stats().downs, 0);
}
