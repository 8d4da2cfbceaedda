//! Scopes: borrowed buffers, panics, many operations.
#![allow(missing_docs)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::local;
use ferrywire::Error;

#[test]
fn thousands_of_operations_in_one_scope() {
    for ranks in 1..=8u32 {
        local(ranks, |world| {
            let data: Vec<u32> = (0..2000).map(|at| at + world.rank()).collect();
            let mut got = vec![vec![0u32; 2000]; ranks as usize];
            world
                .scope(|s| {
                    for (from, got) in (0..ranks).zip(&mut got) {
                        for (tag, item) in (0u32..).zip(got.iter_mut()) {
                            s.receive(item, from, tag);
                        }
                    }
                    for (tag, item) in (0u32..).zip(&data) {
                        for to in 0..ranks {
                            s.send(item, to, tag);
                        }
                    }
                })
                .unwrap();
            for (from, got) in (0..ranks).zip(&got) {
                assert!((0..).zip(got).all(|(at, &item)| item == at + from));
            }
        });
    }
}

#[test]
fn waiting_inside_a_scope() {
    local(2, |world| {
        let other = 1 - world.rank();
        let (data, mut got) = (vec![world.rank(); 30_000], vec![0; 30_000]);
        let status = world
            .scope(|s| {
                let received = s.receive(&mut got, other, 0);
                s.send(&data, other, 0).wait()?;
                received.wait()
            })
            .unwrap()
            .unwrap();
        assert_eq!((status.source, status.count), (other, 30_000));
        assert_eq!(got, vec![other; 30_000]);
    });
}

#[test]
fn leaked_requests_of_a_scope_are_over_when_it_ends() {
    local(2, |world| {
        let other = 1 - world.rank();
        let (data, mut got) = ([world.rank(); 5000], [0; 5000]);
        world
            .scope(|s| {
                std::mem::forget(s.receive(&mut got, other, 0));
                std::mem::forget(s.send(&data, other, 0));
            })
            .unwrap();
        assert_eq!(got, [other; 5000]);
    });
}

#[test]
fn a_panic_in_a_scope_takes_back_what_it_can() {
    local(2, |world| {
        if world.rank() == 0 {
            let (data, mut got) = (vec![1u8; 1 << 20], vec![0u8; 100]);
            let panic = catch_unwind(AssertUnwindSafe(|| {
                world.scope(|s| {
                    s.receive(&mut got, 1, 0);
                    s.receive(&mut [0u8; 0], 1, 99).cancel();
                    s.send(&data, 1, 0);
                    panic!("on purpose");
                })
            }));
            assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "on purpose");
            drop((data, got));
        }
        world.barrier().unwrap();
        // Both the message and the receive are gone.
        assert_eq!(world.iprobe(0, 0).unwrap(), None);
        if world.rank() == 1 {
            world.send(&2u8, 0, 0).unwrap();
        } else {
            assert_eq!(world.receive_one::<u8>(1, 0).unwrap().0, 2);
        }
    });
}

#[test]
fn a_receive_can_be_cancelled() {
    local(1, |world| {
        let mut byte = 0u8;
        let cancelled = world.scope(|s| s.receive(&mut byte, 0, 0).cancel()).unwrap();
        assert!(cancelled);
        let cancelled = world
            .scope(|s| {
                s.send(&1u8, 0, 0);
                s.receive(&mut byte, 0, 0).cancel()
            })
            .unwrap();
        assert!(!cancelled);
        assert_eq!(byte, 1);
    });
}

#[test]
fn a_scope_returns_its_first_unreported_error() {
    local(1, |world| {
        let mut small = [0u8; 1];
        let error = world.scope(|s| {
            s.receive(&mut small, 0, 0);
            s.send(&[1u8, 2], 0, 0);
            s.send(&1u8, 5, 0);
        });
        assert!(matches!(error, Err(Error::NoSuchRank { .. })), "{error:?}");
        let error = world.scope(|s| {
            s.receive(&mut small, 0, 0);
            s.send(&[1u8, 2], 0, 0);
        });
        assert!(matches!(error, Err(Error::Truncated { bytes: 2, .. })), "{error:?}");
    });
}
