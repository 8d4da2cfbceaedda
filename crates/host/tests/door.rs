//! The door at which the ranks of a host come in under another's launcher, while others try it, too.
//!
//! A real mpiexec of MPICH starts three ranks of a user, and one of them is late. Meanwhile callers of all sorts come to
//! the door: they speak its language without its token, say nothing, say nonsense, come in hundreds. They are another user, or root, or the
//! same user; the ranks may be in user namespaces, in which the kernel has the same number for everybody. None is let in,
//! and none keeps the job from starting. It takes root to play several users, and MPICH (`bench/peers/install`).
//!
//!     cargo test -p ferrywire-host --test door -- --nocapture
//!
//! Invariants, cited below by number.
//!   D1. Every pointer given to the kernel is to a live value of the size that is told with it.
//!   D2. A descriptor that a successful call returns is new, open, and owned by nobody else.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ferrywire_host::meet::wire::{Hello, Message, TOKEN_BYTES, Token};
use ferrywire_host::{Operators, job};

const RANKS: usize = 3;
const OWNER: u32 = 61_401;
const ANOTHER: u32 = 61_402;
const ROOT: u32 = 0;
/// Connections that a flood holds at the same time.
const FLOOD: usize = 300;
/// No test waits longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(2);

/// A rank, for the tests below.
#[test]
#[ignore = "is started by other tests, as a rank"]
fn member() {
    let Some(owner) = variable("OWNER") else { return };
    if let Some(late) = variable("LATE").filter(|_| variable("PMI_RANK") == Some("2".into())) {
        wait_until(|| Path::new(&late).exists());
    }
    println!("rank of user {owner}");
    match job::join(variable, Operators::ours(|_, _, _| {})) {
        Ok(rank) => {
            println!("joined {} of {}", rank.me().0, rank.size());
            rank.leave();
        }
        Err(error) => {
            eprintln!("cannot join: {error}");
            std::process::exit(9);
        }
    }
}

/// Somebody at the door who is no rank, for the tests below.
#[test]
#[ignore = "is started by other tests, as a caller"]
fn caller() {
    let Some(door) = variable("DOOR") else { return };
    let over = PathBuf::from(variable("OVER").expect("a path"));
    match variable("ROLE").expect("a role").as_str() {
        "speaks" => {
            let hello = Hello { pid: std::process::id(), word: 0, probe_address: 0 };
            let forged = Message::Enter { rank: 1, token: Token([7; TOKEN_BYTES]), hello };
            for word in [forged, Message::Hello(hello), Message::Goodbye] {
                let line = connect(&door).expect("anybody can connect");
                send(&line, &word.emit());
                println!("said");
                for _ in 0..2 {
                    tell(&receive(&line));
                }
            }
        }
        "is silent" => {
            let line = connect(&door).expect("anybody can connect");
            println!("said");
            wait_until(|| over.exists());
            drop(line);
        }
        "trickles" => {
            while !over.exists() {
                let Ok(line) = connect(&door) else { continue };
                println!("said");
                while send(&line, b"F") && !over.exists() {
                    thread::sleep(PAUSE);
                }
            }
        }
        "floods" => {
            let mut lines: Vec<OwnedFd> = Vec::new();
            while !over.exists() {
                lines.truncate(FLOOD - 1);
                lines.splice(..0, connect(&door).ok());
                if lines.len() == FLOOD - 1 {
                    println!("said");
                }
            }
        }
        role => panic!("no such role: {role}"),
    }
}

/// What came back, if it is more than a refusal.
fn tell((bytes, descriptors): &(Vec<u8>, usize)) {
    let refused = bytes.is_empty() || matches!(Message::parse(bytes), Ok(Message::Refused { .. }));
    if !refused || *descriptors > 0 {
        println!("let in: {bytes:?} with {descriptors} bytes of descriptors");
    }
}

fn connect(name: &str) -> io::Result<OwnedFd> {
    // SAFETY: it takes numbers.
    let socket = check(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0) })?;
    // SAFETY: D2.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let mut address = libc::sockaddr_un { sun_family: 1, sun_path: [0; 108] };
    for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let size = libc::socklen_t::try_from(3 + name.len()).expect("short");
    // SAFETY: D1.
    check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), size) })?;
    Ok(socket)
}

fn send(line: &OwnedFd, bytes: &[u8]) -> bool {
    // SAFETY: D1.
    let sent = unsafe {
        libc::send(line.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
    };
    sent >= 0
}

/// The bytes of the next packet, none at the end; and how much came beside them.
fn receive(line: &OwnedFd) -> (Vec<u8>, usize) {
    let (mut bytes, mut control) = ([0_u8; 4096], [0_u8; 256]);
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: it is plain data: all zeros is a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut vector, 1);
    (header.msg_control, header.msg_controllen) = (control.as_mut_ptr().cast(), control.len());
    // SAFETY: D1.
    let length = unsafe { libc::recvmsg(line.as_raw_fd(), &raw mut header, 0) };
    let length = usize::try_from(length).unwrap_or(0);
    (bytes[..length].to_vec(), if length > 0 { header.msg_controllen } else { 0 })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn check(code: i32) -> io::Result<i32> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(code) }
}

fn wait_until(happened: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < until, "it did not happen in {PATIENCE:?}");
        thread::sleep(PAUSE);
    }
}

/// A child that does not outlive its test, with its output in a file.
struct Process {
    child: Child,
    said: PathBuf,
}

impl Process {
    /// Starts this test program again, as one of the tests above.
    fn start(mut command: Command, said: PathBuf) -> Process {
        let file = fs::File::create(&said).expect("a file");
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a copy")).stderr(file);
        let child = command.spawn().expect("it starts");
        Process { child, said }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Errors if it has ended, as it should have.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const HOW: [&str; 4] = ["--exact", "--ignored", "--nocapture", "--test-threads=1"];

/// A command that runs as another user, if it is another.
fn of_user(program: &Path, uid: u32) -> Command {
    let mut command = Command::new(program);
    let become_user = move || {
        // SAFETY: no groups: no pointer is read.
        check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
        // SAFETY: it takes a number.
        check(unsafe { libc::setgid(uid) })?;
        // SAFETY: it takes a number.
        check(unsafe { libc::setuid(uid) }).map(drop)
    };
    // SAFETY: makes system calls alone.
    unsafe { command.pre_exec(become_user) };
    command
}

/// Copies a program. By another process: one that is forked from ours meanwhile, by another test, would have the copy open
/// to write, and what is open to write cannot be run.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "{} is copied", from.display());
}

/// A job whose last rank is late until callers have come.
struct Job {
    folder: PathBuf,
    program: PathBuf,
    launcher: Process,
    mark: String,
}

impl Job {
    /// `None` where it cannot be tested.
    fn start(name: &str, in_namespaces: bool) -> Option<Job> {
        // SAFETY: has no preconditions.
        if unsafe { libc::geteuid() } != 0 {
            println!("not tested: {name}: takes root to play several users");
            return None;
        }
        let peers = PathBuf::from(variable("HOME")?).join(".cache/ferrywire-peers/mpich/bin");
        let peers = variable("MPICH_BIN").map_or(peers, PathBuf::from);
        if !peers.join("mpiexec").exists() {
            println!("not tested: {name}: {} has no mpiexec: bench/peers/install", peers.display());
            return None;
        }
        let folder = std::env::temp_dir().join(format!("ferry-door-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("ours");
        // Where users can run them.
        for file in ["mpiexec", "hydra_pmi_proxy"] {
            copy(&peers.join(file), &folder.join(file));
        }
        let program = folder.join("program");
        copy(&std::env::current_exe().expect("a path"), &program);
        let mark = format!("{}-{name}", std::process::id());
        let mut command = of_user(&folder.join("mpiexec"), OWNER);
        command.args(["-n", &RANKS.to_string()]);
        if in_namespaces {
            command.args(["unshare", "--user"]);
        }
        command.arg(&program).arg("member").args(HOW);
        command.env("OWNER", OWNER.to_string()).env("LATE", folder.join("late"));
        command.env("DOOR_TEST", &mark).env("HOME", &folder).current_dir(&folder);
        let launcher = Process::start(command, folder.join("launcher"));
        Some(Job { folder, program, launcher, mark: format!("DOOR_TEST={mark}") })
    }

    /// The name of the socket that a process of the job listens at.
    fn door(&self) -> String {
        let mut found = None;
        let until = Instant::now() + PATIENCE;
        while found.is_none() {
            assert!(Instant::now() < until, "there is no door: {}", self.launcher.said());
            thread::sleep(PAUSE);
            let numbers = self.sockets();
            let table = fs::read_to_string("/proc/net/unix").expect("sockets are listed");
            found = table.lines().skip(1).find_map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let listens = words.get(3) == Some(&"00010000");
                let ours =
                    words.get(6).is_some_and(|number| numbers.iter().any(|one| one == number));
                words.get(7)?.strip_prefix('@').filter(|_| listens && ours).map(str::to_owned)
            });
        }
        found.expect("found")
    }

    /// The numbers of all sockets of the job's processes.
    fn sockets(&self) -> Vec<String> {
        let processes = fs::read_dir("/proc").expect("processes are listed");
        let ours = processes.filter_map(|entry| entry.ok()).filter(|entry| {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|one| one == self.mark.as_bytes())
        });
        let files = ours.filter_map(|entry| fs::read_dir(entry.path().join("fd")).ok()).flatten();
        let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        let number = |link: PathBuf| {
            let link = link.to_string_lossy().into_owned();
            Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        };
        links.filter_map(number).collect()
    }

    /// Sends callers to the door, lets the late rank come when all have spoken, and waits for the end of the job.
    fn withstands(mut self, callers: &[(&str, u32)]) {
        let (door, over) = (self.door(), self.folder.join("over"));
        let callers: Vec<Process> = (0..)
            .zip(callers)
            .map(|(number, (role, uid))| {
                let mut command = of_user(&self.program, *uid);
                command.arg("caller").args(HOW);
                command.env("DOOR", &door).env("ROLE", role).env("OVER", &over);
                Process::start(command, self.folder.join(format!("caller-{number}")))
            })
            .collect();
        callers.iter().for_each(|caller| wait_until(|| caller.said().contains("said")));
        let began = Instant::now();
        fs::write(self.folder.join("late"), "").expect("written");
        let until = Instant::now() + PATIENCE;
        let status = loop {
            match self.launcher.child.try_wait().expect("our child") {
                None if Instant::now() < until => thread::sleep(PAUSE),
                status => break status,
            }
        };
        let took = began.elapsed();
        fs::write(&over, "").expect("written");
        let (job, heard) = (self.launcher.said(), callers.iter().map(Process::said));
        let let_in: Vec<String> = heard.filter(|said| said.contains("let in")).collect();
        let joined = job.matches("joined").count();
        println!(
            "{} callers, {} let in, {joined} of {RANKS} ranks joined in {took:?}",
            callers.len(),
            let_in.len()
        );
        assert!(let_in.is_empty(), "{let_in:#?}");
        assert!(
            status.is_some_and(|status| status.success()) && joined == RANKS,
            "{status:?}: {job}"
        );
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn nobody_else_is_let_in_root_included() {
    let Some(job) = Job::start("others", false) else { return };
    job.withstands(&[("speaks", ANOTHER), ("speaks", ROOT), ("speaks", OWNER)]);
}

#[test]
fn who_says_nothing_delays_nobody() {
    let Some(job) = Job::start("silent", false) else { return };
    job.withstands(&[("is silent", ROOT), ("is silent", OWNER), ("is silent", ANOTHER)]);
}

#[test]
fn who_says_nonsense_delays_nobody() {
    let Some(job) = Job::start("trickle", false) else { return };
    job.withstands(&[("trickles", ROOT), ("trickles", OWNER)]);
}

#[test]
fn a_flood_delays_nobody_for_long() {
    let Some(job) = Job::start("flood", false) else { return };
    job.withstands(&[("floods", OWNER), ("floods", ANOTHER), ("speaks", OWNER)]);
}

#[test]
fn where_everybody_has_the_same_number_the_token_decides() {
    let Some(job) = Job::start("namespaces", true) else { return };
    job.withstands(&[
        ("speaks", ANOTHER),
        ("speaks", ROOT),
        ("is silent", ANOTHER),
        ("floods", ANOTHER),
    ]);
}
