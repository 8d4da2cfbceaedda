//! A ring by itself, in memory of its own, so that Miri can watch.

use std::sync::atomic::{Ordering, fence};

use crate::shm::ring::{
    CacheLine, Consumer, Control, DATA_LINES_MAX, Event, LINE_BYTES, PLAIN_BYTES_MAX, Producer,
    Ring, SLOTS, Slot, Stuck,
};

/// Both ends of a ring. Its memory is leaked.
fn ring(lines: u32) -> (Producer, Consumer) {
    let slots: Vec<Slot> = (0..SLOTS).map(|_| Slot::default()).collect();
    let all: Vec<CacheLine> = (0..DATA_LINES_MAX).map(|_| CacheLine::default()).collect();
    let control: &Control = Box::leak(Box::default());
    let ring = Ring { control, slots: slots.leak(), lines: all.leak() };
    (Producer::new(ring, lines), Consumer::new(ring))
}

fn bytes(number: usize, len: usize) -> Vec<u8> {
    (number..).map(|byte| byte.to_le_bytes()[0]).take(len).collect()
}

fn expect(consumer: &mut Consumer, number: usize, len: usize) {
    assert_eq!(consumer.peek(), Some(Event::Frame(&bytes(number, len))), "frame {number}");
    consumer.advance(false);
}

#[test]
fn every_length_around_an_edge_arrives() {
    let (mut producer, mut consumer) = ring(60);
    for len in (0..=70).chain([127, 128, 129, 59 * LINE_BYTES]) {
        let frame = bytes(len, len);
        let (envelope, payload) = frame.split_at(len.min(16));
        producer.push(envelope, payload).expect("the ring is empty");
        expect(&mut consumer, len, len);
        consumer.rest(false);
    }
}

#[test]
fn a_plain_message_of_every_length_arrives() {
    let (mut producer, mut consumer) = ring(4);
    for len in (0..=PLAIN_BYTES_MAX).cycle().take(10 * PLAIN_BYTES_MAX) {
        let frame = bytes(len, 16 + len);
        let word = |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().expect("8 bytes"));
        assert!(producer.push_plain([word(0), word(8)], &frame[16..]), "the ring is empty");
        expect(&mut consumer, len, 16 + len);
        assert_eq!(consumer.peek(), None);
        consumer.rest(false);
    }
}

#[test]
fn a_message_of_two_slots_needs_both() {
    let (mut producer, mut consumer) = ring(4);
    (1..SLOTS).for_each(|_| assert!(producer.push_plain([1, 2], &[])));
    assert!(!producer.push_plain([1, 2], &[3; 41]), "one slot is left");
    for _ in 0..2 {
        assert!(consumer.peek().is_some());
        consumer.advance(false);
    }
    consumer.rest(false);
    assert!(producer.push_plain([1, 2], &[3; 41]));
    assert!(producer.push_plain([1, 2], &[]), "one slot is left again");
    assert!(!producer.push_plain([1, 2], &[]));
}

/// The last frame ends exactly where the data lines end, and the ring is not empty.
#[test]
fn after_the_last_line_comes_the_first() {
    let (mut producer, mut consumer) = ring(8);
    for number in 0..8 {
        producer.push(&bytes(number, LINE_BYTES), &[]).expect("there are lines for all");
    }
    assert_eq!(producer.push(&bytes(8, LINE_BYTES), &[]), Err(Stuck::Full));
    for number in 0..if cfg!(miri) { 20 } else { 1000 } {
        expect(&mut consumer, number, LINE_BYTES);
        consumer.rest(false);
        producer.push(&bytes(number + 8, LINE_BYTES), &[]).expect("one line is free");
    }
}

#[test]
fn a_ring_is_widened_when_it_is_empty() {
    let (mut producer, mut consumer) = ring(1);
    producer.push(&bytes(0, 60), &[]).expect("one line is there");
    let long = bytes(1, 3 * LINE_BYTES);
    assert_eq!(producer.push(&long, &[]), Err(Stuck::Full), "not while it is in use");
    expect(&mut consumer, 0, 60);
    consumer.rest(false);
    assert_eq!(producer.push(&long, &[]), Err(Stuck::Narrow));
    let (_, wider) = producer.wider(long.len());
    producer.widen(wider);
    producer.push(&long, &[]).expect("it is wide enough");
    expect(&mut consumer, 1, 3 * LINE_BYTES);
}

#[test]
fn two_threads_share_a_ring() {
    let frames = if cfg!(miri) { 60 } else { 100_000 };
    let (mut producer, mut consumer) = ring(16);
    let len = |number: usize| number * 37 % 300;
    let sender = std::thread::spawn(move || {
        for number in 0..frames {
            while producer.push(&bytes(number, len(number)), &[]).is_err() {
                producer.give_up_widening();
                std::thread::yield_now();
            }
        }
    });
    for number in 0..frames {
        while !consumer.is_ready() {
            if sender.is_finished() {
                // That the sender has finished does not make visible what it did.
                fence(Ordering::Acquire);
                assert!(consumer.is_ready(), "the sender has given up");
            }
            consumer.rest(false);
            std::thread::yield_now();
        }
        expect(&mut consumer, number, len(number));
    }
    sender.join().expect("the sender is done");
}
