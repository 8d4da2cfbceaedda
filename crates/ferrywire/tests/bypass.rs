//! Progress while the application computes. A rank "computes" until another one says, through plain memory and not
//! through a message, that it has what it waited for; if the library needed a call of the computing rank, the test
//! would never end.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::local;
use ferrywire::Operation;

/// Computes, without any call, until `done`.
fn compute_until(done: &AtomicBool) {
    while !done.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
}

#[test]
fn a_long_send_completes_while_its_receiver_computes() {
    const BYTES: usize = 1 << 20;
    for ranks in [2, 5] {
        let done = AtomicBool::new(false);
        local(ranks, |world| match world.rank() {
            0 => {
                // Returns when the receiver has the message.
                world.synchronous_send(&vec![7_u8; BYTES], 1, 3).unwrap();
                done.store(true, Ordering::Release);
            }
            1 => {
                let request = world.irecv::<u8>(BYTES, 0, 3).unwrap();
                compute_until(&done);
                let (bytes, _) = request.wait().unwrap();
                assert!(bytes.iter().all(|&byte| byte == 7));
            }
            _ => {}
        });
    }
}

#[test]
fn an_inner_rank_of_a_reduction_returns_at_once_and_its_late_children_are_combined() {
    // Rank 2 is the parent of rank 3, which comes late; rank 0 gets the sum while rank 2 computes.
    let (inner_is_back, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let sums = local(4, |world| {
        let mut part = f64::from(1 << world.rank());
        if world.rank() == 3 {
            compute_until(&inner_is_back);
        }
        world.reduce(&mut part, Operation::Sum, 0).unwrap();
        match world.rank() {
            0 => done.store(true, Ordering::Release),
            2 => {
                inner_is_back.store(true, Ordering::Release);
                compute_until(&done);
            }
            _ => {}
        }
        part
    });
    assert_eq!(sums, [15.0, 2.0, 4.0, 8.0]);
}

#[test]
fn a_small_message_leaves_although_its_receiver_has_never_called() {
    let done = AtomicBool::new(false);
    local(2, |world| match world.rank() {
        0 => {
            world.send(&[1_u8; 100], 1, 0).unwrap();
            done.store(true, Ordering::Release);
        }
        _ => {
            compute_until(&done);
            assert_eq!(world.receive_vec::<u8>(0, 0).unwrap().0, [1; 100]);
        }
    });
}
