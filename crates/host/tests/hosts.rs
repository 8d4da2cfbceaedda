//! Ranks that live as on several hosts: the driver with the rail between hosts below it, and the network of this machine.

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ferrywire_host::{Driver, Operators, Rank, job, memory};
use ferrywire_nic::{Mask, MatchWord, Mode, Operator, Outcome, Peer, Received};

fn nothing(_: Operator, _: &[u8], _: &mut [u8]) {}

fn send(driver: &Driver, to: u32, tag: u32, bytes: &[u8]) -> Outcome {
    let word = MatchWord::new(0, driver.me().0, tag);
    // SAFETY: the bytes are borrowed until the operation is over.
    unsafe {
        driver.perform(|nic, port| {
            nic.post_send(Peer(to), word, memory::lend(bytes), Mode::Standard, port)
        })
    }
}

fn receive(driver: &Driver, from: u32, tag: u32, bytes: &mut [u8]) -> Outcome {
    let word = MatchWord::new(0, from, tag);
    // SAFETY: the bytes are borrowed until the operation is over.
    unsafe {
        driver.perform(|nic, port| {
            let into = memory::lend_mut(bytes);
            nic.post_receive(Some(Peer(from)), word, Mask::EXACT, into, port)
        })
    }
}

/// Runs `story` on each rank of so many hosts with so many ranks, sealed and not.
fn on_hosts(hosts: u32, ranks: u32, story: impl Fn(&Rank) + Send + Sync + Copy + 'static) {
    let (done, wait) = mpsc::channel::<()>();
    let teller = thread::spawn(move || {
        let _done = done;
        for insecure in [false, true] {
            let all = job::local_hosts(hosts, ranks, insecure, Operators::ours(nothing));
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
        // Not `eprintln`, which the test harness would keep to itself.
        let _ = writeln!(std::io::stderr(), "{:?} waits for ever", thread::current().name());
        std::process::abort();
    }
    teller.join().expect("the story has an end");
}

const WATCHDOG: Duration = Duration::from_secs(60);

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
            if rank.me() == Peer(0) {
                assert_eq!(send(rank, 1, tag, &bytes), Outcome::Done);
            } else {
                let mut found = vec![0; len];
                let word = MatchWord::new(0, 0, tag);
                let received = Outcome::Received(Received { word, len: len as u64 });
                assert_eq!(receive(rank, 0, tag, &mut found), received);
                assert_eq!(found, bytes);
            }
        }
    });
}

#[test]
fn everybody_talks_to_everybody_near_and_far() {
    on_hosts(3, 2, |rank| {
        let (me, size) = (rank.me().0, rank.size());
        assert_eq!(size, 6);
        for round in 0..20 {
            for step in 1..size {
                let (to, from) = ((me + step) % size, (me + size - step) % size);
                let bytes = pattern(me * 100 + round, 200);
                let mut found = vec![0; 200];
                if me < to {
                    send(rank, to, round, &bytes);
                    receive(rank, from, round, &mut found);
                } else {
                    receive(rank, from, round, &mut found);
                    send(rank, to, round, &bytes);
                }
                assert_eq!(found, pattern(from * 100 + round, 200));
            }
        }
    });
}
