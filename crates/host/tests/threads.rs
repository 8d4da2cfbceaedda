//! Several threads in one rank, the agent, wakers, and how they interfere. Also run under the thread
//! sanitizer: `tests/threads`.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};

use common::{end, post_receive, post_send, receive, send, waker};
use ferrywire_host::{Driver, Operators, Rank, job};
use ferrywire_nic::{Outcome, Peer, Posted, Ticket};

/// Runs `story` with two ranks, both ways.
fn both_ways(story: impl Fn(Vec<Rank>) + Send + Sync + 'static) {
    common::both_ways(2, Operators::ours(|_, _, _| {}), story);
}

/// Runs both ranks of a pair, each in a thread.
fn pair(drivers: Vec<Rank>, zero: impl Fn(&Driver) + Send, one: impl Fn(&Driver) + Send) {
    let [first, second]: [Rank; 2] = drivers.try_into().map_err(|_| ()).expect("two");
    thread::scope(|scope| {
        scope.spawn(move || zero(first.driver()));
        scope.spawn(move || one(second.driver()));
    });
}

struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits as a task does: only the agent makes progress meanwhile.
fn block_on(driver: &Driver, ticket: Ticket) -> Outcome {
    let waker = Waker::from(Arc::new(Unparks(thread::current())));
    loop {
        match driver.poll(ticket, &waker) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => thread::park(),
        }
    }
}

/// More than any ring holds, and never an answer.
#[test]
fn a_flood_ends() {
    both_ways(|drivers| {
        let message = |n: u32| (n..n + 30).flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
        pair(
            drivers,
            |driver| (0..FLOOD).for_each(|n| send(driver, 1, 0, &message(n))),
            |driver| {
                let mut bytes = [0; 120];
                for n in 0..FLOOD {
                    receive(driver, 0, 0, &mut bytes);
                    assert_eq!(bytes[..], message(n));
                }
            },
        );
    });
}

/// One thread sleeps as leader; another receives a long message that has already arrived, which only the leader can
/// fetch. Repeated, because the agent may run in between, and must not get in the way of a sleeping leader.
#[test]
fn a_leader_asleep_works_for_others() {
    (0..20).for_each(|_| both_ways(long_message_for_a_follower));
}

fn long_message_for_a_follower(drivers: Vec<Rank>) {
    let long = vec![7; 1 << 20];
    pair(
        drivers,
        |driver| {
            thread::scope(|scope| {
                scope.spawn(|| receive(driver, 1, 0, &mut [0; 8]));
                receive(driver, 1, 1, &mut [0; 8]);
                let mut bytes = vec![0; 1 << 20];
                // Until the first thread sleeps.
                (0..3000).for_each(|_| thread::yield_now());
                receive(driver, 1, 2, &mut bytes);
                assert!(bytes.iter().all(|&byte| byte == 7));
                send(driver, 1, 3, &[0; 8]);
            });
        },
        |driver| {
            let posted = post_send(driver, 0, 2, &long);
            send(driver, 0, 1, &[0; 8]);
            end(driver, posted);
            receive(driver, 0, 3, &mut [0; 8]);
            send(driver, 0, 0, &[0; 8]);
        },
    );
}

/// The application is away; the agent wakes tasks, again and again.
#[test]
fn the_agent_wakes_tasks() {
    both_ways(|drivers| {
        let rank = |driver: &Driver| {
            let other = 1 - driver.me().0;
            for round in 0..TASKS {
                let mut bytes = vec![0; 100 << (round % 12)];
                let sent = bytes.clone();
                let receive = post_receive(driver, other, round, &mut bytes);
                let send = post_send(driver, other, round, &sent);
                for posted in [receive, send] {
                    if let Posted::Pending(ticket) = posted {
                        block_on(driver, ticket);
                    }
                }
            }
        };
        pair(drivers, rank, rank);
    });
}

#[test]
fn a_panicking_waker_does_no_harm() {
    both_ways(|drivers| {
        pair(
            drivers,
            |driver| {
                let mut bytes = [[0; 8]; 2];
                let [first, second] = &mut bytes;
                let tickets =
                    [post_receive(driver, 1, 0, first), post_receive(driver, 1, 1, second)];
                let [Posted::Pending(first), Posted::Pending(second)] = tickets else {
                    panic!("nothing is sent yet")
                };
                assert!(driver.poll(first, &waker(|| panic!("on purpose"))).is_pending());
                send(driver, 1, 2, &[0; 8]);
                // The agent or this thread wakes it; either has to survive the panic.
                block_on(driver, second);
                driver.wait(first);
                thread::scope(|scope| {
                    scope.spawn(|| receive(driver, 1, 3, &mut [0; 8]));
                    receive(driver, 1, 4, &mut [0; 8]);
                });
            },
            |driver| {
                receive(driver, 0, 2, &mut [0; 8]);
                (0..5).filter(|&tag| tag != 2).for_each(|tag| send(driver, 0, tag, &[0; 8]));
            },
        );
    });
}

/// A task that is no longer wanted cancels its operation when it is dropped, which happens inside a call to the driver.
#[test]
fn a_waker_may_call_when_it_is_dropped() {
    struct Withdraws(Arc<Rank>, Ticket);
    impl Wake for Withdraws {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Withdraws {
        fn drop(&mut self) {
            self.0.driver().cancel(self.1);
        }
    }
    both_ways(|drivers| {
        let [driver, _other]: [Rank; 2] = drivers.try_into().map_err(|_| ()).expect("two");
        let driver = Arc::new(driver);
        let mut bytes = [0; 8];
        let Posted::Pending(ticket) = post_receive(driver.driver(), 1, 0, &mut bytes) else {
            panic!("nothing is sent")
        };
        let waker = Waker::from(Arc::new(Withdraws(Arc::clone(&driver), ticket)));
        assert!(driver.driver().poll(ticket, &waker).is_pending());
        drop(waker);
        // This waker replaces the other, which is dropped, which cancels.
        let outcome = block_on(driver.driver(), ticket);
        assert_eq!(outcome, Outcome::Cancelled);
    });
}

/// The last owner of the driver is a waker, which the agent wakes.
#[test]
fn the_agent_may_drop_the_driver() {
    both_ways(|drivers| {
        let [first, second]: [Rank; 2] = drivers.try_into().map_err(|_| ()).expect("two");
        let first = Arc::new(first);
        let bytes = Box::leak(Box::new([0; 8]));
        let Posted::Pending(ticket) = post_receive(first.driver(), 1, 0, bytes) else {
            panic!("nothing is sent")
        };
        let (dropped, wait) = mpsc::channel();
        let held = Arc::clone(&first);
        let last = waker(move || {
            drop(held);
            dropped.send(()).expect("somebody listens");
        });
        assert!(first.driver().poll(ticket, &last).is_pending());
        drop((first, last));
        send(second.driver(), 0, 0, &[0; 8]);
        wait.recv().expect("it is dropped");
    });
}

/// Three threads in each rank: one exchanges messages, one is a task, one cancels.
#[test]
fn many_threads_share_a_rank() {
    both_ways(|drivers| {
        let rank = |driver: &Driver| {
            let other = 1 - driver.me().0;
            let over = AtomicBool::new(false);
            let cancelled = AtomicU32::new(0);
            thread::scope(|scope| {
                scope.spawn(|| {
                    for n in 0..STRESS {
                        let len = [8, 100, 5000, 100_000][n as usize % 4];
                        let (out, mut into) = (vec![n.to_le_bytes()[0]; len], vec![0; len]);
                        let posted = post_receive(driver, other, 1, &mut into);
                        send(driver, other, 1, &out);
                        end(driver, posted);
                        assert_eq!(into, out);
                    }
                    over.store(true, Ordering::Relaxed);
                });
                scope.spawn(|| {
                    for n in 0..STRESS {
                        let (out, mut into) = (n.to_le_bytes(), [0; 4]);
                        let posted = post_receive(driver, other, 2, &mut into);
                        send(driver, other, 2, &out);
                        if let Posted::Pending(ticket) = posted {
                            block_on(driver, ticket);
                        }
                        assert_eq!(into, out);
                    }
                });
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let mut bytes = [0; 8];
                        let posted = post_receive(driver, other, 3, &mut bytes);
                        // No rank sends this. It fails when the other has left.
                        let Posted::Pending(ticket) = posted else { break };
                        driver.cancel(ticket);
                        let outcome = driver.wait(ticket);
                        assert!(matches!(outcome, Outcome::Cancelled | Outcome::Failed(_)));
                        cancelled.fetch_add(1, Ordering::Relaxed);
                        thread::yield_now();
                    }
                });
            });
        };
        pair(drivers, rank, rank);
    });
}

const FLOOD: u32 = 20_000;
const TASKS: u32 = 300;
const STRESS: u32 = 1000;

#[test]
fn leaving_a_job_that_has_ended_does_not_wait() {
    common::both_ways(3, Operators::ours(|_, _, _| {}), |ranks| {
        send(ranks[0].driver(), 2, 0, b"nobody will take this");
        job::end(ranks.iter(), Peer(1));
        // Rank 2 still exists, and polls no more.
        ranks.into_iter().for_each(drop);
    });
}
