//! Measures how long a job takes that only joins and leaves, and what a rank costs in memory.
//!
//! It is a plain program, since the test harness would add to the cost of its ranks. It prints times and asserts
//! nothing about them.
//!
//!     cargo test --release -p ferrywire-ferry --test start

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use ferrywire_host::{Operators, job};

const FERRY: &str = env!("CARGO_BIN_EXE_ferry");
/// Runs of each kind, of which the median is printed.
const RUNS: usize = if cfg!(debug_assertions) { 3 } else { 15 };
const SIZES: [&str; 4] = ["1", "4", "16", "64"];

fn main() {
    if let Ok(role) = std::env::var("START_ROLE") {
        return rank(&role);
    }
    // The user asked for another test by its name.
    if std::env::args().skip(1).any(|word| !word.starts_with('-')) {
        return;
    }
    println!("-n   /bin/true   joins and leaves   joins, best   private KB per rank");
    for size in SIZES {
        let bare = times(size, "true");
        let joins = times(size, "join");
        println!(
            "{size:<4} {:>6.1} ms {:>13.1} ms {:>12.1} ms {:>12}",
            bare[RUNS / 2],
            joins[RUNS / 2],
            joins[0],
            memory(size)
        );
    }
}

/// Milliseconds of several runs, the shortest first.
fn times(size: &str, role: &str) -> Vec<f64> {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            let status = command(size, role).stdout(Stdio::null()).status().expect("ferry starts");
            assert!(status.success(), "the job works");
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

/// The largest growth of private memory by joining, over all ranks.
fn memory(size: &str) -> i64 {
    let output = command(size, "measure").output().expect("ferry starts");
    assert!(output.status.success(), "the job works");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.parse().ok()).max().expect("a number")
}

fn command(size: &str, role: &str) -> Command {
    let mut command = Command::new(FERRY);
    command.args(["run", "-n", size]).stdin(Stdio::null());
    if role == "true" {
        command.arg("true");
    } else {
        command.arg(std::env::current_exe().expect("a path")).env("START_ROLE", role);
    }
    command
}

fn rank(role: &str) {
    let before = if role == "measure" { private_kb() } else { 0 };
    let joined = job::join(|name| std::env::var(name).ok(), Operators::ours(|_, _, _| {}));
    let driver = joined.unwrap_or_else(|error| panic!("{error}"));
    if role == "measure" {
        println!("{}", private_kb() - before);
    }
    drop(driver);
}

/// The private memory of this process.
fn private_kb() -> i64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").expect("the kernel tells");
    let line = text.lines().find(|line| line.starts_with("Private_Dirty:")).expect("a line");
    line.split_whitespace().nth(1).expect("a word").parse().expect("a number")
}
