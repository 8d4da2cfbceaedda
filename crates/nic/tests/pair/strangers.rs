//! Foreign frames and malformed frames.

use ferrywire_nic::{Envelope, Key, Kind, Marks, Nic, Peer, RailId, Region, Seal, Span};

use crate::common::{JOB, LOSSY, Memory, PLAIN, World, frame, limits, pattern, peer, word};

fn eager() -> Kind {
    Kind::Eager { word: word(1, 1), secured: false, synchronous: None }
}

#[test]
fn frames_of_another_job_and_with_a_broken_seal_make_no_state_and_get_no_answer() {
    for rail in [PLAIN, LOSSY] {
        let mut nic: Nic = Nic::new(Peer(0), JOB, limits());
        let mut port = Memory::new(Peer(0), rail);
        let before = nic.footprint();
        let marks = (!rail.reliable).then(|| Marks { epoch: 1, ..Marks::default() });
        for (job, seal) in [(JOB + 1, Seal::Intact), (JOB, Seal::Broken)] {
            let envelope = Envelope { job, marks, kind: eager() };
            nic.on_frame(peer(1), PLAIN.rail, seal, &frame(&envelope, b"hello"), &mut port);
        }
        for len in 0..4 {
            nic.on_frame(peer(1), PLAIN.rail, Seal::Intact, &JOB.to_le_bytes()[..len], &mut port);
        }
        assert_eq!(nic.peers(), 0);
        assert_eq!(nic.stats().foreign, 6);
        assert_eq!(nic.footprint(), before);
        assert!(port.sent.is_empty());
        assert!(port.armed.is_none());
    }
}

#[test]
fn frames_that_cannot_be_read_are_counted_and_make_no_state() {
    let mut nic: Nic = Nic::new(Peer(0), JOB, limits());
    let mut port = Memory::new(Peer(0), PLAIN);
    let envelope = Envelope { job: JOB, marks: None, kind: eager() };
    let whole = frame(&envelope, &[]);
    for len in 4..whole.len() {
        nic.on_frame(peer(1), PLAIN.rail, Seal::Intact, &whole[..len], &mut port);
    }
    let mut odd = whole.clone();
    odd[4] = 200;
    nic.on_frame(peer(1), PLAIN.rail, Seal::Intact, &odd, &mut port);
    odd.clone_from(&whole);
    odd[5] |= 0x80;
    nic.on_frame(peer(1), PLAIN.rail, Seal::Intact, &odd, &mut port);
    assert_eq!(nic.stats().malformed, whole.len() as u64 - 4 + 2);
    assert_eq!(nic.peers(), 0);
    assert!(port.sent.is_empty());
}

#[test]
fn a_frame_of_the_wrong_sort_of_rail_is_counted_and_changes_nothing() {
    for (rail, marks) in [(PLAIN, Some(Marks { epoch: 1, ..Marks::default() })), (LOSSY, None)] {
        let mut world = World::acquainted(rail, &limits());
        let held = world.holdings(0);
        let envelope = Envelope { job: JOB, marks, kind: eager() };
        world.arrive(1, 0, &frame(&envelope, b"hello"));
        assert_eq!(world.nics[0].stats().malformed, 1);
        assert_eq!(world.holdings(0), held);
        assert!(world.ports[0].sent.is_empty());
        world.assert_quiet();
    }
}

#[test]
fn frames_about_operations_that_do_not_exist_change_nothing() {
    let mut world = World::acquainted(PLAIN, &limits());
    // A ticket of rank 1, which means nothing to rank 0.
    let send = world.send_text(1, 0, 1, &pattern(9000));
    let ticket = crate::common::ticket(send);
    world.lose_all();
    let held = world.holdings(0);
    let into = Span { len: 5, ..Span::EMPTY };
    let kinds = [
        Kind::Answer { queue: 0, accepted: true, wanted: false, credit: 0 },
        Kind::Answer { queue: 3, accepted: false, wanted: true, credit: 0 },
        Kind::Invite { queue: 0 },
        Kind::Vacant { queue: 1 },
        Kind::Matched { ticket },
        Kind::Grant { ticket, target: ticket, into, rest: false },
        Kind::Chunk { ticket, offset: 0 },
        Kind::Done { ticket },
        Kind::Withdraw { ticket, word: word(1, 1) },
        Kind::Withdrawn { ticket },
        Kind::Found { ticket, value: 1 },
        Kind::Denied { ticket },
    ];
    for kind in kinds {
        world.forge(1, 0, kind, b"xxxxx");
    }
    let after = world.holdings(0);
    assert_eq!((after.tickets, after.unexpected), (held.tickets, held.unexpected));
    assert!(world.ports[0].sent.is_empty());
    world.cancel(1, send);
    world.lose_all();
}

#[test]
fn a_message_that_claims_credit_it_does_not_have_is_dropped() {
    let mut world = World::new(2, PLAIN, &limits());
    let kind = Kind::Eager { word: word(1, 1), secured: true, synchronous: None };
    world.forge(1, 0, kind, b"greedy");
    assert_eq!(world.nics[0].stats().malformed, 1);
    assert_eq!(world.holdings(0).unexpected, 0);
    world.assert_quiet();
}

#[test]
fn a_peer_cannot_end_an_operation_with_another_peer() {
    let mut world = World::new(3, PLAIN, &limits());
    let send = world.send_text(0, 1, 1, &pattern(9000));
    world.run_until_quiet();
    let ticket = crate::common::ticket(send);
    world.forge(2, 0, Kind::Done { ticket }, &[]);
    world.forge(2, 0, Kind::Denied { ticket }, &[]);
    world.forge(2, 0, Kind::Withdrawn { ticket }, &[]);
    world.assert_pending(0, send);
    world.cancel(0, send);
    world.assert_quiet();
}

#[test]
fn queues_that_do_not_exist_take_no_memory() {
    let mut world = World::acquainted(PLAIN, &limits());
    let before = world.nics[0].footprint();
    for queue in 4..=u16::MAX {
        world.forge(1, 0, Kind::Invite { queue }, &[]);
        if queue == 2000 {
            break;
        }
    }
    let taken = world.nics[0].footprint() - before;
    assert!(taken < 2000, "{taken} bytes for queues that nobody has");
}

/// Frames on another rail that claim to be from ourselves, from a known peer, and from an unknown one.
#[test]
fn a_rail_cannot_speak_for_a_peer_of_another_rail() {
    let mut world = World::new(4, PLAIN, &limits());
    let secret = world.lend(0, b"secret");
    let into = world.room(0, 6);
    let receive = world.receive_any(0, into);
    let source = world.lend(0, &pattern(9000));
    let offered = world.send(0, 1, 1, source);
    world.run_until_quiet();
    // A message to ourselves, so that we are in our own table.
    let mine = world.send_text(0, 0, 7, b"me");
    world.run_until_quiet();
    world.assert_received(0, receive, into, b"me");
    world.assert_done(0, mine);
    let receive = world.receive_any(0, into);
    world.clear_records();
    let (held, peers) = (world.holdings(0), world.nics[0].peers());
    let ticket = crate::common::ticket(offered);
    let kinds = [
        Kind::Eager { word: word(1, 1), secured: false, synchronous: None },
        Kind::Offer {
            word: word(1, 1),
            secured: false,
            first: false,
            ticket,
            source: secret,
            key: Key(1),
        },
        Kind::Grant { ticket, target: ticket, into: secret, rest: false },
        Kind::Done { ticket },
        Kind::Farewell,
    ];
    let forged = [0, 1, 3].into_iter().flat_map(|from| kinds.map(|kind| (from, kind)));
    for (from, kind) in forged {
        let marks = None;
        let frame = frame(&Envelope { job: JOB, marks, kind }, b"");
        world.arrive_by(RailId(PLAIN.rail.0 + 1), from, 0, &frame);
    }
    let foreign = world.nics[0].stats().foreign;
    assert_eq!((foreign, world.nics[0].stats().malformed), (15, 0));
    assert_eq!((world.holdings(0), world.nics[0].peers()), (held, peers));
    assert!(world.ports[0].sent.is_empty() && world.ports[0].gets.is_empty());
    world.assert_pending(0, receive);
    world.assert_pending(0, offered);
    for posted in [receive, offered] {
        world.cancel(0, posted);
    }
    world.assert_quiet();
}

#[test]
fn an_offer_whose_bytes_cannot_be_anywhere_is_dropped() {
    let mut world = World::acquainted(crate::common::DIRECT, &limits());
    let into = world.room(0, 100);
    let receive = world.receive(0, 1, 1, into);
    let send = world.send_text(1, 0, 2, &pattern(9000));
    let ticket = crate::common::ticket(send);
    world.lose_all();
    let source = Span::new(Region(1), u64::MAX - 50, 100);
    let (word, key) = (word(1, 1), Key(1));
    world.forge(1, 0, Kind::Offer { word, secured: false, first: false, ticket, source, key }, &[]);
    assert_eq!(world.nics[0].stats().malformed, 1);
    assert!(world.ports[0].sent.is_empty() && world.ports[0].gets.is_empty());
    world.assert_pending(0, receive);
}
