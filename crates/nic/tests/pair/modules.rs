//! Modules written in plain Rust: when they run, what they send, what becomes of messages, and what a trap ends.

use std::sync::{Arc, Mutex};

use ferrywire_nic::{
    Fault, Hook, Key, Kind, Limits, MODULE_GROUP, Mask, MatchWord, Mode, Module, Outcome,
    Placement, Posted, Promises, Span, Trap, Verdict,
};

use crate::common::{DIRECT, LOSSY, PLAIN, World, limits, pattern, peer, ticket};

const GROUP: u16 = MODULE_GROUP | 6;

pub(crate) type Answer = Result<Verdict, Trap>;
type Act = fn(&mut dyn Hook) -> Answer;

/// A module that runs a closure, and records the payloads that it saw.
struct Native<F> {
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
    act: F,
}

impl<F: FnMut(&mut dyn Hook) -> Answer + Send> Module for Native<F> {
    fn on_message(&mut self, hook: &mut dyn Hook) -> Answer {
        self.seen.lock().expect("one thread").push(hook.payload().to_vec());
        (self.act)(hook)
    }

    fn on_counter(&mut self, counter: u32, hook: &mut dyn Hook) -> Result<(), Trap> {
        if counter == 0 {
            return hook.arm(0, 0);
        }
        hook.send(0, 100 + counter, b"counted")
    }

    fn fuel_used(&self) -> u64 {
        7
    }
}

pub(crate) type Seen = Arc<Mutex<Vec<Vec<u8>>>>;

/// Loads the same module at every rank; returns what each has seen.
pub(crate) fn load(
    world: &mut World,
    act: impl FnMut(&mut dyn Hook) -> Answer + Clone + Send + 'static,
) -> Vec<Seen> {
    let size = world.nics.len();
    (0..size)
        .map(|rank| {
            let seen = Seen::default();
            let module = Native { seen: Arc::clone(&seen), act: act.clone() };
            let placement = Placement {
                rank: u32::try_from(rank).expect("few"),
                size: u32::try_from(size).expect("few"),
                peer_of: Box::new(|rank| Some(peer(rank as usize))),
            };
            world.act(rank, |nic, port| nic.load(GROUP, Box::new(module), placement, port));
            seen
        })
        .collect()
}

pub(crate) fn unload(world: &mut World) {
    world.calm();
    for rank in 0..world.nics.len() {
        assert!(world.act(rank, |nic, port| nic.unload(GROUP, port)).is_some());
    }
    world.assert_quiet();
    for port in &world.ports {
        assert!(port.claimed <= 3, "all memory is free but the outboxes");
    }
}

pub(crate) fn word(source: usize, tag: u32) -> MatchWord {
    MatchWord::new(GROUP, u32::try_from(source).expect("few"), tag)
}

pub(crate) fn send(world: &mut World, from: usize, to: usize, tag: u32, bytes: &[u8]) -> Posted {
    let source = world.lend(from, bytes);
    let word = word(from, tag);
    world.act(from, |nic, port| nic.post_send(peer(to), word, source, Mode::Standard, port))
}

fn receive(world: &mut World, at: usize, from: usize, tag: u32, into: Span) -> Posted {
    let word = word(from, tag);
    world.act(at, |nic, port| nic.post_receive(Some(peer(from)), word, Mask::EXACT, into, port))
}

const RAILS: [Promises; 4] =
    [PLAIN, LOSSY, DIRECT, Promises { initial_credit_bytes: 2048, ..PLAIN }];

#[test]
fn a_module_sees_messages_of_every_length_and_lets_them_through_in_order() {
    let lengths = [0, 1, 500, 3000, 40, 20_000, 7, 513];
    for rail in RAILS {
        for posted_first in [true, false] {
            let mut world = World::new(2, rail, &roomy());
            let seen = load(&mut world, |_| Ok(Verdict::Deliver));
            let post = |world: &mut World| {
                lengths.map(|len| {
                    let into = world.room(1, len);
                    (receive(world, 1, 0, 1, into), into)
                })
            };
            let early = posted_first.then(|| post(&mut world));
            let sends = lengths.map(|len| send(&mut world, 0, 1, 1, &pattern(len)));
            world.calm();
            let receives = early.unwrap_or_else(|| post(&mut world));
            world.calm();
            for ((receive, into), len) in receives.into_iter().zip(lengths) {
                world.assert_received(1, receive, into, &pattern(len));
            }
            sends.iter().for_each(|&send| world.assert_done(0, send));
            let seen: Vec<usize> = seen[1].lock().expect("here").iter().map(Vec::len).collect();
            assert_eq!(seen, lengths, "each once, in order");
            unload(&mut world);
        }
    }
}

#[test]
fn what_a_module_consumes_reaches_nobody_and_gives_its_room_back() {
    for rail in RAILS {
        let mut world = World::new(2, rail, &limits());
        let seen = load(&mut world, |_| Ok(Verdict::Consume));
        for round in 0..200 {
            send(&mut world, 0, 1, 1, &pattern(round));
            world.calm();
        }
        assert_eq!(seen[1].lock().expect("here").len(), 200);
        let stats = world.nics[1].module_stats(GROUP).expect("loaded");
        assert_eq!((stats.messages, stats.consumed, stats.delivered), (200, 200, 0));
        assert_eq!(stats.fuel, 7);
        unload(&mut world);
    }
}

#[test]
fn a_module_changes_what_is_delivered() {
    for rail in RAILS {
        let mut world = World::new(2, rail, &roomy());
        load(&mut world, |hook| {
            hook.payload_mut().iter_mut().for_each(|byte| *byte = !*byte);
            Ok(Verdict::Deliver)
        });
        for len in [10, 5000] {
            let into = world.room(1, len);
            let receive = receive(&mut world, 1, 0, 1, into);
            send(&mut world, 0, 1, 1, &pattern(len));
            world.calm();
            let expected: Vec<u8> = pattern(len).iter().map(|byte| !byte).collect();
            world.assert_received(1, receive, into, &expected);
        }
        unload(&mut world);
    }
}

#[test]
fn a_module_forwards_before_it_delivers_and_keeps_the_sender() {
    for rail in RAILS {
        for len in [10, 5000] {
            let mut world = World::new(4, rail, &roomy());
            // A chain: each rank forwards to the next.
            load(&mut world, |hook| {
                let next = hook.rank() + 1;
                if next < hook.size() {
                    hook.forward(next)?;
                }
                Ok(Verdict::Deliver)
            });
            let receives: Vec<_> = (1..4)
                .map(|rank| {
                    let into = world.room(rank, len);
                    (rank, receive(&mut world, rank, 0, 1, into), into)
                })
                .collect();
            send(&mut world, 0, 1, 1, &pattern(len));
            world.calm();
            for (rank, receive, into) in receives {
                world.assert_received(rank, receive, into, &pattern(len));
            }
            unload(&mut world);
        }
    }
}

#[test]
fn a_module_answers_without_the_application() {
    for rail in RAILS {
        let mut world = World::new(2, rail, &limits());
        load(&mut world, |hook| {
            if hook.tag() == 2 {
                return Ok(Verdict::Deliver);
            }
            let answer = hook.payload().to_vec();
            hook.send(hook.sender(), 2, &answer)?;
            Ok(Verdict::Consume)
        });
        let into = world.room(0, 100);
        let answer = receive(&mut world, 0, 1, 2, into);
        send(&mut world, 0, 1, 1, b"anybody there?");
        world.calm();
        world.assert_received(0, answer, into, b"anybody there?");
        unload(&mut world);
    }
}

#[test]
fn a_trap_ends_the_receive_of_that_message_and_of_no_other() {
    for posted_first in [true, false] {
        let mut world = World::new(2, PLAIN, &roomy());
        load(&mut world, |hook| match hook.tag() {
            1 => Err(Trap::Fuel),
            _ => Ok(Verdict::Deliver),
        });
        let into = world.room(1, 10);
        let early = posted_first.then(|| receive(&mut world, 1, 0, 1, into));
        for len in [10, 5000] {
            send(&mut world, 0, 1, 1, &pattern(len));
        }
        send(&mut world, 0, 1, 2, b"fine");
        world.calm();
        let bad = early.unwrap_or_else(|| receive(&mut world, 1, 0, 1, into));
        let fault = Fault::Module { word: word(0, 1), trap: Trap::Fuel };
        assert_eq!(world.outcome(1, bad), Some(Outcome::Failed(fault)));
        let again = receive(&mut world, 1, 0, 1, into);
        assert_eq!(world.outcome(1, again), Some(Outcome::Failed(fault)));
        let good = receive(&mut world, 1, 0, 2, into);
        world.assert_received(1, good, into, b"fine");
        let stats = world.nics[1].module_stats(GROUP).expect("loaded");
        assert_eq!((stats.faults, stats.last_fault), (2, Some((word(0, 1), Trap::Fuel))));
        unload(&mut world);
    }
}

/// A module that always traps runs for fewer and fewer messages, and recovers when it stops trapping.
#[test]
fn a_module_that_traps_again_and_again_is_hardly_run() {
    let mut world = World::new(2, PLAIN, &limits());
    let seen = load(&mut world, |hook| match hook.payload() {
        [0, ..] => Err(Trap::Fuel),
        _ => Ok(Verdict::Consume),
    });
    for _ in 0..10_000 {
        send(&mut world, 0, 1, 1, &[0]);
        world.calm();
    }
    let ran = seen[1].lock().expect("here").len();
    assert!((8..24).contains(&ran), "it ran {ran} times");
    let stats = world.nics[1].module_stats(GROUP).expect("loaded");
    assert_eq!(stats.faults, 10_000);
    assert_eq!(stats.last_fault, Some((word(0, 1), Trap::Barred)));
    // The module stops trapping, and soon runs again.
    for _ in 0..2000 {
        send(&mut world, 0, 1, 1, &[1]);
        world.calm();
    }
    let consumed = world.nics[1].module_stats(GROUP).expect("loaded").consumed;
    assert!(consumed > 900, "it consumed {consumed}");
    unload(&mut world);
}

/// Such modules never finish. They get their turns, and so do other operations.
#[test]
fn a_module_that_calls_itself_for_ever_stops_nobody() {
    let by_message: Act = |hook| hook.forward(hook.rank()).map(|()| Verdict::Consume);
    let by_counter: Act = |hook| {
        hook.arm(0, 0)?;
        Ok(Verdict::Consume)
    };
    for act in [by_message, by_counter] {
        let mut world = World::new(2, PLAIN, &limits());
        let seen = load(&mut world, act);
        send(&mut world, 0, 1, 1, b"go");
        while world.deliver_next(0, 1) || world.deliver_next(1, 0) {}
        let into = world.room(1, 5);
        let receive = world.receive(1, 0, 1, into);
        world.send_text(0, 1, 1, b"hello");
        while world.deliver_next(0, 1) || world.deliver_next(1, 0) {}
        world.assert_received(1, receive, into, b"hello");
        let ran = seen[1].lock().expect("here").len();
        assert!(ran < 1000, "it ran {ran} times");
    }
}

/// Whether there is room for what is let through, or it is held for lack of room.
#[test]
fn a_fault_overtakes_no_message_and_no_message_overtakes_a_fault() {
    let little = Limits { unexpected_bytes_max: 128, ..limits() };
    for limits in [roomy(), little] {
        for len in [8, 5000] {
            let mut world = World::new(2, PLAIN, &limits);
            load(&mut world, |hook| match hook.payload()[0] {
                0 => Err(Trap::Fuel),
                _ => Ok(Verdict::Deliver),
            });
            let firsts = [1, 0, 2, 3, 0, 4];
            for first in firsts {
                send(&mut world, 0, 1, 1, &vec![first; len]);
            }
            world.calm();
            for first in firsts {
                let into = world.room(1, len);
                let receive = receive(&mut world, 1, 0, 1, into);
                world.calm();
                if first > 0 {
                    world.assert_received(1, receive, into, &vec![first; len]);
                } else {
                    let fault = Fault::Module { word: word(0, 1), trap: Trap::Fuel };
                    assert_eq!(world.outcome(1, receive), Some(Outcome::Failed(fault)));
                    assert!(world.bytes(1, into).iter().all(|&byte| byte == 0), "untouched");
                }
            }
            unload(&mut world);
        }
    }
}

/// What a module lets through travels to its own rank once more, and the next message may come meanwhile.
#[test]
fn no_message_overtakes_one_that_is_on_its_way_back() {
    let mut world = World::new(2, PLAIN, &roomy());
    load(&mut world, |hook| match hook.tag() {
        1 => Ok(Verdict::Deliver),
        _ => Ok(Verdict::Consume),
    });
    let into = [1, 2, 3].map(|_| world.room(1, 10));
    let receives = into.map(|into| receive(&mut world, 1, 0, 1, into));
    // Rank 0 gets credit with rank 1, and rank 1 with itself.
    send(&mut world, 0, 1, 1, b"first");
    world.calm();
    world.assert_received(1, receives[0], into[0], b"first");
    // The second message waits for the module behind a long one, so that it goes back by the rail.
    send(&mut world, 0, 1, 9, &pattern(5000));
    send(&mut world, 0, 1, 1, b"second");
    while world.deliver_next(0, 1) || world.deliver_next(1, 0) {}
    assert!(matches!(world.on_the_way(1, 1)[..], [Kind::Eager { secured: true, .. }]));
    send(&mut world, 0, 1, 1, b"third");
    while world.deliver_next(0, 1) || world.deliver_next(1, 0) {}
    world.calm();
    world.assert_received(1, receives[1], into[1], b"second");
    world.assert_received(1, receives[2], into[2], b"third");
    unload(&mut world);
}

/// Whether it goes back whole, or is offered.
#[test]
fn what_comes_back_after_its_module_was_unloaded_is_dropped() {
    for len in [100, 5000] {
        let mut world = World::new(2, PLAIN, &roomy());
        load(&mut world, |_| Ok(Verdict::Deliver));
        let send = send(&mut world, 0, 1, 1, &pattern(len));
        while world.deliver_next(0, 1) || world.deliver_next(1, 0) {}
        world.assert_done(0, send);
        assert_eq!(world.waiting(1, 1), 1);
        for rank in [0, 1] {
            assert!(world.act(rank, |nic, port| nic.unload(GROUP, port)).is_some());
        }
        world.assert_quiet();
    }
}

#[test]
fn a_probe_sees_what_a_trap_has_ended() {
    let mut world = World::new(2, PLAIN, &roomy());
    load(&mut world, |_| Err(Trap::Stack));
    send(&mut world, 0, 1, 1, &pattern(100));
    world.calm();
    let (wanted, mask) = (word(0, 1), Mask::EXACT);
    let (taken, seen) = world.act(1, |nic, port| nic.take(wanted, mask, port)).expect("it waits");
    assert_eq!(seen.word, wanted);
    let into = world.room(1, 100);
    let posted = world.act(1, |nic, port| nic.post_taken(taken, into, port));
    let fault = Fault::Module { word: wanted, trap: Trap::Stack };
    assert_eq!(world.outcome(1, posted), Some(Outcome::Failed(fault)));
    unload(&mut world);
}

#[test]
fn faults_that_nobody_asks_for_do_not_fill_the_memory() {
    let mut world = World::new(2, PLAIN, &roomy());
    let seen = load(&mut world, |_| Err(Trap::Fuel));
    for _ in 0..500 {
        send(&mut world, 0, 1, 1, b"bad");
        world.calm();
    }
    assert!(seen[1].lock().expect("here").len() < 24, "it is hardly run");
    assert!(world.holdings(1).unexpected <= 16);
    let into = world.room(1, 10);
    while world.holdings(1).unexpected > 0 {
        receive(&mut world, 1, 0, 1, into);
        world.calm();
    }
    // There is room for faults again.
    send(&mut world, 0, 1, 1, b"bad");
    world.calm();
    let last = receive(&mut world, 1, 0, 1, into);
    assert!(world.outcome(1, last).is_some());
    unload(&mut world);
}

#[test]
fn what_a_module_may_not_do_is_a_trap() {
    let table: [(Act, Trap); 6] = [
        (|hook| hook.forward(2).map(|()| Verdict::Consume), Trap::Rank),
        (|hook| hook.send(0, 1 << 24, b"").map(|()| Verdict::Consume), Trap::Tag),
        (|hook| hook.send(0, 1, &[0; 70_000]).map(|()| Verdict::Consume), Trap::Length),
        (|hook| hook.raise(8, 1).map(|()| Verdict::Consume), Trap::Counter),
        (|hook| hook.arm(u32::MAX, 1).map(|()| Verdict::Consume), Trap::Counter),
        (
            |hook| {
                while hook.sender() == 0 {
                    hook.send(0, 9, b"storm")?;
                }
                Ok(Verdict::Consume)
            },
            Trap::Sends,
        ),
    ];
    for (act, trap) in table {
        let mut world = World::new(2, PLAIN, &limits());
        load(&mut world, act);
        send(&mut world, 0, 1, 1, b"go");
        world.calm();
        let stats = world.nics[1].module_stats(GROUP).expect("loaded");
        assert_eq!(stats.last_fault, Some((word(0, 1), trap)));
        let sent = if trap == Trap::Sends { limits().module_sends_max.into() } else { 0 };
        assert_eq!(stats.sent, sent, "what a trap forbids is not sent");
    }
}

/// Each run sends as many messages to itself as it may: soon they are ended without a run.
#[test]
fn a_storm_that_a_module_sends_to_itself_dies_down() {
    let mut world = World::new(2, PLAIN, &roomy());
    let seen = load(&mut world, |hook| {
        loop {
            hook.send(hook.rank(), 9, &[7; 4096])?;
        }
    });
    for _ in 0..20 {
        send(&mut world, 0, 1, 1, b"go");
        world.calm();
    }
    let runs = seen[1].lock().expect("here").len();
    assert!((5..40).contains(&runs), "{runs} runs");
    let stats = world.nics[1].module_stats(GROUP).expect("loaded");
    assert_eq!(stats.faults, 20 + stats.sent, "all of them have ended");
    unload(&mut world);
}

/// Before a module is loaded, and after the last one is unloaded.
#[test]
fn a_nic_without_modules_knows_none() {
    let mut world = World::new(2, PLAIN, &roomy());
    let knows_none = |world: &mut World| {
        let nic = &mut world.nics[1];
        nic.module_stats(GROUP).is_none() && nic.module_counter(GROUP, 0).is_none()
    };
    assert!(knows_none(&mut world));
    assert!(world.act(1, |nic, port| nic.unload(GROUP, port)).is_none());
    load(&mut world, |_| Ok(Verdict::Deliver));
    unload(&mut world);
    assert!(knows_none(&mut world));
}

#[test]
fn a_message_longer_than_modules_take_is_a_fault() {
    // The second message comes in one frame under credit, the first does not.
    for len in [5000, 200] {
        let limits = Limits { module_bytes_max: 100, ..roomy() };
        let mut world = World::new(2, PLAIN, &limits);
        let seen = load(&mut world, |_| Ok(Verdict::Consume));
        send(&mut world, 0, 1, 1, b"for credit");
        world.calm();
        let into = world.room(1, 5000);
        let long = receive(&mut world, 1, 0, 1, into);
        send(&mut world, 0, 1, 1, &pattern(len));
        world.calm();
        let fault = Fault::Module { word: word(0, 1), trap: Trap::Length };
        assert_eq!(world.outcome(1, long), Some(Outcome::Failed(fault)));
        assert_eq!(seen[1].lock().expect("here").len(), 1, "the module does not see it");
        unload(&mut world);
    }
}

#[test]
fn messages_wait_for_a_module_that_is_not_loaded_yet() {
    let mut world = World::new(2, PLAIN, &roomy());
    send(&mut world, 0, 1, 1, b"early");
    send(&mut world, 0, 1, 1, &pattern(5000));
    world.calm();
    let into = world.room(1, 5000);
    let first = receive(&mut world, 1, 0, 1, into);
    world.assert_pending(1, first);
    let seen = load(&mut world, |_| Ok(Verdict::Deliver));
    world.calm();
    world.assert_received(1, first, into, b"early");
    let second = receive(&mut world, 1, 0, 1, into);
    world.calm();
    world.assert_received(1, second, into, &pattern(5000));
    assert_eq!(seen[1].lock().expect("here").len(), 2);
    unload(&mut world);
}

#[test]
fn a_counter_of_a_module_ends_a_wait_and_calls_the_module() {
    let mut world = World::new(2, PLAIN, &limits());
    load(&mut world, |hook| match hook.tag() {
        1 => {
            hook.arm(3, 5)?;
            hook.raise(3, 2)?;
            Ok(Verdict::Consume)
        }
        _ => Ok(Verdict::Deliver),
    });
    let counter = world.nics[1].module_counter(GROUP, 3).expect("loaded");
    let wait = world.nics[1].post_wait(counter, 4);
    send(&mut world, 0, 1, 1, b"");
    world.calm();
    world.assert_pending(1, wait);
    send(&mut world, 0, 1, 1, b"");
    world.calm();
    world.assert_done(1, wait);
    send(&mut world, 0, 1, 1, b"");
    // The counter was armed with each message.
    for _ in 0..3 {
        let into = world.room(0, 10);
        let called = receive(&mut world, 0, 1, 103, into);
        world.calm();
        world.assert_received(0, called, into, b"counted");
    }
    unload(&mut world);
}

/// A forwarder between a sender that does not stop and a receiver that does not receive: memory stays bounded,
/// nothing is lost, and order is kept.
#[test]
fn a_module_whose_messages_cannot_leave_takes_no_more() {
    for rail in [PLAIN, LOSSY] {
        let limits = Limits { module_kept_bytes_max: 4096, ..limits() };
        let mut world = World::new(3, rail, &limits);
        let seen = load(&mut world, |hook| match hook.rank() {
            1 => hook.forward(2).map(|()| Verdict::Consume),
            _ => Ok(Verdict::Deliver),
        });
        let sends: Vec<_> = (0..400u32)
            .map(|n| {
                let posted = send(&mut world, 0, 1, 1, &n.to_le_bytes().repeat(50));
                world.calm();
                posted
            })
            .collect();
        let ran = seen[1].lock().expect("here").len();
        assert!(ran < 200, "the forwarder stops: {ran}");
        assert!(world.holdings(1).kept <= 32);
        let pending = sends.iter().filter(|&&posted| world.outcome(0, posted).is_none()).count();
        assert!(pending > 100, "the sender feels it: {pending}");
        for n in 0..400u32 {
            let into = world.room(2, 200);
            let receive = receive(&mut world, 2, 0, 1, into);
            world.calm();
            world.assert_received(2, receive, into, &n.to_le_bytes().repeat(50));
        }
        assert_eq!(seen[1].lock().expect("here").len(), 400);
        unload(&mut world);
    }
}

#[test]
fn another_module_takes_over() {
    let mut world = World::new(2, PLAIN, &limits());
    load(&mut world, |_| Ok(Verdict::Consume));
    send(&mut world, 0, 1, 1, b"first");
    world.calm();
    let second = Native { seen: Seen::default(), act: |_: &mut dyn Hook| Ok(Verdict::Deliver) };
    assert!(world.act(1, |nic, _| nic.replace(GROUP, Box::new(second))).is_some());
    let into = world.room(1, 10);
    let receive = receive(&mut world, 1, 0, 1, into);
    send(&mut world, 0, 1, 1, b"second");
    world.calm();
    world.assert_received(1, receive, into, b"second");
    let stats = world.nics[1].module_stats(GROUP).expect("loaded");
    assert_eq!((stats.messages, stats.fuel), (2, 14), "what both have done");
    unload(&mut world);
}

#[test]
fn a_module_is_unloaded_while_a_long_message_lands() {
    let mut world = World::new(2, PLAIN, &roomy());
    load(&mut world, |_| Ok(Verdict::Consume));
    let sent = send(&mut world, 0, 1, 1, &pattern(20_000));
    world.deliver_next(0, 1);
    assert!(world.act(1, |nic, port| nic.unload(GROUP, port)).is_some());
    world.calm();
    world.assert_done(0, sent);
    world.act(0, |nic, port| nic.unload(GROUP, port));
    world.assert_quiet();
}

#[test]
fn a_synchronous_message_is_over_when_the_module_has_it() {
    for secured in [true, false] {
        let mut world = World::new(2, PLAIN, &limits());
        load(&mut world, |_| Ok(Verdict::Consume));
        if secured {
            send(&mut world, 0, 1, 1, b"hello");
            world.calm();
        }
        let source = world.lend(0, b"now");
        let mode = Mode::Synchronous;
        let word = word(0, 1);
        let posted = world.act(0, |nic, port| nic.post_send(peer(1), word, source, mode, port));
        world.assert_pending(0, posted);
        world.calm();
        world.assert_done(0, posted);
        unload(&mut world);
    }
}

#[test]
fn a_peer_cannot_claim_that_a_module_let_a_message_through() {
    let mut world = World::acquainted(PLAIN, &limits());
    let seen = load(&mut world, |_| Ok(Verdict::Consume));
    for bits in [1 << 13, 1 << 14, 3 << 13] {
        let word = MatchWord::new(GROUP | bits, 0, 1);
        world.forge(0, 1, Kind::Eager { word, secured: true, synchronous: None }, b"forged");
        let offer = Kind::Offer {
            word,
            secured: false,
            first: false,
            ticket: ticket(send(&mut world, 0, 1, 9, &pattern(3000))),
            source: Span::EMPTY,
            key: Key::NONE,
        };
        world.forge(0, 1, offer, b"");
        world.calm();
    }
    assert_eq!(world.nics[1].stats().malformed, 6);
    assert!(seen[1].lock().expect("here").iter().all(|seen| seen.len() == 3000));
    unload(&mut world);
}

#[test]
fn a_module_sends_to_a_rank_that_is_gone() {
    let mut world = World::new(3, PLAIN, &limits());
    load(&mut world, |hook| match hook.rank() {
        1 => hook.forward(2).map(|()| Verdict::Consume),
        _ => Ok(Verdict::Deliver),
    });
    send(&mut world, 0, 1, 1, b"before");
    world.act(1, |nic, port| nic.on_peer_down(peer(2), port));
    world.calm();
    send(&mut world, 0, 1, 1, b"after");
    world.calm();
    let stats = world.nics[1].module_stats(GROUP).expect("loaded");
    assert_eq!((stats.sent, stats.lost, stats.faults), (2, 2, 0));
}

/// Limits with room for unexpected messages.
fn roomy() -> Limits {
    Limits { unexpected_bytes_max: 64 << 10, ..limits() }
}
