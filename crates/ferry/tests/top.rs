//! `ferry top` on jobs that run, as a user calls it. A rank is this test program itself, started once more as `member`;
//! `WORK` says what it does.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Instant;

use common::job::command;
use common::tmux::{Tmux, is_there};
use common::{FERRY, TIMEOUT, signal, wait};
use ferrywire::World;
use serde_json::Value;

/// A rank, for the tests below.
#[test]
#[ignore = "is started by other tests, as a rank"]
fn member() {
    let Ok(work) = std::env::var("WORK") else { return };
    let world = ferrywire::init().expect("a job");
    match work.as_str() {
        "waits" => waits(&world),
        "messages" => messages(&world),
        other => panic!("no such work: {other}"),
    }
}

/// Rank 1 sends two messages that nobody receives, and sleeps; all others wait for it.
fn waits(world: &World) {
    if world.rank() == 1 {
        world.send(&1u8, 0, 7).unwrap();
        world.send(&1u8, 0, 8).unwrap();
        println!("\nready");
        thread::sleep(TIMEOUT);
    }
    if world.rank() == 0 {
        world.receive_one::<u8>(1, 9).unwrap();
    }
    world.barrier().unwrap();
}

/// Two ranks exchange messages until the test ends them.
fn messages(world: &World) {
    let other = 1 - world.rank();
    println!("\nready");
    loop {
        world.send(&1u64, other, 1).unwrap();
        world.receive_one::<u64>(other, 1).unwrap();
    }
}

/// A job, which is killed with the value.
struct Job {
    launcher: Child,
}

impl Job {
    fn start(work: &str, ranks: u32) -> Job {
        let mut command = command(work, &["-n", &ranks.to_string()]);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null());
        let mut launcher = command.spawn().expect("ferry starts");
        let out = BufReader::new(launcher.stdout.take().expect("a pipe"));
        let ready = out.lines().map_while(Result::ok).find(|line| line == "ready");
        assert!(ready.is_some(), "the job is ready");
        Job { launcher }
    }

    fn id(&self) -> String {
        self.launcher.id().to_string()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        signal(self.launcher.id(), libc::SIGTERM);
        let _ = wait(&mut self.launcher, TIMEOUT);
    }
}

fn top(arguments: &[&str]) -> Output {
    Command::new(FERRY).arg("top").args(arguments).output().expect("ferry starts")
}

/// What it prints, as soon as that fulfils a condition: ranks may not have come to their calls.
fn eventually(arguments: &[&str], holds: impl Fn(&str) -> bool) -> String {
    let until = Instant::now() + TIMEOUT;
    loop {
        let output = top(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && holds(&text) {
            return text;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(Instant::now() < until, "ferry top {arguments:?}:\n{text}{said}");
    }
}

#[test]
fn ranks_that_wait_are_shown_with_their_calls() {
    let job = Job::start("waits", 4);
    let line = |text: &str, rank: &str| {
        let found = text.lines().find(|line| line.split_whitespace().next() == Some(rank));
        found.unwrap_or_default().to_owned()
    };
    let text = eventually(&[&job.id(), "--interval", "0.2"], |text| {
        line(text, "0").contains("receive from rank 1 (tag 9)")
            && line(text, "3").contains("barrier of world (its 1st collective call)")
    });
    assert!(text.lines().next().is_some_and(|head| head.contains(": 4 ranks on ")), "{text}");
    assert!(line(&text, "1").contains("sleeps after send"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    // In a pipe nothing is cut off.
    assert!(text.lines().nth(2).is_some_and(|titles| titles.contains("REFUSED")), "{text}");

    let json = eventually(&[&job.id(), "--json", "--interval", "0.2"], |text| {
        let report: Value = serde_json::from_str(text).expect("one JSON document");
        // The barrier has messages, too.
        report["ranks"][0]["unexpected"].as_u64() >= Some(2)
    });
    let report: Value = serde_json::from_str(&json).expect("one JSON document");
    let ranks = report["ranks"].as_array().expect("a list");
    assert_eq!(ranks.len(), 4);
    assert_eq!(ranks[0]["rank"], 0);
    assert_eq!(ranks[0]["activity"], "waits");
    assert_eq!(ranks[0]["waits_for"], serde_json::json!([1]));
    assert_eq!(ranks[1]["activity"], "sleeps");
    assert_eq!(ranks[2]["waits_for"], serde_json::json!([0, 1]), "{json}");
    assert!(ranks[0]["waiting_s"].as_f64() > Some(0.0));
    assert!(ranks[0]["unexpected_bytes_max"].as_u64() > Some(0));
    assert_eq!(report["calls_per_s"], 0.0);

    let text = eventually(&[&job.id(), "--rank", "0", "--interval", "0.2"], |text| {
        text.contains("message of 1 byte from rank 1 (tag 7)")
    });
    assert!(text.contains("1st  receive from rank 1 (tag 9)"), "{text}");
    assert!(text.contains(" unexpected messages, "), "{text}");
    let none = top(&[&job.id(), "--rank", "4", "--interval", "0.2"]);
    assert_eq!(none.status.code(), Some(1));
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert_eq!(said, "ferry top: --rank 4: the job has no such rank; it has 0-3 [FW0823]\n");
}

#[test]
fn rates_of_messages_are_shown() {
    let job = Job::start("messages", 2);
    let json = eventually(&[&job.id(), "--json", "--interval", "0.2"], |text| {
        let report: Value = serde_json::from_str(text).expect("one JSON document");
        report["messages_per_s"].as_f64() > Some(0.0) && report["ranks"][1]["has_answered"] == true
    });
    let report: Value = serde_json::from_str(&json).expect("one JSON document");
    let number = |name: &str| report[name].as_f64().expect("a number");
    assert!(number("bytes_per_s") >= 7.9 * number("messages_per_s"), "{json}");
    assert!(number("calls_per_s") >= number("messages_per_s"), "{json}");
    let rank = &report["ranks"][0];
    assert!(rank["frames_sent"].as_u64() > Some(0), "{json}");
    assert!(rank["cpu_percent"].is_number() && rank["agent_percent"].is_number(), "{json}");
}

#[test]
fn mistakes_are_explained() {
    for (line, code, said) in [
        (&["1"][..], 1, "ferry top: process 1 belongs to no job of this user"),
        (&["x"], 2, "error: invalid value 'x' for '[PROCESS]'"),
        (
            &["--interval", "0"],
            2,
            "error: invalid value '0' for '--interval <SECONDS>': expected 0.2 to 3600",
        ),
        (&["--onec"], 2, "error: unexpected argument '--onec' found"),
    ] {
        let output = top(line);
        assert_eq!(output.status.code(), Some(code), "{line:?}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.starts_with(said), "{line:?}: {told}");
    }
}

#[test]
fn a_terminal_shows_the_job_until_a_key_is_pressed() {
    if !is_there("tmux") {
        return;
    }
    let job = Job::start("waits", 4);
    for colours in ["", "NO_COLOR=1 "] {
        let line = format!("{colours}{FERRY} top {} --interval 0.2", job.id());
        let tmux = Tmux::sized(&format!("top-{}", colours.len()), &line, 80, 24);
        tmux.shows("0", "receive from rank 1 (tag 9)");
        tmux.shows("0", "q quit");
        let coloured = tmux.command(&["capture-pane", "-p", "-e", "-t", "job:0"]).out;
        assert_eq!(coloured.contains("\x1b[38;5;"), colours.is_empty(), "{coloured:?}");
        let press = |key: &str| tmux.command(&["send-keys", "-t", "job:0", key]);
        press("Down");
        tmux.shows("0", "rank 1: sleeps after send");
        press("Up");
        press("Enter");
        tmux.shows("0", "Last calls, the latest first");
        tmux.shows("0", "message of 1 byte from rank 1 (tag 8)");
        // A smaller window is filled, too.
        tmux.command(&["resize-window", "-t", "job:0", "-x", "40", "-y", "8"]);
        press("Escape");
        tmux.shows("0", "CPU  FOR STATE");
        press(if colours.is_empty() { "q" } else { "C-c" });
        tmux.shows("0", "code 0");
        // What was typed is seen again, and the line is back.
        tmux.keys("0", "word");
        tmux.shows("0", "read word");
    }
}

#[test]
fn the_end_of_the_job_ends_the_view() {
    if !is_there("tmux") {
        return;
    }
    let job = Job::start("messages", 2);
    let tmux = Tmux::start("top-end", &format!("{FERRY} top {} --interval 0.2", job.id()));
    tmux.shows("0", ": 2 ranks on ");
    drop(job);
    tmux.shows("0", "ferry top: the job has ended");
    tmux.shows("0", "code 0");
}
