//! The agent finds what arrives while the application is away, even if it had nothing to guard before, and even if the
//! ringer has no fence.
//!
//! Loom does not model time, so a nap is modelled by the property that it provides: it lasts until every store that was
//! on its way when it began has arrived. A ringer marks when its store begins and when it has arrived, each with a
//! fence; between the two, its store and its look at the doorbell may be reordered, as they may in the machine.

use std::sync::Arc;

use loom::sync::{Mutex, MutexGuard};
use loom::thread;

use crate::agent_handover::{AgentHandover, AgentSleep};
use crate::agent_wakeup::AgentWakeup;
use crate::doorbell::{Doorbell, Sleeper};
use crate::pipe::{Memory, payload};
use crate::ring::{Consumer, Event, Producer, Stuck};
use crate::sync::{AtomicU32, Ordering, explore, fence, yield_now};

/// A store of a ringer that is on its way.
struct Flight(AtomicU32);

impl Flight {
    fn new() -> Flight {
        Flight(AtomicU32::new(0))
    }

    /// Runs `bring`, whose stores have arrived when this returns.
    fn during(&self, bring: impl FnOnce()) {
        self.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        bring();
        fence(Ordering::SeqCst);
        self.0.store(0, Ordering::Release);
    }

    /// Naps until every store that was on its way has arrived.
    fn nap(&self) {
        fence(Ordering::SeqCst);
        while self.0.load(Ordering::Acquire) != 0 {
            yield_now();
        }
    }
}

/// What the lock guards.
struct Core {
    wakeup: AgentHandover,
    consumer: Consumer,
    /// Frames that receives wait for.
    expected: u8,
    /// Frames that have been taken.
    taken: u8,
}

impl Core {
    fn turn(&mut self) {
        while self.consumer.peek().is_some() {
            self.consumer.advance(false);
            self.taken += 1;
        }
    }

    fn is_expecting(&self) -> bool {
        self.taken < self.expected
    }
}

struct Shared {
    /// Loom's lock: ours has models of its own, and would make these too long.
    core: Mutex<Core>,
    doorbell: Doorbell,
    agent_wakeup: AgentWakeup,
    flight: Flight,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().expect("no model goes on after a panic")
    }
}

/// What is left out of the protocol, to check that the model notices.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Without {
    Nothing,
    /// The agent does not nap after arming.
    Nap,
    /// An agent that has nothing left to do does not say that it no longer guards the doorbell.
    StandingDown,
}

/// The agent, as in `agent.rs`, until it has taken all frames.
fn guard(shared: &Shared, all: u8, without: Without) {
    let mut sleep = AgentSleep::default();
    let mut core = shared.lock();
    loop {
        core.turn();
        if core.taken == all {
            return;
        }
        if core.is_expecting() {
            let settled = sleep.arm(&mut core.wakeup, &shared.doorbell);
            if core.consumer.is_ready() {
                continue;
            }
            let naps = !settled && without != Without::Nap;
            core.wakeup.set_idle(!naps);
            drop(core);
            match naps {
                true => shared.flight.nap(),
                false => shared.doorbell.sleep(Sleeper::Agent, None),
            }
        } else {
            if without != Without::StandingDown {
                core.wakeup.stand_down(&shared.doorbell);
            }
            core.wakeup.set_idle(true);
            let heard = shared.agent_wakeup.heard();
            drop(core);
            shared.agent_wakeup.wait(heard, None);
        }
        core = shared.lock();
        core.wakeup.set_idle(false);
    }
}

/// The application posts a receive and goes away, as in `driver.rs`.
fn post(shared: &Shared) {
    let mut core = shared.lock();
    core.expected += 1;
    if core.wakeup.is_guarded() || !core.is_expecting() {
        return;
    }
    core.wakeup.count_handover();
    if core.wakeup.hand_over(&shared.doorbell, false) {
        shared.agent_wakeup.call();
        shared.doorbell.ring(true);
    }
}

fn shared(memory: &Memory, expected: u8) -> (Arc<Shared>, Producer) {
    let (producer, consumer) = memory.ends(1);
    let core = Core { wakeup: AgentHandover::default(), consumer, expected, taken: 0 };
    let shared = Shared {
        core: Mutex::new(core),
        doorbell: Doorbell::default(),
        agent_wakeup: AgentWakeup::new(),
        flight: Flight::new(),
    };
    (Arc::new(shared), producer)
}

/// Frames arrive one after the other for receives that were posted long ago: the agent arms again after each.
fn frames(name: &str, without: Without) {
    explore(name, move || {
        let memory = Memory::new();
        let (shared, mut producer) = shared(&memory, 1);
        let agents = Arc::clone(&shared);
        let agent = thread::spawn(move || guard(&agents, 1, without));
        shared.flight.during(|| {
            producer.push(&payload(0, 8), &[]).expect("there is room");
            shared.doorbell.ring(false);
        });
        agent.join().expect("the agent is done");
    });
}

#[test]
fn the_agent_finds_what_arrives_while_it_arms() {
    frames("the agent arms, ringers without a fence", Without::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_a_nap_after_arming_the_agent_may_miss_a_frame() {
    frames("the agent arms without a nap", Without::Nap);
}

/// The agent takes the last frame that was expected; then another receive is posted, and its frame arrives.
fn posts(name: &str, without: Without) {
    explore(name, move || {
        let memory = Memory::new();
        let (shared, mut producer) = shared(&memory, 1);
        producer.push(&payload(0, 8), &[]).expect("there is room");
        // The doorbell was armed when the application left.
        shared.lock().wakeup.hand_over(&shared.doorbell, false);
        let agents = Arc::clone(&shared);
        let agent = thread::spawn(move || guard(&agents, 2, without));
        post(&shared);
        shared.flight.during(|| {
            producer.push(&payload(1, 8), &[]).expect("there is room");
            shared.doorbell.ring(false);
        });
        agent.join().expect("the agent is done");
    });
}

#[test]
fn the_agent_is_called_for_what_is_posted_after_it_was_done() {
    posts("a post after the last frame", Without::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_agent_that_still_seems_to_guard_is_not_called() {
    posts("a post while nobody guards", Without::StandingDown);
}

/// The producer of a full ring naps until there is room, because the consumer has no fence either.
#[test]
fn naps_find_room_without_a_fence_of_the_consumer() {
    explore("want_room, naps", || {
        let memory = Memory::new();
        let (mut producer, mut consumer) = memory.ends(1);
        let (bell, flight) = (Arc::new(Doorbell::default()), Arc::new(Flight::new()));
        let push = |producer: &mut Producer, frame| producer.push(&payload(frame, 8), &[]);
        push(&mut producer, 0).expect("there is room for the first");
        push(&mut producer, 1).expect("and for the second");
        let (ringer, on_its_way) = (Arc::clone(&bell), Arc::clone(&flight));
        let receiver = thread::spawn(move || {
            on_its_way.during(|| {
                for frame in 0..2 {
                    assert_eq!(consumer.peek(), Some(Event::Frame(&payload(frame, 8))));
                    if consumer.advance(false) {
                        ringer.ring(false);
                    }
                }
            });
        });
        while push(&mut producer, 2) == Err(Stuck::Full) {
            bell.arm(Sleeper::Agent, true);
            if !producer.want_room() {
                flight.nap();
                yield_now();
            }
            bell.disarm();
        }
        receiver.join().expect("the receiver is done");
    });
}
