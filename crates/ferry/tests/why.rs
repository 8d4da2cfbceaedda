//! Jobs that hang, and jobs that only seem to, under `ferry run`. A rank is this test program itself, started once more as
//! `member`; `WORK` says what it does.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::job::{TwoHosts, command, job_in};
use common::{Ended, FERRY, Folder, TIMEOUT, wait};
use ferrywire::{ANY, Operation, World};

/// The exit code of a job whose ranks wait for each other.
const DEADLOCK: i32 = 35;

/// A rank, for the tests below.
#[test]
#[ignore = "is started by other tests, as a rank"]
fn member() {
    let Ok(work) = std::env::var("WORK") else { return };
    let world = ferrywire::init().expect("a job");
    match work.as_str() {
        "tags" => tags(&world),
        "thread" => with_a_thread(&world),
        "leave" => leave(&world),
        "orders" => orders(&world),
        "wrong orders" => wrong_orders(&world),
        "panic" => panics(&world),
        "sleep" => sleep(&world, Duration::from_secs(3)),
        "long sleep" => sleep(&world, TIMEOUT),
        other => panic!("no such work: {other}"),
    }
}

/// Rank 0 waits for a message that never comes.
fn tags(world: &World) {
    match world.rank() {
        0 => drop(world.receive_one::<u8>(1, 8)),
        1 => world.send(&1u8, 0, 7).unwrap(),
        _ => {}
    }
    let _ = world.barrier();
}

/// Rank 0 waits for a message of a rank that leaves.
fn leave(world: &World) {
    if world.rank() == 0 {
        let _ = world.receive_one::<u8>(world.size() - 1, 8);
    }
}

/// Messages of many lengths, and waits in between that are longer than the launcher looks for.
fn orders(world: &World) {
    let last = world.size() - 1;
    for round in 0..4 {
        for length in [1, 5_000, 300_000] {
            match world.rank() {
                0 => {
                    thread::sleep(Duration::from_millis(700));
                    world.send(&vec![1u8; length], last, round).unwrap();
                }
                rank if rank == last => {
                    let mut into = vec![0u8; length];
                    world.receive(&mut into, 0, round).unwrap();
                }
                _ => {}
            }
            world.barrier().unwrap();
        }
    }
}

/// The last rank reduces where all others wait at a barrier.
fn wrong_orders(world: &World) {
    if world.rank() + 1 == world.size() {
        let _ = world.allreduce(&mut 1u64, Operation::Sum);
    } else {
        let _ = world.barrier();
    }
}

/// Rank 1 panics while the others wait for it. A panic that is caught does no harm.
fn panics(world: &World) {
    let caught = std::panic::catch_unwind(|| panic!("of no importance"));
    assert!(caught.is_err());
    assert_ne!(world.rank(), 1, "there is no row\nfor rank 1");
    let _ = world.barrier();
}

/// All ranks wait, but a thread of rank 1 that has made no call yet will send what rank 0 waits for.
fn with_a_thread(world: &World) {
    match world.rank() {
        0 => {
            world.receive_one::<u8>(1, 1).unwrap();
            world.send(&1u8, 1, 2).unwrap();
        }
        1 => thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_secs(3));
                world.send(&1u8, 0, 1).unwrap();
            });
            world.receive_one::<u8>(ANY, 2).unwrap();
        }),
        _ => {}
    }
    world.barrier().unwrap();
}

/// All wait for rank 1, which does something else.
fn sleep(world: &World, time: Duration) {
    if world.rank() == 1 {
        println!("\nready");
        thread::sleep(time);
    }
    world.barrier().unwrap();
}

fn job(work: &str, options: &[&str]) -> Ended {
    let folder = Folder::new(&format!("why-{work}-{}", options.len()));
    job_in(&folder, work, options)
}

const TAGS: &str = "ferry run: deadlock: rank 0 waits in receive from rank 1 (tag 8); a message from rank 1 (tag 7, 1 byte) \
                    has arrived, and nothing receives it: is the tag wrong? [FW0902]\n";

#[test]
fn a_deadlock_ends_the_job_and_is_explained() {
    for ranks in ["2", "5"] {
        let ended = job("tags", &["-n", ranks]);
        assert_eq!(ended.status.code(), Some(DEADLOCK), "{}", ended.err);
        assert!(ended.err.starts_with(TAGS), "{}", ended.err);
        assert!(
            ended.err.contains("ferry run:   rank 0 is in receive from rank 1 (tag 8)\n"),
            "{}",
            ended.err
        );
    }
}

#[test]
fn the_text_of_a_panic_is_in_the_report() {
    let ended = job("panic", &["-n", "3"]);
    assert_eq!(ended.status.code(), Some(101), "{}", ended.err);
    let mut lines = ended.err.lines().filter(|line| line.starts_with("ferry run: "));
    let first = lines.next().unwrap_or_default();
    assert!(first.starts_with("ferry run: rank 1 (pid "), "{}", ended.err);
    let text = ") panicked: assertion `left != right` failed: there is no row, for rank 1, left: 1, right: 1 [FW0827]";
    assert!(first.ends_with(text), "{}", ended.err);
    let place = lines.next().unwrap_or_default();
    assert!(place.starts_with("ferry run:   at ") && place.contains("why.rs:"), "{}", ended.err);
}

#[test]
fn a_deadlock_is_only_reported_if_the_user_wants_that() {
    let ended = job("tags", &["--on-deadlock", "report", "--timeout", "4", "-n", "2"]);
    assert_eq!(ended.status.code(), Some(124), "{}", ended.err);
    assert!(ended.err.starts_with(TAGS), "{}", ended.err);
    assert_eq!(ended.err.matches("deadlock").count(), 1, "{}", ended.err);
}

#[test]
fn a_thread_that_sleeps_may_go_on() {
    let ended = job("thread", &["-n", "3"]);
    assert!(ended.status.success() && ended.err.is_empty(), "{}", ended.err);
}

#[test]
fn slow_ranks_are_reported_and_nothing_ends() {
    let ended = job("sleep", &["--hang-timeout", "1", "-n", "3"]);
    assert!(ended.status.success(), "{}", ended.err);
    let line = "no progress for 1 s: ranks 0 and 2 are in barrier of world (its 1st collective call); rank 1 sleeps outside \
                of MPI";
    assert!(ended.err.contains(line), "{}", ended.err);
    assert!(job("sleep", &["-n", "3"]).err.is_empty());
}

#[test]
fn a_deadlock_on_several_hosts_is_explained_in_the_same_words() {
    let hosts = TwoHosts::new("tags");
    for ranks in ["2", "5"] {
        let ended = hosts.job("tags", &["-n", ranks]);
        assert_eq!(ended.status.code(), Some(DEADLOCK), "{}", ended.err);
        assert!(ended.err.starts_with(TAGS), "{}", ended.err);
        let line = "ferry run:   rank 0 is in receive from rank 1 (tag 8)\n";
        assert!(ended.err.contains(line), "{}", ended.err);
    }
}

/// A rank that has nothing more to do waits for all others before it leaves, and is not what they wait for.
#[test]
fn a_rank_that_leaves_on_another_host_is_missed() {
    let ended = TwoHosts::new("leave").job("leave", &["-n", "4"]);
    assert_eq!(ended.status.code(), Some(DEADLOCK), "{}", ended.err);
    let line = "ferry run: deadlock: rank 0 waits in receive from rank 3 (tag 8); rank 3 has left the job [FW0910]\n";
    assert!(ended.err.starts_with(line), "{}", ended.err);
}

#[test]
fn a_deadlock_on_several_hosts_is_only_reported_if_the_user_wants_that() {
    let hosts = TwoHosts::new("report");
    let ended = hosts.job("tags", &["--on-deadlock", "report", "--timeout", "6", "-n", "2"]);
    assert_eq!(ended.status.code(), Some(124), "{}", ended.err);
    assert!(ended.err.starts_with(TAGS), "{}", ended.err);
    assert_eq!(ended.err.matches("deadlock").count(), 1, "{}", ended.err);
}

/// Long waits, messages of all kinds, and threads that may go on are no deadlocks.
#[test]
fn jobs_on_several_hosts_that_go_on_are_left_alone() {
    let hosts = TwoHosts::new("goes-on");
    for work in ["orders", "thread"] {
        let ended = hosts.job(work, &["-n", "3"]);
        assert!(ended.status.success() && ended.err.is_empty(), "{work}: {}", ended.err);
    }
}

#[test]
fn slow_ranks_on_several_hosts_are_reported() {
    let ended = TwoHosts::new("slow").job("sleep", &["--hang-timeout", "1", "-n", "3"]);
    assert!(ended.status.success(), "{}", ended.err);
    let line = "ranks 0 and 2 are in barrier of world (its 1st collective call); rank 1 sleeps outside of MPI";
    assert!(ended.err.contains("no progress for ") && ended.err.contains(line), "{}", ended.err);
}

#[test]
fn ranks_of_several_hosts_that_disagree_are_told_apart() {
    let ended = TwoHosts::new("disagree").job("wrong orders", &["-n", "4"]);
    assert!(!ended.status.success(), "{}", ended.err);
    let line = "ferry run: mistake: ranks disagree on the 1st collective call of world: barrier at ranks 0-2, ";
    assert!(ended.err.starts_with(line), "{}", ended.err);
}

/// `ferry why` finds the job by the launcher, and by a rank; Ctrl-\ says the same.
#[test]
fn a_running_job_is_explained() {
    let mut launcher = command("long sleep", &["-n", "3"]);
    is_explained(&mut launcher);
}

/// The launcher of several hosts tells `ferry why` of all ranks.
#[test]
fn a_running_job_on_several_hosts_is_explained() {
    let hosts = TwoHosts::new("running");
    is_explained(&mut hosts.command("long sleep", &["-n", "3"]));
}

/// All but rank 1 of a job wait at a barrier.
fn is_explained(launcher: &mut Command) {
    let mut launcher = launcher
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .expect("ferry starts");
    let out = BufReader::new(launcher.stdout.take().expect("a pipe"));
    let _ready = out.lines().map_while(Result::ok).find(|line| line == "ready").expect("ready");
    let line = "ranks 0 and 2 are in barrier of world (its 1st collective call)";
    // The other ranks may not have come to their calls.
    let until = std::time::Instant::now() + TIMEOUT;
    let answer = loop {
        let answer = Command::new(FERRY).args(["why", &launcher.id().to_string()]).output();
        let answer = answer.expect("it starts");
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        if text.contains(line) || std::time::Instant::now() > until {
            break text;
        }
    };
    assert!(answer.contains(line) && answer.contains("no progress for "), "{answer}");
    let json = Command::new(FERRY).args(["why", "--json", &launcher.id().to_string()]).output();
    let json = String::from_utf8_lossy(&json.expect("it starts").stdout).into_owned();
    assert!(json.contains("\"deadlock\": false"), "{json}");
    let nobody = Command::new(FERRY).args(["why", "1"]).output().expect("it starts");
    assert_eq!(nobody.status.code(), Some(1));
    assert!(common::signal(launcher.id(), libc::SIGQUIT));
    let mut told = BufReader::new(launcher.stderr.take().expect("a pipe")).lines();
    assert!(told.next().expect("a line").expect("text").contains(line));
    assert!(common::signal(launcher.id(), libc::SIGKILL));
    assert!(wait(&mut launcher, TIMEOUT).is_some());
}
