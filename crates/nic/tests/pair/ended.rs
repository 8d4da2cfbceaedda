//! Groups that end: operations no longer wait in them, and nothing is left.

use ferrywire_nic::{Fault, Mode, Outcome, Posted, Span};

use crate::common::schedules::{GROUP, barrier};
use crate::common::{LOSSY, PLAIN, World, limits, peer, word};

const REVOKED: Option<Outcome> = Some(Outcome::Failed(Fault::Revoked));

/// A peer is down: what waits for several peers ends, what waits for one goes on.
#[test]
fn what_waits_for_several_ends_and_what_waits_for_one_goes_on() {
    let mut world = World::new(3, PLAIN, &limits());
    let (any, one) = (world.room(0, 5), world.room(0, 5));
    let from_one = world.receive(0, 1, 7, one);
    let from_any = world.receive_any(0, any);
    let fault = Fault::PeerDown(peer(2));
    world.act(0, |nic, port| nic.end_shared(0, fault, port));
    assert_eq!(world.outcome(0, from_any), Some(Outcome::Failed(fault)));
    // New operations end too, until the group is mended.
    assert_eq!(world.receive_any(0, any), Posted::Done(Outcome::Failed(fault)));
    world.send_text(1, 0, 7, b"hello");
    world.calm();
    world.assert_received(0, from_one, one, b"hello");
    // A receive of a message that has arrived need not wait.
    world.send_text(1, 0, 8, b"again");
    world.calm();
    let there = world.receive_any(0, any);
    world.assert_received(0, there, any, b"again");
    world.act(0, |nic, _| nic.mend(0));
    let from_any = world.receive_any(0, any);
    world.assert_pending(0, from_any);
    world.send_text(1, 0, 9, b"third");
    world.calm();
    world.assert_received(0, from_any, any, b"third");
    world.assert_quiet();
}

#[test]
fn a_schedule_ends_everywhere_when_its_group_does() {
    for rail in [PLAIN, LOSSY] {
        for size in 2..9_usize {
            let mut world = World::new(u32::try_from(size).expect("few"), rail, &limits());
            // Rank 0 does not take part.
            let ranks = u32::try_from(size).expect("few");
            let runs: Vec<_> = (1..size)
                .map(|rank| {
                    let schedule = barrier(u32::try_from(rank).expect("few"), ranks);
                    (rank, world.act(rank, |nic, port| nic.post_schedule(schedule, 1, port)))
                })
                .collect();
            world.run_until_quiet();
            let fault = Fault::PeerDown(peer(0));
            for (rank, run) in runs {
                world.act(rank, |nic, port| nic.end_shared(GROUP, fault, port));
                world.calm();
                assert_eq!(world.outcome(rank, run), Some(Outcome::Failed(fault)));
                assert_eq!(world.holdings(rank).runs, 0);
                let schedule = barrier(u32::try_from(rank).expect("few"), ranks);
                let again = world.act(rank, |nic, port| nic.post_schedule(schedule, 2, port));
                assert_eq!(again, Posted::Done(Outcome::Failed(fault)));
            }
        }
    }
}

/// Unmatched sends and receives all end, short and long, whatever they wait for.
#[test]
fn nothing_waits_in_a_group_that_is_revoked() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::new(2, rail, &limits());
        let (short, long) = (world.lend(0, b"short"), world.room(0, 5000));
        let into = world.room(0, 5);
        let open = [
            world.receive(0, 1, 7, into),
            world.receive_any(0, into),
            world.send(0, 1, 1, long),
            world.send_as(Mode::Synchronous, 0, 1, 2, short),
            world.send_as(Mode::Synchronous, 0, 1, 3, long),
        ];
        world.calm();
        // Another group is not affected.
        let elsewhere = world.act(0, |nic, port| {
            let word = ferrywire_nic::MatchWord::new(4, 1, 7);
            nic.post_receive(Some(peer(1)), word, ferrywire_nic::Mask::EXACT, Span::EMPTY, port)
        });
        world.act(0, |nic, port| nic.end_group(0, Fault::Revoked, port));
        world.calm();
        for (nth, posted) in open.into_iter().enumerate() {
            let outcome = world.outcome(0, posted);
            let ended = outcome == REVOKED || outcome == Some(Outcome::Cancelled);
            assert!(ended, "{rail:?}: {nth} has come to {outcome:?}");
        }
        world.assert_pending(0, elsewhere);
        for posted in [
            world.receive(0, 1, 7, into),
            world.receive_any(0, into),
            world.send(0, 1, 1, long),
            world.send_as(Mode::Synchronous, 0, 1, 2, short),
        ] {
            assert_eq!(world.outcome(0, posted), REVOKED);
        }
        assert_eq!(world.nics[0].hopeless(word(1, 7), Some(peer(1))), Some(Fault::Revoked));
        world.act(0, |nic, _| nic.forget_group(0));
        let again = world.receive(0, 1, 9, into);
        world.assert_pending(0, again);
    }
}
