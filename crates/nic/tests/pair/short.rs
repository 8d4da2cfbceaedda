//! Awaited receives: what they get, and when they are posted.

use ferrywire_nic::{Awaited, Fault, Mask, Outcome, Received, Span};

use crate::common::{PLAIN, World, limits, peer, word};

/// Two ranks of which 1 has heard from 0 before: its lane and its queue pair are open.
fn acquainted() -> World {
    let mut world = World::new(2, PLAIN, &limits());
    let into = world.room(1, 5);
    let posted = world.receive(1, 0, 0, into);
    world.send_text(0, 1, 0, b"hello");
    world.calm();
    assert!(world.outcome(1, posted).is_some());
    world
}

fn await_receive(world: &mut World, tag: u32, mask: Mask, into: Span) -> Option<Awaited> {
    world.act(1, |nic, port| nic.receive_or_await(Some(peer(0)), word(0, tag), mask, into, port))
}

fn awaited(world: &mut World) -> Awaited {
    world.act(1, |nic, _| nic.awaited())
}

#[test]
fn an_awaited_receive_gets_its_message_without_an_operation() {
    for mask in [Mask::EXACT, Mask::ANY_SOURCE, Mask::ANY_TAG, Mask::ANY_BOTH] {
        let mut world = acquainted();
        let into = world.room(1, 8);
        assert_eq!(await_receive(&mut world, 7, mask, into), Some(Awaited::Open));
        assert_eq!(awaited(&mut world), Awaited::Open);
        world.send_text(0, 1, 7, b"a word");
        assert!(world.deliver_next(0, 1));
        assert_eq!(world.nics[1].holdings().tickets, 0);
        let got = Received { word: word(0, 7), len: 6 };
        assert_eq!(awaited(&mut world), Awaited::Over(Outcome::Received(got)));
        assert_eq!(world.bytes(1, into.first(6)), b"a word");
        world.assert_quiet();
    }
}

#[test]
fn a_message_that_is_too_long_for_an_awaited_receive_is_cut() {
    let mut world = acquainted();
    let into = world.room(1, 2);
    assert_eq!(await_receive(&mut world, 7, Mask::EXACT, into), Some(Awaited::Open));
    world.send_text(0, 1, 7, b"a word");
    world.deliver_next(0, 1);
    let fault = Fault::Truncated { word: word(0, 7), len: 6 };
    assert_eq!(awaited(&mut world), Awaited::Over(Outcome::Failed(fault)));
    assert_eq!(world.bytes(1, into), b"a ");
    world.assert_quiet();
}

#[test]
fn another_message_is_stored_and_leaves_the_awaited_receive_open() {
    let mut world = acquainted();
    let into = world.room(1, 8);
    assert_eq!(await_receive(&mut world, 7, Mask::EXACT, into), Some(Awaited::Open));
    world.send_text(0, 1, 8, b"other");
    world.deliver_next(0, 1);
    assert_eq!(awaited(&mut world), Awaited::Open);
    world.send_text(0, 1, 7, b"mine");
    world.deliver_next(0, 1);
    assert!(matches!(awaited(&mut world), Awaited::Over(Outcome::Received(_))));
    let ended = await_receive(&mut world, 8, Mask::EXACT, into);
    assert!(matches!(ended, Some(Awaited::Over(Outcome::Received(_)))), "its message is here");
    world.assert_quiet();
}

#[test]
fn a_long_message_makes_an_awaited_receive_an_ordinary_one() {
    let mut world = acquainted();
    let (source, into) = (world.room(0, 5000), world.room(1, 5000));
    assert_eq!(await_receive(&mut world, 7, Mask::EXACT, into), Some(Awaited::Open));
    world.send(0, 1, 7, source);
    world.deliver_next(0, 1);
    let Awaited::Posted(ticket) = awaited(&mut world) else { panic!("it is posted") };
    world.calm();
    let outcome = world.outcome(1, ferrywire_nic::Posted::Pending(ticket));
    let got = Received { word: word(0, 7), len: 5000 };
    assert_eq!(outcome, Some(Outcome::Received(got)));
    world.assert_quiet();
}

#[test]
fn a_receive_that_can_end_at_once_is_not_awaited() {
    let mut world = acquainted();
    let into = world.room(1, 8);
    let older = world.receive(1, 0, 3, into);
    assert_eq!(await_receive(&mut world, 7, Mask::EXACT, into), None, "an older receive waits");
    world.cancel(1, older);
    world.act(1, |nic, port| nic.end_group(0, Fault::Revoked, port));
    assert_eq!(await_receive(&mut world, 7, Mask::EXACT, into), None, "the group has ended");
    world.act(1, |nic, _| nic.forget_group(0));
    assert_eq!(await_receive(&mut world, 7, Mask::EXACT, into), Some(Awaited::Open));
    world.act(1, |nic, port| nic.post_awaited(port));
    let Awaited::Posted(ticket) = awaited(&mut world) else { panic!("it is posted") };
    world.cancel(1, ferrywire_nic::Posted::Pending(ticket));
    world.assert_quiet();
}
