//! Long messages: which side moves the bytes, in which pieces, and how a message is cancelled.

use ferrywire_nic::{Fault, Kind, Mask, Outcome, Peer, Promises, Span};

use crate::common::{DIRECT, LOSSY, PLAIN, World, limits, pattern, ticket, word};

const GETS: Promises = Promises { puts: false, ..DIRECT };
const PUTS: Promises = Promises { gets: false, ..DIRECT };

/// Sends `len` bytes from rank 0 to rank 1 while the users of the `waiting` ranks wait; returns the puts, the gets
/// and the number of chunks.
fn transfer(
    rail: Promises,
    waiting: &[u32],
    posted_first: bool,
    len: usize,
) -> (Vec<u64>, Vec<u64>, usize) {
    let mut world = World::acquainted(rail, &limits());
    for port in &mut world.ports {
        port.attentive = waiting.iter().copied().map(Peer).collect();
    }
    let into = world.room(1, len);
    let early = posted_first.then(|| world.receive(1, 0, 1, into));
    let send = world.send_text(0, 1, 1, &pattern(len));
    world.calm();
    let receive = early.unwrap_or_else(|| {
        world.assert_pending(0, send);
        world.receive(1, 0, 1, into)
    });
    world.calm();
    world.assert_received(1, receive, into, &pattern(len));
    world.assert_done(0, send);
    let chunks = world.ports[0].count(|kind| matches!(kind, Kind::Chunk { .. }));
    let (puts, gets) = (world.ports[0].puts.clone(), world.ports[1].gets.clone());
    world.assert_quiet();
    (puts, gets, chunks)
}

#[test]
fn whoever_waits_moves_the_bytes() {
    for posted_first in [true, false] {
        let by = |waiting: &[u32]| transfer(DIRECT, waiting, posted_first, 5000);
        assert_eq!(by(&[1]), (vec![], vec![5000], 0));
        assert_eq!(by(&[0]), (vec![5000], vec![], 0));
        assert_eq!(by(&[]), (vec![], vec![5000], 0));
    }
}

#[test]
fn sender_and_receiver_share_the_copy_of_a_long_message() {
    for posted_first in [true, false] {
        let by = |len| transfer(DIRECT, &[0, 1], posted_first, len);
        assert_eq!(by(16_000), (vec![], vec![16_000], 0), "too short for two");
        assert_eq!(by(16_384), (vec![8192], vec![8192], 0));
        // The sender writes in pieces, so that its messages take turns.
        assert_eq!(by(40_001), (vec![8192, 8192, 3649], vec![19_968], 0));
    }
}

#[test]
fn a_shared_transfer_ends_for_the_sender_when_both_halves_are_over() {
    for sender_is_slow in [true, false] {
        let mut world = World::acquainted(DIRECT, &limits());
        for port in &mut world.ports {
            port.attentive = vec![Peer(0), Peer(1)];
        }
        let into = world.room(1, 16_384);
        let receive = world.receive(1, 0, 1, into);
        let send = world.send_text(0, 1, 1, &pattern(16_384));
        world.deliver_next(0, 1);
        if sender_is_slow {
            // The receiver reads its half and reports it before the sender has the grant.
            world.finish_transfer();
        }
        while world.deliver_next(1, 0) {}
        world.assert_pending(0, send);
        world.calm();
        world.assert_done(0, send);
        world.assert_received(1, receive, into, &pattern(16_384));
        world.assert_quiet();
    }
}

#[test]
fn above_the_limit_the_sender_writes_in_pieces() {
    let pieces = vec![8192, 8192, 3616];
    for posted_first in [true, false] {
        assert_eq!(transfer(DIRECT, &[0], posted_first, 20_000), (pieces.clone(), vec![], 0));
    }
    assert_eq!(transfer(DIRECT, &[0], true, 8193), (vec![8192, 1], vec![], 0));
}

#[test]
fn what_a_rail_cannot_do_falls_to_the_other_side_or_to_chunks() {
    for waiting in [&[0, 1][..], &[0], &[1], &[]] {
        assert_eq!(transfer(PUTS, waiting, false, 5000), (vec![5000], vec![], 0));
        assert_eq!(transfer(GETS, waiting, true, 20_000), (vec![], vec![20_000], 0));
        let per_frame = 4096 - 76;
        for rail in [PLAIN, LOSSY] {
            for posted_first in [true, false] {
                let len = 3 * per_frame;
                assert_eq!(transfer(rail, waiting, posted_first, len), (vec![], vec![], 3));
                assert_eq!(transfer(rail, waiting, posted_first, len + 1), (vec![], vec![], 4));
            }
        }
    }
}

#[test]
fn what_cannot_be_exposed_is_not_read() {
    for rail in [GETS, DIRECT] {
        let mut world = World::acquainted(rail, &limits());
        world.ports[0].shy = true;
        let into = world.room(1, 5000);
        let receive = world.receive(1, 0, 1, into);
        let send = world.send_text(0, 1, 1, &pattern(5000));
        world.calm();
        world.assert_received(1, receive, into, &pattern(5000));
        world.assert_done(0, send);
        assert_eq!(world.ports[1].gets, []);
        world.assert_quiet();
    }
}

#[test]
fn what_is_taken_back_or_lost_is_concealed() {
    for lost in [false, true] {
        let mut world = World::acquainted(GETS, &limits());
        let send = world.send_text(0, 1, 1, &pattern(5000));
        world.calm();
        assert_eq!(world.ports[0].exposed.len(), 1);
        world.act(0, |nic, port| match lost {
            true => nic.on_peer_down(Peer(1), port),
            false => nic.cancel(ticket(send), port),
        });
        world.calm();
        assert!(world.ports[0].exposed.is_empty());
    }
}

#[test]
fn a_long_message_is_cut_to_a_receive_that_is_too_short() {
    let truncated = Outcome::Failed(Fault::Truncated { word: word(0, 1), len: 9000 });
    for rail in [PLAIN, LOSSY, DIRECT, GETS, PUTS] {
        for posted_first in [true, false] {
            let mut world = World::acquainted(rail, &limits());
            let into = world.room(1, 600);
            let early = posted_first.then(|| world.receive(1, 0, 1, into));
            let send = world.send_text(0, 1, 1, &pattern(9000));
            world.calm();
            let receive = early.unwrap_or_else(|| world.receive(1, 0, 1, into));
            world.calm();
            assert_eq!(world.outcome(1, receive), Some(truncated));
            assert_eq!(world.bytes(1, into), &pattern(600)[..]);
            world.assert_done(0, send);
            world.assert_quiet();
        }
    }
}

#[test]
fn a_long_message_meets_a_receive_for_nothing_that_came_later() {
    let mut world = World::acquainted(PLAIN, &limits());
    let send = world.send_text(0, 1, 1, &pattern(9000));
    world.calm();
    let receive = world.receive(1, 0, 1, Span::EMPTY);
    world.calm();
    let truncated = Outcome::Failed(Fault::Truncated { word: word(0, 1), len: 9000 });
    assert_eq!(world.outcome(1, receive), Some(truncated));
    world.assert_done(0, send);
    world.assert_quiet();
}

#[test]
fn a_long_message_meets_a_receive_for_nothing_that_waited() {
    let mut world = World::acquainted(PLAIN, &limits());
    let receive = world.receive(1, 0, 1, Span::EMPTY);
    let send = world.send_text(0, 1, 1, &pattern(9000));
    world.calm();
    world.assert_done(0, send);
    let truncated = Outcome::Failed(Fault::Truncated { word: word(0, 1), len: 9000 });
    assert_eq!(world.outcome(1, receive), Some(truncated));
    world.assert_quiet();
}

#[test]
fn an_offer_can_be_withdrawn_until_it_matches() {
    for rail in [PLAIN, LOSSY, DIRECT] {
        let mut world = World::acquainted(rail, &limits());
        let source = world.lend(0, &pattern(9000));
        let send = world.send(0, 1, 1, source);
        world.run_until_quiet();
        assert_eq!(world.holdings(1).unexpected, 1);
        world.cancel(0, send);
        world.cancel(0, send);
        world.calm();
        assert_eq!(world.outcome(0, send), Some(Outcome::Cancelled));
        assert_eq!(world.holdings(1).unexpected, 0);
        world.take_back(0, source);
        world.assert_quiet();
    }
}

#[test]
fn an_offer_that_has_matched_is_not_withdrawn() {
    for rail in [PLAIN, LOSSY, DIRECT] {
        for posted_first in [true, false] {
            let mut world = World::acquainted(rail, &limits());
            let into = world.room(1, 9000);
            let early = posted_first.then(|| world.receive(1, 0, 1, into));
            let send = world.send_text(0, 1, 1, &pattern(9000));
            world.deliver_next(0, 1);
            let receive = early.unwrap_or_else(|| world.receive(1, 0, 1, into));
            world.cancel(0, send);
            world.calm();
            world.assert_done(0, send);
            world.assert_received(1, receive, into, &pattern(9000));
            world.assert_quiet();
        }
    }
}

#[test]
fn an_offer_that_a_probe_has_taken_is_not_withdrawn() {
    for rail in [PLAIN, LOSSY, DIRECT] {
        let mut world = World::acquainted(rail, &limits());
        let send = world.send_text(0, 1, 1, &pattern(9000));
        world.run_until_quiet();
        let (taken, _) = world.take(1, word(0, 1), Mask::EXACT).expect("an offer");
        world.cancel(0, send);
        world.calm();
        world.assert_pending(0, send);
        let into = world.room(1, 9000);
        let receive = world.act(1, |nic, port| nic.post_taken(taken, into, port));
        world.calm();
        world.assert_received(1, receive, into, &pattern(9000));
        world.assert_done(0, send);
        world.assert_quiet();
    }
}

#[test]
fn a_withdrawal_that_crosses_a_match_is_too_late() {
    for rail in [PLAIN, LOSSY, DIRECT] {
        let mut world = World::acquainted(rail, &limits());
        let send = world.send_text(0, 1, 1, &pattern(9000));
        world.run_until_quiet();
        world.cancel(0, send);
        let into = world.room(1, 9000);
        let receive = world.receive(1, 0, 1, into);
        assert!(matches!(world.on_the_way(0, 1).last(), Some(Kind::Withdraw { .. })));
        world.calm();
        world.assert_received(1, receive, into, &pattern(9000));
        world.assert_done(0, send);
        world.assert_quiet();
    }
}

#[test]
fn an_offer_that_is_withdrawn_gives_its_credit_back() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::acquainted(rail, &limits());
        for _ in 0..100 {
            let send = world.send_text(0, 1, 1, &pattern(9000));
            world.calm();
            world.cancel(0, send);
            world.calm();
            assert_eq!(world.outcome(0, send), Some(Outcome::Cancelled));
        }
        let secured = |kind: &Kind| matches!(kind, Kind::Offer { secured: true, .. });
        assert_eq!(world.ports[0].count(secured), 100);
        assert_eq!(world.holdings(1).promised, limits().credit_bytes);
        world.assert_quiet();
    }
}

#[test]
fn an_offer_without_credit_that_is_cancelled_before_its_answer_is_withdrawn_after_it() {
    let mut world = World::new(2, PLAIN, &limits());
    let send = world.send_text(0, 1, 1, &pattern(9000));
    world.cancel(0, send);
    world.assert_pending(0, send);
    world.run_until_quiet();
    assert_eq!(world.outcome(0, send), Some(Outcome::Cancelled));
    world.assert_quiet();
}

#[test]
fn long_messages_share_the_rail_chunk_by_chunk() {
    let mut world = World::acquainted(LOSSY, &limits());
    let rooms = [1, 2].map(|_| world.room(1, 40_000));
    let receives = [1, 2].map(|tag| world.receive(1, 0, tag, rooms[tag as usize - 1]));
    let sends = [1, 2].map(|tag| world.send_text(0, 1, tag, &pattern(40_000)));
    // Both are granted before the first chunk finds room.
    while world.deliver_next(0, 1) {}
    world.ports[0].full = true;
    while world.deliver_next(1, 0) {}
    world.ports[0].full = false;
    world.calm();
    for at in [0, 1] {
        world.assert_received(1, receives[at], rooms[at], &pattern(40_000));
        world.assert_done(0, sends[at]);
    }
    world.assert_quiet();
}

#[test]
fn a_grant_for_more_than_was_offered_is_no_grant() {
    let mut world = World::acquainted(PLAIN, &limits());
    let send = world.send_text(0, 1, 1, &pattern(9000));
    world.run_until_quiet();
    let malformed = world.nics[0].stats().malformed;
    for len in [0, 9001] {
        let into = Span { len, ..Span::EMPTY };
        let grant = Kind::Grant { ticket: ticket(send), target: ticket(send), into, rest: false };
        world.forge(1, 0, grant, &[]);
    }
    assert_eq!(world.nics[0].stats().malformed, malformed + 2);
    world.assert_pending(0, send);
    let into = world.room(1, 9000);
    let receive = world.receive(1, 0, 1, into);
    world.calm();
    world.assert_received(1, receive, into, &pattern(9000));
    world.assert_quiet();
}

#[test]
fn a_grant_at_the_end_of_the_world_causes_no_panic() {
    let mut world = World::acquainted(PUTS, &limits());
    let send = world.send_text(0, 1, 1, &pattern(20_000));
    world.run_until_quiet();
    let into = Span { offset: u64::MAX - 5, len: 20_000, ..Span::EMPTY };
    let grant = Kind::Grant { ticket: ticket(send), target: ticket(send), into, rest: false };
    world.forge(1, 0, grant, &[]);
    world.act(0, |nic, port| nic.on_written(ticket(send), port));
}

#[test]
fn chunks_that_do_not_fit_change_nothing() {
    let mut world = World::acquainted(PLAIN, &limits());
    let into = world.room(1, 9000);
    let receive = world.receive(1, 0, 1, into);
    world.send_text(0, 1, 1, &pattern(9000));
    world.deliver_next(0, 1);
    let target = ticket(receive);
    for offset in [8999, 9000, u64::MAX] {
        world.forge(0, 1, Kind::Chunk { ticket: target, offset }, b"ab");
    }
    assert_eq!(world.nics[1].stats().malformed, 3);
    world.calm();
    world.assert_received(1, receive, into, &pattern(9000));
    world.assert_quiet();
}

/// When the peer's memory becomes unreachable, the rest is sent in chunks: whichever side notices, whether it
/// moves all bytes or half of them, and however much it has moved before.
#[test]
fn a_transfer_that_is_refused_goes_on_in_chunks() {
    for waiting in [&[][..], &[0], &[1], &[0, 1]] {
        // The number of the first put or get that fails, at each rank.
        for (sender, receiver) in (1..6).flat_map(|one| (1..6).map(move |other| (one, other))) {
            let mut world = World::acquainted(DIRECT, &limits());
            for (port, reaches) in world.ports.iter_mut().zip([sender, receiver]) {
                port.attentive = waiting.iter().copied().map(Peer).collect();
                port.reaches = reaches;
            }
            for len in [40_001, 20_000, 50_000] {
                let into = world.room(1, len);
                let receive = world.receive(1, 0, 1, into);
                let send = world.send_text(0, 1, 1, &pattern(len));
                world.calm();
                world.assert_received(1, receive, into, &pattern(len));
                world.assert_done(0, send);
            }
            world.assert_quiet();
            assert_eq!(world.nics.iter().map(|nic| nic.stats().malformed).sum::<u64>(), 0);
        }
    }
}

/// The sender must write its half in chunks while the receiver reads the other half, which ends later.
#[test]
fn a_send_in_chunks_is_over_when_the_receiver_has_read_its_half() {
    let mut world = World::acquainted(DIRECT, &limits());
    for port in &mut world.ports {
        port.attentive = vec![Peer(0), Peer(1)];
    }
    world.ports[0].reaches = 1;
    let into = world.room(1, 40_000);
    let receive = world.receive(1, 0, 1, into);
    let send = world.send_text(0, 1, 1, &pattern(40_000));
    // The offer and the grant arrive; the receiver's read stays in progress.
    world.deliver_next(0, 1);
    world.deliver_next(1, 0);
    let read = world.put_off_transfer();
    world.run_until_quiet();
    world.assert_pending(0, send);
    world.resume_transfer(read);
    world.calm();
    world.assert_received(1, receive, into, &pattern(40_000));
    world.assert_done(0, send);
    world.assert_quiet();
}
