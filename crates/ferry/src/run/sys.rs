//! What the launcher asks of the system, as small safe functions.

// Invariants of this file, cited below by number.
//   L1. The launcher has one thread, from its first instruction to its last.
//   L2. Every pointer given to the kernel is to a live value of the size that is told with it.
//   L3. A descriptor that a successful call returns is new, open, and owned by nobody else.
//   L4. `sigset_t`, `sigaction`, `rlimit`, `termios`, `winsize` and `signalfd_siginfo` are plain
//       data: all zeros is a value of them.
//   L5. Between fork and exec only calls are made that are safe in a signal handler, and nothing
//       is allocated.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::fmt;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// A process, as the kernel counts.
pub(super) type Pid = libc::pid_t;

/// Nobody but root can look into this process any more, and it leaves no core dump. What it starts is not concerned.
pub(super) fn hide_memory() -> Result<()> {
    let off: libc::c_ulong = 0;
    // SAFETY: sets an attribute of this process.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, off) }).map(drop)
}

/// How a process ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) enum Ending {
    Exit(u8),
    Signal(c_int),
}

/// Signals that are not delivered but read, and the mask that was there before.
pub(super) struct Signals {
    queue: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    /// Takes those of `wanted` that are not ignored: who started us under `nohup` wants us to stay.
    pub(super) fn take(wanted: &[c_int]) -> Result<Signals> {
        // Who ignores the end of his children is not told how they ended; we may have inherited it.
        // SAFETY: sets what the system does by itself; no handler is installed.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        let mut set = empty_set();
        for signal in wanted.iter().filter(|signal| !is_ignored(**signal)) {
            // SAFETY: by L2, and `set` is initialised.
            unsafe { libc::sigaddset(&raw mut set, *signal) };
        }
        let mut before = empty_set();
        // SAFETY: by L2.
        check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut before) })?;
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: by L2; -1 asks for a new descriptor.
        let queue = check(unsafe { libc::signalfd(-1, &raw const set, flags) })?;
        // SAFETY: by L3.
        let queue = unsafe { OwnedFd::from_raw_fd(queue) };
        Ok(Signals { queue, before })
    }

    /// The next signal that has come, if any.
    pub(super) fn poll(&self) -> Option<c_int> {
        // SAFETY: by L4.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: by L2.
        let length = unsafe { libc::read(self.queue.as_raw_fd(), (&raw mut info).cast(), size) };
        (usize::try_from(length) == Ok(size)).then(|| c_int::try_from(info.ssi_signo).ok())?
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

/// What a rank needs from its first moment, and only the new process can do for itself.
pub(super) struct Child {
    /// The end of the bootstrap socket that it inherits.
    pub(super) bootstrap: RawFd,
    pub(super) launcher: Pid,
    pub(super) files: libc::rlimit,
    mask: libc::sigset_t,
}

impl Child {
    pub(super) fn new(bootstrap: RawFd, files: libc::rlimit, signals: &Signals) -> Child {
        Child { bootstrap, launcher: own_pid(), files, mask: signals.before }
    }

    /// Arranges for all of it to be done in the process that `command` starts.
    pub(super) fn prepare(self, command: &mut Command) {
        // SAFETY: by L5: `settle` makes system calls alone.
        unsafe { command.pre_exec(move || self.settle()) };
    }

    fn settle(&self) -> Result<()> {
        let killed: libc::c_ulong = 9;
        // SAFETY: sets an attribute of this process.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, killed) })?;
        // SAFETY: has no preconditions.
        if unsafe { libc::getppid() } != self.launcher {
            // The launcher died before the line above; nobody would ever tell us.
            // SAFETY: ends this process.
            unsafe { libc::_exit(1) };
        }
        // SAFETY: clears a flag of a descriptor that the launcher holds for us.
        check(unsafe { libc::fcntl(self.bootstrap, libc::F_SETFD, 0) })?;
        // SAFETY: by L2.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const self.files) })?;
        // SAFETY: by L2; a null pointer asks for nothing back.
        check(unsafe {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const self.mask, std::ptr::null_mut())
        })?;
        Ok(())
    }
}

/// Lets what `command` starts live in a session of its own, with the signals that we had: what a terminal sends to us is
/// not for it.
pub(super) fn set_apart(command: &mut Command, signals: &Signals) {
    let mask = signals.before;
    let settle = move || {
        // SAFETY: has no preconditions; we are no leader of a group, having just been forked.
        check(unsafe { libc::setsid() })?;
        // SAFETY: by L2; a null pointer asks for nothing back.
        check(unsafe {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut())
        })?;
        Ok(())
    };
    // SAFETY: by L5: `settle` makes system calls alone.
    unsafe { command.pre_exec(settle) };
}

/// Orphans of our ranks become our children, so that they can be found.
pub(super) fn become_subreaper() -> Result<()> {
    let on: libc::c_ulong = 1;
    // SAFETY: sets an attribute of this process.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, on) }).map(drop)
}

/// Allows as many open files as the system lets us, and says what was allowed before.
pub(super) fn raise_files() -> Result<libc::rlimit> {
    // SAFETY: by L4.
    let mut before: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: by L2.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before) })?;
    let raised = libc::rlimit { rlim_cur: before.rlim_max, rlim_max: before.rlim_max };
    // SAFETY: by L2. If it is not granted, we have what we had.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
    Ok(before)
}

/// Waits until a descriptor is ready or the time is over; without time, until one is ready.
pub(super) fn poll(set: &mut [libc::pollfd], timeout_ms: Option<u64>) -> Result<()> {
    let count = libc::nfds_t::try_from(set.len()).expect("a count of descriptors");
    let timeout = timeout_ms.map_or(-1, |ms| c_int::try_from(ms).unwrap_or(c_int::MAX));
    // SAFETY: by L2, with `count` entries.
    let code = unsafe { libc::poll(set.as_mut_ptr(), count, timeout) };
    match check(code) {
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(()),
        other => other.map(drop),
    }
}

/// Whether one descriptor can be written now.
pub(super) fn writable(descriptor: BorrowedFd<'_>) -> bool {
    let fd = descriptor.as_raw_fd();
    let mut set = [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }];
    poll(&mut set, Some(0)).is_ok() && set[0].revents != 0
}

/// Reads and writes of our end of a pipe shall never wait.
pub(super) fn never_block(descriptor: BorrowedFd<'_>) -> Result<()> {
    let fd = descriptor.as_raw_fd();
    // SAFETY: sets a flag of a descriptor that is open.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) }).map(drop)
}

/// A terminal of no session: the end that we read, and the end that a rank writes to. Bytes pass as they are. It is as
/// wide as the one that is shown, if that is known here.
pub(super) fn open_terminal(shown: BorrowedFd<'_>) -> Result<(File, OwnedFd)> {
    let (mut ours, mut theirs) = (-1, -1);
    let null = std::ptr::null_mut();
    // SAFETY: by L2; null pointers ask for nothing back and set nothing.
    check(unsafe {
        libc::openpty(&raw mut ours, &raw mut theirs, null, null.cast(), null.cast())
    })?;
    // SAFETY: by L3.
    let ours = unsafe { OwnedFd::from_raw_fd(ours) };
    // SAFETY: by L3.
    let theirs = unsafe { OwnedFd::from_raw_fd(theirs) };
    for end in [&ours, &theirs] {
        // SAFETY: sets a flag of a descriptor that is open. By L1 nothing is started meanwhile.
        check(unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    // SAFETY: by L4.
    let mut modes: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: by L2.
    check(unsafe { libc::tcgetattr(theirs.as_raw_fd(), &raw mut modes) })?;
    // SAFETY: by L2.
    unsafe { libc::cfmakeraw(&raw mut modes) };
    // SAFETY: by L2.
    check(unsafe { libc::tcsetattr(theirs.as_raw_fd(), libc::TCSANOW, &raw const modes) })?;
    // SAFETY: by L4.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: by L2.
    if unsafe { libc::ioctl(shown.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) } == 0 {
        // SAFETY: by L2. If it is refused, the program takes the usual size.
        unsafe { libc::ioctl(theirs.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    }
    Ok((File::from(ours), theirs))
}

/// Makes a pipe so small that it can be written only when it is empty.
pub(super) fn shrink_pipe(pipe: BorrowedFd<'_>) {
    // SAFETY: changes the size of a pipe that is open. If it is refused, more is read ahead.
    unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
}

/// The next child that has ended, if any.
pub(super) fn reap() -> Option<(Pid, Ending)> {
    let mut status = 0;
    // SAFETY: by L2.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    if pid <= 0 {
        return None;
    }
    let ending = if libc::WIFSIGNALED(status) {
        Ending::Signal(libc::WTERMSIG(status))
    } else {
        Ending::Exit(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX))
    };
    Some((pid, ending))
}

/// Waits for the end of one child.
pub(super) fn wait_for(pid: Pid) {
    // SAFETY: by L2; a null pointer asks for nothing back.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}

/// Sends a signal to a process. It may be gone: then there is nothing to do.
pub(super) fn signal(pid: Pid, signal: c_int) {
    assert!(pid > 1, "neither everybody nor the first process is ours");
    // SAFETY: sends a signal.
    unsafe { libc::kill(pid, signal) };
}

/// Sends a signal to a process group. Says whether anybody was there.
pub(super) fn signal_group(group: Pid, signal: c_int) -> bool {
    assert!(group > 1, "neither everybody nor our own group is meant");
    // SAFETY: sends a signal.
    unsafe { libc::kill(-group, signal) == 0 }
}

/// Says why no process could be started.
pub(super) fn tell_of_start(error: &Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => write!(
            f,
            "no more processes are allowed (ulimit -u for this user, or pids.max of the container)"
        ),
        _ => write!(f, "{error}"),
    }
}

/// Stops this process, as the terminal would have.
pub(super) fn stop_self() {
    // SAFETY: sends a signal to ourselves.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// From now to then, in the unit of [`poll`]. Rounded up: a moment too early is a turn for nothing.
pub(super) fn ms_until(then: Instant) -> u64 {
    let left = then.saturating_duration_since(Instant::now());
    u64::try_from(left.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

/// This process.
pub(super) fn own_pid() -> Pid {
    // SAFETY: has no preconditions.
    unsafe { libc::getpid() }
}

/// Whether we may read the terminal: a process of the background that does is stopped.
pub(super) fn in_foreground(terminal: BorrowedFd<'_>) -> bool {
    // SAFETY: asks about a descriptor that is open.
    let front = unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) };
    // SAFETY: has no preconditions.
    front == unsafe { libc::getpgrp() }
}

/// Starts a second process of ourselves that does `task` and ends. In it nothing of this one is
/// open but `pipe`, which it gets; it is in a session of its own and deaf to signals.
pub(super) fn fork_apart(pipe: &impl AsRawFd, task: impl FnOnce(File)) -> Result<Pid> {
    // SAFETY: by L1 no other thread holds a lock that the copy would wait for.
    let pid = check(unsafe { libc::fork() })?;
    if pid > 0 {
        return Ok(pid);
    }
    if let Ok(pipe) = live_apart(pipe.as_raw_fd()) {
        task(pipe);
    }
    // SAFETY: ends this process without running what belongs to the other.
    unsafe { libc::_exit(0) }
}

/// Leaves the session, the folder, the signals and the files of the launcher.
fn live_apart(pipe: RawFd) -> Result<File> {
    // SAFETY: has no preconditions.
    unsafe { libc::setsid() };
    let mut all = empty_set();
    // SAFETY: by L2.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: by L2; a null pointer asks for nothing back.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut()) };
    let _ = std::env::set_current_dir("/");
    // SAFETY: the descriptor is open; what was at 3 is not used in this process any more.
    check(if pipe == 3 { 3 } else { unsafe { libc::dup2(pipe, 3) } })?;
    close_all_but_three();
    // Something has to be at 0, 1 and 2, or the next file opened is. Without a null device, the pipe will do.
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.as_ref().map_or(3, AsRawFd::as_raw_fd);
    for standard in 0..3 {
        // SAFETY: replaces a descriptor by one that is open.
        check(unsafe { libc::dup2(null, standard) })?;
    }
    let name = c"ferry-reaper";
    // SAFETY: by L2: a string with its end.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    // SAFETY: 3 is our copy of the pipe, and everything else that was open is closed.
    Ok(unsafe { File::from_raw_fd(3) })
}

/// Closes 0 to 2 later, by replacing them; and everything from 4 on.
fn close_all_but_three() {
    // By number: the function needs glibc 2.34, and wheels run with 2.28.
    // SAFETY: by L1 and since this process uses nothing of what it inherited.
    if unsafe { libc::syscall(libc::SYS_close_range, 4, libc::c_uint::MAX, 0) } == 0 {
        return;
    }
    // A kernel before 5.9.
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<c_int> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 3)
        .collect();
    for number in open {
        // SAFETY: as above. One of them was the folder itself, closed already: no harm.
        unsafe { libc::close(number) };
    }
}

fn is_ignored(signal: c_int) -> bool {
    // SAFETY: by L4.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: by L2; a null pointer changes nothing.
    let code = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    code == 0 && action.sa_sigaction == libc::SIG_IGN
}

fn empty_set() -> libc::sigset_t {
    // SAFETY: by L4.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: by L2.
    unsafe { libc::sigemptyset(&raw mut set) };
    set
}

fn check(code: c_int) -> Result<c_int> {
    if code < 0 { Err(Error::last_os_error()) } else { Ok(code) }
}
