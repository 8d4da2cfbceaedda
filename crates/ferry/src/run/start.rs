//! Starts the processes of the ranks.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ferrywire_host::bootstrap::{self, RankSocket};
use ferrywire_host::{ErrorCode, Process, job, trace};

use super::debugger::NoDebugger;
use super::input::NO_INPUT;
use super::options::Files;
use super::output::Stream;
use super::plan::{Part, Plan};
use super::reaper;
use super::report::RankName;
use super::sys::{self, Child, Ending, Pid, Signals};

/// Open files that the launcher needs for each rank, and for itself.
pub(crate) const FILES_PER_RANK: u64 = 3;
pub(crate) const FILES_OF_LAUNCHER: u64 = 24;

/// Where the loader looks for libraries first.
const LOADER_PATH: &str = "LD_LIBRARY_PATH";

/// A rank, as the launcher knows it.
pub(super) struct Rank {
    pub(super) name: RankName,
    /// Its number among all ranks of the job.
    pub(super) peer: u32,
    /// Its process, and its process group.
    pub(super) pid: Pid,
    /// `None` once the rank has closed it.
    pub(super) rank_socket: Option<RankSocket>,
    pub(super) hello: Option<Process>,
    pub(super) goodbye: bool,
    /// It waits until all ranks of its world, on all hosts, have reached the same point.
    pub(super) waits_for_all: bool,
    pub(super) out: Option<Stream>,
    pub(super) err: Option<Stream>,
    pub(super) ending: Option<Ending>,
    /// Its process group is empty.
    pub(super) group_gone: bool,
    /// It was spawned in vain, and does not count.
    pub(super) dismissed: bool,
    /// Another has started it.
    pub(super) is_adopted: bool,
}

impl Rank {
    /// A rank that another has started, and that has not come. It counts as one that has ended.
    pub(super) fn of_others(peer: u32) -> Rank {
        Rank {
            name: RankName::of(peer),
            peer,
            pid: 0,
            rank_socket: None,
            hello: None,
            goodbye: false,
            waits_for_all: false,
            out: None,
            err: None,
            ending: Some(Ending::Exit(0)),
            group_gone: true,
            dismissed: false,
            is_adopted: true,
        }
    }
}

/// Why a job cannot be started.
#[derive(Debug)]
pub(super) enum NotStarted {
    Files { size: u32, needed: u64, limit: u64 },
    OutputFile { path: PathBuf, error: io::Error },
    Pipes { rank: u32, error: io::Error },
    Input { rank: u32, error: io::Error },
    Program { rank: u32, size: u32, file: PathBuf, error: io::Error },
    Debugger(NoDebugger),
}

impl NotStarted {
    pub(super) fn code(&self) -> ErrorCode {
        match self {
            NotStarted::Files { .. } | NotStarted::Pipes { .. } => ErrorCode::OPEN_FILES,
            NotStarted::OutputFile { .. } => ErrorCode::OUTPUT,
            NotStarted::Input { .. } => ErrorCode::SYSTEM,
            NotStarted::Debugger(_) => ErrorCode::DEBUGGER,
            NotStarted::Program { .. } => ErrorCode::PROGRAM_NOT_EXECUTABLE,
        }
    }
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotStarted::Files { size, needed, limit } => write!(
                f,
                "{size} ranks need {needed} open files, and the limit is {limit} (ulimit -Hn)"
            ),
            NotStarted::OutputFile { path, error } => {
                write!(f, "cannot write to {}: {error}", path.display())
            }
            NotStarted::Pipes { rank, error } => {
                write!(f, "cannot make the pipes of rank {rank}: {error}")
            }
            NotStarted::Input { rank, error } => {
                write!(f, "cannot open the standard input of rank {rank}, {NO_INPUT}: {error}")
            }
            NotStarted::Debugger(error) => write!(f, "{error}"),
            NotStarted::Program { rank, size, file, error } => {
                let file = file.display();
                write!(f, "cannot start {file} as rank {rank} of {size}: ")?;
                match error.kind() {
                    // The file itself has been found.
                    io::ErrorKind::NotFound => {
                        write!(
                            f,
                            "the interpreter that it names does not exist; ferry info {file} says which"
                        )
                    }
                    _ => sys::tell_of_start(error, f),
                }
            }
        }
    }
}

impl NotStarted {
    /// The exit code, 126 as in a shell if the kernel does not run the file.
    pub(super) fn exit_code(&self) -> u8 {
        if matches!(self, NotStarted::Program { .. }) { 126 } else { 1 }
    }
}

/// What is the same for all ranks of a job, also for those that are spawned later.
pub(super) struct Settings {
    /// The limit on open files.
    pub(super) files: libc::rlimit,
    pub(super) coloured: Coloured,
    /// The folder of our library, if it is found.
    pub(super) lib: Option<PathBuf>,
    /// Lines of output begin with the rank.
    pub(super) label: bool,
    pub(super) output: Files,
    /// The environment of programs that are spawned: as in [`Part`].
    pub(super) base: Option<BTreeMap<OsString, OsString>>,
    pub(super) set: Vec<(String, String)>,
    /// Where ranks record what they do, as the value of a variable.
    pub(super) trace: Option<String>,
}

/// Starts ranks.
pub(super) struct Start<'a> {
    pub(super) settings: &'a Settings,
    pub(super) signals: &'a Signals,
    /// The output of the job, if that is a terminal.
    pub(super) shown_on: Option<BorrowedFd<'a>>,
    pub(super) mark: &'a str,
}

/// Which rank to start.
pub(super) struct Who {
    /// Its rank in its world, and the size of that.
    pub(super) rank: u32,
    pub(super) size: u32,
    /// Its number among all ranks of the job, also those of other worlds.
    pub(super) peer: u32,
    /// What it is called in the output.
    pub(super) name: RankName,
}

/// Which labels have a colour: those of output to a terminal.
#[derive(Clone, Copy)]
pub(super) struct Coloured {
    pub(super) out: bool,
    pub(super) err: bool,
}

impl Start<'_> {
    /// Checks the limit on open files before the first rank is started.
    pub(super) fn check(&self, plan: &Plan) -> Result<(), NotStarted> {
        let size = plan.size;
        let needed = FILES_OF_LAUNCHER + FILES_PER_RANK * u64::from(plan.ranks());
        let limit = self.settings.files.rlim_max;
        if needed > limit { Err(NotStarted::Files { size, needed, limit }) } else { Ok(()) }
    }

    pub(super) fn rank(
        &self,
        part: &Part,
        who: &Who,
        input: io::Result<Stdio>,
    ) -> Result<Rank, NotStarted> {
        let rank = who.rank;
        let pipes = |error| NotStarted::Pipes { rank, error };
        let no_input = |error| NotStarted::Input { rank, error };
        let (rank_socket, bootstrap) = RankSocket::open(who.peer).map_err(pipes)?;
        let mut command = self.command(part, who);
        let debugger = part.debugger.as_ref().filter(|debugger| debugger.has(rank));
        let terminal = debugger.map(|debugger| debugger.open(rank, self.signals)).transpose();
        let terminal = terminal.map_err(NotStarted::Debugger)?;
        let (out, err) = if let Some(terminal) = &terminal {
            terminal.prepare(&mut command).map_err(pipes)?;
            (None, None)
        } else {
            let (out, stdout) = self.stream(who, "out", self.settings.output.out.as_deref())?;
            let (err, stderr) = self.stream(who, "err", self.settings.output.err.as_deref())?;
            command.stdin(input.map_err(no_input)?).stdout(stdout).stderr(stderr);
            command.process_group(0);
            (out, err)
        };
        command.env(bootstrap::VARIABLE, bootstrap.as_raw_fd().to_string());
        let limit = self.settings.files;
        Child::new(bootstrap.as_raw_fd(), limit, self.signals).prepare(&mut command);
        let child = command.spawn().map_err(|error| NotStarted::Program {
            rank,
            size: who.size,
            file: command.get_program().into(),
            error,
        })?;
        Ok(Rank {
            name: who.name,
            peer: who.peer,
            pid: Pid::try_from(child.id()).expect("process numbers are small"),
            rank_socket: Some(rank_socket),
            hello: None,
            goodbye: false,
            waits_for_all: false,
            out,
            err,
            ending: None,
            group_gone: false,
            dismissed: false,
            is_adopted: false,
        })
    }

    fn command(&self, part: &Part, who: &Who) -> Command {
        let (file, words) = part.command_of(who.rank);
        let mut command = Command::new(file);
        command.arg0(&words[0]).args(&words[1..]);
        if let Some(base) = &part.base {
            command.env_clear().envs(base);
        }
        command.envs(part.set.iter().map(|(name, value)| (name, value)));
        command.env("FERRY_RANK", who.rank.to_string()).env("FERRY_SIZE", who.size.to_string());
        command.env(job::PROGRAM_VARIABLE, part.program.to_string());
        command.env(reaper::VARIABLE, self.mark);
        if let Some(place) = &self.settings.trace {
            command.env(trace::VARIABLE, format!("{place}/{}", who.name));
        }
        if let Some(lib) = &self.settings.lib {
            let path = part.variable(LOADER_PATH);
            let path = path.filter(|path| !path.is_empty());
            let folders = path.iter().flat_map(std::env::split_paths);
            let joined = std::env::join_paths(std::iter::once(lib.clone()).chain(folders));
            // A folder with a colon in its name cannot be in the variable.
            command.envs(joined.map(|path| (LOADER_PATH, path)));
        }
        if let Some(folder) = &part.folder {
            command.current_dir(folder);
        }
        command
    }

    /// The output of a rank: a file, or a pipe or terminal that we read.
    fn stream(
        &self,
        who: &Who,
        ending: &str,
        pattern: Option<&str>,
    ) -> Result<(Option<Stream>, Stdio), NotStarted> {
        let rank = who.rank;
        if let Some(path) = self.file_of(who, ending, pattern) {
            let made = path.parent().map_or(Ok(()), fs::create_dir_all);
            let file = made.and_then(|()| File::create(&path));
            let file = file.map_err(|error| NotStarted::OutputFile { path, error })?;
            return Ok((None, Stdio::from(file)));
        }
        let pipes = |error| NotStarted::Pipes { rank, error };
        // A program that writes to a terminal flushes each line, in whatever language it is written.
        let shown = self.shown_on.filter(|_| ending == "out");
        let (pipe, theirs) = match shown.map(sys::open_terminal) {
            Some(Ok(terminal)) => terminal,
            // If no terminal can be opened, a pipe will do.
            Some(Err(_)) | None => {
                let (pipe, theirs) = io::pipe().map_err(pipes)?;
                (File::from(OwnedFd::from(pipe)), OwnedFd::from(theirs))
            }
        };
        sys::never_block(pipe.as_fd()).map_err(pipes)?;
        let peer = usize::try_from(who.peer).expect("ranks fit");
        let number = 2 * peer + usize::from(ending == "err");
        let coloured = self.settings.coloured;
        let coloured = if ending == "err" { coloured.err } else { coloured.out };
        Ok((Some(Stream::new(pipe, self.label(who, coloured), number)), Stdio::from(theirs)))
    }

    fn file_of(&self, who: &Who, ending: &str, pattern: Option<&str>) -> Option<PathBuf> {
        if let Some(pattern) = pattern {
            return Some(PathBuf::from(pattern.replace("%r", &who.name.to_string())));
        }
        let folder = self.settings.output.folder.as_ref()?;
        Some(PathBuf::from(folder).join(format!("rank.{}.{ending}", who.name)))
    }

    fn label(&self, who: &Who, coloured: bool) -> String {
        let name = &who.name;
        match (self.settings.label, coloured) {
            (false, _) => String::new(),
            (true, false) => format!("[{name}] "),
            // Six colours that are readable on white and on black.
            (true, true) => format!("\x1b[3{}m[{name}]\x1b[0m ", 1 + who.peer % 6),
        }
    }
}
