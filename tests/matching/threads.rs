//! The program with ranks as threads, on the real rail.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ferrywire_host::{Driver, HostPort, Operators, Rank, job, memory};
use ferrywire_mpi::operation;
use ferrywire_nic::{Nic, Span, Standard, Stats};
use ferrywire_sim::random::Random;

use crate::model::{Coverage, judge};
use crate::plan::Plan;
use crate::player::{Log, Machine, Next, Player};

/// Runs a seed; returns the violations, and what it has exercised. Ends the process if it takes too long: a thread that
/// waits for ever cannot be joined.
pub(crate) fn run(seed: u64) -> (Vec<String>, Coverage) {
    let (done, wait) = mpsc::channel::<()>();
    let world = thread::spawn(move || {
        let _done = done;
        run_unwatched(seed)
    });
    if wait.recv_timeout(WATCHDOG) == Err(RecvTimeoutError::Timeout) {
        // Not `eprintln`, which the test harness would capture.
        let _ = writeln!(std::io::stderr(), "seed {seed} waits for ever");
        std::process::abort();
    }
    world.join().unwrap_or_else(|_| (vec!["a rank has panicked".into()], Coverage::default()))
}

fn run_unwatched(seed: u64) -> (Vec<String>, Coverage) {
    let plan = Arc::new(Plan::new(seed));
    let root = Random::new(seed);
    let clock = Arc::new(AtomicU64::new(0));
    let oversubscribed = plan.size > 2 || root.split(5).percent(50);
    let ranks = job::local(plan.size, oversubscribed, Operators::ours(operation::combine));
    let ranks = ranks.expect("a segment");
    let ended: Vec<(Log, Stats)> = thread::scope(|scope| {
        let play = |(me, rank): (u32, Rank)| {
            let mut random = root.split(100 + u64::from(me));
            let player = Player::new(me, &plan, &clock, random.percent(30), None);
            scope.spawn(move || play(player, rank, random))
        };
        let threads: Vec<_> = (0..).zip(ranks).map(play).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank ends")).collect()
    });
    let (logs, stats): (Vec<Log>, Vec<Stats>) = ended.into_iter().unzip();
    let (wrong, mut coverage) = judge(&plan, &logs);
    stats.iter().for_each(|stats| coverage.count(stats));
    (wrong, coverage)
}

/// One rank, from its first task to its last.
fn play(mut player: Player, rank: Rank, mut random: Random) -> (Log, Stats) {
    let mut machine = ThreadMachine { driver: rank.driver(), lent: BTreeMap::new() };
    loop {
        match player.advance(&mut machine) {
            Next::Again if !random.percent(20) => {}
            Next::Again | Next::Later => {
                let open = player.open();
                let ended = rank.driver().look(|finished| {
                    open.iter().find_map(|&ticket| Some((ticket, finished.take(ticket)?)))
                });
                match ended {
                    Some((ticket, outcome)) => player.conclude(ticket, outcome, &mut machine),
                    None => thread::yield_now(),
                }
            }
            Next::Idle => {
                let open = player.open();
                assert!(!open.is_empty(), "it waits for nothing: {}", player.describe());
                let (which, outcome) = rank.driver().wait_any(&open);
                player.conclude(open[which], outcome, &mut machine);
            }
            Next::Over => break,
        }
    }
    let left = rank.driver().inspect(Nic::holdings);
    if left.tickets + left.posted + left.unexpected + left.runs > 0 {
        player.log.complaints.push(format!("{:?} has leaked: {left:?}", rank.driver().me()));
    }
    let stats = rank.driver().inspect(|nic| *nic.stats());
    // The memory is lent until the rank has left.
    let ThreadMachine { lent, .. } = machine;
    drop(rank);
    drop(lent);
    (player.log, stats)
}

struct ThreadMachine<'a> {
    driver: &'a Driver,
    /// By address.
    lent: BTreeMap<u64, Vec<u8>>,
}

impl Machine for ThreadMachine<'_> {
    type Variant = Standard;
    type Port = HostPort;

    fn lend(&mut self, mut bytes: Vec<u8>) -> Span {
        let span = memory::lend_mut(&mut bytes);
        if span.len > 0 {
            self.lent.insert(span.offset, bytes);
        }
        span
    }

    fn bytes(&self, span: Span) -> &[u8] {
        let Some((start, bytes)) = self.lent.range(..=span.offset).next_back() else { return &[] };
        let from = usize::try_from(span.offset - start).expect("it fits the machine");
        let len = usize::try_from(span.len).expect("it fits the machine");
        if len == 0 { &[] } else { &bytes[from..from + len] }
    }

    fn ask<T>(&mut self, ask: impl FnOnce(&mut Nic, &mut HostPort) -> T) -> T {
        // SAFETY: all spans are of memory that is lent here until the rank has left, and that is not read before the
        // operation is over.
        unsafe { self.driver.submit(ask) }
    }
}

const WATCHDOG: Duration = Duration::from_secs(100);
