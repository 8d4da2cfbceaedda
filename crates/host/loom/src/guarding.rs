//! The threads of a rank hand its doorbell to each other as `duty.rs` says, and the agent finds what arrives while the
//! application is away, whether or not ringers have a fence.
//!
//! Loom does not model time. A timeout is a step that may come at any moment. A nap is modelled by the property that it
//! provides: it lasts until every store that was on its way when it began has arrived. A ringer marks when its store
//! begins and when it has arrived, each with a fence; between the two, its store and its look at the doorbell may be
//! reordered, as they may in the machine.

use std::sync::Arc;

use loom::sync::{Mutex, MutexGuard};
use loom::thread;

use crate::doorbell::{Doorbell, Sleeper};
use crate::duty::{Duty, Ringers, Wants};
use crate::pipe::{Memory, payload};
use crate::ring::{Consumer, Event, Producer, Stuck};
use crate::sync::{AtomicU32, Ordering, explore, explore_up_to, fence, yield_now};

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
    duty: Duty,
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
    flight: Flight,
    fenced: bool,
    /// How the agent guards.
    by: Sleeper,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().expect("no model goes on after a panic")
    }

    /// A peer brings a frame.
    fn bring(&self, producer: &mut Producer, frame: u8) {
        self.flight.during(|| {
            producer.push(&payload(frame, 8), &[]).expect("there is room");
            // Only what cannot wait wakes a patient agent, and that rings with a fence.
            self.doorbell.ring(self.fenced || self.by == Sleeper::PatientAgent);
        });
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
    /// A caller that arms for an agent that sleeps without a timeout does not wake it.
    Call,
    /// A caller that arms for the agent does not look once more.
    LastLook,
}

/// The agent, as in `agent.rs`, until it has taken all frames.
fn guard(shared: &Shared, all: u8, without: Without) {
    let mut arming = None;
    let mut core = shared.lock();
    core.duty.agent_wakes();
    loop {
        if !core.duty.is_led_by_caller() {
            core.turn();
        }
        if core.taken == all {
            return;
        }
        let guards = core.is_expecting() && !core.duty.is_led_by_caller();
        let mut naps = false;
        if guards {
            let (now, settled) = core.duty.guard(&shared.doorbell, shared.by, arming);
            arming = Some(now);
            if core.consumer.is_ready() {
                continue;
            }
            let may_be_missed = !shared.fenced && shared.by == Sleeper::Agent;
            naps = !settled && may_be_missed && without != Without::Nap;
        } else {
            if without != Without::StandingDown {
                core.duty.relieve_agent(&shared.doorbell);
            }
            arming = None;
        }
        core.duty.agent_sleeps(naps);
        let asleep_at = arming.unwrap_or_else(|| shared.doorbell.arming());
        drop(core);
        match naps {
            true => shared.flight.nap(),
            false => shared.doorbell.sleep(asleep_at, Sleeper::Agent, None),
        }
        core = shared.lock();
        core.duty.agent_wakes();
    }
}

/// The application posts a receive and goes away, as in `driver.rs`.
fn post(shared: &Shared, without: Without) {
    let mut core = shared.lock();
    core.expected += 1;
    leave(shared, core, without);
}

/// A caller leaves, as in `driver.rs`.
fn leave(shared: &Shared, mut core: MutexGuard<'_, Core>, without: Without) {
    if core.duty.is_led_by_caller() || core.duty.is_led_by_agent() || !core.is_expecting() {
        return;
    }
    let must_call = core.duty.hand_over(&shared.doorbell, shared.by) && without != Without::Call;
    let waiting = core.consumer.is_ready() && without != Without::LastLook;
    drop(core);
    if must_call || waiting {
        shared.doorbell.ring(true);
    }
}

/// The application waits for a frame, as in `driver.rs`, and goes away when it has it.
fn wait(shared: &Shared, frames: u8) {
    let mut core = shared.lock();
    core.duty.lead(Wants::Ticket, &shared.doorbell);
    let mut nap = None;
    loop {
        core.turn();
        if core.taken >= frames {
            break;
        }
        let napped = nap.filter(|&arming| shared.doorbell.arming() == arming);
        let arming = napped.unwrap_or_else(|| shared.doorbell.arm(Sleeper::Caller));
        if core.consumer.is_ready() {
            nap = None;
            shared.doorbell.disarm();
            continue;
        }
        core.duty.fall_asleep();
        drop(core);
        match napped.is_none() && !shared.fenced {
            true => {
                shared.flight.nap();
                nap = Some(arming);
            }
            false => {
                shared.doorbell.sleep(arming, Sleeper::Caller, None);
                nap = None;
            }
        }
        core = shared.lock();
        core.duty.wake_up();
        if nap.is_none() {
            shared.doorbell.disarm();
        }
    }
    shared.doorbell.disarm();
    core.duty.step_down();
    leave(shared, core, Without::Nothing);
}

fn shared(memory: &Memory, expected: u8, fenced: bool) -> (Arc<Shared>, Producer) {
    shared_by(Sleeper::Agent, memory, expected, fenced)
}

fn shared_by(by: Sleeper, memory: &Memory, expected: u8, fenced: bool) -> (Arc<Shared>, Producer) {
    let (producer, consumer) = memory.ends(1);
    let ringers = if fenced { Ringers::Fenced } else { Ringers::Unfenced };
    let mut duty = Duty::new(ringers);
    duty.start_agent();
    let core = Core { duty, consumer, expected, taken: 0 };
    let (core, doorbell, flight) = (Mutex::new(core), Doorbell::default(), Flight::new());
    (Arc::new(Shared { core, doorbell, flight, fenced, by }), producer)
}

/// A frame arrives for a receive that was posted long ago.
fn frames(name: &str, fenced: bool, without: Without) {
    explore(name, move || {
        let memory = Memory::new();
        let (shared, mut producer) = shared(&memory, 1, fenced);
        let agents = Arc::clone(&shared);
        let agent = thread::spawn(move || guard(&agents, 1, without));
        shared.bring(&mut producer, 0);
        agent.join().expect("the agent is done");
    });
}

#[test]
fn the_agent_finds_what_arrives_while_it_arms() {
    frames("the agent arms, ringers without a fence", false, Without::Nothing);
    frames("the agent arms, ringers with a fence", true, Without::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_a_nap_after_arming_the_agent_may_miss_a_frame() {
    frames("the agent arms without a nap", false, Without::Nap);
}

/// The agent takes the last frame that was expected; then another receive is posted, and its frame arrives.
fn posts(name: &str, fenced: bool, without: Without) {
    explore(name, move || {
        let memory = Memory::new();
        let (shared, mut producer) = shared(&memory, 1, fenced);
        // The doorbell was armed when the application left, and has rung.
        shared.lock().duty.hand_over(&shared.doorbell, shared.by);
        shared.bring(&mut producer, 0);
        let agents = Arc::clone(&shared);
        let agent = thread::spawn(move || guard(&agents, 2, without));
        post(&shared, without);
        shared.bring(&mut producer, 1);
        agent.join().expect("the agent is done");
    });
}

#[test]
fn the_agent_takes_over_what_is_posted_after_it_was_done() {
    posts("a post after the last frame", false, Without::Nothing);
    posts("a post after the last frame, ringers with a fence", true, Without::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn an_agent_that_still_seems_to_guard_is_not_woken() {
    posts("a post while nobody guards", false, Without::StandingDown);
}

/// A frame arrives while its receive is posted and handed over.
fn hand_over(name: &str, fenced: bool, without: Without) {
    hand_over_to(Sleeper::Agent, name, fenced, without);
}

fn hand_over_to(by: Sleeper, name: &str, fenced: bool, without: Without) {
    explore_up_to(Some(3), name, move || {
        let memory = Memory::new();
        let (shared, mut producer) = shared_by(by, &memory, 0, fenced);
        let (agents, peers) = (Arc::clone(&shared), Arc::clone(&shared));
        let agent = thread::spawn(move || guard(&agents, 1, without));
        let peer = thread::spawn(move || peers.bring(&mut producer, 0));
        post(&shared, without);
        peer.join().expect("the peer is done");
        agent.join().expect("the agent is done");
    });
}

#[test]
fn what_arrives_while_it_is_handed_over_is_found() {
    hand_over("a hand-over, ringers with a fence", true, Without::Nothing);
    hand_over("a hand-over, ringers without a fence", false, Without::Nothing);
}

#[test]
fn a_patient_agent_finds_what_cannot_wait_without_being_called() {
    let patient = Sleeper::PatientAgent;
    hand_over_to(patient, "a hand-over to a patient agent", false, Without::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_patient_agent_is_handed_over_to_with_a_last_look() {
    let (patient, without) = (Sleeper::PatientAgent, Without::LastLook);
    hand_over_to(patient, "a hand-over to a patient agent without a last look", false, without);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_a_fence_an_agent_that_sleeps_for_good_has_to_be_woken() {
    hand_over("a hand-over that does not wake the agent", false, Without::Call);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_a_last_look_a_frame_that_was_there_is_missed() {
    hand_over("a hand-over without a last look", true, Without::LastLook);
}

/// The application waits for the first of two frames while the agent is somewhere; the second is left to the agent.
fn takes_turns(name: &str, fenced: bool, preemptions: Option<usize>) {
    explore_up_to(preemptions, name, move || {
        let memory = Memory::new();
        let (shared, mut producer) = shared(&memory, 2, fenced);
        producer.push(&payload(0, 8), &[]).expect("there is room");
        let agents = Arc::clone(&shared);
        let agent = thread::spawn(move || guard(&agents, 2, Without::Nothing));
        wait(&shared, 1);
        shared.bring(&mut producer, 1);
        agent.join().expect("the agent is done");
    });
}

#[test]
fn a_caller_and_the_agent_take_turns_at_the_doorbell() {
    takes_turns("a caller, then the agent, ringers with a fence", true, None);
    takes_turns("a caller, then the agent, ringers without a fence", false, Some(3));
}

/// A caller sleeps until the first frame comes, while the agent is at the same doorbell, and leaves the second to it.
fn beside(name: &str, fenced: bool) {
    explore_up_to(Some(2), name, move || {
        let memory = Memory::new();
        let (shared, mut producer) = shared(&memory, 2, fenced);
        let (agents, peers) = (Arc::clone(&shared), Arc::clone(&shared));
        let agent = thread::spawn(move || guard(&agents, 2, Without::Nothing));
        let peer = thread::spawn(move || {
            peers.bring(&mut producer, 0);
            peers.bring(&mut producer, 1);
        });
        wait(&shared, 1);
        peer.join().expect("the peer is done");
        // The caller may have taken both, and then the agent has no other reason to look.
        let core = shared.lock();
        if core.taken == 2 {
            shared.doorbell.arm(Sleeper::Agent);
            shared.doorbell.ring(true);
        }
        drop(core);
        agent.join().expect("the agent is done");
    });
}

#[test]
fn a_caller_sleeps_beside_the_agent() {
    beside("a caller asleep beside the agent, ringers with a fence", true);
    beside("a caller asleep beside the agent, ringers without a fence", false);
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
            bell.arm(Sleeper::Agent);
            if !producer.want_room() {
                flight.nap();
                yield_now();
            }
            bell.disarm();
        }
        receiver.join().expect("the receiver is done");
    });
}
