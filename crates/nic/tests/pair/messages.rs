//! Eager messages, credit, probing, and messages to self.

use ferrywire_nic::{Fault, Kind, Mask, Mode, Outcome, Posted, Promises, Span};

use crate::common::{DIRECT, LOSSY, PLAIN, World, limits, pattern, peer, ticket, word};

#[test]
fn an_eager_message_finds_the_receive_that_waits_for_it() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::new(2, rail, &limits());
        let into = world.room(1, 10);
        let receive = world.receive(1, 0, 3, into);
        let send = world.send_text(0, 1, 3, b"ferry");
        world.run_until_quiet();
        world.assert_received(1, receive, into, b"ferry");
        world.assert_done(0, send);
        assert_eq!(world.nics[1].stats().unexpected, 0);
        world.assert_quiet();
    }
}

#[test]
fn an_unexpected_message_waits_for_its_receive() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::new(2, rail, &limits());
        let text = pattern(500);
        let send = world.send_text(0, 1, 3, &text);
        world.run_until_quiet();
        world.assert_done(0, send);
        assert_eq!(world.holdings(1).unexpected, 1);
        let into = world.room(1, 500);
        let receive = world.receive(1, 0, 3, into);
        assert!(matches!(receive, Posted::Done(_)), "it was here already");
        world.assert_received(1, receive, into, &text);
        world.assert_quiet();
    }
}

#[test]
fn messages_with_one_word_keep_their_order() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::new(2, rail, &limits());
        let first = world.room(1, 1);
        let posted = world.receive(1, 0, 1, first);
        for text in [b"a", b"b", b"c"] {
            world.send_text(0, 1, 1, text);
        }
        world.run_until_quiet();
        world.assert_received(1, posted, first, b"a");
        for text in [b"b", b"c"] {
            let into = world.room(1, 1);
            let posted = world.receive(1, 0, 1, into);
            world.assert_received(1, posted, into, text);
        }
        world.assert_quiet();
    }
}

#[test]
fn first_contact_is_unsecured_and_brings_credit() {
    let mut world = World::new(2, PLAIN, &limits());
    let send = world.send_text(0, 1, 1, b"hello");
    world.assert_pending(0, send);
    let [Kind::Eager { secured: false, .. }] = world.on_the_way(0, 1)[..] else {
        panic!("one message without credit");
    };
    world.deliver_next(0, 1);
    let [Kind::Answer { accepted: true, credit, .. }] = world.on_the_way(1, 0)[..] else {
        panic!("one answer");
    };
    assert_eq!(credit, limits().credit_bytes);
    assert_eq!(world.holdings(1).stores[0].reserved, credit);
    world.run_until_quiet();
    world.assert_done(0, send);
    let into = world.room(1, 5);
    let receive = world.receive(1, 0, 1, into);
    world.assert_received(1, receive, into, b"hello");
    world.assert_quiet();
}

#[test]
fn a_message_under_credit_is_over_at_once() {
    let mut world = World::acquainted(PLAIN, &limits());
    let into = world.room(1, 5);
    let receive = world.receive(1, 0, 1, into);
    let send = world.send_text(0, 1, 1, b"again");
    assert_eq!(send, Posted::Done(Outcome::Done));
    assert_eq!(world.holdings(0).tickets, 0);
    world.run_until_quiet();
    world.assert_received(1, receive, into, b"again");
    assert!(world.ports[1].sent.is_empty(), "and nobody answers");
    world.assert_quiet();
}

#[test]
fn credit_comes_back_in_a_frame_of_its_own_when_there_is_much_of_it() {
    let mut world = World::acquainted(PLAIN, &limits());
    for _ in 0..40 {
        let into = world.room(1, 300);
        let receive = world.receive(1, 0, 1, into);
        let send = world.send_text(0, 1, 1, &pattern(300));
        assert_eq!(send, Posted::Done(Outcome::Done), "there is always credit");
        world.run_until_quiet();
        world.assert_received(1, receive, into, &pattern(300));
    }
    let credits = world.ports[1].count(|kind| matches!(kind, Kind::Credit { .. }));
    assert!((10..=20).contains(&credits), "{credits} frames of credit for 40 messages");
    world.assert_quiet();
}

/// A rank that only sends takes frames only when its NIC says so.
#[test]
fn a_rank_that_only_sends_is_told_to_look_before_its_credit_is_used_up() {
    let rail = Promises { initial_credit_bytes: limits().credit_bytes, ..PLAIN };
    for len in [0, 1, 100, 400] {
        let mut world = World::new(2, rail, &limits());
        let mut looks = 0;
        for _ in 0..200 {
            let into = world.room(1, 400);
            let receive = world.receive(1, 0, 1, into);
            let send = world.send_text(0, 1, 1, &pattern(len));
            assert_eq!(send, Posted::Done(Outcome::Done), "there is always credit");
            if world.nics[0].is_short_of_credit() {
                world.nics[0].note_credit_taken();
                looks += 1;
                world.run_until_quiet();
            }
            // The frames to rank 0 stay where they are.
            world.stopped = Some(0);
            world.run_until_quiet();
            world.stopped = None;
            world.assert_received(1, receive, into, &pattern(len));
        }
        assert!((1..=110).contains(&looks), "{looks} looks for 200 messages of {len} bytes");
    }
}

#[test]
fn what_no_receive_waits_for_is_kept_in_its_header_or_in_fragments() {
    for len in [0, 1, 8, 31, 32, 33, 124, 125, 400] {
        let mut world = World::new(2, PLAIN, &limits());
        world.send_text(0, 1, 1, &pattern(len));
        world.run_until_quiet();
        let store = world.holdings(1).stores[0];
        let fragments = if len <= 32 { 0 } else { len.div_ceil(124) };
        assert_eq!(store.fragments_in_use, fragments);
        assert_eq!(store.used as usize, 128 * (1 + len.div_ceil(124)));
        let into = world.room(1, 500);
        let receive = world.receive(1, 0, 1, into);
        world.assert_received(1, receive, into, &pattern(len));
        assert_eq!(world.holdings(1).stores[0].used, 0);
    }
}

#[test]
fn credit_that_is_not_worth_a_frame_comes_back_with_an_answer() {
    let mut world = World::acquainted(PLAIN, &limits());
    let into = world.room(1, 1500);
    for _ in 0..3 {
        let receive = world.receive(1, 0, 1, into);
        world.send_text(0, 1, 1, &pattern(100));
        world.run_until_quiet();
        world.assert_received(1, receive, into, &pattern(100));
    }
    assert!(world.ports[1].sent.is_empty());
    // More than what is left of the credit, so that it is sent without credit and asks for an answer.
    let source = world.lend(0, &pattern(1500));
    let receive = world.receive(1, 0, 1, into);
    let send = world.send_as(Mode::Ready, 0, 1, 1, source);
    world.deliver_next(0, 1);
    let [Kind::Answer { accepted: true, credit, .. }] = world.on_the_way(1, 0)[..] else {
        panic!("one answer");
    };
    assert_eq!(credit, 3 * 256, "three headers, and three times 100 bytes in a unit each");
    world.run_until_quiet();
    world.assert_received(1, receive, into, &pattern(1500));
    world.assert_done(0, send);
    assert_eq!(world.holdings(1).stores[0].reserved, limits().credit_bytes);
    world.assert_quiet();
}

#[test]
fn credit_that_is_used_up_is_no_obstacle() {
    let mut world = World::acquainted(PLAIN, &limits());
    let sends: Vec<_> = (0..6).map(|_| world.send_text(0, 1, 1, &pattern(500))).collect();
    assert!(matches!(sends[5], Posted::Pending(_)));
    world.run_until_quiet();
    for send in sends {
        world.assert_done(0, send);
        let into = world.room(1, 500);
        let receive = world.receive(1, 0, 1, into);
        world.assert_received(1, receive, into, &pattern(500));
    }
    world.assert_quiet();
}

#[test]
fn a_receive_that_is_too_short_gets_what_fits() {
    let truncated = Outcome::Failed(Fault::Truncated { word: word(0, 1), len: 300 });
    for rail in [PLAIN, LOSSY] {
        let mut world = World::new(2, rail, &limits());
        for posted_first in [true, false] {
            let into = world.room(1, 130);
            let early = posted_first.then(|| world.receive(1, 0, 1, into));
            let send = world.send_text(0, 1, 1, &pattern(300));
            world.run_until_quiet();
            let receive = early.unwrap_or_else(|| world.receive(1, 0, 1, into));
            assert_eq!(world.outcome(1, receive), Some(truncated));
            assert_eq!(world.bytes(1, into), &pattern(130)[..]);
            world.calm();
            world.assert_done(0, send);
        }
        world.assert_quiet();
    }
}

#[test]
fn a_synchronous_message_under_credit_ends_when_it_matches() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::acquainted(rail, &limits());
        for posted_first in [true, false] {
            let into = world.room(1, 5);
            let early = posted_first.then(|| world.receive(1, 0, 1, into));
            let source = world.lend(0, b"hello");
            let send = world.send_as(Mode::Synchronous, 0, 1, 1, source);
            world.calm();
            let receive = early.unwrap_or_else(|| {
                world.assert_pending(0, send);
                world.receive(1, 0, 1, into)
            });
            world.calm();
            world.assert_received(1, receive, into, b"hello");
            world.assert_done(0, send);
        }
        world.assert_quiet();
    }
}

#[test]
fn a_synchronous_message_without_credit_ends_when_it_matches() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::new(2, rail, &limits());
        let source = world.lend(0, b"hello");
        let send = world.send_as(Mode::Synchronous, 0, 1, 1, source);
        world.calm();
        world.assert_pending(0, send);
        let into = world.room(1, 5);
        let receive = world.receive(1, 0, 1, into);
        world.calm();
        world.assert_received(1, receive, into, b"hello");
        world.assert_done(0, send);
        world.assert_quiet();
    }
}

#[test]
fn a_synchronous_message_without_credit_ends_when_its_receive_was_posted() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::new(2, rail, &limits());
        let into = world.room(1, 5);
        let receive = world.receive(1, 0, 1, into);
        let source = world.lend(0, b"hello");
        let send = world.send_as(Mode::Synchronous, 0, 1, 1, source);
        world.calm();
        world.assert_received(1, receive, into, b"hello");
        world.assert_done(0, send);
        world.assert_quiet();
    }
}

#[test]
fn a_ready_message_goes_whole_though_it_is_long() {
    let mut world = World::acquainted(PLAIN, &limits());
    let into = world.room(1, 1500);
    let receive = world.receive(1, 0, 1, into);
    let source = world.lend(0, &pattern(1500));
    let send = world.send_as(Mode::Ready, 0, 1, 1, source);
    world.calm();
    world.assert_done(0, send);
    world.assert_received(1, receive, into, &pattern(1500));
    assert_eq!(world.ports[0].count(|kind| matches!(kind, Kind::Offer { .. })), 0);
    world.assert_quiet();
}

#[test]
fn a_ready_message_that_is_mistaken_arrives_all_the_same() {
    let mut world = World::acquainted(PLAIN, &limits());
    let source = world.lend(0, &pattern(1500));
    let send = world.send_as(Mode::Ready, 0, 1, 1, source);
    world.calm();
    world.assert_done(0, send);
    let into = world.room(1, 1500);
    let receive = world.receive(1, 0, 1, into);
    world.assert_received(1, receive, into, &pattern(1500));
    world.assert_quiet();
}

#[test]
fn nothing_at_all_can_be_sent() {
    for rail in [PLAIN, LOSSY] {
        for mode in [Mode::Standard, Mode::Ready] {
            let mut world = World::new(2, rail, &limits());
            let receive = world.receive(1, 0, 1, Span::EMPTY);
            let sends = [1, 2].map(|tag| world.send_as(mode, 0, 1, tag, Span::EMPTY));
            world.calm();
            world.assert_received(1, receive, Span::EMPTY, b"");
            let late = world.receive(1, 0, 2, Span::EMPTY);
            world.assert_received(1, late, Span::EMPTY, b"");
            world.calm();
            sends.into_iter().for_each(|send| world.assert_done(0, send));
            world.assert_quiet();
        }
    }
}

#[test]
fn a_receive_that_nothing_has_matched_can_be_cancelled() {
    let mut world = World::new(2, PLAIN, &limits());
    let into = world.room(1, 5);
    let receive = world.receive(1, 0, 1, into);
    world.cancel(1, receive);
    assert_eq!(world.outcome(1, receive), Some(Outcome::Cancelled));
    world.take_back(1, into);
    world.send_text(0, 1, 1, b"hello");
    world.run_until_quiet();
    let into = world.room(1, 5);
    let receive = world.receive(1, 0, 1, into);
    world.assert_received(1, receive, into, b"hello");
    world.assert_quiet();
}

#[test]
fn a_probe_sees_what_a_receive_would_get() {
    let mut world = World::new(2, PLAIN, &limits());
    assert!(world.probe(1, word(0, 1), Mask::EXACT).is_none());
    world.send_text(0, 1, 1, b"one");
    world.send_text(0, 1, 2, &pattern(5000));
    world.run_until_quiet();
    let eager = world.probe(1, word(9, 9), Mask::ANY_BOTH).expect("a message");
    assert_eq!((eager.word, eager.len), (word(0, 1), 3));
    let offer = world.probe(1, word(0, 2), Mask::EXACT).expect("a message");
    assert_eq!((offer.word, offer.len), (word(0, 2), 5000));
    for (tag, text) in [(1, b"one".to_vec()), (2, pattern(5000))] {
        let into = world.room(1, text.len());
        let receive = world.receive(1, 0, tag, into);
        world.run_until_quiet();
        world.assert_received(1, receive, into, &text);
    }
    world.assert_quiet();
}

#[test]
fn a_message_that_was_taken_is_nobody_elses() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::new(2, rail, &limits());
        let texts = [b"one".to_vec(), pattern(5000), b"two".to_vec()];
        let sends = texts.each_ref().map(|text| world.send_text(0, 1, 1, text));
        world.run_until_quiet();
        let taken = [0, 1].map(|_| world.take(1, word(0, 1), Mask::EXACT).expect("a message"));
        let into = world.room(1, 3);
        let receive = world.receive(1, 0, 1, into);
        world.assert_received(1, receive, into, b"two");
        assert!(world.take(1, word(0, 1), Mask::EXACT).is_none());
        for (&(message, seen), text) in taken.iter().zip(&texts) {
            assert_eq!(seen.len, text.len() as u64);
            let into = world.room(1, text.len());
            let receive = world.act(1, |nic, port| nic.post_taken(message, into, port));
            world.calm();
            world.assert_received(1, receive, into, text);
        }
        sends.into_iter().for_each(|send| world.assert_done(0, send));
        world.assert_quiet();
    }
}

#[test]
fn a_message_to_self_is_a_message() {
    let mut world = World::new(1, PLAIN, &limits());
    let into = world.room(0, 5);
    let receive = world.receive(0, 0, 1, into);
    let send = world.send_text(0, 0, 1, b"hello");
    // The send path never runs the receive path.
    world.assert_pending(0, receive);
    world.run_until_quiet();
    world.assert_received(0, receive, into, b"hello");
    world.assert_done(0, send);
    let send = world.send_text(0, 0, 2, b"again");
    let wild = world.receive_any(0, into);
    world.run_until_quiet();
    world.assert_received(0, wild, into, b"again");
    world.assert_done(0, send);
    world.assert_quiet();
}

#[test]
fn a_long_message_to_self_waits_for_its_receive() {
    let mut world = World::new(1, PLAIN, &limits());
    let send = world.send_text(0, 0, 1, &pattern(5000));
    world.run_until_quiet();
    world.assert_pending(0, send);
    let into = world.room(0, 5000);
    let receive = world.receive_any(0, into);
    world.run_until_quiet();
    world.assert_received(0, receive, into, &pattern(5000));
    world.assert_done(0, send);
    world.assert_quiet();
}

#[test]
fn a_long_message_to_self_finds_the_receive_that_waits_for_it() {
    let mut world = World::new(1, PLAIN, &limits());
    let into = world.room(0, 5000);
    let receive = world.receive(0, 0, 1, into);
    let send = world.send_text(0, 0, 1, &pattern(5000));
    world.run_until_quiet();
    world.assert_done(0, send);
    world.assert_received(0, receive, into, &pattern(5000));
    let chunks = world.ports[0].count(|kind| matches!(kind, Kind::Chunk { .. }));
    assert_eq!(chunks, 0, "one copy, from span to span");
    world.assert_quiet();
}

#[test]
fn a_synchronous_message_to_self_ends_when_it_matches() {
    for posted_first in [true, false] {
        let mut world = World::new(1, PLAIN, &limits());
        let into = world.room(0, 5);
        let early = posted_first.then(|| world.receive(0, 0, 1, into));
        let source = world.lend(0, b"hello");
        let send = world.send_as(Mode::Synchronous, 0, 0, 1, source);
        world.run_until_quiet();
        let receive = early.unwrap_or_else(|| {
            world.assert_pending(0, send);
            world.receive(0, 0, 1, into)
        });
        world.run_until_quiet();
        world.assert_received(0, receive, into, b"hello");
        world.assert_done(0, send);
        world.assert_quiet();
    }
}

#[test]
fn the_ticket_of_a_message_on_its_way_cannot_be_cancelled() {
    let mut world = World::new(2, PLAIN, &limits());
    let send = world.send_text(0, 1, 1, b"hello");
    world.cancel(0, send);
    world.run_until_quiet();
    assert_eq!(world.outcome(0, send), Some(Outcome::Done), "its bytes were there already");
    assert!(world.ports[0].outcome(ticket(send)).is_some());
    let into = world.room(1, 5);
    let receive = world.receive(1, 0, 1, into);
    world.assert_received(1, receive, into, b"hello");
    world.assert_quiet();
}

/// Whole messages with and without credit, and long ones; cancelled at once, or after they have arrived.
#[test]
fn a_synchronous_message_that_nobody_receives_can_be_taken_back() {
    for rail in [PLAIN, LOSSY, DIRECT] {
        for (known, text, patient) in [true, false].into_iter().flat_map(|known| {
            [5, 5000]
                .into_iter()
                .flat_map(move |len| [true, false].map(|patient| (known, pattern(len), patient)))
        }) {
            let mut world = match known {
                true => World::acquainted(rail, &limits()),
                false => World::new(2, rail, &limits()),
            };
            let source = world.lend(0, &text);
            let send = world.send_as(Mode::Synchronous, 0, 1, 1, source);
            if patient {
                world.calm();
            }
            world.cancel(0, send);
            world.calm();
            assert_eq!(world.outcome(0, send), Some(Outcome::Cancelled));
            world.take_back(0, source);
            let into = world.room(1, 5000);
            let receive = world.receive(1, 0, 1, into);
            world.calm();
            world.assert_pending(1, receive);
            world.cancel(1, receive);
            world.assert_quiet();
        }
    }
}

/// The message matches while it is being cancelled: it is received or cancelled, never both.
#[test]
fn a_synchronous_message_is_either_taken_back_or_received() {
    for rail in [PLAIN, LOSSY] {
        for late in [false, true] {
            let mut world = World::acquainted(rail, &limits());
            let source = world.lend(0, b"hello");
            let send = world.send_as(Mode::Synchronous, 0, 1, 1, source);
            world.deliver_next(0, 1);
            world.cancel(0, send);
            let into = world.room(1, 5);
            if late {
                world.deliver_next(0, 1);
            }
            let receive = world.receive(1, 0, 1, into);
            world.calm();
            if late {
                assert_eq!(world.outcome(0, send), Some(Outcome::Cancelled));
                world.assert_pending(1, receive);
                world.cancel(1, receive);
            } else {
                world.assert_done(0, send);
                world.assert_received(1, receive, into, b"hello");
            }
            world.assert_quiet();
        }
    }
}

#[test]
fn a_synchronous_message_to_oneself_can_be_taken_back() {
    let mut world = World::new(1, PLAIN, &limits());
    let source = world.lend(0, b"hello");
    let send = world.send_as(Mode::Synchronous, 0, 0, 1, source);
    world.cancel(0, send);
    world.calm();
    assert_eq!(world.outcome(0, send), Some(Outcome::Cancelled));
    world.assert_quiet();
}

#[test]
fn a_message_that_waits_for_a_module_can_be_taken_back() {
    let mut world = World::acquainted(PLAIN, &limits());
    let source = world.lend(0, b"hello");
    let word = crate::modules::word(0, 1);
    let send =
        world.act(0, |nic, port| nic.post_send(peer(1), word, source, Mode::Synchronous, port));
    world.calm();
    assert_eq!(world.holdings(1).unexpected, 1);
    world.cancel(0, send);
    world.calm();
    assert_eq!(world.outcome(0, send), Some(Outcome::Cancelled));
    world.assert_quiet();
}

#[test]
fn whoever_dies_while_a_message_is_taken_back_ends_it() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::acquainted(rail, &limits());
        let source = world.lend(0, b"hello");
        let send = world.send_as(Mode::Synchronous, 0, 1, 1, source);
        world.calm();
        world.cancel(0, send);
        world.lose_all();
        world.act(0, |nic, port| nic.on_peer_down(peer(1), port));
        assert_eq!(world.outcome(0, send), Some(Outcome::Failed(Fault::PeerDown(peer(1)))));
        world.assert_empty(0);
    }
}
