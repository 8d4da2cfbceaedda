//! What the tests of whole jobs share: a rank that communicates, a temporary folder, a search for
//! processes that are left, and the system calls for it.
//!
//! Invariants, cited below by number.
//!   T1. Every pointer given to the kernel is to a live value of the size that is passed with it.
//!   T2. Between fork and exec, only async-signal-safe functions are called.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod job;
pub(crate) mod tmux;
pub(crate) mod worker;

use std::ffi::c_int;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const FERRY: &str = env!("CARGO_BIN_EXE_ferry");

/// No test waits longer than this for anything.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// How this test program is started as a rank.
pub(crate) const MEMBER: [&str; 5] =
    ["member", "--exact", "--ignored", "--nocapture", "--test-threads=1"];

pub(crate) fn me() -> PathBuf {
    std::env::current_exe().expect("a path")
}

/// Whether tests run at their full size, as in CI. Without `FULL` in the environment they leave out what takes long.
pub(crate) fn is_full() -> bool {
    std::env::var_os("FULL").is_some()
}

/// A folder that is removed with the test. All users may enter it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ferry-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Copies a program into it, with cp(1): a process that another test forks from ours meanwhile would inherit the
    /// copy open for writing, and a file that is open for writing cannot be executed.
    pub(crate) fn copy(&self, program: &Path, name: &str) -> PathBuf {
        let path = self.join(name);
        let copied = Command::new("cp").arg(program).arg(&path).status();
        assert!(copied.is_ok_and(|status| status.success()), "{} is copied", program.display());
        path
    }

    pub(crate) fn names(&self) -> Vec<String> {
        names_in(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// How a command ended, and what it printed.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a command to its end. One that does not end is killed, and the test fails. Its output goes to
/// files, so that processes that inherit it do not block us.
pub(crate) fn finish(mut command: Command, folder: &Folder) -> Ended {
    let (out, err) = (folder.join("stdout"), folder.join("stderr"));
    command.stdout(fs::File::create(&out).expect("a file"));
    command.stderr(fs::File::create(&err).expect("a file"));
    command.stdin(Stdio::null());
    let deadline = Instant::now() + TIMEOUT;
    let mut child = loop {
        match command.spawn() {
            // Under a limit on processes, those that have just been killed still count.
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline =>
            {
                std::thread::yield_now();
            }
            started => break started.expect("the command starts"),
        }
    };
    let ended = wait(&mut child, TIMEOUT);
    let read = |path: &Path| {
        let text = String::from_utf8_lossy(&fs::read(path).expect("written")).into_owned();
        let _ = fs::remove_file(path);
        text
    };
    let (out, err) = (read(&out), read(&err));
    let Some(status) = ended else { panic!("the job has not ended\n{out}\n{err}") };
    Ended { status, out, err }
}

/// Waits for the end of a child; kills it after the timeout.
pub(crate) fn wait(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + timeout;
    loop {
        if let Some(status) = child.try_wait().expect("our child") {
            return Some(status);
        }
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_micros(500));
    }
}

/// Nanoseconds on a clock that all processes share.
pub(crate) fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: by T1.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let part = |number: i64| u64::try_from(number).expect("time goes forward");
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}

pub(crate) fn is_root() -> bool {
    // SAFETY: has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// Sends a signal. Returns whether the process was there.
pub(crate) fn signal(pid: u32, signal: c_int) -> bool {
    let pid = libc::pid_t::try_from(pid).expect("small");
    assert!(pid > 1, "neither everybody nor the first process is ours");
    // SAFETY: sends a signal.
    unsafe { libc::kill(pid, signal) == 0 }
}

/// Makes orphans of the processes that we start our children, so that none is overlooked.
pub(crate) fn adopt_orphans() {
    let on: libc::c_ulong = 1;
    // SAFETY: sets an attribute of this process.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, on) }, 0);
}

/// A process that was found, alive or a zombie.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) pid: u32,
    pub(crate) is_dead: bool,
    pub(crate) name: String,
}

/// All processes that are our children, or have `mark` in their environment.
pub(crate) fn left(mark: &str) -> Vec<Found> {
    let own = std::process::id();
    pids().filter(|pid| *pid != own).filter_map(|pid| found(pid, own, mark)).collect()
}

pub(crate) fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("processes are listed");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn found(pid: u32, own: u32, mark: &str) -> Option<Found> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    let is_dead = words.next()? == "Z";
    let parent: u32 = words.next()?.parse().ok()?;
    (parent == own || has_mark(pid, mark)).then(|| Found { pid, is_dead, name: name.to_owned() })
}

pub(crate) fn has_mark(pid: u32, mark: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}

/// Reaps a child that is dead.
pub(crate) fn mark_down(pid: u32) {
    let pid = libc::pid_t::try_from(pid).expect("small");
    // SAFETY: a null pointer asks for nothing back.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
}

/// Limits a resource of this process, before it becomes the launcher.
pub(crate) fn limit(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: by T1.
    check(unsafe { libc::setrlimit(resource, &raw const limit) })
}

/// Becomes another user for good, and drops all rights of the old one.
pub(crate) fn become_user(uid: u32) -> io::Result<()> {
    // SAFETY: no groups: no pointer is read.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: has no preconditions.
    check(unsafe { libc::setgid(uid) })?;
    // SAFETY: has no preconditions.
    check(unsafe { libc::setuid(uid) })
}

pub(crate) fn check(code: c_int) -> io::Result<()> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes the calls that look into other processes fail with `error` from now on.
pub(crate) fn forbid(error: c_int) -> io::Result<()> {
    let number = |call: libc::c_long| u32::try_from(call).unwrap_or(u32::MAX);
    let refusal = libc::SECCOMP_RET_ERRNO | u32::try_from(error).unwrap_or(1);
    let calls = [libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_ptrace];
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: u16::try_from(code).unwrap_or(0),
        jt,
        jf,
        k,
    };
    let same = |call, jump| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jump, 0, call);
    let mut filter = [
        // The number of the call is the first word of the filter's input.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        same(number(calls[0]), 3),
        same(number(calls[1]), 2),
        same(number(calls[2]), 1),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, refusal),
    ];
    let program = libc::sock_fprog { len: 6, filter: filter.as_mut_ptr() };
    let (on, none): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: sets an attribute of this process.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, on, none, none, none) })?;
    let mode: libc::c_ulong = 2;
    // SAFETY: by T1: the program and its six steps live until the call returns.
    check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) })
}
