//! Planes: threads that share a rank and nothing else, ranks that come late or never, and leaving.

mod common;

use std::os::unix::fs::MetadataExt;
use std::sync::mpsc;
use std::thread;

use common::{both_ways, end, post_receive, post_send, receive, send, waker};
use ferrywire_host::{Driver, Operators, PLANES, Rank, Segment, job, wait_around};
use ferrywire_nic::{Fault, Outcome, Peer, Posted, Ticket};

/// Runs `story` for each rank of a job, both ways.
fn ranks(count: u32, story: impl Fn(Rank) + Send + Sync + 'static) {
    both_ways(count, Operators::ours(|_, _, _| {}), move |ranks| {
        thread::scope(|scope| {
            for rank in ranks {
                let story = &story;
                scope.spawn(move || story(rank));
            }
        });
    });
}

fn plane(rank: &Rank, number: u32) -> &Driver {
    rank.plane(number).expect("there is memory")
}

fn ticket(posted: Posted) -> Ticket {
    let Posted::Pending(ticket) = posted else { panic!("it cannot be over yet") };
    ticket
}

/// The same tags and the same peers in each plane: no message gets into another one.
#[test]
fn messages_keep_their_order_in_each_plane() {
    ranks(2, |rank| {
        thread::scope(|scope| {
            for number in 0..PLANES {
                let rank = &rank;
                scope.spawn(move || {
                    let driver = plane(rank, number);
                    let other = 1 - driver.me().0;
                    for round in 0..ROUNDS {
                        let len = [8, 100, 5000, 100_000][round as usize % 4];
                        let byte = (round * PLANES + number).to_le_bytes()[0];
                        let (out, mut into) = (vec![byte; len], vec![0; len]);
                        let posted = post_receive(driver, other, 0, &mut into);
                        send(driver, other, 0, &out);
                        end(driver, posted);
                        assert_eq!(into, out);
                    }
                });
            }
        });
    });
}

/// A thread sleeps in one plane, and what it waits for comes after the exchange in another plane.
#[test]
fn a_sleeping_leader_does_not_block_other_planes() {
    ranks(2, |rank| {
        let (first, second) = (plane(&rank, 0), plane(&rank, 1));
        let other = 1 - rank.driver().me().0;
        thread::scope(|scope| {
            scope.spawn(|| receive(first, other, 0, &mut [0; 8]));
            for round in 0..ROUNDS {
                let posted = post_send(second, other, round, &[0; 8]);
                receive(second, other, round, &mut [0; 8]);
                end(second, posted);
            }
            send(first, other, 0, &[0; 8]);
        });
    });
}

/// Each plane has its own agent, which works while a thread sleeps in another plane.
#[test]
fn tasks_of_all_planes_are_woken() {
    ranks(2, |rank| {
        if rank.driver().me().0 == 1 {
            (0..PLANES).rev().for_each(|number| {
                receive(rank.driver(), 0, number, &mut [0; 8]);
                send(plane(&rank, number), 0, 9, &[0; 8]);
            });
            return send(rank.driver(), 0, 8, &[0; 8]);
        }
        let (told, wait) = mpsc::channel();
        let mut bytes = [[0; 8]; PLANES as usize];
        thread::scope(|scope| {
            scope.spawn(|| receive(rank.driver(), 1, 8, &mut [0; 8]));
            for (number, bytes) in (0..PLANES).zip(&mut bytes).rev() {
                let (driver, told) = (plane(&rank, number), told.clone());
                let open = ticket(post_receive(driver, 1, 9, bytes));
                let waker = waker(move || told.send(()).expect("somebody listens"));
                assert!(driver.poll(open, &waker).is_pending());
                send(rank.driver(), 1, number, &[0; 8]);
                wait.recv().expect("it is told");
                assert!(matches!(driver.test(open), Some(Outcome::Received(_))));
            }
        });
    });
}

/// All ranks read the same value in the segment, whatever cores they may use themselves.
#[test]
fn cores_are_to_spare_if_there_are_two_for_each_rank() {
    let segment = Segment::create(2, 0, false).expect("a segment");
    assert!(!segment.has_cores_to_spare());
    for (cores, spare) in [(2, false), (3, false), (4, true)] {
        segment.note_cores(cores);
        let file = segment.file().try_clone().expect("another descriptor");
        let theirs = Segment::open(file.into()).expect("it is whole");
        assert_eq!(theirs.has_cores_to_spare(), spare);
    }
}

/// Messages to a plane that the receiver has not opened wait there.
#[test]
fn a_plane_may_be_opened_late() {
    ranks(2, |rank| {
        let number = PLANES - 1;
        let text: Vec<u8> = (0..100_000_u32).map(|at| at.to_le_bytes()[0]).collect();
        if rank.driver().me().0 == 0 {
            let driver = plane(&rank, number);
            let posted = [0, 1, 2].map(|tag| post_send(driver, 1, tag, &text[..10 << (6 * tag)]));
            send(rank.driver(), 1, 0, &[0; 8]);
            for posted in posted {
                assert_eq!(end(driver, posted), Outcome::Done);
            }
        } else {
            receive(rank.driver(), 0, 0, &mut [0; 8]);
            let driver = plane(&rank, number);
            for tag in [2, 1, 0] {
                let mut bytes = vec![0; 10 << (6 * tag)];
                receive(driver, 0, tag, &mut bytes);
                assert_eq!(bytes, text[..10 << (6 * tag)]);
            }
        }
    });
}

/// Each rank sends to the other in a plane that the other never opens, more than a ring holds.
#[test]
fn ranks_do_not_wait_for_one_that_leaves_without_opening_a_plane() {
    ranks(2, |rank| {
        let me = rank.driver().me().0;
        let driver = plane(&rank, 1 + me);
        let posted: Vec<Posted> =
            (0..2000).map(|_| post_send(driver, 1 - me, 0, &[7; 8])).collect();
        // The ranks synchronise, so that neither leaves before the other has sent.
        let word = post_send(rank.driver(), 1 - me, 0, &[0; 8]);
        receive(rank.driver(), 1 - me, 0, &mut [0; 8]);
        end(rank.driver(), word);
        for posted in posted {
            if let Posted::Pending(ticket) = posted {
                driver.detach(ticket, None);
            }
        }
    });
}

#[test]
fn whoever_is_gone_is_gone_in_all_planes() {
    ranks(3, |rank| {
        if rank.driver().me().0 == 2 {
            (0..2).for_each(|other| receive(plane(&rank, 1), other, 0, &mut [0; 8]));
            return rank.mark_down();
        }
        let open = [0, 1, 2].map(|number| {
            let driver = plane(&rank, number);
            let bytes = Box::leak(Box::new([0; 8]));
            (driver, ticket(post_receive(driver, 2, 1, bytes)))
        });
        send(plane(&rank, 1), 2, 0, &[0; 8]);
        for (driver, ticket) in open {
            assert_eq!(driver.wait(ticket), Outcome::Failed(Fault::PeerDown(Peer(2))));
        }
        // A plane opened later finds out, too.
        let outcome = end(plane(&rank, 3), post_receive(plane(&rank, 3), 2, 1, &mut [0; 8]));
        assert_eq!(outcome, Outcome::Failed(Fault::PeerDown(Peer(2))));
    });
}

/// Also in planes that are opened afterwards.
#[test]
fn a_job_that_ends_ends_in_all_planes() {
    both_ways(2, Operators::ours(|_, _, _| {}), |ranks| {
        let [first, second] = &ranks[..] else { panic!("two") };
        let mut bytes = [0; 8];
        let open = ticket(post_receive(plane(first, 1), 1, 0, &mut bytes));
        job::end(ranks.iter(), Peer(1));
        let failed = |outcome| assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
        failed(plane(first, 1).wait(open));
        failed(end(plane(second, 2), post_receive(plane(second, 2), 0, 0, &mut [0; 8])));
    });
}

/// One of three operations in different planes ends; which one is not known, and it may take a while.
#[test]
fn operations_of_several_planes_are_waited_for_together() {
    ranks(2, |rank| {
        let drivers = [plane(&rank, 0), plane(&rank, 1), plane(&rank, 2)];
        if rank.driver().me().0 == 0 {
            for round in 0..ROUNDS {
                receive(drivers[0], 1, 1, &mut [0; 8]);
                if round % 16 == 0 {
                    // Until the other sleeps.
                    (0..500).for_each(|_| thread::yield_now());
                }
                send(drivers[round as usize % 3], 1, 0, &[0; 8]);
            }
            return receive(drivers[0], 1, 2, &mut [0; 8]);
        }
        let mut bytes = [[0; 8]; 3];
        let mut post = |at: usize| ticket(post_receive(drivers[at], 0, 0, &mut bytes[at]));
        let mut open = [0, 1, 2].map(&mut post);
        for round in 0..ROUNDS {
            send(drivers[0], 0, 1, &[0; 8]);
            let found = wait_around(&drivers, |at, finished| {
                finished.take(open[at]).map(|outcome| (at, outcome))
            });
            let (at, Outcome::Received(_)) = found else { panic!("{found:?}") };
            assert_eq!(at, round as usize % 3);
            open[at] = post(at);
        }
        for (driver, ticket) in drivers.into_iter().zip(open) {
            driver.cancel(ticket);
            driver.wait(ticket);
        }
        send(drivers[0], 0, 2, &[0; 8]);
    });
}

/// A rank leaves while messages to it are in flight in several planes.
#[test]
fn leaving_is_in_order_in_all_planes() {
    ranks(4, |rank| {
        let me = rank.driver().me().0;
        for number in 0..PLANES {
            for other in (0..4).filter(|&other| other != me) {
                send(plane(&rank, number), other, 0, &[me.to_le_bytes()[0]; 64]);
            }
        }
        for number in (0..PLANES).rev() {
            for other in (0..4).filter(|&other| other != me) {
                let mut bytes = [0; 64];
                receive(plane(&rank, number), other, 0, &mut bytes);
                assert_eq!(bytes, [other.to_le_bytes()[0]; 64]);
            }
        }
    });
}

#[test]
fn an_unused_plane_takes_no_memory() {
    let segment = Segment::create(64, 0, true).expect("a segment");
    let blocks = segment.file().metadata().expect("a file").blocks();
    // 128 bytes, 256 for each rank, rounded up to whole pages.
    assert_eq!([blocks * 512, Segment::bytes(64)], [5 * 4096; 2]);
}

const ROUNDS: u32 = 400;
