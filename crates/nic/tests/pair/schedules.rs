//! Schedules: barriers, broadcasts, reductions; many at a time; and when a peer dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ferrywire_nic::{Consult, Fault, Limits, Outcome, Posted, Schedule, Span, Step};

use crate::common::schedules::{GROUP, barrier, broadcast, reduce};
use crate::common::{LOSSY, PLAIN, SUM, World, limits, peer, ticket};

fn start(world: &mut World, rank: usize, schedule: Arc<Schedule>, instance: u16) -> Posted {
    world.act(rank, |nic, port| nic.post_schedule(schedule, instance, port))
}

#[test]
fn nobody_leaves_a_barrier_before_the_last_has_come() {
    for rail in [PLAIN, LOSSY] {
        for size in 2..=9 {
            for late in 0..size {
                let mut world = World::new(size, rail, &limits());
                let mut runs = vec![];
                for rank in (0..size).filter(|&rank| rank != late) {
                    let at = peer_index(rank);
                    runs.push((at, start(&mut world, at, barrier(rank, size), 1)));
                }
                world.calm();
                for &(rank, run) in &runs {
                    world.assert_pending(rank, run);
                }
                let last = peer_index(late);
                runs.push((last, start(&mut world, last, barrier(late, size), 1)));
                world.calm();
                for (rank, run) in runs {
                    world.assert_done(rank, run);
                }
                world.assert_quiet();
            }
        }
    }
}

#[test]
fn a_broadcast_reaches_everybody_whatever_its_length() {
    for rail in [PLAIN, LOSSY] {
        for size in 1..=9 {
            for len in [0, 10, 6000] {
                let mut world = World::new(size, rail, &limits());
                let spans: Vec<_> = (0..size)
                    .map(|rank| world.lend(peer_index(rank), &vec![u8::from(rank == 0); len]))
                    .collect();
                let runs: Vec<_> = (0..size)
                    .map(|rank| {
                        let data = spans[peer_index(rank)];
                        start(&mut world, peer_index(rank), broadcast(rank, size, data), 1)
                    })
                    .collect();
                world.calm();
                for rank in 0..spans.len() {
                    world.assert_done(rank, runs[rank]);
                    assert_eq!(world.bytes(rank, spans[rank]), &vec![1; len][..]);
                }
                world.assert_quiet();
            }
        }
    }
}

#[test]
fn an_inner_rank_of_a_reduction_is_released_before_its_children_have_sent() {
    for rail in [PLAIN, LOSSY] {
        let size = 8;
        let mut world = World::new(size, rail, &limits());
        let parts: Vec<_> =
            (0..size).map(|rank| world.lend(peer_index(rank), &[1 << rank; 16])).collect();
        // The running sum, and one part for each of at most three children.
        let work: Vec<_> = (0..size).map(|rank| world.room(peer_index(rank), 4 * 16)).collect();
        let mut runs = vec![None; parts.len()];
        // Rank 4 has the children 5 and 6, and starts before them.
        for rank in [4, 0, 2, 3, 1, 7, 6, 5] {
            let at = peer_index(rank);
            let schedule = reduce(rank, size, parts[at], work[at]);
            let run = start(&mut world, at, schedule, 1);
            runs[at] = Some(run);
            world.calm();
            if rank == 4 {
                assert_eq!(world.outcome(at, run), Some(Outcome::Released));
                assert_eq!(world.holdings(at).runs, 1, "it goes on without its caller");
            }
            if rank != 5 {
                world.assert_pending(0, runs[0].unwrap_or(run));
            }
        }
        for (rank, run) in runs.into_iter().enumerate() {
            world.assert_done(rank, run.expect("everybody came"));
        }
        assert_eq!(world.bytes(0, parts[0]), &[255; 16]);
        world.assert_quiet();
    }
}

#[test]
fn runs_of_one_collective_do_not_mix_when_a_rank_is_far_behind() {
    for rail in [PLAIN, LOSSY] {
        let size = 5;
        let rounds = 6;
        let mut world = World::new(size, rail, &limits());
        let mut spans = vec![];
        let mut runs = vec![];
        for round in 0..rounds {
            // All ranks but rank 3 run ahead; their messages of later runs reach it early.
            for rank in (0..size).filter(|&rank| rank != 3) {
                let at = peer_index(rank);
                let data = world.lend(at, &[if rank == 0 { 10 + round } else { 0 }; 4]);
                spans.push((at, data, round));
                let schedule = broadcast(rank, size, data);
                runs.push((at, start(&mut world, at, schedule, u16::from(round))));
            }
            world.calm();
        }
        // Rank 3 begins with the last run and ends with the first.
        for round in (0..rounds).rev() {
            let data = world.room(3, 4);
            spans.push((3, data, round));
            let schedule = broadcast(3, size, data);
            runs.push((3, start(&mut world, 3, schedule, u16::from(round))));
            world.calm();
        }
        for (rank, run) in runs {
            world.assert_done(rank, run);
        }
        for (rank, data, round) in spans {
            assert_eq!(world.bytes(rank, data), &[10 + round; 4]);
        }
        world.assert_quiet();
    }
}

#[test]
fn barriers_far_ahead_are_held_back_by_the_budget_and_all_end() {
    // The late rank can store three headers; its senders hold the rest.
    let limits = Limits { unexpected_bytes_max: 3 * 128, ..limits() };
    let mut world = World::new(3, PLAIN, &limits);
    let mut runs = vec![];
    for instance in 0..10 {
        for rank in [0, 1] {
            runs.push((rank, start(&mut world, rank, half_barrier(rank), instance)));
        }
    }
    world.calm();
    for instance in 0..10 {
        runs.push((2, start(&mut world, 2, gather(), instance)));
        world.calm();
    }
    for (rank, run) in runs {
        world.assert_done(rank, run);
    }
    world.assert_quiet();
}

/// Sends an empty message to rank 2.
fn half_barrier(rank: usize) -> Arc<Schedule> {
    let mut schedule = Schedule::new(GROUP, peer(rank).0);
    schedule.push(Step::Send { to: peer(2), source: Span::EMPTY, subtag: 0 }, &[]);
    schedule.into()
}

/// Receives from ranks 0 and 1.
fn gather() -> Arc<Schedule> {
    let mut schedule = Schedule::new(GROUP, 2);
    for from in [0, 1] {
        let (from, rank) = (peer(from), peer(from).0);
        schedule.push(Step::Receive { from, rank, into: Span::EMPTY, subtag: 0 }, &[]);
    }
    schedule.into()
}

#[test]
fn a_step_waits_for_a_counter() {
    let mut world = World::new(1, PLAIN, &limits());
    let counter = world.nics[0].open_counter();
    let (source, into) = (world.lend(0, b"x"), world.room(0, 1));
    let mut schedule = Schedule::new(GROUP, 0);
    let wait = schedule.push(Step::Wait { counter, at_least: 2 }, &[]);
    schedule.push(Step::Copy { source, into }, &[wait]);
    let run = start(&mut world, 0, schedule.into(), 0);
    for at in [b"\0", b"x"] {
        world.assert_pending(0, run);
        world.act(0, |nic, port| nic.raise(counter, 1, port));
        assert_eq!(world.bytes(0, into), at);
    }
    world.assert_done(0, run);
    world.assert_quiet();
}

/// Instance numbers have few bits: a run may have the number of one that is still open, and must not be confused
/// with it.
#[test]
fn runs_of_one_instance_follow_each_other() {
    for rail in [PLAIN, LOSSY] {
        let mut world = World::new(3, rail, &limits());
        let mut runs = vec![];
        for rank in [0, 1] {
            runs.push((rank, start(&mut world, rank, barrier(peer(rank).0, 3), 7)));
            // The first barrier would release these if they were confused with it.
            runs.push((rank, start(&mut world, rank, barrier(peer(rank).0, 3), 7)));
            runs.push((rank, start(&mut world, rank, barrier(peer(rank).0, 3), 7)));
        }
        world.calm();
        for nth in 0..3 {
            for &(rank, run) in runs.iter().skip(nth).step_by(3) {
                world.assert_pending(rank, run);
            }
            let last = start(&mut world, 2, barrier(2, 3), 7);
            world.calm();
            world.assert_done(2, last);
            for &(rank, run) in runs.iter().skip(nth).step_by(3) {
                world.assert_done(rank, run);
            }
        }
        world.assert_quiet();
    }
}

#[test]
fn a_run_that_waits_for_another_can_be_taken_back() {
    let mut world = World::new(2, PLAIN, &limits());
    let first = start(&mut world, 0, barrier(0, 2), 7);
    let second = start(&mut world, 0, barrier(0, 2), 7);
    world.cancel(0, second);
    assert_eq!(world.outcome(0, second), Some(Outcome::Cancelled));
    let other = start(&mut world, 1, barrier(1, 2), 7);
    world.calm();
    world.assert_done(0, first);
    world.assert_done(1, other);
    world.assert_quiet();
}

/// Answers when it is open, and counts how often it was consulted.
#[derive(Debug, Default)]
struct Gate {
    open: AtomicBool,
    consulted: AtomicU32,
    /// The gate that it opens.
    next: Option<Arc<Gate>>,
}

impl Consult for Gate {
    fn consult(&self, bytes: &mut [u8]) -> bool {
        self.consulted.fetch_add(1, Ordering::Relaxed);
        bytes[0] += 1;
        if let Some(next) = self.next.as_ref().filter(|_| self.open.load(Ordering::Relaxed)) {
            next.open.store(true, Ordering::Relaxed);
        }
        self.open.load(Ordering::Relaxed)
    }
}

fn consulting(gate: &Arc<Gate>, bytes: Span) -> Arc<Schedule> {
    let mut schedule = Schedule::new(GROUP, 0);
    let whom: Arc<dyn Consult> = gate.clone();
    schedule.push(Step::Consult { whom, bytes }, &[]);
    schedule.into()
}

#[test]
fn a_step_is_consulted_again_when_another_has_answered() {
    let mut world = World::new(1, PLAIN, &limits());
    let second = Arc::new(Gate::default());
    let first = Arc::new(Gate { next: Some(second.clone()), ..Gate::default() });
    let (one, other) = (world.lend(0, &[7]), world.lend(0, &[7]));
    let waiting = start(&mut world, 0, consulting(&second, other), 0);
    let asked = start(&mut world, 0, consulting(&first, one), 1);
    world.assert_pending(0, waiting);
    world.assert_pending(0, asked);
    first.open.store(true, Ordering::Relaxed);
    world.act(0, |nic, port| nic.on_change(port));
    world.assert_done(0, asked);
    world.assert_done(0, waiting);
    // A consultation without an answer has changed nothing.
    assert_eq!((world.bytes(0, one), world.bytes(0, other)), (&[8][..], &[8][..]));
    world.assert_quiet();
}

#[test]
fn a_step_is_consulted_again_when_a_run_is_over_and_not_after_its_own() {
    let mut world = World::new(2, PLAIN, &limits());
    let gate = Arc::new(Gate::default());
    let bytes = world.lend(0, &[0]);
    let run = start(&mut world, 0, consulting(&gate, bytes), 0);
    for rank in [0, 1] {
        start(&mut world, rank, barrier(peer(rank).0, 2), 1);
    }
    world.calm();
    assert_eq!(gate.consulted.load(Ordering::Relaxed), 2);
    world.cancel(0, run);
    world.calm();
    assert_eq!(world.outcome(0, run), Some(Outcome::Failed(Fault::Abandoned)));
    gate.open.store(true, Ordering::Relaxed);
    world.act(0, |nic, port| nic.on_change(port));
    assert_eq!(gate.consulted.load(Ordering::Relaxed), 2);
    world.assert_quiet();
}

#[test]
fn a_step_runs_another_schedule_and_waits_for_it() {
    let mut world = World::new(2, PLAIN, &limits());
    let mut runs = vec![];
    let marks: Vec<_> = (0..2).map(|rank| (world.lend(rank, b"x"), world.room(rank, 1))).collect();
    for rank in [0, 1] {
        let mut schedule = Schedule::new(GROUP, peer(rank).0);
        let inner = schedule.push(Step::Start(barrier(peer(rank).0, 2)), &[]);
        let empty = Step::Start(Schedule::new(GROUP, peer(rank).0).into());
        let nothing = schedule.push(empty, &[]);
        let (source, into) = marks[rank];
        schedule.push(Step::Copy { source, into }, &[inner, nothing]);
        runs.push(start(&mut world, rank, schedule.into(), 3));
        world.calm();
        if rank == 0 {
            assert_eq!(world.bytes(0, into), b"\0");
        }
    }
    for rank in [0, 1] {
        world.assert_done(rank, runs[rank]);
        assert_eq!(world.bytes(rank, marks[rank].1), b"x");
    }
    world.assert_quiet();
}

#[test]
fn a_reduction_that_must_wait_for_the_user_holds_its_run() {
    let mut world = World::new(1, PLAIN, &limits());
    let (source, into) = (world.lend(0, &[1]), world.lend(0, &[2]));
    let mut schedule = Schedule::new(GROUP, 0);
    schedule.push(Step::Reduce { operator: SUM, source, into }, &[]);
    world.ports[0].slow = true;
    let run = start(&mut world, 0, schedule.into(), 0);
    world.assert_pending(0, run);
    let step = world.ports[0].put_off.pop().expect("put off");
    world.act(0, |nic, port| nic.on_reduced(step, port));
    world.assert_done(0, run);
    world.act(0, |nic, port| nic.on_reduced(step, port));
    assert_eq!(world.bytes(0, into), &[3]);
    world.assert_quiet();
}

#[test]
fn an_empty_schedule_is_done_at_once() {
    let mut world = World::new(1, PLAIN, &limits());
    let run = start(&mut world, 0, Schedule::new(GROUP, 0).into(), 0);
    assert_eq!(run, Posted::Done(Outcome::Done));
    world.assert_quiet();
}

#[test]
fn a_run_whose_peer_dies_fails_and_leaves_nothing() {
    for rail in [PLAIN, LOSSY] {
        let size = 5;
        for dead in 1..size {
            let mut world = World::new(size, rail, &limits());
            let runs: Vec<_> = (0..size)
                .map(|rank| {
                    (rank != dead)
                        .then(|| start(&mut world, peer_index(rank), barrier(rank, size), 1))
                })
                .collect();
            world.run_until_quiet();
            let down = peer_index(dead);
            for (rank, run) in runs.into_iter().enumerate() {
                let Some(run) = run else { continue };
                world.act(rank, |nic, port| nic.on_peer_down(peer(down), port));
                // A rank that does not communicate with the dead peer waits for ranks that do.
                if world.outcome(rank, run).is_none() {
                    world.cancel(rank, run);
                }
                assert!(matches!(world.outcome(rank, run), Some(Outcome::Failed(_))));
                assert_eq!(world.holdings(rank).runs, 0);
                assert_eq!(world.holdings(rank).posted, 0);
            }
        }
    }
}

#[test]
fn a_run_that_is_cancelled_takes_its_steps_back() {
    let mut world = World::new(2, PLAIN, &limits());
    let counter = world.nics[0].open_counter();
    let into = world.room(0, 5);
    let long = world.room(0, 5000);
    let mut inner = Schedule::new(GROUP, 0);
    inner.push(Step::Wait { counter, at_least: 1 }, &[]);
    let mut schedule = Schedule::new(GROUP, 0);
    schedule.push(Step::Receive { from: peer(1), rank: 1, into, subtag: 0 }, &[]);
    schedule.push(Step::Send { to: peer(1), source: long, subtag: 0 }, &[]);
    schedule.push(Step::Wait { counter, at_least: 1 }, &[]);
    schedule.push(Step::Start(inner.into()), &[]);
    let run = start(&mut world, 0, schedule.into(), 0);
    world.run_until_quiet();
    world.cancel(0, run);
    world.calm();
    assert_eq!(world.outcome(0, run), Some(Outcome::Failed(Fault::Abandoned)));
    assert!(world.ports[0].outcome(ticket(run)).is_some());
    world.act(0, |nic, port| nic.raise(counter, 1, port));
    world.assert_quiet();
}

fn peer_index(rank: u32) -> usize {
    rank as usize
}

#[test]
fn a_step_that_waits_for_nothing_goes_before_one_that_waits_for_an_earlier_step() {
    let mut world = World::new(2, PLAIN, &limits());
    let (first, second) = (world.lend(0, b"1"), world.lend(0, b"2"));
    let (into, then) = (world.room(1, 1), world.room(1, 1));
    // What rank 0 receives has come already, so that step ends at once.
    let mut schedule = Schedule::new(GROUP, peer(1).0);
    let (to, from) = (peer(0), peer(0));
    schedule.push(Step::Send { to, source: Span::EMPTY, subtag: 0 }, &[]);
    let got = schedule.push(Step::Receive { from, rank: from.0, into, subtag: 0 }, &[]);
    schedule.push(Step::Receive { from, rank: from.0, into: then, subtag: 0 }, &[got]);
    let receiving = start(&mut world, 1, schedule.into(), 3);
    world.calm();
    let mut schedule = Schedule::new(GROUP, peer(0).0);
    let (to, from) = (peer(1), peer(1));
    let into_none = Span::EMPTY;
    let heard =
        schedule.push(Step::Receive { from, rank: from.0, into: into_none, subtag: 0 }, &[]);
    schedule.push(Step::Send { to, source: second, subtag: 0 }, &[heard]);
    schedule.push(Step::Send { to, source: first, subtag: 0 }, &[]);
    start(&mut world, 0, schedule.into(), 3);
    world.calm();
    world.assert_done(1, receiving);
    assert_eq!((world.bytes(1, into), world.bytes(1, then)), (&b"1"[..], &b"2"[..]));
    world.assert_quiet();
}
