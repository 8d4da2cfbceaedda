//! The system calls of the launcher, as small safe functions.

// Invariants of this file, cited below by number.
//   L1. The launcher has one thread, from its first instruction to its last.
//   L2. Every pointer given to the kernel is to a live value of the size that is passed with it.
//   L3. A descriptor that a successful call returns is new, open, and has no other owner.
//   L4. `sigset_t`, `sigaction`, `rlimit`, `termios`, `winsize` and `signalfd_siginfo` are plain
//       data: all zeros is a value of them.
//   L5. Between fork and exec, only async-signal-safe functions are called, and nothing is
//       allocated.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::fmt;
use std::fs::File;
use std::io::{Error, Read as _, Result, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// The number of a process.
pub(super) type Pid = libc::pid_t;

/// Lets only root read the memory of this process, and prevents core dumps. Processes that it starts are not affected.
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

/// Signals that are read from a descriptor instead of delivered, and the signal mask before that.
pub(super) struct Signals {
    queue: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    /// Takes the signals in `wanted`, except those that are ignored: a launcher under `nohup` has to stay.
    pub(super) fn take(wanted: &[c_int]) -> Result<Signals> {
        // A process that ignores SIGCHLD does not learn how its children ended, and we may have inherited that.
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

    /// The next signal that has arrived, if any.
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

/// What the process of a rank does for itself between fork and exec.
pub(super) struct Child {
    /// The end of the bootstrap socket that the rank inherits.
    pub(super) bootstrap: RawFd,
    pub(super) launcher: Pid,
    pub(super) files: libc::rlimit,
    mask: libc::sigset_t,
}

impl Child {
    pub(super) fn new(bootstrap: RawFd, files: libc::rlimit, signals: &Signals) -> Child {
        Child { bootstrap, launcher: own_pid(), files, mask: signals.before }
    }

    /// Arranges for the process that `command` starts to do all this.
    pub(super) fn prepare(self, command: &mut Command) {
        // SAFETY: by L5: `settle` makes only system calls.
        unsafe { command.pre_exec(move || self.settle()) };
    }

    fn settle(&self) -> Result<()> {
        let killed: libc::c_ulong = 9;
        // SAFETY: sets an attribute of this process.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, killed) })?;
        // SAFETY: has no preconditions.
        if unsafe { libc::getppid() } != self.launcher {
            // The launcher died before the prctl above, so that no signal will come.
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

/// Makes `command` run in a session of its own, with the signal mask that the launcher started with: signals of the
/// terminal are for the launcher only.
pub(super) fn set_apart(command: &mut Command, signals: &Signals) {
    let mask = signals.before;
    let settle = move || {
        // SAFETY: has no preconditions; a process that was just forked does not lead a group.
        check(unsafe { libc::setsid() })?;
        // SAFETY: by L2; a null pointer asks for nothing back.
        check(unsafe {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut())
        })?;
        Ok(())
    };
    // SAFETY: by L5: `settle` makes only system calls.
    unsafe { command.pre_exec(settle) };
}

/// Makes `command` lead a session of its own whose terminal is its standard input, and inherit the pipe `life`.
pub(super) fn take_terminal(command: &mut Command, life: RawFd) {
    let settle = move || {
        // SAFETY: has no preconditions; a process that was just forked does not lead a group.
        check(unsafe { libc::setsid() })?;
        // If it is refused, the debugger works without Ctrl-C.
        // SAFETY: passes a number; the standard input is open.
        unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) };
        // SAFETY: clears a flag of a descriptor that the launcher holds for us.
        check(unsafe { libc::fcntl(life, libc::F_SETFD, 0) })?;
        Ok(())
    };
    // SAFETY: by L5: `settle` makes only system calls.
    unsafe { command.pre_exec(settle) };
}

/// Makes the process group of `command` that of the foreground of its standard input, a terminal.
pub(super) fn take_foreground(command: &mut Command) {
    // SAFETY: has no preconditions.
    let settle = || set_foreground(unsafe { libc::getpid() });
    // SAFETY: by L5: `set_foreground` makes only system calls.
    unsafe { command.pre_exec(settle) };
}

/// Makes our process group that of the foreground of the standard input again. What is not a terminal stays as it is.
pub(super) fn regain_foreground() {
    // SAFETY: has no preconditions.
    let _ = set_foreground(unsafe { libc::getpgrp() });
}

/// Sets the process group of the foreground of the standard input. A process of the background that does so would be
/// stopped by SIGTTOU, which is therefore blocked here.
fn set_foreground(group: Pid) -> Result<()> {
    let (mut stop, mut before) = (empty_set(), empty_set());
    // SAFETY: by L2, and `stop` is initialised.
    unsafe { libc::sigaddset(&raw mut stop, libc::SIGTTOU) };
    // SAFETY: by L2.
    check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const stop, &raw mut before) })?;
    // SAFETY: passes numbers.
    let set = check(unsafe { libc::tcsetpgrp(0, group) });
    // SAFETY: by L2; a null pointer asks for nothing back.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    set.map(drop)
}

/// Gives up the terminal that controls this process, so that another session can have it. It stays open.
pub(super) fn leave_terminal(terminal: BorrowedFd<'_>) -> Result<()> {
    // The session that loses its terminal gets a hang-up.
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    // SAFETY: passes no pointer, and the descriptor is open.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCNOTTY) }).map(drop)
}

/// Makes orphans of our ranks our children, so that they can be found.
pub(super) fn become_subreaper() -> Result<()> {
    let on: libc::c_ulong = 1;
    // SAFETY: sets an attribute of this process.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, on) }).map(drop)
}

/// Raises the limit on open files as far as allowed, and returns the limit before.
pub(super) fn raise_files() -> Result<libc::rlimit> {
    // SAFETY: by L4.
    let mut before: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: by L2.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before) })?;
    let raised = libc::rlimit { rlim_cur: before.rlim_max, rlim_max: before.rlim_max };
    // SAFETY: by L2. If it is refused, the old limit stays.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
    Ok(before)
}

/// Waits until a descriptor is ready or the timeout expires; without a timeout, until one is ready.
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

/// Whether a descriptor is writable now.
pub(super) fn writable(descriptor: BorrowedFd<'_>) -> bool {
    let fd = descriptor.as_raw_fd();
    let mut set = [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }];
    poll(&mut set, Some(0)).is_ok() && set[0].revents != 0
}

/// Makes reads and writes of our end of a pipe non-blocking.
pub(super) fn never_block(descriptor: BorrowedFd<'_>) -> Result<()> {
    let fd = descriptor.as_raw_fd();
    // SAFETY: sets a flag of a descriptor that is open.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) }).map(drop)
}

/// The user of the process at the other end of a socket of this host.
pub(crate) fn user_of(socket: BorrowedFd<'_>) -> Result<u32> {
    let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let size = size_of::<libc::ucred>();
    let mut length = libc::socklen_t::try_from(size).unwrap_or(0);
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    let (fd, into) = (socket.as_raw_fd(), (&raw mut who).cast());
    // SAFETY: by L2.
    check(unsafe { libc::getsockopt(fd, level, option, into, &raw mut length) })?;
    Ok(who.uid)
}

/// Opens a pseudo-terminal that controls no session: the end that we read, and the end that a rank writes to. Bytes
/// pass unchanged. Its size is that of the terminal `shown`, if known.
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
        // SAFETY: by L2. If it is refused, the program sees the default size.
        unsafe { libc::ioctl(theirs.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    }
    Ok((File::from(ours), theirs))
}

/// Makes a pipe so small that it can be written only when it is empty.
pub(super) fn shrink_pipe(pipe: BorrowedFd<'_>) {
    // SAFETY: changes the size of a pipe that is open. If it is refused, the launcher reads further ahead.
    unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
}

/// Creates a file in memory, like the one that the ranks of a host share.
pub(crate) fn memory_file() -> Result<File> {
    // SAFETY: by L2: a string with its end.
    let raw = check(unsafe { libc::memfd_create(c"ferry-doctor".as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: by L3.
    Ok(unsafe { File::from_raw_fd(raw) })
}

/// Tries whether a process reads the memory of its sibling, as the ranks of a host do. Forks twice: by L1, before this
/// process has a second thread.
pub(crate) fn try_single_copy() -> Result<()> {
    let (release, waiting) = UnixStream::pair()?;
    let lender = fork_apart(&waiting, |mut pipe| drop(pipe.read(&mut [0])))?;
    drop(waiting);
    let (mut told, tell) = UnixStream::pair()?;
    let reader = fork_apart(&tell, |mut pipe| {
        let error =
            read_probe_of(lender).err().map_or(0, |error| error.raw_os_error().unwrap_or(-1));
        let _ = pipe.write_all(&error.to_ne_bytes());
    });
    drop(tell);
    let mut error = [0; 4];
    let heard = reader.and_then(|reader| {
        let heard = told.read_exact(&mut error);
        wait_for(reader);
        heard
    });
    drop(release);
    wait_for(lender);
    heard?;
    match c_int::from_ne_bytes(error) {
        0 => Ok(()),
        number => Err(Error::from_raw_os_error(number)),
    }
}

/// Reads [`PROBE`] in the memory of another process, which was forked from the same as this one, so that it is at the same
/// address there.
fn read_probe_of(other: Pid) -> Result<()> {
    let mut found: u64 = 0;
    let here = libc::iovec { iov_base: (&raw mut found).cast(), iov_len: size_of::<u64>() };
    let there = libc::iovec { iov_base: (&raw const PROBE).cast_mut().cast(), ..here };
    // SAFETY: by L2; the kernel checks the address in the other process.
    let read = unsafe { libc::process_vm_readv(other, &raw const here, 1, &raw const there, 1, 0) };
    match usize::try_from(read) {
        Ok(length) if length == size_of::<u64>() && found == PROBE => Ok(()),
        Ok(_) => Err(Error::from_raw_os_error(libc::EFAULT)),
        Err(_) => Err(Error::last_os_error()),
    }
}

/// What [`try_single_copy`] reads.
static PROBE: u64 = 0x0066_6572_7279_7769;

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

/// Sends a signal to a process, which may be gone.
pub(super) fn signal(pid: Pid, signal: c_int) {
    assert!(pid > 1, "only a process of the job is signalled, never all or init");
    // SAFETY: sends a signal.
    unsafe { libc::kill(pid, signal) };
}

/// Sends a signal to a process group. Returns whether it had a process.
pub(super) fn signal_group(group: Pid, signal: c_int) -> bool {
    assert!(group > 1, "only a group of the job is signalled, never all or our own");
    // SAFETY: sends a signal.
    unsafe { libc::kill(-group, signal) == 0 }
}

/// Writes why no process could be started.
pub(super) fn tell_of_start(error: &Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => write!(
            f,
            "no more processes are allowed (ulimit -u for this user, or pids.max of the container)"
        ),
        _ => write!(f, "{error}"),
    }
}

/// Stops this process, as SIGTSTP of the terminal would have.
pub(super) fn stop_self() {
    // SAFETY: sends a signal to ourselves.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Milliseconds from now to `then`, for [`poll`]. Rounded up: waking too early would waste a turn.
pub(super) fn ms_until(then: Instant) -> u64 {
    let left = then.saturating_duration_since(Instant::now());
    u64::try_from(left.as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

/// The number of this process.
pub(super) fn own_pid() -> Pid {
    // SAFETY: has no preconditions.
    unsafe { libc::getpid() }
}

/// Whether we may read the terminal: a background process that does is stopped.
pub(super) fn in_foreground(terminal: BorrowedFd<'_>) -> bool {
    // SAFETY: asks about a descriptor that is open.
    let front = unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) };
    // SAFETY: has no preconditions.
    front == unsafe { libc::getpgrp() }
}

/// Forks a process that runs `task` and ends. It is in a session of its own, blocks all signals, and keeps no open file
/// but `pipe`.
pub(super) fn fork_apart(pipe: &impl AsRawFd, task: impl FnOnce(File)) -> Result<Pid> {
    // SAFETY: by L1 no other thread holds a lock that the child would wait for.
    let pid = check(unsafe { libc::fork() })?;
    if pid > 0 {
        return Ok(pid);
    }
    if let Ok(pipe) = live_apart(pipe.as_raw_fd()) {
        task(pipe);
    }
    // SAFETY: ends this process without running the destructors and exit handlers of the parent.
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
    // Descriptors 0 to 2 must be in use, or the next opened files get them. Without a null device, the pipe will do.
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

/// Closes everything from 4 on. The caller replaces 0 to 2.
fn close_all_but_three() {
    // By number: the wrapper needs glibc 2.34, and our wheels support 2.28.
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
        // SAFETY: as above. One of them was the descriptor of the folder, which is closed already: no harm.
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
