//! Producer and consumer of one ring.

use std::ptr::NonNull;

use loom::thread;

use crate::ring::{CacheLine, Consumer, Control, Event, Producer, Ring, Slot, Stuck};
use crate::sync::{DATA_LINES_MAX, SLOTS, explore, yield_now};

/// The memory of a ring. It outlives both ends: the thread that creates it joins the threads that have them.
pub(crate) struct Memory {
    control: NonNull<Control>,
    slots: NonNull<[Slot]>,
    lines: NonNull<[CacheLine]>,
}

impl Memory {
    pub(crate) fn new() -> Memory {
        let slots: Vec<Slot> = (0..SLOTS).map(|_| Slot::default()).collect();
        let lines: Vec<CacheLine> = (0..DATA_LINES_MAX).map(|_| CacheLine::default()).collect();
        Memory {
            control: NonNull::from(Box::leak(Box::default())),
            slots: NonNull::from(Box::leak(slots.into_boxed_slice())),
            lines: NonNull::from(Box::leak(lines.into_boxed_slice())),
        }
    }

    pub(crate) fn ends(&self, lines: u32) -> (Producer, Consumer) {
        // SAFETY: the memory lives until `drop`, which comes after the ends: see `Memory`.
        let control = unsafe { self.control.as_ref() };
        // SAFETY: as above.
        let slots = unsafe { self.slots.as_ref() };
        // SAFETY: as above.
        let lines_all = unsafe { self.lines.as_ref() };
        let ring = Ring { control, slots, lines: lines_all };
        (Producer::new(ring, lines), Consumer::new(ring))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was leaked in `new`, and both ends are gone.
        drop(unsafe { Box::from_raw(self.control.as_ptr()) });
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(self.slots.as_ptr()) });
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(self.lines.as_ptr()) });
    }
}

/// The bytes of frame number `frame`.
pub(crate) fn payload(frame: u8, len: usize) -> Vec<u8> {
    (frame..=u8::MAX).cycle().take(len).collect()
}

/// Takes one event if there is one, and checks it while the producer may be at work. The second `peek` before `advance`
/// shows loom that we still read.
pub(crate) fn take(
    consumer: &mut Consumer,
    fenced: bool,
    check: impl Fn(Event<'_>),
) -> Option<bool> {
    check(consumer.peek()?);
    check(consumer.peek().expect("what is shown stays until it is taken"));
    Some(consumer.advance(fenced))
}

/// Carries frames of these lengths through a ring that has `lines` data lines at first.
fn carry(name: &str, lens: &'static [usize], lines: u32) {
    explore(name, move || {
        let memory = Memory::new();
        let (mut producer, mut consumer) = memory.ends(lines);
        let sender = thread::spawn(move || {
            for (frame, &len) in (0..).zip(lens) {
                let bytes = payload(frame, len);
                let (envelope, rest) = bytes.split_at(len.min(8));
                loop {
                    match producer.push(envelope, rest) {
                        Ok(()) => break,
                        Err(Stuck::Narrow) => {
                            let (_, wider) = producer.wider(len);
                            producer.widen(wider);
                        }
                        Err(Stuck::Full) => yield_now(),
                    }
                }
            }
        });
        for (frame, &len) in (0..).zip(lens) {
            let check = |event: Event<'_>| {
                assert_eq!(event, Event::Frame(&payload(frame, len)), "frame {frame}");
            };
            while take(&mut consumer, false, check).is_none() {
                consumer.rest(false);
                yield_now();
            }
        }
        consumer.rest(false);
        sender.join().expect("the sender is done");
        assert!(!consumer.is_ready());
    });
}

#[test]
fn short_frames_arrive_in_order() {
    carry("short frames", &[0, 56, 9], 1);
}

#[test]
fn every_kind_arrives() {
    explore("every kind", || {
        let memory = Memory::new();
        let (mut producer, mut consumer) = memory.ends(1);
        let sender = thread::spawn(move || {
            while !producer.push_plain([7, 8], &[1, 2, 3]) {
                yield_now();
            }
            while producer.push_landed(17, 1 << 40).is_err() {
                yield_now();
            }
            while !producer.push_plain([9, 10], &[]) {
                yield_now();
            }
        });
        let words = |a: u64, b: u64| [a.to_le_bytes(), b.to_le_bytes()].concat();
        let frames = [[words(7, 8), vec![1, 2, 3]].concat(), words(9, 10)];
        let expected = [
            Event::Frame(&frames[0]),
            Event::Landed { ticket: 17, bytes: 1 << 40 },
            Event::Frame(&frames[1]),
        ];
        for event in expected {
            while take(&mut consumer, false, |found| assert_eq!(found, event)).is_none() {
                consumer.rest(false);
                yield_now();
            }
        }
        sender.join().expect("the sender is done");
    });
}

#[test]
fn a_message_of_two_slots_arrives_whole() {
    explore("two slots", || {
        let memory = Memory::new();
        let (mut producer, mut consumer) = memory.ends(1);
        let sender = thread::spawn(move || {
            for (word, payload) in [(7, &[1; 50][..]), (9, &[2]), (11, &[3; 41])] {
                while !producer.push_plain([word, 8], payload) {
                    yield_now();
                }
            }
        });
        for (word, payload) in [(7_u64, vec![1; 50]), (9, vec![2]), (11, vec![3; 41])] {
            let frame = [&word.to_le_bytes()[..], &8_u64.to_le_bytes(), &payload].concat();
            let event = Event::Frame(&frame);
            while take(&mut consumer, false, |found| assert_eq!(found, event)).is_none() {
                consumer.rest(false);
                yield_now();
            }
        }
        sender.join().expect("the sender is done");
    });
}

/// The second frame ends at the last line, and the third begins at the first again.
#[test]
fn long_frames_wrap_at_the_end() {
    carry("long frames that wrap", &[100, 128, 70], 4);
}

/// The third frame does not fit before the end: a line is skipped.
#[test]
fn long_frames_skip_what_is_left() {
    carry("long frames that skip", &[100, 60, 100], 4);
}

/// The second frame is longer than all initial data lines.
#[test]
fn long_frames_widen_the_ring() {
    carry("long frames that widen", &[60, 100, 200], 1);
}
