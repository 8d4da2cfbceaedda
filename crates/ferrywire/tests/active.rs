//! Active messages: what handlers see, send and raise, also while the application computes, and what a panic in one does.
#![allow(missing_docs)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{local, watched};
use ferrywire::{Handled, Trap};

const ADD: u32 = 2;
const ANSWER: u32 = 3;
const PANIC: u32 = 4;
const WRONG: u32 = 5;

#[test]
fn others_add_to_a_sum_while_its_owner_waits_for_no_message() {
    watched(|| {
        local(3, |world| {
            let sum = Arc::new(AtomicU64::new(0));
            let ours = Arc::clone(&sum);
            let adder = world
                .handle("adder", move |message| {
                    if message.tag() != ADD {
                        return Handled::Deliver;
                    }
                    assert_eq!((message.size(), message.value::<u32>()), (3, None));
                    let more = message.value::<u64>().unwrap();
                    let before = ours.fetch_add(more, Ordering::Relaxed);
                    message.raise(1, 1).unwrap();
                    message.send(message.source(), ANSWER, &[before, before + more]).unwrap();
                    Handled::Done
                })
                .unwrap();
            for to in 0..3 {
                adder.send(&u64::from(world.rank() + 1), to, ADD).unwrap();
            }
            // 1, 2 and 3, in any order.
            while sum.load(Ordering::Relaxed) < 6 {
                std::hint::spin_loop();
            }
            adder.wait(1, 3).unwrap();
            for from in 0..3 {
                let (answer, _) = adder.receive_vec::<u64>(from, ANSWER).unwrap();
                assert_eq!(answer[1] - answer[0], u64::from(world.rank() + 1));
            }
            let stats = adder.stats();
            assert_eq!((stats.messages, stats.consumed, stats.delivered), (6, 3, 3));
            adder.unload().unwrap();
        });
    });
}

#[test]
fn a_handler_that_panics_ends_its_message_only() {
    watched(|| {
        local(2, |world| {
            let other = 1 - world.rank();
            let comm = world
                .handle("fragile", |message| match message.tag() {
                    PANIC => panic!("on purpose"),
                    WRONG => {
                        assert_eq!(message.send(2, 0, &[0_u8]), Err(Trap::Rank));
                        assert_eq!(message.send(0, u32::MAX, &[0_u8]), Err(Trap::Tag));
                        assert_eq!(message.raise(8, 1), Err(Trap::Counter));
                        Handled::Deliver
                    }
                    _ => Handled::Deliver,
                })
                .unwrap();
            comm.send(&7_u32, other, PANIC).unwrap();
            let error = comm.receive_one::<u32>(other, PANIC).unwrap_err();
            assert!(error.to_string().contains("(a panic or abort)"), "{error}");
            for tag in [WRONG, ANSWER] {
                comm.send(&8_u32, other, tag).unwrap();
                assert_eq!(comm.receive_one::<u32>(other, tag).unwrap().0, 8);
            }
            assert_eq!(comm.stats().faults, 1);
            comm.unload().unwrap();
        });
    });
}
