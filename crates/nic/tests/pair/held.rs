//! Budgets: a refused message is held by its sender, and comes again in order.

use ferrywire_nic::{Kind, Limits, Mask, MatchWord, Mode, Notice, Outcome, Peer, Span};

use crate::common::{LOSSY, PLAIN, World, limits, pattern, peer, tight, word};

/// A world in which rank 1 stores two messages of 100 bytes with tag 0 and refuses what follows.
fn with_full_store(rail: ferrywire_nic::Promises) -> World {
    let mut world = World::new(2, rail, &tight(4));
    for _ in 0..2 {
        world.send_text(0, 1, 0, &pattern(100));
    }
    world.run_until_quiet();
    assert_eq!(world.holdings(1).stores[0].used, 4 * 128);
    world
}

/// Receives the two messages that fill the store.
fn make_room(world: &mut World) {
    for _ in 0..2 {
        let into = world.room(1, 100);
        let receive = world.receive(1, 0, 0, into);
        world.assert_received(1, receive, into, &pattern(100));
    }
}

/// Once for each sender that holds messages, and again after they have come.
#[test]
fn an_overflow_is_reported() {
    for rail in [PLAIN, LOSSY] {
        let mut world = with_full_store(rail);
        let mut overflows = Vec::new();
        for len in [30, 20_000] {
            let (word, len_wide) = (MatchWord::new(0, 0, 9), len as u64);
            let sends = [0, 1].map(|_| world.send_text(0, 1, 9, &pattern(len)));
            world.run_until_quiet();
            overflows.push(Notice::Overflow { from: peer(0), word, len: len_wide });
            assert_eq!(world.ports[1].notices, overflows);
            make_room(&mut world);
            for send in sends {
                let into = world.room(1, len);
                let receive = world.receive(1, 0, 9, into);
                world.calm();
                world.assert_received(1, receive, into, &pattern(len));
                world.assert_done(0, send);
            }
            for _ in 0..2 {
                world.send_text(0, 1, 0, &pattern(100));
            }
            world.run_until_quiet();
        }
        assert_eq!(world.ports[0].notices, []);
        make_room(&mut world);
        world.assert_quiet();
    }
}

#[test]
fn what_finds_no_room_is_held_and_comes_again_in_order() {
    for rail in [PLAIN, LOSSY] {
        let mut world = with_full_store(rail);
        let sends: Vec<_> = (1..=20).map(|n| world.send_text(0, 1, 9, &pattern(n))).collect();
        world.run_until_quiet();
        assert!(world.nics[1].stats().refused >= 1);
        assert_eq!(world.holdings(1).stores[0].used, 4 * 128, "the budget holds");
        for &send in &sends {
            world.assert_pending(0, send);
        }
        make_room(&mut world);
        world.calm();
        for (len, send) in (1..).zip(sends) {
            let into = world.room(1, 100);
            let receive = world.receive(1, 0, 9, into);
            world.calm();
            world.assert_received(1, receive, into, &pattern(len));
            world.assert_done(0, send);
        }
        world.assert_quiet();
    }
}

#[test]
fn another_queue_pair_goes_on_meanwhile() {
    let mut world = with_full_store(PLAIN);
    let held = world.send_text(0, 1, 1, &pattern(100));
    world.run_until_quiet();
    let (other, source) = (MatchWord::new(1, 0, 1), world.lend(0, b"other"));
    let send =
        world.act(0, |nic, port| nic.post_send(Peer(1), other, source, Mode::Standard, port));
    world.run_until_quiet();
    world.assert_done(0, send);
    let into = world.room(1, 5);
    let receive =
        world.act(1, |nic, port| nic.post_receive(Some(Peer(0)), other, Mask::EXACT, into, port));
    world.assert_received(1, receive, into, b"other");
    world.assert_pending(0, held);
    make_room(&mut world);
    world.calm();
    let into = world.room(1, 100);
    let receive = world.receive(1, 0, 1, into);
    world.calm();
    world.assert_received(1, receive, into, &pattern(100));
    world.assert_done(0, held);
    world.assert_quiet();
}

#[test]
fn a_receive_gets_its_message_from_the_middle_of_the_held_ones() {
    for rail in [PLAIN, LOSSY] {
        let mut world = with_full_store(rail);
        let sends: Vec<_> = (1..=9).map(|tag| world.send_text(0, 1, tag, &[7; 90])).collect();
        world.run_until_quiet();
        let into = world.room(1, 90);
        let receive = world.receive(1, 0, 6, into);
        world.calm();
        world.assert_received(1, receive, into, &[7; 90]);
        world.assert_done(0, sends[5]);
        world.assert_pending(0, sends[4]);
        make_room(&mut world);
        for tag in [9, 8, 7, 5, 4, 3, 2, 1] {
            let receive = world.receive(1, 0, tag, into);
            world.calm();
            world.assert_received(1, receive, into, &[7; 90]);
        }
        world.assert_quiet();
    }
}

#[test]
fn a_wildcard_gets_the_oldest_held_message_and_not_a_later_one() {
    for rail in [PLAIN, LOSSY] {
        let mut world = with_full_store(rail);
        let oldest = world.send_text(0, 1, 5, b"oldest, ten times over, to be long".as_slice());
        world.run_until_quiet();
        make_room(&mut world);
        // The invite is on its way when the receive is posted and a later message is sent.
        let into = world.room(1, 100);
        let wild = world.receive_any(1, into);
        let later = world.send_text(0, 1, 6, b"later");
        world.calm();
        world.assert_received(1, wild, into, b"oldest, ten times over, to be long");
        world.assert_done(0, oldest);
        let receive = world.receive_any(1, into);
        world.calm();
        world.assert_received(1, receive, into, b"later");
        world.assert_done(0, later);
        world.assert_quiet();
    }
}

#[test]
fn a_later_message_may_match_a_receive_that_is_older_than_the_refusal() {
    let mut world = with_full_store(PLAIN);
    let into = world.room(1, 100);
    let old = world.receive(1, 0, 2, into);
    world.send_text(0, 1, 1, b"refused");
    world.send_text(0, 1, 2, b"wanted");
    world.run_until_quiet();
    world.assert_received(1, old, into, b"wanted");
    make_room(&mut world);
    let receive = world.receive(1, 0, 1, into);
    world.calm();
    world.assert_received(1, receive, into, b"refused");
    world.assert_quiet();
}

#[test]
fn several_senders_are_invited_in_turn() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::new(4, rail, &tight(2));
        let sends: Vec<_> =
            (0..12).map(|n| (n % 3 + 1, world.send_text(n % 3 + 1, 0, 1, &pattern(80)))).collect();
        world.run_until_quiet();
        for _ in 0..4 {
            for from in [3, 1, 2] {
                let into = world.room(0, 80);
                let receive = world.receive(0, from, 1, into);
                world.calm();
                world.assert_received(0, receive, into, &pattern(80));
            }
        }
        for (from, send) in sends {
            world.assert_done(from, send);
        }
        world.assert_quiet();
    }
}

#[test]
fn a_held_message_can_be_cancelled() {
    for rail in [PLAIN, LOSSY] {
        let mut world = with_full_store(rail);
        let sends: Vec<_> = (1..=3).map(|tag| world.send_text(0, 1, tag, &[7; 90])).collect();
        world.calm();
        for at in [1, 0] {
            world.cancel(0, sends[at]);
            world.calm();
            assert_eq!(world.outcome(0, sends[at]), Some(Outcome::Cancelled));
        }
        make_room(&mut world);
        let into = world.room(1, 90);
        let receive = world.receive_any(1, into);
        world.calm();
        world.assert_received(1, receive, into, &[7; 90]);
        world.assert_done(0, sends[2]);
        world.assert_quiet();
    }
}

#[test]
fn when_all_that_was_held_is_cancelled_the_lane_is_free_again() {
    let mut world = with_full_store(PLAIN);
    let send = world.send_text(0, 1, 1, &[7; 90]);
    world.run_until_quiet();
    world.cancel(0, send);
    assert!(matches!(world.on_the_way(0, 1)[..], [Kind::Vacant { .. }]));
    make_room(&mut world);
    world.calm();
    let send = world.send_text(0, 1, 2, b"free");
    world.calm();
    world.assert_done(0, send);
    let into = world.room(1, 4);
    let receive = world.receive(1, 0, 2, into);
    world.assert_received(1, receive, into, b"free");
    world.assert_quiet();
}

#[test]
fn a_message_cancelled_on_its_way_goes_or_stays_as_its_answer_says() {
    let mut world = with_full_store(PLAIN);
    let send = world.send_text(0, 1, 1, &[7; 90]);
    world.cancel(0, send);
    world.assert_pending(0, send);
    world.run_until_quiet();
    assert_eq!(world.outcome(0, send), Some(Outcome::Cancelled));
    make_room(&mut world);
    world.assert_quiet();
}

#[test]
fn an_offer_in_a_full_lane_is_held_like_any_other() {
    for rail in [PLAIN, LOSSY] {
        let mut world = with_full_store(rail);
        let send = world.send_text(0, 1, 1, &pattern(9000));
        world.run_until_quiet();
        world.assert_pending(0, send);
        let into = world.room(1, 9000);
        let receive = world.receive(1, 0, 1, into);
        world.calm();
        world.assert_received(1, receive, into, &pattern(9000));
        world.assert_done(0, send);
        make_room(&mut world);
        world.assert_quiet();
    }
}

#[test]
fn a_held_synchronous_message_ends_when_it_matches() {
    let mut world = with_full_store(PLAIN);
    let source = world.lend(0, b"hello");
    let send = world.send_as(Mode::Synchronous, 0, 1, 1, source);
    world.calm();
    make_room(&mut world);
    world.calm();
    world.assert_pending(0, send);
    let into = world.room(1, 5);
    let receive = world.receive(1, 0, 1, into);
    world.calm();
    world.assert_received(1, receive, into, b"hello");
    world.assert_done(0, send);
    world.assert_quiet();
}

#[test]
fn a_held_message_of_no_bytes_finds_the_receive_that_waits_for_it() {
    for rail in [PLAIN, LOSSY] {
        let mut world = with_full_store(rail);
        let send = world.send(0, 1, 1, Span::EMPTY);
        world.run_until_quiet();
        world.assert_pending(0, send);
        let receive = world.receive(1, 0, 1, Span::EMPTY);
        world.calm();
        world.assert_done(0, send);
        world.assert_received(1, receive, Span::EMPTY, b"");
        make_room(&mut world);
        world.assert_quiet();
    }
}

#[test]
fn a_message_to_self_is_held_when_the_own_budget_is_used_up() {
    let mut world = World::new(1, PLAIN, &tight(4));
    let sends: Vec<_> = (1..=8).map(|n| world.send_text(0, 0, 1, &pattern(n))).collect();
    world.run_until_quiet();
    world.assert_pending(0, sends[7]);
    for (len, send) in (1..).zip(sends) {
        let into = world.room(0, 10);
        let receive = world.receive(0, 0, 1, into);
        world.run_until_quiet();
        world.assert_received(0, receive, into, &pattern(len));
        world.assert_done(0, send);
    }
    world.assert_quiet();
}

#[test]
fn a_receive_for_a_message_to_self_that_is_held_gets_it() {
    let mut world = World::new(1, PLAIN, &tight(2));
    let first = world.send_text(0, 0, 1, b"first");
    let second = world.send_text(0, 0, 2, b"second");
    world.run_until_quiet();
    world.assert_pending(0, second);
    let into = world.room(0, 6);
    let receive = world.receive(0, 0, 2, into);
    world.run_until_quiet();
    world.assert_received(0, receive, into, b"second");
    world.assert_done(0, second);
    let receive = world.receive(0, 0, 1, into);
    world.assert_received(0, receive, into, b"first");
    world.assert_done(0, first);
    world.assert_quiet();
}

#[test]
fn a_sweep_goes_past_a_refusal_only_while_something_is_wanted() {
    for rail in [PLAIN, LOSSY] {
        let offers =
            |world: &World| world.ports[0].count(|kind| matches!(kind, Kind::Offer { .. }));
        let mut world = with_full_store(rail);
        let sends: Vec<_> = (1..=9).map(|tag| world.send_text(0, 1, tag, &[7; 90])).collect();
        world.calm();
        world.clear_records();
        // A receive that nothing matches: every held message is offered once.
        let into = world.room(1, 90);
        let receive = world.receive(1, 0, 77, into);
        world.calm();
        assert_eq!(offers(&world), 9);
        // The receive is cancelled: the next sweep offers only what it sends before the first answer.
        world.cancel(1, receive);
        world.clear_records();
        let receive = world.receive(1, 0, 78, into);
        world.cancel(1, receive);
        world.calm();
        assert!(offers(&world) <= 4, "{} offers", offers(&world));
        make_room(&mut world);
        for (tag, send) in (1..=9).zip(sends) {
            let receive = world.receive(1, 0, tag, into);
            world.calm();
            world.assert_received(1, receive, into, &[7; 90]);
            world.assert_done(0, send);
        }
        world.assert_quiet();
    }
}

#[test]
fn free_room_is_offered_to_whoever_has_waited_longest() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::new(3, rail, &tight(1));
        // The first message fills the store; then ranks 1 and 2 are refused, in this order.
        for (from, tag) in [(1, 1), (1, 2), (2, 1), (1, 3), (2, 2)] {
            world.send(from, 0, tag, Span::EMPTY);
            world.calm();
        }
        let mut order = vec![];
        for _ in 0..5 {
            let invited = world.nics[0].stats().invited;
            // Takes any stored message without inviting for it.
            let (taken, seen) = world.take(0, word(0, 0), Mask::ANY_BOTH).expect("a message");
            world.act(0, |nic, port| nic.post_taken(taken, Span::EMPTY, port));
            assert!(world.nics[0].stats().invited <= invited + 1, "one at a time");
            world.calm();
            order.push((seen.from.0, seen.word.tag()));
        }
        assert_eq!(order, [(1, 1), (1, 2), (2, 1), (1, 3), (2, 2)]);
        world.assert_quiet();
    }
}

/// A budget of six units, of which one sender may have two.
fn shared() -> Limits {
    Limits { unexpected_bytes_max: 6 * 128, credit_bytes: 2 * 128, ..limits() }
}

#[test]
fn reserved_room_goes_to_senders_that_were_refused() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::new(3, rail, &shared());
        let into = world.room(0, 100);
        world.receive(0, 1, 0, into);
        world.send_text(1, 0, 0, b"brings credit");
        world.calm();
        assert_eq!(world.holdings(0).promised, 256);
        world.send_text(1, 0, 1, &pattern(100));
        let sends = [1, 2, 3].map(|tag| world.send_text(2, 0, tag, &pattern(100)));
        world.calm();
        world.assert_pending(2, sends[2]);
        assert_eq!(world.holdings(0).promised, 0, "all of it is used");
        world.clear_records();
        let receive = world.receive(0, 1, 1, into);
        world.assert_received(0, receive, into, &pattern(100));
        assert_eq!(world.holdings(0).promised, 0, "and not for rank 1 again");
        world.calm();
        assert_eq!(world.ports[0].count(|kind| matches!(kind, Kind::Credit { .. })), 0);
        assert_eq!(world.ports[0].count(|kind| matches!(kind, Kind::Invite { .. })), 1);
        assert_eq!(world.holdings(0).unexpected, 3, "the third is here");
        // Rank 1 has no credit, knows it, and sends without.
        let send = world.send_text(1, 0, 2, b"on");
        let (_, last) = world.ports[1].sent.last().expect("a frame");
        assert!(matches!(last.kind, Kind::Eager { secured: false, .. }));
        for tag in [1, 2, 3] {
            let receive = world.receive(0, 2, tag, into);
            world.calm();
            world.assert_received(0, receive, into, &pattern(100));
            world.assert_done(2, sends[tag as usize - 1]);
        }
        let receive = world.receive(0, 1, 2, into);
        world.calm();
        world.assert_received(0, receive, into, b"on");
        world.assert_done(1, send);
        world.assert_quiet();
    }
}

#[test]
fn no_peer_gets_credit_while_another_is_refused() {
    let mut world = World::new(3, PLAIN, &shared());
    for tag in 1..=4 {
        world.send_text(2, 0, tag, &pattern(100));
    }
    world.run_until_quiet();
    world.clear_records();
    let into = world.room(0, 100);
    let receive = world.receive(0, 1, 1, into);
    let send = world.send_text(1, 0, 1, b"matches at once");
    world.deliver_next(1, 0);
    let on_the_way = world.on_the_way(0, 1);
    let [Kind::Answer { accepted: true, credit: 0, .. }] = on_the_way[..] else {
        panic!("{on_the_way:?}");
    };
    world.run_until_quiet();
    world.assert_received(0, receive, into, b"matches at once");
    world.assert_done(1, send);
    for tag in 1..=4 {
        let receive = world.receive(0, 2, tag, into);
        world.calm();
        world.assert_received(0, receive, into, &pattern(100));
    }
    world.assert_quiet();
}

#[test]
fn a_lane_that_empties_makes_way_for_the_next() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::new(3, rail, &tight(2));
        world.send_text(1, 0, 0, &pattern(80));
        world.calm();
        let cancelled = world.send_text(1, 0, 1, &pattern(80));
        world.calm();
        let kept = world.send_text(2, 0, 1, &pattern(80));
        world.calm();
        // Rank 1 is invited, and has nothing left to send.
        world.cancel(1, cancelled);
        let into = world.room(0, 80);
        let receive = world.receive(0, 1, 0, into);
        world.assert_received(0, receive, into, &pattern(80));
        world.calm();
        assert_eq!(world.outcome(1, cancelled), Some(Outcome::Cancelled));
        assert_eq!(world.holdings(0).unexpected, 1, "rank 2 was invited in its stead");
        let receive = world.receive(0, 2, 1, into);
        world.calm();
        world.assert_received(0, receive, into, &pattern(80));
        world.assert_done(2, kept);
        world.assert_quiet();
    }
}

#[test]
fn a_lane_that_empties_while_it_is_invited_starts_afresh() {
    for rail in [PLAIN, LOSSY] {
        let mut world = with_full_store(rail);
        let send = world.send_text(0, 1, 1, &[7; 90]);
        world.calm();
        make_room(&mut world);
        assert!(matches!(world.on_the_way(1, 0)[..], [Kind::Invite { .. }]));
        world.cancel(0, send);
        assert_eq!(world.outcome(0, send), Some(Outcome::Cancelled));
        let sends = [1, 2].map(|tag| world.send_text(0, 1, tag, b"fresh"));
        world.calm();
        for (tag, send) in (1..).zip(sends) {
            let into = world.room(1, 5);
            let receive = world.receive(1, 0, tag, into);
            world.calm();
            world.assert_received(1, receive, into, b"fresh");
            world.assert_done(0, send);
        }
        world.assert_quiet();
    }
}

#[test]
fn the_oldest_of_the_held_may_be_cancelled_at_any_time() {
    // `steps` frames of the sweep arrive before the cancel.
    for rail in [PLAIN, LOSSY] {
        for steps in 0..12 {
            let mut world = with_full_store(rail);
            let sends: Vec<_> =
                (1..=6u8).map(|tag| world.send_text(0, 1, tag.into(), &[tag; 90])).collect();
            world.calm();
            let into = world.room(1, 90);
            let receive = world.receive(1, 0, 5, into);
            for _ in 0..steps {
                if !world.deliver_next(1, 0) {
                    world.deliver_next(0, 1);
                }
            }
            world.cancel(0, sends[0]);
            world.calm();
            world.assert_received(1, receive, into, &[5; 90]);
            assert_eq!(world.outcome(0, sends[0]), Some(Outcome::Cancelled));
            make_room(&mut world);
            for tag in [2, 3, 4, 6u8] {
                let receive = world.receive_any(1, into);
                world.calm();
                world.assert_received(1, receive, into, &[tag; 90]);
                world.assert_done(0, sends[usize::from(tag) - 1]);
            }
            world.assert_quiet();
        }
    }
}

#[test]
fn a_sender_that_dies_while_it_is_invited_makes_way() {
    let mut world = World::new(3, PLAIN, &tight(2));
    for from in [1, 1, 2] {
        world.send_text(from, 0, 1, &pattern(80));
        world.run_until_quiet();
    }
    let into = world.room(0, 80);
    let receive = world.receive(0, 1, 1, into);
    world.assert_received(0, receive, into, &pattern(80));
    assert!(matches!(world.on_the_way(0, 1)[..], [Kind::Invite { .. }]));
    world.act(0, |nic, port| nic.on_peer_down(peer(1), port));
    assert!(matches!(world.on_the_way(0, 2)[..], [Kind::Invite { .. }]));
    world.run_until_quiet();
    let receive = world.receive(0, 2, 1, into);
    world.run_until_quiet();
    world.assert_received(0, receive, into, &pattern(80));
    world.assert_empty(0);
}

/// MPI 5.0 §3.8.1: a probe returns once a matching send has been started.
#[test]
fn a_probe_sees_a_message_that_is_held() {
    let mut world = with_full_store(PLAIN);
    world.send_text(0, 1, 1, b"held");
    world.run_until_quiet();
    assert_eq!(world.probe(1, word(0, 1), Mask::EXACT), None, "it has to be asked for");
    world.run_until_quiet();
    let seen = world.probe(1, word(0, 1), Mask::EXACT).expect("it has been shown");
    assert_eq!((seen.from, seen.word, seen.len), (peer(0), word(0, 1), 4));
    // The message is still held, and a receive gets it.
    let into = world.room(1, 4);
    let receive = world.receive(1, 0, 1, into);
    world.run_until_quiet();
    world.assert_received(1, receive, into, b"held");
}

/// No other receive can get a held message that a matched probe has taken.
#[test]
fn a_matched_probe_takes_a_message_that_is_held() {
    let mut world = with_full_store(PLAIN);
    world.send_text(0, 1, 1, b"held");
    world.run_until_quiet();
    assert_eq!(world.take(1, word(0, 1), Mask::ANY_SOURCE), None);
    world.run_until_quiet();
    let (ticket, seen) = world.take(1, word(0, 1), Mask::ANY_SOURCE).expect("it has been shown");
    assert_eq!(seen.len, 4);
    let into = world.room(1, 4);
    for come in [false, true] {
        if come {
            world.run_until_quiet();
        }
        assert_eq!(world.probe(1, word(0, 1), Mask::EXACT), None, "it is taken");
    }
    let receive = world.act(1, |nic, port| nic.post_taken(ticket, into, port));
    world.run_until_quiet();
    world.assert_received(1, receive, into, b"held");
}

/// A user that alternates between two probes finds both messages.
#[test]
fn probes_in_turn_do_not_hide_what_the_other_has_seen() {
    let mut world = with_full_store(PLAIN);
    world.send_text(0, 1, 1, b"one");
    world.send_text(0, 1, 2, b"other");
    world.run_until_quiet();
    for round in 0..3 {
        let seen = [1, 2].map(|tag| world.probe(1, word(0, tag), Mask::EXACT));
        assert_eq!(seen.map(|seen| seen.is_some()), [round > 0; 2], "round {round}");
        world.run_until_quiet();
    }
}

/// A probe finds the oldest held message, even if the lane has been swept for it before.
#[test]
fn a_probe_does_not_see_past_an_older_held_message() {
    let mut world = with_full_store(PLAIN);
    world.send_text(0, 1, 1, b"first");
    world.run_until_quiet();
    assert_eq!(world.probe(1, word(0, 9), Mask::EXACT), None);
    world.run_until_quiet();
    // The sweep for tag 9 found nothing; now the lane becomes empty.
    let into = world.room(1, 5);
    let receive = world.receive(1, 0, 1, into);
    world.run_until_quiet();
    world.assert_received(1, receive, into, b"first");
    // Both are refused: the first as a whole message, the second as an offer.
    world.send_text(0, 1, 9, b"short");
    let long = world.lend(0, &pattern(5000));
    world.send(0, 1, 9, long);
    world.run_until_quiet();
    world.probe(1, word(0, 9), Mask::EXACT);
    world.run_until_quiet();
    let seen = world.probe(1, word(0, 9), Mask::EXACT).expect("it has been shown");
    assert_eq!(seen.len, 5);
}

/// A receive posted during a sweep gets a message that the sweep has already offered, and a probe does not see it.
#[test]
fn a_probe_does_not_see_what_a_receive_waits_for() {
    let step = |world: &mut World| world.deliver_next(1, 0) || world.deliver_next(0, 1);
    for steps in 0..12 {
        let mut world = with_full_store(PLAIN);
        for (tag, text) in [(1, &b"other"[..]), (2, b"first"), (2, b"the second")] {
            world.send_text(0, 1, tag, text);
        }
        world.run_until_quiet();
        assert_eq!(world.probe(1, word(0, 2), Mask::EXACT), None, "it has to be asked for");
        for _ in 0..steps {
            step(&mut world);
        }
        let into = world.room(1, 5);
        let receive = world.receive(1, 0, 2, into);
        let mut seen = None;
        while step(&mut world) {
            seen = world.probe(1, word(0, 2), Mask::EXACT);
            assert!(seen.is_none_or(|seen| seen.len == 10), "after {steps} frames");
        }
        world.assert_received(1, receive, into, b"first");
        assert!(seen.is_some(), "after {steps} frames");
    }
}
