//! Ranks as threads: the driver with everything below it.

use std::thread;

use ferrywire_host::{Driver, Operators, job, memory};
use ferrywire_nic::{Mask, MatchWord, Mode, Operator, Outcome, Peer, Posted, Received};

fn sum(_: Operator, source: &[u8], into: &mut [u8]) {
    for (into, from) in into.chunks_exact_mut(8).zip(source.chunks_exact(8)) {
        let add = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let sum = add(into).wrapping_add(add(from));
        into.copy_from_slice(&sum.to_le_bytes());
    }
}

fn send(driver: &Driver, to: u32, tag: u32, bytes: &[u8]) -> Outcome {
    let word = MatchWord::new(0, driver.me().0, tag);
    // SAFETY: the bytes are borrowed until the operation is over.
    unsafe {
        driver.post_and_wait(|nic, port| {
            nic.post_send(Peer(to), word, memory::lend(bytes), Mode::Standard, port)
        })
    }
    .1
}

fn receive(driver: &Driver, from: u32, tag: u32, bytes: &mut [u8]) -> Outcome {
    let word = MatchWord::new(0, from, tag);
    // SAFETY: the bytes are borrowed until the operation is over.
    unsafe {
        driver.post_and_wait(|nic, port| {
            let into = memory::lend_mut(bytes);
            nic.post_receive(Some(Peer(from)), word, Mask::EXACT, into, port)
        })
    }
    .1
}

fn run(ranks: u32, oversubscribed: bool, rank: impl Fn(&Driver) + Sync) {
    let drivers = job::local(ranks, oversubscribed, Operators::ours(sum)).expect("a segment");
    thread::scope(|scope| {
        for driver in drivers {
            let rank = &rank;
            scope.spawn(move || rank(driver.driver()));
        }
    });
}

/// One thread is both ranks, and nothing but its sends drives the first.
#[test]
fn a_rank_that_only_sends_has_credit_as_long_as_its_receiver_keeps_up() {
    for (oversubscribed, len) in [(false, 8), (true, 8), (false, 4000)] {
        let ranks = job::local(2, oversubscribed, Operators::ours(sum)).expect("a segment");
        let [sender, receiver] = [0, 1].map(|rank: usize| ranks[rank].driver());
        let (bytes, mut into) = (vec![7; len], vec![0; len]);
        for _ in 0..2000 {
            let word = MatchWord::new(0, 0, 1);
            // SAFETY: the bytes are borrowed until the operation is over, which it is at once.
            let posted = unsafe {
                sender.submit(|nic, port| {
                    nic.post_send(Peer(1), word, memory::lend(&bytes), Mode::Standard, port)
                })
            };
            assert_eq!(posted, Posted::Done(Outcome::Done));
            let outcome = receive(receiver, 0, 1, &mut into);
            assert!(matches!(outcome, Outcome::Received(_)), "{outcome:?}");
        }
    }
}

#[test]
fn messages_of_every_length_arrive() {
    for oversubscribed in [false, true] {
        run(2, oversubscribed, |driver| {
            let lengths = [
                0_u64,
                1,
                8,
                40,
                41,
                56,
                57,
                64,
                100,
                4000,
                8192,
                8193,
                40_000,
                1 << 20,
                3_000_001,
            ];
            for (tag, len) in (0..).zip(lengths) {
                let mut bytes: Vec<u8> =
                    (0..len).map(|at: u64| (at % 251).to_le_bytes()[0]).collect();
                if driver.me().0 == 0 {
                    assert_eq!(send(driver, 1, tag, &bytes), Outcome::Done);
                } else {
                    let expected = bytes.clone();
                    bytes.fill(0);
                    let word = MatchWord::new(0, 0, tag);
                    let outcome = receive(driver, 0, tag, &mut bytes);
                    assert_eq!(outcome, Outcome::Received(Received { word, len }));
                    assert!(bytes == expected, "{len} bytes");
                }
            }
        });
    }
}

#[test]
fn many_ranks_pass_a_token() {
    for oversubscribed in [false, true] {
        run(8, oversubscribed, |driver| {
            let (me, size) = (driver.me().0, driver.size());
            let mut token = [0; 8];
            for lap in 0..50_u32 {
                if me > 0 {
                    receive(driver, me - 1, lap, &mut token);
                }
                send(driver, (me + 1) % size, lap, &token);
                if me == 0 {
                    receive(driver, size - 1, lap, &mut token);
                }
            }
        });
    }
}

/// Posts a receive without waiting for it.
fn post_receive(driver: &Driver, from: u32, tag: u32, bytes: &mut [u8]) -> Posted {
    let word = MatchWord::new(0, from, tag);
    // SAFETY: the tests below keep the bytes until the operation is over.
    unsafe {
        driver.submit(|nic, port| {
            let into = memory::lend_mut(bytes);
            nic.post_receive(Some(Peer(from)), word, Mask::EXACT, into, port)
        })
    }
}

/// No doorbell rings for what a rank sends to itself, so no thread may leave it behind.
#[test]
fn a_message_to_self_has_arrived_when_the_call_returns() {
    for oversubscribed in [false, true] {
        run(1, oversubscribed, |driver| {
            for (tag, len) in (0..).zip([0_usize, 8, 100, 8192, 8193, 1 << 20]) {
                let bytes = vec![7; len];
                let mut into = vec![0; len];
                let Posted::Pending(receive) = post_receive(driver, 0, tag, &mut into) else {
                    panic!("nothing has been sent yet");
                };
                let word = MatchWord::new(0, 0, tag);
                // SAFETY: the bytes are borrowed until the operation is over.
                let send = unsafe {
                    driver.submit(|nic, port| {
                        nic.post_send(Peer(0), word, memory::lend(&bytes), Mode::Standard, port)
                    })
                };
                assert!(!driver.inspect(ferrywire_nic::Nic::is_expecting), "{len} bytes");
                let sent = match send {
                    Posted::Done(outcome) => outcome,
                    Posted::Pending(ticket) => driver.wait(ticket),
                };
                assert_eq!(sent, Outcome::Done);
                let len = len as u64;
                assert_eq!(driver.test(receive), Some(Outcome::Received(Received { word, len })));
                assert!(into == bytes, "{len} bytes");
            }
        });
    }
}

#[test]
fn messages_to_self_wait_for_their_receives() {
    run(1, false, |driver| {
        for tag in 0..100 {
            assert_eq!(send(driver, 0, tag, &tag.to_le_bytes()), Outcome::Done);
        }
        for tag in (0..100_u32).rev() {
            let mut bytes = [0; 4];
            receive(driver, 0, tag, &mut bytes);
            assert_eq!(u32::from_le_bytes(bytes), tag);
        }
    });
}

#[test]
fn an_outcome_waits_until_it_is_asked_for() {
    run(2, true, |driver| {
        if driver.me().0 == 0 {
            for tag in 0..10 {
                receive(driver, 1, tag, &mut [0; 8]);
                send(driver, 1, tag, &[1; 8]);
                send(driver, 1, 100 + tag, &[1; 8]);
            }
            return;
        }
        let mut bytes = [[0; 8]; 10];
        let mut tickets = Vec::new();
        for (tag, bytes) in (0..).zip(&mut bytes) {
            let Posted::Pending(ticket) = post_receive(driver, 0, tag, bytes) else {
                panic!("nothing has been sent yet");
            };
            tickets.push(ticket);
            send(driver, 0, tag, &[2; 8]);
            // When this has arrived, so has the message before it, and the ticket's place is reused.
            receive(driver, 0, 100 + tag, &mut [0; 8]);
        }
        for ticket in tickets {
            assert!(matches!(driver.wait(ticket), Outcome::Received(_)));
        }
    });
}

#[test]
fn a_thread_that_probes_while_another_waits_sees_what_comes() {
    for oversubscribed in [false, true] {
        run(2, oversubscribed, |driver| {
            let probe = || {
                // SAFETY: it lends nothing.
                unsafe {
                    driver
                        .wait_for(|nic, port| nic.probe(MatchWord::new(0, 0, 7), Mask::EXACT, port))
                };
                receive(driver, 0, 7, &mut [0; 8]);
                send(driver, 0, 8, &[0; 8]);
            };
            if driver.me().0 == 0 {
                receive(driver, 1, 6, &mut [0; 8]);
                send(driver, 1, 7, &[0; 8]);
                receive(driver, 1, 8, &mut [0; 8]);
                send(driver, 1, 9, &[0; 8]);
            } else {
                thread::scope(|scope| {
                    scope.spawn(|| receive(driver, 0, 9, &mut [0; 8]));
                    scope.spawn(probe);
                    send(driver, 0, 6, &[0; 8]);
                });
            }
        });
    }
}

/// Frames of all lengths end exactly where the data lines do, sooner or later.
#[test]
fn long_frames_come_round_the_ring_whole() {
    for oversubscribed in [false, true] {
        run(2, oversubscribed, |driver| {
            for number in 0..3000_u32 {
                let len = 60 + number as usize * 7 % 200;
                let byte = u8::try_from(number % 251).expect("a byte");
                if driver.me().0 == 0 {
                    send(driver, 1, 0, &vec![byte; len]);
                } else {
                    let mut bytes = vec![0; len];
                    receive(driver, 0, 0, &mut bytes);
                    assert!(bytes.iter().all(|&found| found == byte), "message {number}");
                }
            }
        });
    }
}

/// A rank that leaves has sent all its answers, even if they found no room at first.
#[test]
fn a_rank_does_not_leave_with_answers_that_others_wait_for() {
    for _ in 0..10 {
        run(4, true, |driver| {
            let me = driver.me().0;
            let mut bytes = vec![[0; 4]; 8000];
            let mut open = Vec::new();
            for (number, bytes) in (0..).zip(&mut bytes) {
                let posted = post_receive(driver, number % 4, number / 4, bytes);
                open.extend(matches!(posted, Posted::Pending(_)).then_some(posted));
            }
            for number in 0..8000 {
                let word = MatchWord::new(0, me, number / 4);
                // SAFETY: the bytes live for ever.
                let posted = unsafe {
                    driver.submit(|nic, port| {
                        let source = memory::lend(&[1; 4]);
                        nic.post_send(Peer(number % 4), word, source, Mode::Standard, port)
                    })
                };
                open.push(posted);
            }
            for posted in open {
                let outcome = match posted {
                    Posted::Done(outcome) => outcome,
                    Posted::Pending(ticket) => driver.wait(ticket),
                };
                assert!(matches!(outcome, Outcome::Done | Outcome::Received(_)), "{outcome:?}");
            }
        });
    }
}
