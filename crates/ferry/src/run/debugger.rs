//! `--gdb`: ranks that run under gdb, each in a terminal of its own.
//!
//! A terminal is an xterm, a window of tmux, or that of the launcher. In an xterm or a window of tmux, `ferry terminal` runs:
//! it tells the launcher the name of its terminal, gives the terminal up, and keeps it open until the debugger has ended.
//! The debugger is started by the launcher like any rank, and takes the terminal over. So it inherits what ranks inherit,
//! and the launcher sees how it ends.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, IsTerminal, PipeReader, PipeWriter, Read, Write, stdin};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use super::program;
use super::sys::{self, Signals};

/// The hidden subcommand that runs in the terminal of a debugger.
pub(crate) const TERMINAL_COMMAND: &str = "terminal";

/// The ranks that `--gdb` names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum RankSet {
    All,
    /// Ranges with both ends.
    Listed(Vec<(u32, u32)>),
}

impl RankSet {
    /// What `--gdb` expects.
    pub(super) const WANTED: &str = "a list of ranks such as 0,2-4";

    /// Parses `0,2-4`.
    pub(super) fn parse(list: &str) -> Option<RankSet> {
        let range = |word: &str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let range = (first.parse().ok()?, last.parse().ok()?);
            (range.0 <= range.1).then_some(range)
        };
        list.split(',').map(range).collect::<Option<Vec<_>>>().map(RankSet::Listed)
    }

    fn has(&self, rank: u32) -> bool {
        match self {
            RankSet::All => true,
            RankSet::Listed(list) => {
                list.iter().any(|(first, last)| (*first..=*last).contains(&rank))
            }
        }
    }

    /// The highest rank that is named.
    fn last(&self) -> Option<u32> {
        match self {
            RankSet::All => None,
            RankSet::Listed(list) => list.iter().map(|(_, last)| *last).max(),
        }
    }
}

/// Which ranks run under gdb, and in which terminals.
#[derive(Clone, Debug)]
pub(super) struct Debugger {
    ranks: RankSet,
    /// The lowest of them. Its window is shown at once.
    first: u32,
    gdb: PathBuf,
    place: DebuggerPlace,
}

/// Where gdb gets a terminal from.
#[derive(Clone, Debug, Eq, PartialEq)]
enum DebuggerPlace {
    Xterm(PathBuf),
    Tmux(PathBuf),
    /// The terminal of the launcher, for one rank.
    Here,
}

/// Why ranks cannot be debugged.
#[derive(Debug)]
pub(super) enum NoDebugger {
    /// The job has no rank of this number.
    NoRank {
        rank: u32,
        size: u32,
    },
    NoGdb,
    /// Ranks are on other hosts.
    Remote,
    /// There are no terminals for this many ranks.
    NoTerminals {
        ranks: usize,
    },
    /// A terminal did not open.
    NotOpened {
        rank: u32,
        command: String,
        why: String,
    },
}

impl fmt::Display for NoDebugger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoDebugger::NoRank { rank, size } => {
                write!(f, "--gdb={rank}: no rank {rank} in a job of {size}")
            }
            NoDebugger::NoGdb => {
                write!(
                    f,
                    "--gdb: cannot find gdb in PATH; install it, or name another debugger with --rank-command"
                )
            }
            NoDebugger::Remote => write!(
                f,
                "--gdb: the terminals are on this host, and ranks of the job are on others; leave out --hosts, or attach \
                 to a running rank on its host with gdb -p"
            ),
            NoDebugger::NoTerminals { ranks: 1 } => write!(
                f,
                "--gdb: the standard input is no terminal, and there is neither tmux nor xterm with DISPLAY to open one; \
                 start the job in a terminal"
            ),
            NoDebugger::NoTerminals { ranks } => write!(
                f,
                "--gdb: {ranks} ranks need a terminal each, and there is neither tmux nor xterm with DISPLAY to open them; \
                 start the job inside tmux, or debug one rank, such as --gdb=0"
            ),
            NoDebugger::NotOpened { rank, command, why } => {
                write!(f, "--gdb: cannot open a terminal for rank {rank}: `{command}` {why}")
            }
        }
    }
}

impl Debugger {
    /// Finds gdb, and terminals for those of `size` ranks that are named.
    pub(super) fn choose(ranks: RankSet, size: u32) -> Result<Debugger, NoDebugger> {
        if let Some(rank) = ranks.last().filter(|rank| *rank >= size) {
            return Err(NoDebugger::NoRank { rank, size });
        }
        let gdb = in_path("gdb").ok_or(NoDebugger::NoGdb)?;
        let there: Vec<u32> = (0..size).filter(|rank| ranks.has(*rank)).collect();
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let xterm = in_path("xterm").filter(|_| is_set("DISPLAY"));
        let tmux = in_path("tmux").filter(|_| is_set("TMUX"));
        let place = xterm.map(DebuggerPlace::Xterm).or(tmux.map(DebuggerPlace::Tmux));
        let place =
            place.or((there.len() == 1 && stdin().is_terminal()).then_some(DebuggerPlace::Here));
        let place = place.ok_or(NoDebugger::NoTerminals { ranks: there.len() })?;
        Ok(Debugger { ranks, first: there.first().copied().unwrap_or(0), gdb, place })
    }

    /// Whether this rank is debugged.
    pub(super) fn has(&self, rank: u32) -> bool {
        self.ranks.has(rank)
    }

    /// Whether the debugger has the terminal of the launcher.
    pub(super) fn is_here(&self) -> bool {
        self.place == DebuggerPlace::Here
    }

    /// The command that debugs this program: its file, and its words.
    pub(super) fn of_program(&self, program: &[OsString]) -> (PathBuf, Vec<OsString>) {
        let words = ["gdb", "-q", "--args"].map(OsString::from);
        (self.gdb.clone(), words.into_iter().chain(program.iter().cloned()).collect())
    }

    /// Where the terminals are, for people.
    pub(super) fn place(&self) -> &'static str {
        match self.place {
            DebuggerPlace::Xterm(_) => "in xterm windows",
            DebuggerPlace::Tmux(_) => "in windows of tmux",
            DebuggerPlace::Here => "in this terminal",
        }
    }

    /// Opens the terminal of a rank.
    pub(super) fn open(
        &self,
        rank: u32,
        signals: &Signals,
    ) -> Result<DebuggerTerminal, NoDebugger> {
        let title = format!("rank {rank}");
        let mut command = match &self.place {
            DebuggerPlace::Here => return Ok(DebuggerTerminal::Here),
            DebuggerPlace::Xterm(xterm) => {
                let mut command = Command::new(xterm);
                command.args(["-T", &title, "-n", &title, "-e"]);
                command
            }
            DebuggerPlace::Tmux(tmux) => {
                let mut command = Command::new(tmux);
                command.arg("new-window").args((rank != self.first).then_some("-d"));
                command.args(["-n", &title]);
                command
            }
        };
        window(&mut command, signals).map_err(|why| NoDebugger::NotOpened {
            rank,
            command: command.get_program().display().to_string(),
            why,
        })
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let here = std::env::current_dir().unwrap_or_default();
    program::find(OsStr::new(name), &here, std::env::var_os("PATH").as_deref()).ok()
}

/// The terminal of a rank's debugger.
pub(super) enum DebuggerTerminal {
    Window {
        terminal: File,
        /// The value of `TERM` there.
        sort: OsString,
        /// The window is open for as long as a process has this.
        life: PipeWriter,
    },
    Here,
}

impl DebuggerTerminal {
    /// Makes `command` run in this terminal.
    pub(super) fn prepare(&self, command: &mut Command) -> io::Result<()> {
        match self {
            DebuggerTerminal::Window { terminal, sort, life } => {
                command.stdin(terminal.try_clone()?);
                command.stdout(terminal.try_clone()?).stderr(terminal.try_clone()?);
                command.env("TERM", sort);
                sys::take_terminal(command, life.as_raw_fd());
            }
            DebuggerTerminal::Here => {
                command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
                command.process_group(0);
                sys::take_foreground(command);
            }
        }
        Ok(())
    }
}

/// Starts the command that opens a window, with `ferry terminal` in it, and waits until that has told its name.
fn window(command: &mut Command, signals: &Signals) -> Result<DebuggerTerminal, String> {
    let os = |error: io::Error| format!("cannot be used: {error}");
    let own = std::env::current_exe().map_err(os)?;
    let (mut news, told) = io::pipe().map_err(os)?;
    let (alive, life) = io::pipe().map_err(os)?;
    // Pipes that the window opens by the numbers that they have here: only the same user can.
    let path = |pipe: &dyn AsRawFd| format!("/proc/{}/fd/{}", sys::own_pid(), pipe.as_raw_fd());
    command.arg(own).args([TERMINAL_COMMAND.to_owned(), path(&told), path(&alive)]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    sys::set_apart(command, signals);
    let mut child = command.spawn().map_err(|error| format!("does not start: {error}"))?;
    let until = Instant::now() + OPEN_MAX;
    while !is_readable(&news, Duration::from_millis(50)) {
        let ended = child.try_wait().ok().flatten().filter(|status| !status.success());
        if let Some(status) = ended {
            let mut said = String::new();
            let _ = child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut said));
            return Err(format!("failed ({status}): {}", said.trim()));
        }
        if Instant::now() > until {
            return Err(format!("has opened no window within {} s", OPEN_MAX.as_secs()));
        }
    }
    // One write of less than a page arrives whole.
    let mut bytes = vec![0; TOLD_BYTES_MAX];
    let length = news.read(&mut bytes).map_err(os)?;
    let mut words = bytes[..length].split(|byte| *byte == 0).map(OsStr::from_bytes);
    let (name, sort) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let terminal = File::options().read(true).write(true).open(name).map_err(os)?;
    Ok(DebuggerTerminal::Window { terminal, sort: sort.to_owned(), life })
}

fn is_readable(pipe: &PipeReader, within: Duration) -> bool {
    let mut set = [libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
    let timeout = u64::try_from(within.as_millis()).unwrap_or(0);
    sys::poll(&mut set, Some(timeout)).is_ok() && set[0].revents != 0
}

/// `ferry terminal`: tells the launcher the name of this terminal, gives it up, and keeps it open until the debugger that
/// takes it over has ended.
pub(crate) fn run_terminal(arguments: &[OsString]) -> ExitCode {
    match keep_terminal(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "ferry {TERMINAL_COMMAND}: this command is started by `ferry run --gdb`: {error}"
            );
            ExitCode::FAILURE
        }
    }
}

fn keep_terminal(arguments: &[OsString]) -> io::Result<()> {
    let [told, alive] = arguments else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut alive = File::open(Path::new(alive))?;
    let mut told = File::options().write(true).open(Path::new(told))?;
    let name = fs::read_link("/proc/self/fd/0")?;
    let sort = std::env::var_os("TERM").unwrap_or_default();
    sys::leave_terminal(stdin().as_fd())?;
    told.write_all(&[name.as_os_str().as_bytes(), sort.as_bytes(), b""].join(&0))?;
    drop(told);
    alive.read(&mut [0]).map(drop)
}

/// How long a window may take to open.
const OPEN_MAX: Duration = Duration::from_secs(20);
const TOLD_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_listed_by_commas_and_dashes() {
        let set = RankSet::parse("0,2-4").expect("a list");
        let there: Vec<u32> = (0..10).filter(|rank| set.has(*rank)).collect();
        assert_eq!((there, set.last()), (vec![0, 2, 3, 4], Some(4)));
        for list in ["", "a", "3-1", "1,", "-1", "1-2-3"] {
            assert_eq!(RankSet::parse(list), None, "{list}");
        }
        assert!(RankSet::All.has(7) && RankSet::All.last().is_none());
    }
}
