//! `ferry run --trace` and `--stats`, and `ferry report`, with real jobs. A rank is this test program itself, started once
//! more as `member`; `WORK` says what it does. Traces are read here by a reader of their own, from the numbers of fields in
//! Perfetto's sources.

mod common;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use common::job::{TwoHosts, command, job_in};
use common::{Ended, FERRY, Folder, MEMBER, TIMEOUT, finish, me, signal};
use ferrywire::{ANY, Operation, World};

/// Rounds of most jobs.
const ROUNDS: u32 = 10;

/// A rank, for the tests below.
#[test]
#[ignore = "is started by other tests, as a rank"]
fn member() {
    let Ok(work) = std::env::var("WORK") else { return };
    let world = ferrywire::init().expect("a job");
    match work.as_str() {
        "ring" => ring(&world),
        "orders" => orders(&world),
        "killed" => killed(&world),
        "many" => many(&world),
        "killed host" => killed_host(&world),
        "sleep" => sleep(&world),
        other => panic!("no such work: {other}"),
    }
}

/// Every rank sends around a ring, and all add up.
fn ring(world: &World) {
    let (rank, size) = (world.rank(), world.size());
    for round in 0..ROUNDS {
        let request = world.irecv::<u32>(64, (rank + size - 1) % size, 3).unwrap();
        world.send(&vec![round; 64][..], (rank + 1) % size, 3).unwrap();
        assert_eq!(request.wait().unwrap().0[0], round);
        let mut sum = [1_u64];
        world.allreduce(&mut sum, Operation::Sum).unwrap();
        assert_eq!(sum[0], u64::from(size));
    }
}

/// Rank 0 sends messages of different lengths and tags, which rank 1 receives in another order, also from anybody.
fn orders(world: &World) {
    match world.rank() {
        0 => {
            for (tag, len) in [(1, 10), (2, 20), (1, 30), (2, 40), (3, 200_000)] {
                world.send(&vec![0_u8; len][..], 1, tag).unwrap();
            }
        }
        _ => {
            let mut room = vec![0_u8; 200_000];
            for tag in [2, 1, 2] {
                world.receive(&mut room[..], ANY, tag).unwrap();
            }
            world.receive(&mut room[..], 0, ANY).unwrap();
            world.receive(&mut room[..], 0, 3).unwrap();
        }
    }
}

/// Rank 1 dies in the middle.
fn killed(world: &World) {
    ring(world);
    if world.rank() == 1 {
        // SAFETY: the call takes numbers only.
        unsafe { libc::raise(libc::SIGKILL) };
    }
    let _ = world.barrier();
}

/// The last rank kills the daemon of its host.
fn killed_host(world: &World) {
    ring(world);
    if world.rank() + 1 == world.size() {
        signal(std::os::unix::process::parent_id(), libc::SIGKILL);
    }
    let _ = world.barrier();
}

/// All ranks record something, and do not end.
fn sleep(world: &World) {
    ring(world);
    if world.rank() == 0 {
        println!("\nready");
    }
    std::thread::sleep(TIMEOUT);
}

/// Far more messages than a small file has room for.
fn many(world: &World) {
    for _ in 0..20_000 {
        world.send(&1_u8, world.rank(), 1).unwrap();
        world.receive_one::<u8>(world.rank(), 1).unwrap();
    }
}

/// How many folders and files with recordings there are.
fn recordings_in(folder: &Folder) -> usize {
    folder.names().iter().filter(|name| name.starts_with("ferry-trace-")).count()
}

/// Waits until a reaper has removed what a killed process left.
fn wait_for_removal(folder: &Folder) {
    let until = Instant::now() + TIMEOUT;
    while recordings_in(folder) > 0 {
        assert!(Instant::now() < until, "recordings are left: {:?}", folder.names());
        std::thread::yield_now();
    }
}

/// A job whose trace is read.
fn traced(name: &str, work: &str, ranks: &str) -> (Folder, Ended, ReadTrace) {
    let folder = Folder::new(name);
    let path = folder.join("trace");
    let ended = job_in(&folder, work, &["--trace", path.to_str().expect("text"), "-n", ranks]);
    assert_eq!(recordings_in(&folder), 0, "nothing is left");
    let trace = ReadTrace::read(&path);
    (folder, ended, trace)
}

#[test]
fn a_trace_has_calls_messages_and_collectives() {
    let (folder, ended, trace) = traced("trace-ring", "ring", "3");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    assert!(ended.err.contains("calls of 3 ranks are in"), "{}", ended.err);
    for rank in 1..=3 {
        assert_eq!(trace.slices(rank, "send"), ROUNDS as usize);
        assert_eq!(trace.slices(rank, "irecv"), ROUNDS as usize);
        assert_eq!(trace.slices(rank, "allreduce"), ROUNDS as usize);
    }
    // Each message goes from the rank before to the next, and arrives after it was sent.
    let messages: Vec<_> = trace.messages().collect();
    assert_eq!(messages.len(), 3 * ROUNDS as usize);
    for (sent, received) in messages {
        assert_eq!((sent.name.as_str(), received.name.as_str()), ("send", "message"));
        assert_eq!(sent.rank % 3 + 1, received.rank);
        assert!(sent.at_ns <= received.at_ns, "{sent:?} {received:?}");
        assert_eq!(received.notes["bytes"], 256);
    }
    let mut collectives = trace.flows.values().filter(|flow| flow[0].name == "allreduce");
    assert!(collectives.all(|flow| flow.len() == 3));
    // The report says the same, and is whole in itself.
    let report = |arguments: &[&str]| {
        let mut report = Command::new(FERRY);
        report.arg("report").arg(folder.join("trace")).args(arguments);
        finish(report, &folder)
    };
    let json = report(&["--json"]);
    assert_eq!(json.status.code(), Some(0), "{}", json.err);
    let stats: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(stats["messages"], 3 * ROUNDS);
    assert_eq!(stats["message_bytes"], 3 * ROUNDS * 256);
    assert_eq!(stats["ranks"].as_array().map(Vec::len), Some(3));
    assert_eq!(report(&[]).status.code(), Some(0));
    let page = fs::read_to_string(folder.join("trace.html")).expect("a page");
    assert!(page.contains("</html>") && page.contains("allreduce"));
    for outside in ["<script", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_job_on_two_hosts_has_one_trace() {
    let hosts = TwoHosts::new("trace");
    let path = hosts.folder.join("trace");
    let ended = hosts.job("ring", &["--trace", path.to_str().expect("text"), "--stats", "-n", "4"]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    assert_eq!(recordings_in(&hosts.folder), 0, "nothing is left");
    assert!(
        ended.err.contains("times on different hosts can be compared within "),
        "{}",
        ended.err
    );
    assert!(ended.err.contains("2 hosts, whose times"), "{}", ended.err);
    assert!(ended.err.contains(": east has 2 from rank 0"), "{}", ended.err);
    let trace = ReadTrace::read(&path);
    let names = ["rank 0 on east", "rank 1 on east", "rank 2 on west", "rank 3 on west"];
    assert_eq!(trace.names, names);
    for rank in 1..=4 {
        assert_eq!(trace.slices(rank, "send"), ROUNDS as usize);
    }
    let messages: Vec<_> = trace.messages().collect();
    assert_eq!(messages.len(), 4 * ROUNDS as usize);
    for (sent, received) in messages {
        assert_eq!(sent.rank % 4 + 1, received.rank);
        assert!(sent.at_ns <= received.at_ns, "{sent:?} {received:?}");
    }
    let mut report = Command::new(FERRY);
    report.arg("report").arg(&path).arg("--json");
    let json = finish(report, &hosts.folder);
    let stats: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    let error_ns = stats["clock_error_ns"].as_u64().expect("a number");
    // Both hosts are this one, so their clocks are the same.
    assert!((1..1_000_000_000).contains(&error_ns), "{error_ns}");
    assert_eq!(stats["ranks"][2]["host"], "west");
}

#[test]
fn a_lost_host_is_missing_in_the_trace() {
    let hosts = TwoHosts::new("trace-lost");
    let path = hosts.folder.join("trace");
    let trace = ["--trace", path.to_str().expect("text"), "-n", "4"];
    let ended = hosts.job("killed host", &trace);
    assert_ne!(ended.status.code(), Some(0), "{}", ended.err);
    let line = "what ranks 2-3 recorded on west is missing: the host was lost, or the job was killed, before all of it was \
                sent [FW0829]";
    assert!(ended.err.contains(line), "{}", ended.err);
    let trace = ReadTrace::read(&path);
    assert_eq!(trace.names, ["rank 0 on east", "rank 1 on east"]);
    assert_eq!(trace.slices(1, "send"), ROUNDS as usize);
    // Of the ring, only the messages from rank 0 to rank 1 have both ends.
    assert_eq!(trace.messages().count(), ROUNDS as usize);
    wait_for_removal(&hosts.folder);
}

#[test]
fn a_killed_launcher_leaves_no_recordings() {
    let hosts = TwoHosts::new("trace-killed");
    let folder = &hosts.folder;
    let options = ["--trace", "/dev/null", "-n", "2"];
    for (mut job, folders) in
        [(command("sleep", &options), 1), (hosts.command("sleep", &options), 2)]
    {
        job.env("TMPDIR", &folder.0).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut launcher = job.spawn().expect("ferry starts");
        let out = BufReader::new(launcher.stdout.take().expect("a pipe"));
        let ready = out.lines().map_while(Result::ok).find(|line| line == "ready");
        assert!(ready.is_some(), "the job is ready");
        assert_eq!(recordings_in(folder), folders);
        launcher.kill().expect("it is killed");
        launcher.wait().expect("it has ended");
        wait_for_removal(folder);
    }
}

#[test]
fn messages_that_overtake_each_other_keep_their_arrows() {
    let (_folder, ended, trace) = traced("trace-orders", "orders", "2");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    let messages: Vec<_> = trace.messages().collect();
    assert_eq!(messages.len(), 5);
    for (sent, received) in messages {
        assert_eq!(sent.notes["bytes"], received.notes["bytes"]);
        assert_eq!(sent.notes["tag"], received.notes["tag"]);
    }
}

#[test]
fn a_killed_rank_leaves_its_records() {
    let (_folder, ended, trace) = traced("trace-killed", "killed", "3");
    assert_eq!(ended.status.code(), Some(128 + libc::SIGKILL), "{}", ended.err);
    assert_eq!(trace.slices(2, "send"), ROUNDS as usize);
    assert_eq!(trace.messages().count(), 3 * ROUNDS as usize);
    // The others waited for it until they were ended.
    assert!(trace.slices(1, "barrier") + trace.slices(3, "barrier") > 0);
}

#[test]
fn thirty_two_ranks_are_in_one_trace() {
    let (_folder, ended, trace) = traced("trace-many", "ring", "32");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    assert_eq!(trace.messages().count(), 32 * ROUNDS as usize);
}

#[test]
fn a_trace_that_cannot_be_written_is_refused_before_the_job() {
    let folder = Folder::new("trace-refused");
    let ended = job_in(&folder, "ring", &["--trace", "/nowhere/trace", "-n", "2"]);
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(
        ended.err.trim(),
        "ferry run: cannot write the trace to /nowhere/trace: No such file or directory (os error 2) [FW0828]"
    );
}

#[test]
fn a_full_disk_does_not_harm_the_job() {
    let folder = Folder::new("trace-full");
    // Where the trace itself has no room.
    let ended = job_in(&folder, "ring", &["--trace", "/dev/full", "-n", "2"]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    assert!(
        ended.err.contains("cannot write the trace to /dev/full: No space left"),
        "{}",
        ended.err
    );
    assert!(Path::new("/dev/full").exists());
    // Where ranks have no room: in a file system of two megabytes, in a mount namespace of its own.
    let path = folder.join("trace");
    let mut job = Command::new("unshare");
    let script = "mount -t tmpfs -o size=2m none \"$TMPDIR\" && exec \"$@\"";
    job.args(["--mount", "sh", "-c", script, "sh", FERRY, "run", "--trace"]).arg(&path);
    job.args(["-n", "2"]).arg(me()).args(MEMBER).env("WORK", "many");
    let room = folder.join("room");
    fs::create_dir(&room).expect("a folder");
    job.env("TMPDIR", &room).process_group(0);
    let ended = finish(job, &folder);
    if ended.err.contains("unshare") || ended.err.contains("mount:") {
        println!("not tested: a mount namespace takes root");
        return;
    }
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    assert!(ended.err.contains("was recorded for its first"), "{}", ended.err);
    assert!(ended.err.contains("No space left on device"), "{}", ended.err);
    assert!(ReadTrace::read(&path).messages().count() > 1000);
}

#[test]
fn statistics_are_printed_and_written() {
    let folder = Folder::new("trace-stats");
    let file = folder.join("stats.json");
    let ended =
        job_in(&folder, "ring", &["--stats", &format!("--stats={}", file.display()), "-n", "2"]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    assert!(ended.err.lines().all(|line| line.chars().count() <= 80), "{}", ended.err);
    assert!(ended.err.lines().count() <= 40, "{}", ended.err);
    assert!(ended.err.contains("allreduce"), "{}", ended.err);
    let stats = fs::read_to_string(&file).expect("a file");
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    assert_eq!(stats["messages"], 2 * ROUNDS);
    let calls = stats["by_call"].as_array().expect("a list");
    let sends = calls.iter().find(|call| call["call"] == "send").expect("sends");
    assert_eq!(
        (&sends["calls"], &sends["bytes"]),
        (&(2 * ROUNDS).into(), &(2 * ROUNDS * 256).into())
    );
}

#[test]
fn what_is_no_trace_is_refused() {
    let folder = Folder::new("trace-none");
    let path = folder.join("text");
    for text in ["", "some text", "\u{a}\u{3}abc"] {
        fs::write(&path, text).expect("a file");
        let mut report = Command::new(FERRY);
        report.arg("report").arg(&path);
        let ended = finish(report, &folder);
        assert_eq!(ended.status.code(), Some(1));
        assert!(ended.err.contains("it is not a trace"), "{}", ended.err);
    }
}

/// A trace, as Perfetto would read it.
#[derive(Default)]
struct ReadTrace {
    /// The names of the processes, which are the ranks.
    names: Vec<String>,
    /// The slices of each sequence by their names.
    slices: BTreeMap<(u64, String), usize>,
    flows: BTreeMap<u64, Vec<FlowEnd>>,
}

/// An event on a flow.
#[derive(Clone, Debug)]
struct FlowEnd {
    at_ns: u64,
    /// The sequence, which is a rank, counted from 1.
    rank: u64,
    name: String,
    notes: HashMap<String, u64>,
}

impl ReadTrace {
    fn read(path: &Path) -> ReadTrace {
        let bytes = fs::read(path).expect("a trace");
        let mut trace = ReadTrace::default();
        let mut texts: HashMap<(u64, u64, u64), String> = HashMap::new();
        let mut open: HashMap<u64, i64> = HashMap::new();
        let mut tracks = Vec::new();
        for packet in fields(&bytes).filter(|field| field.0 == 1).map(|field| field.2) {
            let number =
                |wanted| fields(packet).find(|field| field.0 == wanted).map(|field| field.1);
            let piece =
                |wanted| fields(packet).find(|field| field.0 == wanted).map(|field| field.2);
            let sequence = number(10).expect("each packet has a sequence");
            for (kind, _, entry) in fields(piece(12).unwrap_or_default()) {
                let id = fields(entry).find(|field| field.0 == 1).expect("a number").1;
                let text = fields(entry).find(|field| field.0 == 2).expect("a text").2;
                texts.insert((sequence, kind, id), String::from_utf8_lossy(text).into());
            }
            if let Some(track) = piece(60) {
                let process = fields(track).find(|field| field.0 == 3);
                let name = process.and_then(|it| fields(it.2).find(|field| field.0 == 6));
                trace.names.extend(name.map(|it| String::from_utf8_lossy(it.2).into_owned()));
                tracks.push(fields(track).find(|field| field.0 == 1).expect("a number").1);
            }
            let Some(event) = piece(11) else { continue };
            let at_ns = number(8).expect("events have a time");
            let of = |wanted| fields(event).find(|field| field.0 == wanted).map(|field| field.1);
            let track = of(11).expect("events have a track");
            assert!(tracks.contains(&track), "a track is described before it is used");
            let name = of(10).map(|id| texts[&(sequence, 2, id)].clone()).unwrap_or_default();
            match of(9) {
                Some(1) => {
                    *open.entry(track).or_default() += 1;
                    *trace.slices.entry((sequence, name.clone())).or_default() += 1;
                }
                Some(2) => *open.entry(track).or_default() -= 1,
                _ => {}
            }
            assert!(open.get(&track).is_none_or(|&open| open >= 0), "no slice ends twice");
            let notes = fields(event).filter(|field| field.0 == 4).filter_map(|(_, _, note)| {
                let of = |wanted| fields(note).find(|field| field.0 == wanted).map(|field| field.1);
                Some((texts[&(sequence, 3, of(1)?)].clone(), of(3)?))
            });
            let notes: HashMap<String, u64> = notes.collect();
            for (_, flow, _) in fields(event).filter(|field| field.0 == 47) {
                let end =
                    FlowEnd { at_ns, rank: sequence, name: name.clone(), notes: notes.clone() };
                trace.flows.entry(flow).or_default().push(end);
            }
        }
        assert!(open.values().all(|&open| open == 0), "all slices end");
        trace
    }

    fn slices(&self, rank: u64, name: &str) -> usize {
        self.slices.get(&(rank, name.to_owned())).copied().unwrap_or(0)
    }

    /// The two ends of each message.
    fn messages(&self) -> impl Iterator<Item = (&FlowEnd, &FlowEnd)> {
        let flows = self.flows.values().filter(|flow| flow.iter().any(|end| end.name == "message"));
        flows.map(|flow| {
            let [one, other] = flow.as_slice() else { panic!("a message has two ends: {flow:?}") };
            if one.name == "message" { (other, one) } else { (one, other) }
        })
    }
}

/// The fields of a message of protocol buffers: their numbers, and a number or bytes.
fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (u64, u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut number = 0;
        for at in 0.. {
            let (&byte, rest) = bytes.split_first().expect("a number");
            *bytes = rest;
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                break;
            }
        }
        number
    }
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let key = varint(&mut bytes);
        let none: &[u8] = &[];
        Some(match key & 7 {
            0 => (key >> 3, varint(&mut bytes), none),
            1 => {
                let (eight, rest) = bytes.split_first_chunk().expect("eight bytes");
                bytes = rest;
                (key >> 3, u64::from_le_bytes(*eight), none)
            }
            2 => {
                let len = usize::try_from(varint(&mut bytes)).expect("a length");
                let (piece, rest) = bytes.split_at(len);
                bytes = rest;
                (key >> 3, 0, piece)
            }
            other => panic!("no field that we write is of sort {other}"),
        })
    })
}
