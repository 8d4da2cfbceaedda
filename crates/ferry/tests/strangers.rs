//! Another user on the same machine cannot open, read, squat or join a job: every attempt is counted.
//!
//! A job runs, and a process of another user tries everything that the system offers to reach its
//! launcher, its reaper, its ranks and their memory. It also gets a rank's end of the bootstrap socket, as if it
//! had been passed on by mistake, and sends every message of the bootstrap protocol on it; each has to be refused
//! for the right reason. The job goes on meanwhile, checks every byte, and succeeds. A process of the same user that
//! is not the rank tries the same. Two users take root.
//!
//!     cargo test -p ferrywire-ferry --test strangers -- --nocapture
//!
//! Invariants, cited below by number.
//!   S1. Every pointer given to the kernel is to a live value of the size that is passed with it.

mod common;

use std::ffi::c_int;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Folder, MEMBER, TIMEOUT, become_user, check, worker};
use ferrywire_host::bootstrap::VERSION;
use ferrywire_host::bootstrap::wire::{Hello, Member, Message, TOKEN_BYTES, Token};
use ferrywire_host::{Operators, job};

const RANKS: usize = 3;
const STRANGER: u32 = 65_534;
const ONE: u32 = 61_301;
const ANOTHER: u32 = 61_302;

/// How long the launcher may take to refuse a message.
const ANSWER_MS_MAX: c_int = 5_000;

/// How many descriptor numbers a stranger tries.
const NUMBERS: c_int = 40;

/// A rank, for the tests below.
#[test]
#[ignore = "is started by other tests, as a rank"]
fn member() {
    worker::rank();
}

/// How much a stranger tried, and what of it succeeded.
#[derive(Default)]
struct Tally {
    attempts: u64,
    successes: Vec<String>,
}

impl Tally {
    fn tried(&mut self, worked: bool, what: impl FnOnce() -> String) {
        self.attempts += 1;
        if worked {
            self.successes.push(what());
        }
    }

    fn print(&self) {
        println!("attempts {}", self.attempts);
        self.successes.iter().for_each(|success| println!("success {success}"));
    }
}

/// The other user, for the tests below.
#[test]
#[ignore = "is started by other tests, as another user"]
fn stranger() {
    let Ok(targets) = std::env::var("TARGETS") else { return };
    let mut tally = Tally::default();
    for pid in targets.split(' ').map(|word| word.parse().expect("a process")) {
        try_files(pid, &mut tally);
        try_calls(pid, &mut tally);
    }
    let names = std::env::var("NAMES").unwrap_or_default();
    for name in names.split_terminator('\n') {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET] {
            tally.tried(connects(name, kind), || format!("connect to {name}"));
        }
    }
    speak_and_join(&mut tally);
    tally.print();
}

/// A process of the job's own user that is not one of its ranks, for the tests below.
#[test]
#[ignore = "is started by other tests, as another process of the same user"]
fn impostor() {
    if std::env::var_os("TARGETS").is_some() {
        let mut tally = Tally::default();
        speak_and_join(&mut tally);
        tally.print();
    }
}

fn speak_and_join(tally: &mut Tally) {
    let line: RawFd = std::env::var("LINE").expect("a number").parse().expect("a number");
    try_to_speak(line, tally);
    try_to_join(line, tally);
}

/// Tries the files that `/proc` has for a process, its descriptors and its mappings.
fn try_files(pid: i32, tally: &mut Tally) {
    let mut paths: Vec<String> =
        ["mem", "maps", "environ", "auxv", "io", "stack", "syscall", "smaps", "pagemap", "cwd/x"]
            .iter()
            .map(|name| format!("/proc/{pid}/{name}"))
            .collect();
    paths.extend((0..NUMBERS).map(|number| format!("/proc/{pid}/fd/{number}")));
    paths.extend((0..NUMBERS).map(|number| format!("/proc/{pid}/task/{pid}/fd/{number}")));
    paths.extend((0..NUMBERS).map(|number| format!("/proc/{pid}/fdinfo/{number}")));
    for name in common::names_in(Path::new(&format!("/proc/{pid}/map_files"))) {
        paths.push(format!("/proc/{pid}/map_files/{name}"));
    }
    for path in paths {
        // Some files can be opened by anyone, but are empty without permission.
        let read = File::open(&path).and_then(|mut file| {
            let mut bytes = [0; 64];
            file.read(&mut bytes)
        });
        tally.tried(read.is_ok_and(|count| count > 0), || format!("read {path}"));
        let write = File::options().read(true).write(true).open(&path);
        tally.tried(write.is_ok(), || format!("write {path}"));
    }
    for folder in ["fd", "map_files", "fdinfo", "task/../fd"] {
        let listed = fs::read_dir(format!("/proc/{pid}/{folder}"));
        let seen =
            listed.is_ok_and(|mut entries| entries.next().is_some_and(|entry| entry.is_ok()));
        tally.tried(seen, || format!("list {folder} of {pid}"));
    }
}

/// Tries calls that reach into a process.
fn try_calls(pid: i32, tally: &mut Tally) {
    let mut bytes = [0_u8; 8];
    let here = libc::iovec { iov_base: (&raw mut bytes).cast(), iov_len: 8 };
    for address in [0x1000_usize, 0x40_0000, 0x5555_5555_4000, 0x7fff_ffff_0000] {
        let there = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: 8 };
        // SAFETY: by S1; the kernel checks the address in the other process.
        let read =
            unsafe { libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0) };
        // EFAULT would mean that access was granted, and only the address was wrong.
        let accept_ranks = |code: isize| code >= 0 || last() == libc::EFAULT;
        tally.tried(accept_ranks(read), || format!("process_vm_readv of {pid}"));
        // SAFETY: as above.
        let write =
            unsafe { libc::process_vm_writev(pid, &raw const here, 1, &raw const there, 1, 0) };
        tally.tried(accept_ranks(write), || format!("process_vm_writev of {pid}"));
    }
    for request in [libc::PTRACE_SEIZE, libc::PTRACE_ATTACH] {
        let nothing: libc::c_ulong = 0;
        // SAFETY: no pointer is read or written by these requests.
        let code = unsafe { libc::ptrace(request, pid, nothing, nothing) };
        tally.tried(code == 0, || format!("ptrace {request} of {pid}"));
    }
    for signal in [0, libc::SIGCONT, libc::SIGTERM, libc::SIGKILL] {
        // SAFETY: sends a signal.
        let code = unsafe { libc::kill(pid, signal) };
        tally.tried(code == 0, || format!("signal {signal} to {pid}"));
    }
    // Anyone may watch a process for its end, but not get its descriptors.
    // SAFETY: the call takes numbers only.
    let watched = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    for number in 0..NUMBERS {
        // SAFETY: the call takes numbers only.
        let code = unsafe { libc::syscall(libc::SYS_pidfd_getfd, watched, number, 0) };
        tally.tried(code >= 0, || format!("pidfd_getfd {number} of {pid}"));
    }
}

fn last() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Whether a socket of this kind can connect to a name as `/proc/net/unix` shows it: abstract names
/// begin with `@`.
fn connects(name: &str, kind: c_int) -> bool {
    let mut address = libc::sockaddr_un { sun_family: 1, sun_path: [0; 108] };
    for (to, from) in address.sun_path.iter_mut().zip(name.bytes()) {
        *to = if from == b'@' { 0 } else { libc::c_char::from_ne_bytes([from]) };
    }
    let size = libc::socklen_t::try_from(2 + name.len()).expect("short");
    // SAFETY: the call takes numbers only.
    let socket = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    assert!(socket >= 0, "a socket can be made");
    // SAFETY: the kernel has just created it for us.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: by S1.
    unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), size) == 0 }
}

/// Sends all messages of the bootstrap protocol, in the name of the rank whose socket this is, and malformed ones. Each
/// has to be refused, and for the right reason: another user, or another process than the rank.
fn try_to_speak(line: RawFd, tally: &mut Tally) {
    let hello = Hello { pid: std::process::id(), word: 0, probe_address: 0 };
    let member = Member {
        rank: 0,
        size: 1,
        spawned: None,
        job: 1,
        oversubscribed: false,
        fault_tolerant: false,
        network: None,
    };
    let token = Token([0; TOKEN_BYTES]);
    let (not_the_rank, malformed) = ("but is not that rank", "received an invalid message");
    let words: [(Message, &str); 9] = [
        (Message::Goodbye, not_the_rank),
        (Message::All, not_the_rank),
        (Message::Silent { rank: 1 }, not_the_rank),
        (Message::Abort { code: 7, text: "the stranger says so".into() }, not_the_rank),
        (Message::Hello(hello), "has already joined as pid"),
        (Message::JoinReply { to: hello.pid, member }, malformed),
        (Message::Refused { to: hello.pid, text: "no".into() }, malformed),
        (Message::Enter { rank: 0, token: token.clone(), hello }, malformed),
        (Message::Entered { token }, malformed),
    ];
    let stranger = is_stranger();
    let mut words: Vec<(Vec<u8>, &str)> =
        words.iter().map(|(word, refusal)| (word.emit().to_vec(), *refusal)).collect();
    words.push((vec![0; 3000], malformed));
    let mut old = Message::Goodbye.emit().to_vec();
    old[4..6].copy_from_slice(&(VERSION - 1).to_le_bytes());
    words.push((old, "of the bootstrap protocol"));
    for (word, refusal) in words {
        let refusal = if stranger { "tried to join a job of user" } else { refusal };
        // SAFETY: by S1.
        let sent = unsafe { libc::send(line, word.as_ptr().cast(), word.len(), 0) };
        assert!(sent > 0, "{}", io::Error::last_os_error());
        // A message that is accepted gets no answer.
        let mut watched = libc::pollfd { fd: line, events: libc::POLLIN, revents: 0 };
        // SAFETY: by S1.
        unsafe { libc::poll(&raw mut watched, 1, ANSWER_MS_MAX) };
        let mut answer = [0; 4096];
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: by S1.
        let length = unsafe { libc::recv(line, answer.as_mut_ptr().cast(), answer.len(), flags) };
        let answer = Message::parse(&answer[..usize::try_from(length).unwrap_or(0)]);
        let refused =
            matches!(&answer, Ok(Message::Refused { text, .. }) if text.contains(refusal));
        tally.tried(!refused, || {
            format!("say {word:?}, and hear {answer:?} instead of \"{refusal}\"")
        });
    }
}

/// Whether this process belongs to another user than the job.
fn is_stranger() -> bool {
    std::env::var_os("SAME_USER").is_none()
}

/// Tries to join by the rank's own descriptor, and by other numbers.
fn try_to_join(line: RawFd, tally: &mut Tally) {
    for number in [line, 0, 1, 2, 3, 99, -1] {
        let read = |name: &str| (name == "FERRY_BOOTSTRAP").then(|| number.to_string());
        let joined = job::join(read, Operators::ours(|_, _, _| {})).map(drop);
        let refused = joined.as_ref().err().map(ToString::to_string).unwrap_or_default();
        println!("FERRY_BOOTSTRAP {number}: {refused}");
        // A rank rejects a launcher of another user, and a launcher rejects a second process for one rank.
        let reason = match number == line {
            true if is_stranger() => "the launcher runs as user",
            true => "has already joined as pid",
            false => "",
        };
        let right = joined.is_err() && refused.contains(reason);
        tally.tried(!right, || format!("join by {number}, and hear \"{refused}\""));
    }
}

/// A launcher that is killed if its test fails.
struct Launcher(Child);

impl Drop for Launcher {
    fn drop(&mut self) {
        // Fails if it has ended, as it should have.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A job of `owner` that exchanges messages until it is told to stop.
struct Target {
    folder: Folder,
    launcher: Launcher,
    stop: std::path::PathBuf,
    pids: Vec<u32>,
}

impl Target {
    fn start(owner: u32) -> Target {
        static TARGETS: AtomicU32 = AtomicU32::new(0);
        let number = TARGETS.fetch_add(1, Ordering::Relaxed);
        let folder = Folder::new(&format!("strangers-{owner}-{number}"));
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).expect("ours");
        let ferry = folder.copy(Path::new(common::FERRY), "ferry");
        let rank = folder.copy(&common::me(), "rank");
        let stop = folder.join("stop");
        let mark = format!("{}-{owner}-{number}", std::process::id());
        let mut job = Command::new(&ferry);
        job.args(["run", "-n", &RANKS.to_string()]).arg(&rank).args(MEMBER);
        job.envs([("WORK", "until"), ("STRANGERS", &mark)]).env("UNTIL", &stop);
        job.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // SAFETY: makes only system calls.
        unsafe { job.pre_exec(move || if owner == 0 { Ok(()) } else { become_user(owner) }) };
        let launcher = Launcher(job.spawn().expect("ferry starts"));
        let mark = format!("STRANGERS={mark}");
        let until = Instant::now() + TIMEOUT;
        // Wait for launcher, reaper and ranks; the ranks have joined when they map the memory of the job.
        let joined = |pid: &u32| {
            let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            maps.contains("memfd:ferrywire")
        };
        let mut pids: Vec<u32> = Vec::new();
        while pids.iter().filter(|pid| joined(pid)).count() < RANKS {
            assert!(Instant::now() < until, "the job has not started");
            thread::sleep(Duration::from_millis(5));
            pids = common::pids().filter(|pid| common::has_mark(*pid, &mark)).collect();
        }
        assert_eq!(pids.len(), RANKS + 2, "launcher, reaper and ranks");
        Target { folder, launcher, stop, pids }
    }

    /// How many sockets the processes of the job hold, and their names. The kernel names a socket that
    /// asks for credentials when it sends; no process listens there.
    fn names(&self) -> (usize, Vec<String>) {
        let mut numbers = Vec::new();
        for pid in &self.pids {
            let folder = format!("/proc/{pid}/fd");
            for name in common::names_in(Path::new(&folder)) {
                let link = fs::read_link(format!("{folder}/{name}")).unwrap_or_default();
                let link = link.to_string_lossy().into_owned();
                if let Some(number) = link.strip_prefix("socket:[") {
                    numbers.push(number.trim_end_matches(']').to_owned());
                }
            }
        }
        let table = fs::read_to_string("/proc/net/unix").expect("sockets are listed");
        let names = table.lines().skip(1).filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let ours = numbers.iter().any(|number| Some(&number.as_str()) == words.get(6));
            words.get(7).filter(|_| ours).map(|&name| name.to_owned())
        });
        (numbers.len(), names.collect())
    }

    /// A rank's end of the bootstrap socket, as if it had been passed on by mistake.
    fn line(&self) -> OwnedFd {
        let ranks = self.pids.iter().filter_map(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let text = String::from_utf8_lossy(&environment).into_owned();
            let value = text.split('\0').find_map(|word| word.strip_prefix("FERRY_BOOTSTRAP="))?;
            Some((*pid, value.parse::<RawFd>().expect("a number")))
        });
        let (pid, number) = ranks.min().expect("a rank");
        // SAFETY: the call takes numbers only.
        let watched = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        // SAFETY: the call takes numbers only.
        let copy = unsafe { libc::syscall(libc::SYS_pidfd_getfd, watched, number, 0) };
        let copy = RawFd::try_from(copy).expect("small");
        assert!(copy >= 0, "{}", io::Error::last_os_error());
        // SAFETY: the kernel has just created it for us.
        unsafe { OwnedFd::from_raw_fd(copy) }
    }

    /// Ends the job in order. Returns what it printed if it did not succeed.
    fn end(mut self) -> Result<(), String> {
        fs::write(&self.stop, "").expect("written");
        let status = common::wait(&mut self.launcher.0, TIMEOUT);
        let (mut out, mut said) = (String::new(), String::new());
        let stdout = self.launcher.0.stdout.take().map(|mut pipe| pipe.read_to_string(&mut out));
        let stderr = self.launcher.0.stderr.take().map(|mut pipe| pipe.read_to_string(&mut said));
        assert!(matches!((stdout, stderr), (Some(Ok(_)), Some(Ok(_)))), "it can be heard");
        let done = out.matches("exchanged").count();
        let well =
            status.is_some_and(|status| status.success()) && said.is_empty() && done == RANKS;
        if well { Ok(()) } else { Err(format!("{status:?}, {done} ranks were done: {said}")) }
    }
}

/// Runs a job and attacks it, as another user or as another process of the same user.
fn attack(owner: u32, stranger: u32) {
    let role = if owner == stranger { "impostor" } else { "stranger" };
    let target = Target::start(owner);
    let (sockets, names) = target.names();
    let line = target.line();
    let number = line.as_raw_fd();
    let pids: Vec<String> = target.pids.iter().map(u32::to_string).collect();
    let mut command = Command::new(target.folder.join("rank"));
    command.args([role, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    if role == "impostor" {
        command.env("SAME_USER", "1");
    }
    command.env("TARGETS", pids.join(" ")).env("NAMES", names.join("\n"));
    command.env("LINE", number.to_string());
    let settle = move || {
        // SAFETY: clears a flag of a descriptor that the parent holds for it.
        check(unsafe { libc::fcntl(number, libc::F_SETFD, 0) })?;
        // A process may send SIGCONT to others of its session.
        // SAFETY: has no preconditions.
        unsafe { libc::setsid() };
        if stranger == 0 { Ok(()) } else { become_user(stranger) }
    };
    // SAFETY: makes only system calls.
    unsafe { command.pre_exec(settle) };
    let output = command.output().expect("the stranger starts");
    drop(line);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let ended = target.end();
    let successes: Vec<&str> = said.lines().filter(|line| line.starts_with("success")).collect();
    let attempts = said.lines().find_map(|line| line.strip_prefix("attempts "));
    println!(
        "user {stranger} against a job of user {owner}: {} attempts, {} successes; {sockets} sockets, \
         {} with a name",
        attempts.unwrap_or("no"),
        successes.len(),
        names.len()
    );
    assert!(attempts.is_some(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(successes.is_empty(), "{successes:#?}");
    ended.unwrap_or_else(|why| panic!("the job was disturbed: {why}\n{said}"));
}

#[test]
fn a_job_of_root_is_closed_to_others() {
    if common::is_root() {
        attack(0, STRANGER);
    } else {
        println!("not tested: a job of root: takes root");
    }
}

#[test]
fn a_job_of_a_user_is_closed_to_another() {
    if common::is_root() {
        attack(ONE, ANOTHER);
    } else {
        println!("not tested: two users: takes root");
    }
}

#[test]
fn a_process_of_the_same_user_does_not_speak_for_a_rank() {
    if common::is_root() {
        attack(ONE, ONE);
    } else {
        println!("not tested: a user of its own: takes root");
    }
}
