//! A rank or the launcher dies at a random moment, and nothing of the job is left.
//!
//! Each run follows from its seed. Ranks join through the library and exchange messages over shared memory, long
//! ones too, so that transfers are under way when a process dies. After each run no process, file or memory of
//! the job is left, and the report names the first failure.
//!
//!     RUNS=200 cargo test -p ferrywire-ferry --test life -- --nocapture
//!     FIRST=17 RUNS=1 cargo test -p ferrywire-ferry --test life -- --nocapture

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::worker::{self, Death, EXIT_CODE, MOMENTS, WAYS};
use common::{FERRY, Folder, MEMBER, TIMEOUT};

const RANKS_MAX: u64 = 8;

/// A rank, for the tests below.
#[test]
#[ignore = "is started by other tests, as a rank"]
fn member() {
    worker::rank();
}

/// One job and its death.
struct Story {
    seed: u64,
    ranks: u64,
    death: Death,
}

impl Story {
    fn new(seed: u64) -> Story {
        let mut state = seed;
        let mut draw = |below: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % below
        };
        let ranks = 1 + draw(RANKS_MAX);
        let of_launcher = draw(4) == 0;
        // A launcher can only be killed by a signal.
        let way = WAYS[usize::try_from(draw(if of_launcher { 3 } else { 5 })).expect("small")];
        let moment = MOMENTS[usize::try_from(draw(7)).expect("small")];
        // A rank that sleeps cannot panic.
        let way = if way == "panic" && moment == "sleeping" { "exit" } else { way };
        let after_us = match moment {
            "before" | "joining" | "finalising" => draw(4_000),
            _ => draw(40_000),
        };
        let rank = u32::try_from(draw(ranks)).expect("small");
        let after = Duration::from_micros(after_us);
        let death = Death { rank, of_launcher, way: way.into(), moment: moment.into(), after };
        Story { seed, ranks, death }
    }

    /// What the launcher reports, and its exit code or signal, if `pid` is the victim.
    fn expected(&self, pid: u32) -> (Option<String>, Result<i32, i32>) {
        let Death { rank, way, of_launcher, .. } = &self.death;
        let signal = match way.as_str() {
            "KILL" => libc::SIGKILL,
            "SEGV" => libc::SIGSEGV,
            _ => libc::SIGTERM,
        };
        let ended = |code: i32| {
            (Some(format!("rank {rank} (pid {pid}) ended with exit code {code}")), Ok(code))
        };
        match (*of_launcher, way.as_str()) {
            (true, "TERM") => (Some("ended by SIGTERM".into()), Ok(128 + signal)),
            (true, _) => (None, Err(signal)),
            // The library tells the launcher of a panic; before the rank has joined, only the exit code does.
            (false, "panic") if !matches!(self.death.moment.as_str(), "before" | "joining") => (
                Some(format!("rank {rank} (pid {pid}) aborted the job with code 101: it panicked")),
                Ok(101),
            ),
            (false, "panic") => ended(101),
            (false, "exit") => ended(EXIT_CODE),
            (false, _) => {
                (Some(format!("rank {rank} (pid {pid}) died of SIG{way}")), Ok(128 + signal))
            }
        }
    }
}

/// What a run showed.
struct Told {
    status: ExitStatus,
    report: String,
    victim: u32,
    /// From the event until the last process was gone.
    took: Duration,
}

fn play(story: &Story, folder: &Folder) -> Result<Told, String> {
    let shared_before = common::names_in(Path::new("/dev/shm"));
    let mark = format!("LIFE={}-{}", std::process::id(), story.seed);
    let event = folder.join("event");
    let report = folder.join("report");
    let work = folder.join("work");
    fs::create_dir_all(&work).expect("a folder");
    let mut launcher = Command::new(FERRY)
        .args(["run", "-n", &story.ranks.to_string()])
        .arg(common::me())
        .args(MEMBER)
        .envs([("WORK", "die"), ("DEATH", &story.death.told()), ("LIFE", &mark[5..])])
        .env("EVENT", &event)
        .env("TMPDIR", &work)
        .current_dir(&work)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&report).expect("a file"))
        .spawn()
        .expect("ferry starts");
    let status = common::wait(&mut launcher, TIMEOUT);
    let mut left = common::left(&mark);
    let said = fs::read_to_string(&report).expect("written");
    let Some(status) = status else {
        return Err(format!("the job has not ended; {left:?}\n{said}"));
    };
    if status.signal().is_none() && !left.is_empty() {
        return Err(format!("the launcher is gone and has left {left:?}\n{said}"));
    }
    let until = Instant::now() + TIMEOUT;
    while !left.is_empty() {
        if Instant::now() > until {
            for found in &left {
                common::signal(found.pid, libc::SIGKILL);
            }
            return Err(format!("never went: {left:?}\n{said}"));
        }
        // Orphans are our children now.
        left.iter().filter(|found| found.is_dead).for_each(|found| common::mark_down(found.pid));
        thread::sleep(Duration::from_micros(500));
        left = common::left(&mark);
    }
    let now = common::now_ns();
    let text = fs::read_to_string(&event).map_err(|_| format!("nobody died\n{said}"))?;
    let words: Vec<u64> = text.split(' ').map(|word| word.parse().expect("a number")).collect();
    look_for_traces(folder, &shared_before)?;
    Ok(Told {
        status,
        report: said,
        victim: u32::try_from(words[0]).expect("a process"),
        took: Duration::from_nanos(now - words[1]),
    })
}

/// Checks that no file of the job is left, and that no process still maps its memory.
fn look_for_traces(folder: &Folder, shared_before: &[String]) -> Result<(), String> {
    let files = common::names_in(&folder.join("work"));
    if !files.is_empty() {
        return Err(format!("files are left: {files:?}"));
    }
    let shared: Vec<String> = common::names_in(Path::new("/dev/shm"));
    let fresh: Vec<_> = shared.iter().filter(|name| !shared_before.contains(name)).collect();
    if fresh.iter().any(|name| name.contains("ferry")) {
        return Err(format!("shared memory is left: {fresh:?}"));
    }
    let Ok(segment) = fs::read_to_string(folder.join("event.segment")) else { return Ok(()) };
    for pid in common::pids() {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        if maps.lines().any(|line| line.contains(&segment) && line.contains("ferrywire")) {
            return Err(format!("process {pid} has the memory of the job"));
        }
    }
    Ok(())
}

fn judge(story: &Story, told: &Told) -> Result<(), String> {
    let (line, code) = story.expected(told.victim);
    let got = told.status.code().ok_or_else(|| told.status.signal().unwrap_or(0));
    if got != code {
        return Err(format!("ended {got:?}, not {code:?}\n{}", told.report));
    }
    let first = told.report.lines().find_map(|line| line.strip_prefix("ferry run: "));
    match (&line, first) {
        (None, _) => Ok(()),
        (Some(line), Some(first)) if first.starts_with(line.as_str()) => Ok(()),
        (Some(line), _) => Err(format!("says {first:?}, not '{line}'\n{}", told.report)),
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn whoever_dies_whenever_nothing_is_left_and_the_first_is_named() {
    common::adopt_orphans();
    let (first, runs) = (number("FIRST", 1), number("RUNS", 24));
    let mut worst: BTreeMap<String, (Duration, u64)> = BTreeMap::new();
    let (mut failures, mut late) = (Vec::new(), 0);
    for seed in first..first + runs {
        let story = Story::new(seed);
        let folder = Folder::new(&format!("life-{seed}"));
        let told = play(&story, &folder);
        let verdict = told.as_ref().map_err(String::clone).and_then(|told| judge(&story, told));
        if let Err(why) = verdict {
            let failure =
                format!("seed {seed}: {} ranks, {}: {why}", story.ranks, story.death.told());
            println!("{failure}");
            failures.push(failure);
        }
        if let Ok(told) = told {
            if told.took > Duration::from_secs(1) {
                println!("seed {seed}: {} took {:?}", story.death.told(), told.took);
                late += 1;
            }
            let slot = worst.entry(story.death.moment.clone()).or_default();
            *slot = (*slot).max((told.took, seed));
        }
    }
    for (moment, (took, seed)) in &worst {
        println!("{moment}: at worst {:.0} ms, seed {seed}", took.as_secs_f64() * 1e3);
    }
    println!("{runs} runs from seed {first}: {} failed, {late} took over 1 s", failures.len());
    assert!(failures.is_empty(), "{} of {runs} failed, the first: {}", failures.len(), failures[0]);
}
