//! Ranks as threads: the driver with everything below it.

use std::thread;

use ferrywire_host::{Driver, job, memory};
use ferrywire_nic::{Mask, MatchWord, Mode, Operator, Outcome, Peer, Received};

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

fn run(ranks: u32, crowded: bool, rank: impl Fn(&Driver) + Sync) {
    let drivers = job::local(ranks, crowded, sum).expect("a segment");
    thread::scope(|scope| {
        for driver in drivers {
            let rank = &rank;
            scope.spawn(move || rank(&driver));
        }
    });
}

#[test]
fn messages_of_every_length_arrive() {
    for crowded in [false, true] {
        run(2, crowded, |driver| {
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
    for crowded in [false, true] {
        run(8, crowded, |driver| {
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
