//! Rails that lose, repeat and reorder; peers that fall silent.

use ferrywire_nic::{
    Envelope, Fault, Kind, Limits, Mode, Outcome, Posted, Promises, Schedule, Span, Step,
};

use crate::common::schedules::GROUP;
use crate::common::{BURSTS, LOSSY, PLAIN, VANISHING, World, limits, pattern, peer};

/// An exchange with most kinds of frame: eager, synchronous, long, one-sided. `disturb` is called before each
/// frame arrives, with the number of the frame and its direction.
fn exchange(rail: Promises, mut disturb: impl FnMut(&mut World, usize, usize, usize)) -> usize {
    let mut world = World::new(2, rail, &limits());
    let eager = world.lend(0, b"eager");
    let long = world.lend(0, &pattern(9000));
    let rooms = [5, 5, 9000].map(|len| world.room(1, len));
    let window = world.lend(1, &[0; 64]);
    world.nics[1].open_piece(window);
    let receives = [world.receive(1, 0, 1, rooms[0]), world.receive(1, 0, 3, rooms[2])];
    let sends = [
        world.send(0, 1, 1, eager),
        world.send_as(Mode::Synchronous, 0, 1, 2, eager),
        world.send(0, 1, 3, long),
    ];
    let put = world.act(0, |nic, port| nic.post_put(peer(1), eager, window.region, 8, None, port));
    let mut number = 0;
    let mut late = None;
    for _ in 0..10_000 {
        let Some((from, to)) = [(0, 1), (1, 0)].into_iter().find(|&(a, b)| world.waiting(a, b) > 0)
        else {
            let timers: usize = [0, 1].iter().map(|&rank| world.holdings(rank).timers).sum();
            if timers == 0 && late.is_some() {
                break;
            }
            // The synchronous message is received late, a while after its arrival.
            if timers == 0 {
                late = Some(world.receive(1, 0, 2, rooms[1]));
                continue;
            }
            world.pass(limits().retry_ns_first / 4);
            continue;
        };
        disturb(&mut world, number, from, to);
        world.deliver_next(from, to);
        number += 1;
    }
    world.assert_received(1, receives[0], rooms[0], b"eager");
    world.assert_received(1, late.expect("posted"), rooms[1], b"eager");
    world.assert_received(1, receives[1], rooms[2], &pattern(9000));
    assert_eq!(&world.bytes(1, window)[8..13], b"eager");
    for posted in sends.into_iter().chain([put]) {
        world.assert_done(0, posted);
    }
    assert_eq!(world.nics[0].stats().downs + world.nics[1].stats().downs, 0);
    world.assert_quiet();
    number
}

#[test]
fn each_frame_of_an_exchange_may_be_lost() {
    for rail in [LOSSY, BURSTS] {
        let frames = exchange(rail, |_, _, _, _| {});
        for lost in 0..frames {
            exchange(rail, |world, number, from, to| {
                if number == lost {
                    world.lose(from, to);
                }
            });
        }
    }
}

#[test]
fn each_pair_of_frames_of_an_exchange_may_be_lost() {
    for rail in [LOSSY, BURSTS] {
        let frames = exchange(rail, |_, _, _, _| {});
        for lost in 0..frames {
            exchange(rail, |world, number, from, to| {
                if number == lost {
                    world.lose(from, to);
                    if world.waiting(from, to) > 0 {
                        world.lose(from, to);
                    }
                }
            });
        }
    }
}

#[test]
fn each_frame_of_an_exchange_may_arrive_twice() {
    for rail in [LOSSY, BURSTS] {
        let frames = exchange(rail, |_, _, _, _| {});
        for repeated in 0..frames {
            exchange(rail, |world, number, from, to| {
                if number == repeated {
                    world.repeat(from, to);
                }
            });
        }
        exchange(rail, |world, _, from, to| world.repeat(from, to));
    }
}

#[test]
fn each_two_frames_of_an_exchange_may_change_places() {
    for rail in [LOSSY, BURSTS] {
        let frames = exchange(rail, |_, _, _, _| {});
        for swapped in 0..frames {
            exchange(rail, |world, number, from, to| {
                if number == swapped && world.waiting(from, to) > 1 {
                    world.swap(from, to);
                }
            });
        }
        exchange(rail, |world, _, from, to| {
            if world.waiting(from, to) > 1 {
                world.swap(from, to);
            }
        });
    }
}

/// A long message whose chunks are about to go, and its receive.
fn granted() -> (World, Posted, Posted, Span) {
    let mut world = World::acquainted(BURSTS, &limits());
    let source = world.lend(0, &pattern(15_000));
    let room = world.room(1, 15_000);
    let (receive, send) = (world.receive(1, 0, 1, room), world.send(0, 1, 1, source));
    while !world.on_the_way(0, 1).iter().any(|kind| matches!(kind, Kind::Chunk { .. })) {
        let (from, to) = if world.waiting(0, 1) > 0 { (0, 1) } else { (1, 0) };
        assert!(world.deliver_next(from, to), "something is on the way");
    }
    world.clear_records();
    (world, receive, send, room)
}

#[test]
fn consecutive_chunks_go_as_one_burst() {
    let (mut world, receive, send, room) = granted();
    assert_eq!(world.waiting(0, 1), 1, "all in one");
    world.deliver_next(0, 1);
    world.assert_received(1, receive, room, &pattern(15_000));
    world.calm();
    world.assert_done(0, send);
    world.assert_quiet();
}

#[test]
fn a_burst_that_is_lost_goes_again_frame_by_frame_and_so_does_what_follows() {
    let (mut world, receive, send, room) = granted();
    let burst = world.lose(0, 1);
    while world.waiting(0, 1) == 0 {
        world.pass(limits().retry_ns_first);
    }
    assert!(world.waiting(0, 1) >= 4, "the frames of the burst");
    world.deliver_next(0, 1);
    // It was only late: what has arrived counts once.
    world.arrive(0, 1, &burst);
    world.assert_received(1, receive, room, &pattern(15_000));
    world.calm();
    world.assert_done(0, send);
    let again = world.lend(0, &pattern(15_000));
    let receive = world.receive(1, 0, 2, room);
    world.send(0, 1, 2, again);
    world.calm();
    world.assert_received(1, receive, room, &pattern(15_000));
    world.assert_quiet();
}

#[test]
fn only_chunks_come_in_bursts() {
    let mut world = World::acquainted(BURSTS, &limits());
    let before = world.nics[1].stats().malformed;
    world.forge(0, 1, Kind::Farewell, &pattern(15_000));
    assert_eq!(world.nics[1].stats().malformed, before + 1);
}

#[test]
fn a_frame_that_overtakes_the_first_of_all_waits_for_it() {
    let mut world = World::new(2, LOSSY, &limits());
    let into = world.room(1, 1);
    let receive = world.receive(1, 0, 1, into);
    world.send_text(0, 1, 1, b"a");
    world.send_text(0, 1, 1, b"b");
    world.swap(0, 1);
    world.deliver_next(0, 1);
    world.assert_pending(1, receive);
    assert!(world.holdings(1).early_bytes > 0);
    world.calm();
    world.assert_received(1, receive, into, b"a");
    assert_eq!(world.nics[0].stats().retries, 0);
    let receive = world.receive(1, 0, 1, into);
    world.assert_received(1, receive, into, b"b");
    world.assert_quiet();
}

#[test]
fn a_frame_before_its_turn_that_finds_no_room_comes_again() {
    let limits = Limits { early_bytes_max: 10, ..limits() };
    let mut world = World::new(2, LOSSY, &limits);
    for text in [b"a", b"b", b"c"] {
        world.send_text(0, 1, 1, text);
    }
    world.swap(0, 1);
    world.calm();
    assert!(world.nics[0].stats().retries > 0);
    for text in [b"a", b"b", b"c"] {
        let into = world.room(1, 1);
        let receive = world.receive(1, 0, 1, into);
        world.assert_received(1, receive, into, text);
    }
    world.assert_quiet();
}

#[test]
fn room_for_frames_before_their_turn_is_shared_and_never_exceeded() {
    let limits = Limits { early_bytes_max: 200, ..limits() };
    let mut world = World::new(3, LOSSY, &limits);
    for len in 0..5 {
        for from in [1, 2] {
            world.send_text(from, 0, 1, &pattern(len));
        }
    }
    // The first frames are late; later ones fill the room, and the rest is dropped.
    let late = [1, 2].map(|from| world.lose(from, 0));
    while world.deliver_next(1, 0) | world.deliver_next(2, 0) {
        assert!(world.nics[0].is_within_budget());
    }
    assert!((150..=200).contains(&world.holdings(0).early_bytes));
    for (from, late) in (1..).zip(&late) {
        world.arrive(from, 0, late);
    }
    assert_eq!(world.holdings(0).early_bytes, 0);
    world.calm();
    for from in [1, 2] {
        assert!(world.nics[from].stats().retries > 0);
        for len in 0..5 {
            let into = world.room(0, 8);
            let receive = world.receive(0, from, 1, into);
            world.assert_received(0, receive, into, &pattern(len));
        }
    }
    world.assert_quiet();
}

#[test]
fn frames_before_their_turn_go_with_their_peer() {
    let limits = Limits { early_bytes_max: 400, ..limits() };
    let mut world = World::new(2, LOSSY, &limits);
    for _ in 0..3 {
        world.send_text(1, 0, 1, b"early");
    }
    world.lose(1, 0);
    while world.deliver_next(1, 0) {}
    assert!(world.holdings(0).early_bytes > 0);
    world.act(0, |nic, port| nic.on_peer_down(peer(1), port));
    world.assert_empty(0);
}

#[test]
fn an_ack_waits_for_company_and_not_for_long() {
    let mut world = World::acquainted(LOSSY, &limits());
    let into = world.room(1, 5);
    world.receive(1, 0, 1, into);
    let send = world.send_text(0, 1, 1, b"hello");
    world.run_until_quiet();
    assert!(world.ports[1].sent.is_empty(), "one frame is not worth an ack");
    world.pass(limits().ack_ns_max);
    assert!(matches!(world.on_the_way(1, 0)[..], [Kind::Ack]));
    world.assert_pending(0, send);
    world.run_until_quiet();
    world.assert_done(0, send);
}

#[test]
fn many_frames_are_worth_an_ack_when_all_have_been_looked_at() {
    let limits = Limits { frames_per_ack_max: 2, ..limits() };
    let mut world = World::acquainted(LOSSY, &limits);
    world.clear_records();
    for _ in 0..3 {
        let into = world.room(1, 5);
        world.receive(1, 0, 1, into);
        world.send_text(0, 1, 1, b"hello");
    }
    world.run_until_quiet();
    assert!(world.ports[1].sent.is_empty(), "more may be there");
    world.pass(0);
    assert!(matches!(world.on_the_way(1, 0)[..], [Kind::Ack]));
    world.run_until_quiet();
    world.assert_quiet();
}

#[test]
fn a_sender_asks_for_an_ack_before_its_window_is_full() {
    let mut world = World::acquainted(LOSSY, &limits());
    let into = world.room(1, 60_000);
    world.receive(1, 0, 1, into);
    let source = world.room(0, 60_000);
    world.send(0, 1, 1, source);
    // The grant comes back, and the first chunks go, as many as may be in flight.
    while world.on_the_way(0, 1).len() < 2 {
        assert!(world.deliver_next(0, 1) || world.deliver_next(1, 0), "it gets under way");
    }
    let asks = |(_, envelope): &&(_, Envelope)| envelope.marks.is_some_and(|marks| marks.asks);
    let asking = world.ports[0].sent.iter().filter(asks).count();
    let all = world.on_the_way(0, 1).len();
    assert!(asking > 0 && asking <= 3, "{asking} of {all} ask");
}

#[test]
fn a_short_message_is_over_when_it_is_copied_and_goes_again_as_it_was() {
    let limits = Limits { copied_bytes_max: 4096, ..limits() };
    let mut world = World::acquainted(LOSSY, &limits);
    let source = world.lend(0, b"first");
    assert_eq!(world.send(0, 1, 1, source), Posted::Done(Outcome::Done));
    world.lose(0, 1);
    world.take_back(0, source);
    let into = world.room(1, 5);
    let receive = world.receive(1, 0, 1, into);
    world.pass(limits.retry_ns_max);
    world.calm();
    world.assert_received(1, receive, into, b"first");
    world.assert_quiet();
}

#[test]
fn no_more_is_copied_than_there_is_room_for() {
    let limits = Limits { copied_bytes_max: 1024, ..limits() };
    let mut world = World::acquainted(LOSSY, &limits);
    let posted: Vec<_> = (0..20).map(|_| world.send(0, 1, 1, Span::EMPTY)).collect();
    let over = posted.iter().filter(|posted| matches!(posted, Posted::Done(_))).count();
    assert!(over > 0 && over < 20, "{over} of 20 are over");
    for _ in 0..20 {
        world.receive(1, 0, 1, Span::EMPTY);
    }
    world.calm();
    world.assert_quiet();
}

#[test]
fn an_ack_goes_with_a_frame_that_goes_that_way() {
    let mut world = World::acquainted(LOSSY, &limits());
    let rooms = [0, 1].map(|rank| world.room(rank, 5));
    world.receive(1, 0, 1, rooms[1]);
    world.receive(0, 1, 1, rooms[0]);
    let send = world.send_text(0, 1, 1, b"there");
    world.run_until_quiet();
    world.send_text(1, 0, 1, b"again");
    world.run_until_quiet();
    world.assert_done(0, send);
    assert_eq!(world.ports[1].count(|kind| *kind == Kind::Ack), 0);
    world.assert_quiet();
}

#[test]
fn more_frames_than_the_window_holds_wait_their_turn() {
    let limits = Limits { frames_in_flight_max: 3, ..limits() };
    let mut world = World::acquainted(LOSSY, &limits);
    let into = world.room(1, 60_000);
    let receive = world.receive(1, 0, 1, into);
    let send = world.send_text(0, 1, 1, &pattern(60_000));
    for _ in 0..200 {
        assert!(world.waiting(0, 1) <= 3);
        if !world.deliver_next(0, 1) && !world.deliver_next(1, 0) {
            world.pass(limits.ack_ns_max);
        }
    }
    world.calm();
    world.assert_received(1, receive, into, &pattern(60_000));
    world.assert_done(0, send);
    world.assert_quiet();
}

#[test]
fn a_frame_that_is_never_acked_goes_again_and_again_with_a_growing_timeout() {
    let mut world = World::acquainted(LOSSY, &limits());
    world.send_text(0, 1, 1, b"hello");
    let mut gaps = vec![];
    let mut last = world.now;
    for _ in 0..8 {
        world.lose_all();
        let at = world.ports[0].armed.expect("a retry");
        world.pass(at.since(world.now));
        assert_eq!(world.waiting(0, 1), 1);
        gaps.push(at.since(last));
        last = at;
    }
    for pair in gaps.windows(2) {
        assert!(pair[1] == 2 * pair[0] || pair[1] == limits().retry_ns_max, "{gaps:?}");
    }
    world.run_until_quiet();
    let into = world.room(1, 5);
    let receive = world.receive(1, 0, 1, into);
    world.assert_received(1, receive, into, b"hello");
    world.assert_quiet();
}

/// Posts one operation of each kind from rank 0 to rank 1.
fn one_of_everything(world: &mut World) -> Vec<Posted> {
    let region = world.lend(1, &[0; 64]).region;
    let small = world.lend(0, b"hello");
    let long = world.lend(0, &pattern(9000));
    let into = world.room(0, 8);
    vec![
        world.send(0, 1, 1, small),
        world.send_as(Mode::Synchronous, 0, 1, 2, small),
        world.send(0, 1, 3, long),
        world.receive(0, 1, 4, into),
        world.act(0, |nic, port| nic.post_put(peer(1), small, region, 0, None, port)),
        world.act(0, |nic, port| {
            nic.post_get(peer(1), ferrywire_nic::Span::new(region, 0, 8), into, port)
        }),
        world.act(0, |nic, port| {
            nic.post_compare_swap(peer(1), Span::new(region, 0, 8), 1, 2, port)
        }),
        world.act(0, |nic, port| {
            nic.post_accumulate(peer(1), small, region, 0, crate::common::SUM, port)
        }),
    ]
}

#[test]
fn a_peer_that_stays_silent_is_down_and_everything_with_it_ends() {
    for rail in [LOSSY, VANISHING] {
        let mut world = World::acquainted(rail, &limits());
        let posted = one_of_everything(&mut world);
        let other = world.room(0, 8);
        let wild = world.receive_any(0, other);
        while world.nics[0].stats().downs == 0 {
            world.lose_all();
            let at = world.ports[0].armed.expect("hope");
            world.pass(at.since(world.now));
            assert!(world.now.0 < 2 * limits().silence_ns_max);
        }
        let down = Outcome::Failed(Fault::PeerDown(peer(1)));
        // On a reliable rail a short send is over when the rail has it.
        for posted in posted.into_iter().skip(usize::from(rail.reliable)) {
            assert_eq!(world.outcome(0, posted), Some(down));
        }
        world.assert_pending(0, wild);
        world.cancel(0, wild);
        world.lose_all();
        world.clear_records();
        for later in one_of_everything(&mut world) {
            assert_eq!(later, Posted::Done(down));
        }
        assert!(world.ports[0].sent.is_empty());
        world.assert_empty(0);
    }
}

#[test]
fn whoever_is_told_that_a_peer_is_down_believes_it() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::acquainted(rail, &limits());
        let posted = one_of_everything(&mut world);
        world.act(0, |nic, port| nic.on_peer_down(peer(1), port));
        let down = Outcome::Failed(Fault::PeerDown(peer(1)));
        for (n, posted) in posted.into_iter().enumerate() {
            let outcome = world.outcome(0, posted);
            assert!(outcome == Some(down) || n == 0 && outcome == Some(Outcome::Done));
        }
        world.clear_records();
        // Frames from a peer that is down change nothing.
        world.send_text(1, 0, 1, b"ghost");
        world.lose_all();
        world.send_text(1, 0, 1, b"ghost");
        while world.deliver_next(1, 0) {}
        assert!(world.ports[0].sent.is_empty());
        world.assert_empty(0);
    }
}

#[test]
fn what_a_peer_sent_whole_before_it_died_can_be_received() {
    let mut world = World::new(2, PLAIN, &limits());
    world.send_text(0, 1, 1, b"whole");
    world.send_text(0, 1, 2, &pattern(9000));
    world.run_until_quiet();
    world.act(1, |nic, port| nic.on_peer_down(peer(0), port));
    let into = world.room(1, 10);
    let receive = world.receive(1, 0, 1, into);
    world.assert_received(1, receive, into, b"whole");
    let down = Outcome::Failed(Fault::PeerDown(peer(0)));
    assert_eq!(world.receive(1, 0, 2, into), Posted::Done(down));
    world.assert_empty(1);
}

#[test]
fn nothing_is_sent_to_the_dead_when_a_synchronous_message_of_theirs_is_received() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::new(2, rail, &limits());
        let source = world.lend(0, b"hello");
        world.send_as(Mode::Synchronous, 0, 1, 1, source);
        world.calm();
        world.act(1, |nic, port| nic.on_peer_down(peer(0), port));
        world.clear_records();
        let into = world.room(1, 5);
        let receive = world.receive(1, 0, 1, into);
        world.assert_received(1, receive, into, b"hello");
        assert!(world.ports[1].sent.is_empty());
        world.assert_empty(1);
    }
}

#[test]
fn nothing_is_sent_to_the_dead_when_a_run_with_two_offers_to_them_fails() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::acquainted(rail, &limits());
        let source = world.lend(0, &pattern(9000));
        let mut schedule = Schedule::new(GROUP, 0);
        for subtag in [1, 2] {
            schedule.push(Step::Send { to: peer(1), source, subtag }, &[]);
        }
        let run = world.act(0, |nic, port| nic.post_schedule(schedule.into(), 1, port));
        world.calm();
        world.clear_records();
        world.act(0, |nic, port| nic.on_peer_down(peer(1), port));
        let down = Outcome::Failed(Fault::PeerDown(peer(1)));
        assert_eq!(world.outcome(0, run), Some(down));
        assert!(world.ports[0].sent.is_empty());
        world.assert_empty(0);
    }
}

/// Memory is lent until the operation ends, and not longer.
#[test]
fn a_retry_does_not_read_memory_that_its_owner_has_back() {
    for (mode, acquainted) in
        [(Mode::Standard, false), (Mode::Synchronous, true), (Mode::Standard, true)]
    {
        let mut world = match acquainted {
            true => World::acquainted(LOSSY, &limits()),
            false => World::new(2, LOSSY, &limits()),
        };
        let into = world.room(1, 5);
        world.receive(1, 0, 1, into);
        let source = world.lend(0, b"hello");
        let send = world.send_as(mode, 0, 1, 1, source);
        world.run_until_quiet();
        // Separate acks are lost; acks in other frames arrive.
        while world.outcome(0, send).is_none() {
            world.pass(limits().ack_ns_max);
            world.run_until_quiet();
        }
        world.take_back(0, source);
        for _ in 0..3 {
            world.lose_all();
            world.pass(2 * limits().retry_ns_first);
        }
        world.assert_quiet();
    }
}

#[test]
fn a_retry_does_not_read_memory_of_a_put_that_is_over() {
    let mut world = World::acquainted(LOSSY, &limits());
    let window = world.room(1, 64);
    world.nics[1].open_piece(window);
    let source = world.lend(0, b"hello");
    let put = world.act(0, |nic, port| nic.post_put(peer(1), source, window.region, 0, None, port));
    world.run_until_quiet();
    world.assert_done(0, put);
    world.take_back(0, source);
    for _ in 0..3 {
        world.lose_all();
        world.pass(2 * limits().retry_ns_first);
    }
    world.assert_quiet();
}

#[test]
fn a_retry_does_not_read_memory_of_a_put_that_was_denied() {
    let mut world = World::acquainted(LOSSY, &limits());
    let source = world.lend(0, &pattern(20_000));
    let region = ferrywire_nic::Region(77);
    let put = world.act(0, |nic, port| nic.post_put(peer(1), source, region, 0, None, port));
    // The first frame arrives and is denied; the others are lost.
    world.deliver_next(0, 1);
    while world.waiting(0, 1) > 0 {
        world.lose(0, 1);
    }
    while world.outcome(0, put).is_none() && world.deliver_next(1, 0) {}
    if world.outcome(0, put).is_none() {
        world.calm(); // The put waits until the rail no longer needs its bytes.
    }
    assert_eq!(world.outcome(0, put), Some(Outcome::Failed(Fault::Denied)));
    world.take_back(0, source);
    world.assert_quiet();
}

/// The caller may have been away for long: the `now` of its port is then the time of its last turn.
#[test]
fn a_frame_that_is_posted_after_a_pause_does_not_go_again_at_once() {
    let limits = limits();
    let mut world = World::acquainted(LOSSY, &limits);
    world.pass(limits.retry_ns_max);
    world.calm();
    let away = 10 * limits.retry_ns_max;
    world.fall_behind(0, away);
    let source = world.room(0, 3000);
    world.send(0, 1, 1, source);
    let sent = world.on_the_way(0, 1).len();
    world.pass(away + limits.retry_ns_min / 2);
    assert_eq!(world.on_the_way(0, 1).len(), sent, "nothing has gone again");
}
