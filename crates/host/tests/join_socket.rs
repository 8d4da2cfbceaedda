//! The join socket, where the ranks of a host meet under another launcher, while strangers connect to it.
//!
//! A real mpiexec of MPICH starts three ranks of a user, one of them late. Meanwhile callers of all sorts
//! connect to the join socket: they speak its protocol without its token, send nothing, send nonsense, or
//! connect by the hundred. They run as another user, as root, or as the same user; the ranks may be in user
//! namespaces, in which the kernel reports the same user id for everyone. None is let in, and none keeps the
//! job from starting. Needs root, to act as several users, and MPICH (`bench/peers/install`).
//!
//!     cargo test -p ferrywire-host --test join_socket -- --nocapture
//!
//! Invariants, cited below by number.
//!   D1. Every pointer given to the kernel points to a live value of the size passed with it.
//!   D2. A descriptor that a successful call returns is new, open, and has no other owner.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ferrywire_host::bootstrap::wire::{Hello, Message, TOKEN_BYTES, Token};
use ferrywire_host::{Operators, job};

const RANKS: usize = 3;
const OWNER: u32 = 61_401;
const ANOTHER: u32 = 61_402;
const ROOT: u32 = 0;
/// Connections that a flood holds at the same time.
const FLOOD: usize = 300;
/// The longest wait of any test.
const TIMEOUT: Duration = Duration::from_secs(120);
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
            println!("joined {} of {}", rank.driver().me().0, rank.world().count());
            rank.leave();
        }
        Err(error) => {
            eprintln!("cannot join: {error}");
            std::process::exit(9);
        }
    }
}

/// A caller at the join socket that is not a rank, for the tests below.
#[test]
#[ignore = "is started by other tests, as a caller"]
fn caller() {
    let Some(join_socket) = variable("JOIN_SOCKET") else { return };
    let over = PathBuf::from(variable("OVER").expect("a path"));
    match variable("ROLE").expect("a role").as_str() {
        "speaks" => {
            let hello = Hello { pid: std::process::id(), word: 0, probe_address: 0 };
            let forged = Message::Enter { rank: 1, token: Token([7; TOKEN_BYTES]), hello };
            for word in [forged, Message::Hello(hello), Message::Goodbye] {
                let channel = connect(&join_socket).expect("anybody can connect");
                send(&channel, &word.emit());
                println!("said");
                for _ in 0..2 {
                    tell(&receive(&channel));
                }
            }
        }
        "is silent" => {
            let channel = connect(&join_socket).expect("anybody can connect");
            println!("said");
            wait_until(|| over.exists());
            drop(channel);
        }
        "trickles" => {
            while !over.exists() {
                let Ok(channel) = connect(&join_socket) else { continue };
                println!("said");
                while send(&channel, b"F") && !over.exists() {
                    thread::sleep(PAUSE);
                }
            }
        }
        "floods" => {
            let mut channels: Vec<OwnedFd> = Vec::new();
            while !over.exists() {
                channels.truncate(FLOOD - 1);
                channels.splice(..0, connect(&join_socket).ok());
                if channels.len() == FLOOD - 1 {
                    println!("said");
                }
            }
        }
        role => panic!("no such role: {role}"),
    }
}

/// Prints what came back, if it is more than a refusal.
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

fn send(channel: &OwnedFd, bytes: &[u8]) -> bool {
    // SAFETY: D1.
    let sent = unsafe {
        libc::send(channel.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
    };
    sent >= 0
}

/// The bytes of the next packet, empty at the end; and the length of its control data.
fn receive(channel: &OwnedFd) -> (Vec<u8>, usize) {
    let (mut bytes, mut control) = ([0_u8; 4096], [0_u8; 256]);
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: it is plain data: all zeros is a valid value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut vector, 1);
    (header.msg_control, header.msg_controllen) = (control.as_mut_ptr().cast(), control.len());
    // SAFETY: D1.
    let length = unsafe { libc::recvmsg(channel.as_raw_fd(), &raw mut header, 0) };
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
    let until = Instant::now() + TIMEOUT;
    while !happened() {
        assert!(Instant::now() < until, "it did not happen in {TIMEOUT:?}");
        thread::sleep(PAUSE);
    }
}

/// A child that does not outlive its test, with its output in a file.
struct Process {
    child: Child,
    said: PathBuf,
}

impl Process {
    /// Starts a command with its output in `said`.
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
        // Fails if it has already ended, as it should have.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const HOW: [&str; 4] = ["--exact", "--ignored", "--nocapture", "--test-threads=1"];

/// A command that runs as user `uid`.
fn of_user(program: &Path, uid: u32) -> Command {
    let mut command = Command::new(program);
    let become_user = move || {
        // SAFETY: the list is empty, so no pointer is read.
        check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
        // SAFETY: it takes a number.
        check(unsafe { libc::setgid(uid) })?;
        // SAFETY: it takes a number.
        check(unsafe { libc::setuid(uid) }).map(drop)
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(become_user) };
    command
}

/// Copies a program, in another process: a process forked from ours meanwhile, by another test, would have
/// the copy open for writing, and such a file cannot be run.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "{} is copied", from.display());
}

/// A job whose last rank is late until callers have connected.
struct Job {
    folder: PathBuf,
    program: PathBuf,
    launcher: Process,
    mark: String,
}

impl Job {
    /// Starts the job. `None` where it cannot be tested.
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
        let folder =
            std::env::temp_dir().join(format!("ferry-join_socket-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("ours");
        // Where other users can run them.
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
        command.env("JOIN_SOCKET_TEST", &mark).env("HOME", &folder).current_dir(&folder);
        let launcher = Process::start(command, folder.join("launcher"));
        Some(Job { folder, program, launcher, mark: format!("JOIN_SOCKET_TEST={mark}") })
    }

    /// The name of the socket on which a process of the job listens.
    fn join_socket(&self) -> String {
        let mut found = None;
        let until = Instant::now() + TIMEOUT;
        while found.is_none() {
            assert!(Instant::now() < until, "there is no join socket: {}", self.launcher.said());
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

    /// The inode numbers of all sockets of the job's processes.
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

    /// Sends callers to the join socket, lets the late rank join when all have connected, and waits for the
    /// end of the job.
    fn withstands(mut self, callers: &[(&str, u32)]) {
        let (join_socket, over) = (self.join_socket(), self.folder.join("over"));
        let callers: Vec<Process> = (0..)
            .zip(callers)
            .map(|(number, (role, uid))| {
                let mut command = of_user(&self.program, *uid);
                command.arg("caller").args(HOW);
                command.env("JOIN_SOCKET", &join_socket).env("ROLE", role).env("OVER", &over);
                Process::start(command, self.folder.join(format!("caller-{number}")))
            })
            .collect();
        callers.iter().for_each(|caller| wait_until(|| caller.said().contains("said")));
        let began = Instant::now();
        fs::write(self.folder.join("late"), "").expect("written");
        let until = Instant::now() + TIMEOUT;
        let status = loop {
            match self.launcher.child.try_wait().expect("our child") {
                None if Instant::now() < until => thread::sleep(PAUSE),
                status => break status,
            }
        };
        let took = began.elapsed();
        fs::write(&over, "").expect("written");
        let (job, heard) = (self.launcher.said(), callers.iter().map(Process::said));
        let accept_ranks: Vec<String> = heard.filter(|said| said.contains("let in")).collect();
        let joined = job.matches("joined").count();
        println!(
            "{} callers, {} let in, {joined} of {RANKS} ranks joined in {took:?}",
            callers.len(),
            accept_ranks.len()
        );
        assert!(accept_ranks.is_empty(), "{accept_ranks:#?}");
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
fn other_users_are_refused_including_root() {
    let Some(job) = Job::start("others", false) else { return };
    job.withstands(&[("speaks", ANOTHER), ("speaks", ROOT), ("speaks", OWNER)]);
}

#[test]
fn silent_callers_delay_no_rank() {
    let Some(job) = Job::start("silent", false) else { return };
    job.withstands(&[("is silent", ROOT), ("is silent", OWNER), ("is silent", ANOTHER)]);
}

#[test]
fn callers_that_send_nonsense_delay_no_rank() {
    let Some(job) = Job::start("trickle", false) else { return };
    job.withstands(&[("trickles", ROOT), ("trickles", OWNER)]);
}

#[test]
fn a_flood_delays_no_rank_for_long() {
    let Some(job) = Job::start("flood", false) else { return };
    job.withstands(&[("floods", OWNER), ("floods", ANOTHER), ("speaks", OWNER)]);
}

#[test]
fn where_all_users_have_one_uid_the_token_decides() {
    let Some(job) = Job::start("namespaces", true) else { return };
    job.withstands(&[
        ("speaks", ANOTHER),
        ("speaks", ROOT),
        ("is silent", ANOTHER),
        ("floods", ANOTHER),
    ]);
}
