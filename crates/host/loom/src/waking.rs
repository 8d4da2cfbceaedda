//! No thread sleeps while there is something to do: doorbells with rings behind them.

use std::sync::Arc;

use loom::thread;

use crate::doorbell::{Doorbell, Sleeper};
use crate::pipe::{Memory, payload, take};
use crate::ring::{Event, Stuck};
use crate::sync::{explore, without_fences};

/// A producer fills the ring and sleeps; a consumer takes everything, once, and rings if asked to.
fn want_room(name: &str, fenced: bool, looks: bool) {
    explore(name, move || {
        let memory = Memory::new();
        let (mut producer, mut consumer) = memory.ends(1);
        let bell = Arc::new(Doorbell::default());
        let push =
            |producer: &mut crate::ring::Producer, frame| producer.push(&payload(frame, 8), &[]);
        push(&mut producer, 0).expect("there is room for the first");
        push(&mut producer, 1).expect("and for the second");
        let ringer = Arc::clone(&bell);
        let receiver = thread::spawn(move || {
            for frame in 0..2 {
                let check = |event: Event<'_>| assert_eq!(event, Event::Frame(&payload(frame, 8)));
                if take(&mut consumer, fenced, check).expect("it is there") {
                    ringer.ring(fenced);
                }
            }
            if consumer.rest(fenced) {
                ringer.ring(fenced);
            }
        });
        while push(&mut producer, 2) == Err(Stuck::Full) {
            let arming = bell.arm(Sleeper::Caller);
            if !(producer.want_room() && looks) {
                bell.sleep(arming, Sleeper::Caller, None);
            }
            bell.disarm();
        }
        receiver.join().expect("the receiver is done");
    });
}

#[test]
fn room_wakes_whoever_wants_it() {
    want_room("want_room, fenced", true, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_a_fence_want_room_may_be_missed() {
    want_room("want_room, not fenced", false, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_a_look_after_it_a_wakeup_for_room_may_be_late() {
    want_room("want_room, without a look", true, false);
}

/// A consumer sleeps whenever nothing is there; a producer brings `frames` frames and rings each time.
fn arrivals(name: &str, frames: u8, rings_fenced: bool, arms_fenced: bool) {
    explore(name, move || {
        let memory = Memory::new();
        let (mut producer, mut consumer) = memory.ends(1);
        let bell = Arc::new(Doorbell::default());
        let ringer = Arc::clone(&bell);
        let sender = thread::spawn(move || {
            for frame in 0..frames {
                producer.push(&payload(frame, 8), &[]).expect("there is room");
                ringer.ring(rings_fenced);
            }
        });
        for frame in 0..frames {
            let check = |event: Event<'_>| assert_eq!(event, Event::Frame(&payload(frame, 8)));
            while take(&mut consumer, rings_fenced, check).is_none() {
                let arm = || bell.arm(Sleeper::Caller);
                let arming = if arms_fenced { arm() } else { without_fences(arm) };
                if !consumer.is_ready() {
                    bell.sleep(arming, Sleeper::Caller, None);
                }
                bell.disarm();
            }
        }
        sender.join().expect("the sender is done");
    });
}

#[test]
fn whatever_arrives_wakes_the_sleeper() {
    arrivals("arrivals, fenced", 2, true, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_a_fence_of_the_ringer_an_arrival_may_be_missed() {
    arrivals("arrivals, ringer not fenced", 1, false, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_a_fence_of_the_sleeper_an_arrival_may_be_missed() {
    arrivals("arrivals, sleeper not fenced", 1, true, false);
}

/// Both sleep whenever they cannot continue: the producer of a full ring, the consumer of an empty one.
#[test]
fn a_flood_never_stops() {
    explore("a flood, both asleep at times", || {
        let memory = Memory::new();
        let (mut producer, mut consumer) = memory.ends(1);
        let bells = Arc::new([Doorbell::default(), Doorbell::default()]);
        let doors = Arc::clone(&bells);
        producer.push(&payload(0, 8), &[]).expect("there is room for the first");
        producer.push(&payload(1, 8), &[]).expect("and for the second");
        let sender = thread::spawn(move || {
            let [mine, theirs] = &*doors;
            while producer.push(&payload(2, 8), &[]) == Err(Stuck::Full) {
                let arming = mine.arm(Sleeper::Caller);
                if !producer.want_room() {
                    mine.sleep(arming, Sleeper::Caller, None);
                }
                mine.disarm();
            }
            theirs.ring(true);
        });
        let [theirs, mine] = &*bells;
        for frame in 0..3 {
            let check = |event: Event<'_>| assert_eq!(event, Event::Frame(&payload(frame, 8)));
            loop {
                if let Some(want_room) = take(&mut consumer, true, check) {
                    if want_room {
                        theirs.ring(true);
                    }
                    break;
                }
                if consumer.rest(true) {
                    theirs.ring(true);
                }
                let arming = mine.arm(Sleeper::Caller);
                if !consumer.is_ready() {
                    mine.sleep(arming, Sleeper::Caller, None);
                }
                mine.disarm();
            }
        }
        sender.join().expect("the sender is done");
    });
}
