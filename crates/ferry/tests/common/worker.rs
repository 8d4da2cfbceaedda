//! A rank that joins through the library and exchanges short and long messages in a ring, until it is
//! done, or until it dies as the test has ordered.
//!
//! Invariants, cited below by number.
//!   W1. Buffers that are lent are leaked: whatever happens to the thread, they stay.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use ferrywire_host::{Driver, Operators, Rank, job, memory};
use ferrywire_nic::{Mask, MatchWord, Mode, Outcome, Peer, Posted, Ticket};

use super::{now_ns, signal};

/// Lengths: short, inside a frame, of several frames, and long enough to be under way when a rank dies.
const LENGTHS: [u64; 6] = [8, 1 << 20, 3000, 64, 40_000, 1 << 20];

/// How much two ranks of [`pairs`] exchange.
const PAIR_BYTES: u64 = 1 << 20;
/// How long they leave the transfer to their agents.
const AWAY: Duration = Duration::from_millis(20);

/// The exit code of a rank that dies by exiting.
pub(crate) const EXIT_CODE: i32 = 41;
/// The exit code of a rank whose neighbour is gone.
const NEIGHBOUR_GONE: i32 = 99;

/// A tag that no rank sends.
const NEVER: u32 = 0xffff;

/// How long ranks compute.
const COMPUTE: Duration = Duration::from_secs(10);

pub(crate) const MOMENTS: [&str; 7] =
    ["before", "joining", "talking", "sleeping", "computing", "deaf", "finalising"];
pub(crate) const WAYS: [&str; 5] = ["KILL", "SEGV", "TERM", "panic", "exit"];

/// Which rank dies, how, and when.
#[derive(Clone, Debug)]
pub(crate) struct Death {
    pub(crate) rank: u32,
    /// The rank kills its launcher instead of itself.
    pub(crate) of_launcher: bool,
    pub(crate) way: String,
    pub(crate) moment: String,
    pub(crate) after: Duration,
}

impl Death {
    pub(crate) fn told(&self) -> String {
        let who = if self.of_launcher { "launcher" } else { "rank" };
        format!("{} {who} {} {} {}", self.rank, self.way, self.moment, self.after.as_micros())
    }
}

impl FromStr for Death {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Death, Self::Err> {
        let words: Vec<&str> = text.split(' ').collect();
        Ok(Death {
            rank: words[0].parse()?,
            of_launcher: words[1] == "launcher",
            way: words[2].into(),
            moment: words[3].into(),
            after: Duration::from_micros(words[4].parse()?),
        })
    }
}

fn read(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Runs a rank from beginning to end. `WORK` says what it does.
pub(crate) fn rank() {
    let Some(work) = read("WORK") else { return };
    match work.as_str() {
        "ring" => ring(|round| round == 12),
        "until" => {
            let path = PathBuf::from(read("UNTIL").expect("a path"));
            ring(|_| path.exists());
        }
        "pairs" => pairs(),
        "die" => die(&read("DEATH").expect("who").parse().expect("a death")),
        other => panic!("no such work: {other}"),
    }
}

/// Lets only root read the memory of this process from now on.
fn become_unreadable() {
    let off: libc::c_ulong = 0;
    // SAFETY: sets an attribute of this process.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, off) };
}

fn join() -> Rank {
    if read("UNREADABLE").is_some() {
        become_unreadable();
    }
    match job::join(read, Operators::ours(|_, _, _| {})) {
        Ok(driver) => driver,
        Err(error) => {
            eprintln!("cannot join: {error}");
            std::process::exit(9);
        }
    }
}

/// Sends messages around the ring until `enough`. Rank 0 decides, and the first byte of a round tells the others.
fn ring(enough: impl Fn(u32) -> bool) {
    let driver = join();
    let mut round = 0;
    loop {
        let last = driver.driver().me().0 == 0 && enough(round);
        let Some(stop) = exchange(driver.driver(), round, last) else { lament(driver.driver()) };
        round += 1;
        if last || stop {
            break;
        }
    }
    println!("rank {} exchanged {round} rounds", driver.driver().me().0);
}

/// One round: a byte that says whether it is the last one, and then bytes of some length, which are
/// checked. `None` if a neighbour is gone.
fn exchange(driver: &Driver, round: u32, last: bool) -> Option<bool> {
    let (me, size) = (driver.me().0, driver.size());
    let (left, right) = ((me + size - 1) % size, (me + 1) % size);
    let tag = round % 1000;
    let mut stop = vec![u8::from(last)];
    if me > 0 {
        stop = receive(driver, left, tag, 1)?;
    }
    if right > 0 {
        send(driver, right, tag, &stop)?;
    }
    let len = LENGTHS[(round % 6) as usize];
    let (out, into) = (lent(pattern(me, round, len)), lent(vec![0; length(len)]));
    let arrival = post_receive(driver, left, tag + 1000, into);
    let departure = post_send(driver, right, tag + 1000, out);
    over(driver, arrival)?;
    over(driver, departure)?;
    // SAFETY: the send is over: nothing else refers to the buffer.
    drop(unsafe { Box::from_raw(out) });
    // SAFETY: the receive is over: nothing else refers to the buffer.
    let into = unsafe { Box::from_raw(into) };
    assert!(into == pattern(left, round, len).into(), "round {round}: {len} bytes from {left}");
    Some(stop[0] != 0)
}

/// Every two ranks exchange long messages both ways: by blocking calls, by nonblocking calls, and by nonblocking calls
/// whose callers then sleep, so that agents move the bytes. All bytes are checked.
///
/// The memory of ranks that `UNREADABLE_LATER` names becomes unreadable during the second pass.
fn pairs() {
    let driver = join();
    let (me, size) = (driver.driver().me().0, driver.driver().size());
    pass(driver.driver(), 0);
    let frames = driver.driver().inspect(|nic| nic.stats().frames_sent);
    let messages = 3 * (size - 1);
    let way = if frames < u64::from(messages) * 10 { "whole" } else { "in chunks" };
    if let Some(ranks) = read("UNREADABLE_LATER") {
        if ranks.split(',').any(|rank| rank.parse() == Ok(me)) {
            thread::spawn(|| {
                thread::sleep(Duration::from_millis(3));
                become_unreadable();
            });
        }
        (1..20).for_each(|number| pass(driver.driver(), number));
    }
    println!("rank {me} exchanged with all, {way}");
}

/// One pass over all pairs.
fn pass(driver: &Driver, number: u32) {
    let (me, size) = (driver.me().0, driver.size());
    let mut round = 100 * number;
    for (low, high) in (0..size).flat_map(|low| (low + 1..size).map(move |high| (low, high))) {
        round += 3;
        if me != low && me != high {
            continue;
        }
        let other = low + high - me;
        let exchanged = exchange_in_calls(driver, other, round)
            .and_then(|()| exchange_at_once(driver, other, round + 1, Duration::ZERO))
            .and_then(|()| exchange_at_once(driver, other, round + 2, AWAY));
        if exchanged.is_none() {
            lament(driver);
        }
    }
}

/// The lower rank sends, then the higher one, each waiting in the call that posts.
fn exchange_in_calls(driver: &Driver, other: u32, round: u32) -> Option<()> {
    let me = driver.me().0;
    for sender in [me.min(other), me.max(other)] {
        if sender == me {
            let out = lent(pattern(me, round, PAIR_BYTES));
            // SAFETY: W1.
            let bytes = memory::lend(unsafe { &*out });
            let word = MatchWord::new(0, me, round);
            // SAFETY: W1.
            let (_, outcome) = unsafe {
                driver.post_and_wait(|nic, port| {
                    nic.post_send(Peer(other), word, bytes, Mode::Standard, port)
                })
            };
            matches!(outcome, Outcome::Done).then_some(())?;
        } else {
            let into = lent(vec![0; length(PAIR_BYTES)]);
            // SAFETY: W1.
            let room = memory::lend_mut(unsafe { &mut *into });
            let word = MatchWord::new(0, other, round);
            // SAFETY: W1.
            let (_, outcome) = unsafe {
                driver.post_and_wait(|nic, port| {
                    nic.post_receive(Some(Peer(other)), word, Mask::EXACT, room, port)
                })
            };
            matches!(outcome, Outcome::Received(_)).then_some(())?;
            check_bytes(into, other, round);
        }
    }
    Some(())
}

/// Both send and receive at the same time, and sleep for a while before they wait.
fn exchange_at_once(driver: &Driver, other: u32, round: u32, away: Duration) -> Option<()> {
    let out = lent(pattern(driver.me().0, round, PAIR_BYTES));
    let into = lent(vec![0; length(PAIR_BYTES)]);
    let arrival = post_receive(driver, other, round, into);
    let departure = post_send(driver, other, round, out);
    thread::sleep(away);
    over(driver, arrival)?;
    over(driver, departure)?;
    check_bytes(into, other, round);
    Some(())
}

/// Checks that a finished receive has the bytes that `from` sent.
fn check_bytes(into: *mut [u8], from: u32, round: u32) {
    // SAFETY: the receive is over: nothing else refers to the buffer.
    let into = unsafe { Box::from_raw(into) };
    let wrong = into.iter().zip(pattern(from, round, PAIR_BYTES)).filter(|(a, b)| **a != *b);
    assert_eq!(wrong.count(), 0, "bytes of {PAIR_BYTES} from rank {from} are wrong");
}

fn pattern(rank: u32, round: u32, len: u64) -> Vec<u8> {
    let start = u64::from(rank) * 31 + u64::from(round) * 7;
    (start..start + len).map(|at| (at % 251).to_le_bytes()[0]).collect()
}

fn length(len: u64) -> usize {
    usize::try_from(len).expect("fits")
}

/// W1.
fn lent(bytes: Vec<u8>) -> *mut [u8] {
    Box::into_raw(bytes.into_boxed_slice())
}

fn post_send(driver: &Driver, to: u32, tag: u32, bytes: *mut [u8]) -> Posted {
    let word = MatchWord::new(0, driver.me().0, tag);
    // SAFETY: W1.
    let bytes = unsafe { &*bytes };
    // SAFETY: W1.
    unsafe {
        driver.submit(|nic, port| {
            nic.post_send(Peer(to), word, memory::lend(bytes), Mode::Standard, port)
        })
    }
}

fn post_receive(driver: &Driver, from: u32, tag: u32, bytes: *mut [u8]) -> Posted {
    let word = MatchWord::new(0, from, tag);
    // SAFETY: W1.
    let bytes = unsafe { &mut *bytes };
    // SAFETY: W1.
    unsafe {
        driver.submit(|nic, port| {
            let into = memory::lend_mut(bytes);
            nic.post_receive(Some(Peer(from)), word, Mask::EXACT, into, port)
        })
    }
}

fn send(driver: &Driver, to: u32, tag: u32, bytes: &[u8]) -> Option<()> {
    over(driver, post_send(driver, to, tag, lent(bytes.to_vec())))
}

fn receive(driver: &Driver, from: u32, tag: u32, len: usize) -> Option<Vec<u8>> {
    let into = lent(vec![0; len]);
    over(driver, post_receive(driver, from, tag, into))?;
    // SAFETY: the operation is over: nothing else refers to the buffer.
    Some(unsafe { Box::from_raw(into) }.into_vec())
}

fn over(driver: &Driver, posted: Posted) -> Option<()> {
    let outcome = match posted {
        Posted::Done(outcome) => outcome,
        Posted::Pending(ticket) => wait(driver, ticket),
    };
    matches!(outcome, Outcome::Done | Outcome::Received(_)).then_some(())
}

fn wait(driver: &Driver, ticket: Ticket) -> Outcome {
    driver.wait(ticket)
}

/// Reports that a neighbour is gone and exits, as a program does that checks for errors.
fn lament(driver: &Driver) -> ! {
    let troubles = (0..driver.size()).filter_map(|rank| driver.trouble(Peer(rank)));
    eprintln!("a neighbour is gone: {:?}", troubles.collect::<Vec<_>>());
    std::process::exit(NEIGHBOUR_GONE);
}

/// Runs a job in which one rank, or the launcher, dies as `death` says.
fn die(death: &Death) {
    let rank: u32 = read("FERRY_RANK").expect("a rank").parse().expect("a number");
    let victim = rank == death.rank;
    match death.moment.as_str() {
        "before" if victim => {
            thread::sleep(death.after);
            strike(death);
        }
        "joining" if victim && death.way == "panic" => strike(death),
        "joining" if victim => strike_later(death),
        "joining" => thread::sleep(death.after * (rank % 3)),
        _ => {}
    }
    let driver = join();
    tell_segment(rank);
    match death.moment.as_str() {
        "talking" => talk(driver.driver(), death, victim),
        "sleeping" => {
            if victim {
                strike_later(death);
            }
            let right = (rank + 1) % driver.driver().size();
            if receive(driver.driver(), right, NEVER, 8).is_none() {
                lament(driver.driver());
            }
        }
        "computing" => {
            leave_to_agent(driver.driver());
            compute(death, victim);
        }
        "deaf" => {
            let right = (rank + 1) % driver.driver().size();
            let _ = post_send(driver.driver(), right, NEVER, lent(vec![1; 64]));
            compute(death, victim);
        }
        "finalising" => finalise(driver, death, victim),
        _ => {}
    }
    if victim || death.moment != "finalising" {
        hold();
    }
}

fn talk(driver: &Driver, death: &Death, victim: bool) {
    let until = Instant::now() + death.after;
    if victim && death.way != "panic" {
        strike_later(death);
    }
    for round in 0.. {
        if exchange(driver, round, false).is_none() {
            lament(driver);
        }
        if victim && death.way == "panic" && Instant::now() > until {
            strike(death);
        }
    }
}

/// Leaves long messages under way, without a call that waits for them.
fn leave_to_agent(driver: &Driver) {
    let (me, size) = (driver.me().0, driver.size());
    let (left, right) = ((me + size - 1) % size, (me + 1) % size);
    for round in 0..4 {
        let _ = post_receive(driver, left, round, lent(vec![0; 1 << 20]));
        let _ = post_send(driver, right, round, lent(vec![1; 1 << 20]));
    }
}

/// Computes, without calling the library, for longer than any job may take to end.
fn compute(death: &Death, victim: bool) {
    if victim && death.way != "panic" {
        strike_later(death);
    }
    let start = Instant::now();
    let mut sum = 0_u64;
    while start.elapsed() < COMPUTE {
        (0..10_000).for_each(|number| sum = std::hint::black_box(sum.wrapping_add(number)));
        if victim && death.way == "panic" && start.elapsed() > death.after {
            strike(death);
        }
    }
}

fn finalise(driver: Rank, death: &Death, victim: bool) {
    for round in 0..3 {
        if exchange(driver.driver(), round, false).is_none() {
            lament(driver.driver());
        }
    }
    // A message that is still under way when this rank leaves.
    let right = (driver.driver().me().0 + 1) % driver.driver().size();
    let _ = post_send(driver.driver(), right, NEVER, lent(vec![1; 64]));
    if victim && death.way == "panic" {
        strike(death);
    }
    if victim {
        strike_later(death);
    }
    drop(driver);
}

/// Writes down which memory is the job's, so that the test can check later that no process maps it.
fn tell_segment(rank: u32) {
    let Some(path) = read("EVENT").filter(|_| rank == 0) else { return };
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let line = maps.lines().find(|line| line.contains("/memfd:ferrywire"));
    let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    if let [_, _, _, device, inode, ..] = words[..] {
        fs::write(format!("{path}.segment"), format!("{device} {inode}")).expect("written");
    }
}

fn strike_later(death: &Death) {
    let death = death.clone();
    thread::spawn(move || {
        thread::sleep(death.after);
        strike(&death);
    });
}

/// Dies, or kills the launcher and waits to be ended.
fn strike(death: &Death) {
    let path = read("EVENT").expect("a path");
    fs::write(&path, format!("{} {}", std::process::id(), now_ns())).expect("written");
    let number = match death.way.as_str() {
        "panic" => panic!("as the test wants it"),
        "exit" => std::process::exit(EXIT_CODE),
        "KILL" => libc::SIGKILL,
        "TERM" => libc::SIGTERM,
        _ => libc::SIGSEGV,
    };
    if !death.of_launcher {
        // The standard library has a handler for SIGSEGV, which returns if there was no fault.
        // SAFETY: sets what the system does by itself; no handler is installed.
        unsafe { libc::signal(number, libc::SIG_DFL) };
        signal(std::process::id(), number);
        hold();
    }
    // The launcher has the same handler, which removes itself at the first signal.
    let launcher = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == launcher && signal(launcher, number) {
        thread::sleep(Duration::from_millis(if number == libc::SIGSEGV { 2 } else { 30_000 }));
    }
    hold();
}

/// Waits to be ended, but not for ever.
fn hold() {
    thread::sleep(Duration::from_secs(30));
    std::process::exit(98);
}
