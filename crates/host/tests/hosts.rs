//! Ranks of several hosts on this machine: the driver with the rails between hosts below it.

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ferrywire_host::job::{self, LocalWire};
use ferrywire_host::udp::keys::Epochs;
use ferrywire_host::{Driver, Operators, Rank, fabric, memory};
use ferrywire_nic::{Mask, MatchWord, Mode, Operator, Outcome, Peer, Posted, Received};

fn nothing(_: Operator, _: &[u8], _: &mut [u8]) {}

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

fn send_synchronous(driver: &Driver, to: u32, tag: u32, bytes: &[u8]) -> Outcome {
    let word = MatchWord::new(0, driver.me().0, tag);
    // SAFETY: the bytes are borrowed until the operation is over.
    unsafe {
        driver.post_and_wait(|nic, port| {
            nic.post_send(Peer(to), word, memory::lend(bytes), Mode::Synchronous, port)
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

/// Providers of libfabric that need no hardware. Those not installed are skipped with a message.
const PROVIDERS: [&str; 3] = ["tcp", "shm", "udp;ofi_rxd"];

/// Every wire by which ranks of different hosts can communicate on this machine.
fn wires() -> Vec<LocalWire<'static>> {
    // Keys that change soon, and counters that grow beyond 32 bits.
    let soon = Epochs { first: (1 << 32) - 500, frames: 1000 };
    let sealed = [Epochs::USUAL, soon].map(LocalWire::Sealed);
    let mut wires = vec![sealed[0], sealed[1], LocalWire::Insecure];
    for provider in PROVIDERS {
        match fabric::look(provider) {
            Ok(_) => wires.push(LocalWire::Fabric(provider)),
            Err(why) => {
                let _ = writeln!(std::io::stderr(), "not tested: provider {provider}: {why}");
            }
        }
    }
    wires
}

/// Runs `story` on each rank of `hosts` hosts with `ranks` ranks each, on every wire.
fn on_hosts(hosts: u32, ranks: u32, story: impl Fn(&Rank) + Send + Sync + Copy + 'static) {
    let (done, wait) = mpsc::channel::<()>();
    let teller = thread::spawn(move || {
        let _done = done;
        for wire in wires() {
            println!("{wire:?}");
            let all = job::local_hosts(hosts, ranks, wire, Operators::ours(nothing));
            let all = all.expect("sockets and memory");
            thread::scope(|scope| {
                for rank in all {
                    scope.spawn(move || {
                        story(&rank);
                        rank.leave();
                    });
                }
            });
        }
    });
    if wait.recv_timeout(WATCHDOG) == Err(RecvTimeoutError::Timeout) {
        // Not `eprintln`, which the test harness would capture.
        let _ = writeln!(std::io::stderr(), "{:?} waits for ever", thread::current().name());
        std::process::abort();
    }
    teller.join().expect("the story has an end");
}

/// A rank that was away for a while sends: its frame is fresh, and is not retried. A message takes a frame, and an ack
/// for the answer to it. On a busy machine an answer may really be late, so the best of a few attempts counts.
#[test]
fn a_message_after_a_pause_goes_once() {
    const MESSAGES: u32 = 20;
    const ATTEMPTS: u32 = 6;
    let all = job::local_hosts(2, 1, LocalWire::Sealed(Epochs::USUAL), Operators::ours(nothing));
    let frames = thread::scope(|scope| {
        let story = |rank: Rank| {
            let per_message = (0..ATTEMPTS).map(|attempt| {
                let before = rank.driver().inspect(|nic| nic.stats().frames_sent);
                for message in 0..MESSAGES {
                    let (tag, mut bytes) = (attempt * MESSAGES + message, [7; 64]);
                    match rank.driver().me().0 {
                        // The receiver polls at once, so the sender does not back off.
                        0 => {
                            thread::sleep(Duration::from_millis(10));
                            assert_eq!(
                                send_synchronous(rank.driver(), 1, tag, &bytes),
                                Outcome::Done
                            );
                        }
                        _ => assert!(matches!(
                            receive(rank.driver(), 0, tag, &mut bytes),
                            Outcome::Received(_)
                        )),
                    }
                }
                rank.driver().inspect(|nic| nic.stats().frames_sent) - before
            });
            let fewest = per_message.min().expect("attempts");
            rank.leave();
            fewest
        };
        let ranks = all.expect("sockets and memory").into_iter();
        let threads: Vec<_> = ranks.map(|rank| scope.spawn(move || story(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    println!("{MESSAGES} messages: {frames:?} frames sent by sender and receiver");
    assert!(frames[0] * 10 <= u64::from(MESSAGES) * 22, "{frames:?} frames, {MESSAGES} messages");
}

/// For all wires together, on a busy machine.
const WATCHDOG: Duration = Duration::from_secs(180);

fn pattern(seed: u32, len: usize) -> Vec<u8> {
    let [seed, ..] = seed.to_le_bytes();
    (0..=u8::MAX).cycle().map(|at| at.wrapping_mul(31).wrapping_add(seed)).take(len).collect()
}

const LENGTHS: [usize; 9] = [0, 1, 8, 100, 1300, 1400, 9000, 70_000, 1_000_000];

#[test]
fn messages_of_every_length_arrive_between_hosts() {
    on_hosts(2, 1, |rank| {
        for (tag, len) in (0..).zip(LENGTHS) {
            let bytes = pattern(tag, len);
            if rank.driver().me() == Peer(0) {
                assert_eq!(send(rank.driver(), 1, tag, &bytes), Outcome::Done);
            } else {
                let mut found = vec![0; len];
                let word = MatchWord::new(0, 0, tag);
                let received = Outcome::Received(Received { word, len: len as u64 });
                assert_eq!(receive(rank.driver(), 0, tag, &mut found), received);
                assert_eq!(found, bytes);
            }
        }
    });
}

#[test]
fn all_ranks_exchange_messages_within_and_between_hosts() {
    on_hosts(3, 2, |rank| {
        let (me, size) = (rank.driver().me().0, rank.driver().size());
        assert_eq!(size, 6);
        for round in 0..20 {
            for step in 1..size {
                let (to, from) = ((me + step) % size, (me + size - step) % size);
                let bytes = pattern(me * 100 + round, 200);
                let mut found = vec![0; 200];
                if me < to {
                    send(rank.driver(), to, round, &bytes);
                    receive(rank.driver(), from, round, &mut found);
                } else {
                    receive(rank.driver(), from, round, &mut found);
                    send(rank.driver(), to, round, &bytes);
                }
                assert_eq!(found, pattern(from * 100 + round, 200));
            }
        }
    });
}

#[test]
fn a_flood_both_ways_arrives_whole_and_in_order() {
    on_hosts(2, 1, |rank| {
        let other = 1 - rank.driver().me().0;
        let len = |number: u32| [8, 900, 5000, 31_000, 40_000][number as usize % 5];
        let mine: Vec<Vec<u8>> =
            (0..FLOOD).map(|number| pattern(number + rank.driver().me().0, len(number))).collect();
        let tickets: Vec<_> = mine
            .iter()
            .map(|bytes| {
                let word = MatchWord::new(0, rank.driver().me().0, 7);
                // SAFETY: the bytes are borrowed until all operations are over, below.
                unsafe {
                    rank.driver().submit(|nic, port| {
                        let mode = Mode::Standard;
                        nic.post_send(Peer(other), word, memory::lend(bytes), mode, port)
                    })
                }
            })
            .collect();
        for number in 0..FLOOD {
            let mut found = vec![0; len(number)];
            receive(rank.driver(), other, 7, &mut found);
            assert!(found == pattern(number + other, len(number)), "message {number}");
        }
        for posted in tickets {
            let outcome = match posted {
                Posted::Done(outcome) => outcome,
                Posted::Pending(ticket) => rank.driver().wait(ticket),
            };
            assert_eq!(outcome, Outcome::Done);
        }
    });
}

const FLOOD: u32 = 300;
