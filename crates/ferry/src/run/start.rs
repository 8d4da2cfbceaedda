//! Starts the processes of the ranks.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ferrywire_host::bootstrap::{self, RankSocket};
use ferrywire_host::{Process, job};

use super::input::{Input, NO_INPUT};
use super::output::Stream;
use super::plan::{Part, Plan};
use super::reaper;
use super::sys::{self, Child, Ending, Pid, Signals};

/// Open files that the launcher needs for each rank, and for itself.
const FILES_PER_RANK: u64 = 3;
const FILES_OF_ITS_OWN: u64 = 24;

/// Where the loader looks for libraries first.
const LOADER_PATH: &str = "LD_LIBRARY_PATH";

/// A rank, as the launcher knows it.
pub(super) struct Rank {
    /// Its process, and its process group.
    pub(super) pid: Pid,
    /// `None` once the rank has closed it.
    pub(super) rank_socket: Option<RankSocket>,
    pub(super) hello: Option<Process>,
    pub(super) goodbye: bool,
    /// It waits until all ranks of all hosts have reached the same point.
    pub(super) waits_for_all: bool,
    pub(super) out: Option<Stream>,
    pub(super) err: Option<Stream>,
    pub(super) ending: Option<Ending>,
    /// Its process group is empty.
    pub(super) group_gone: bool,
}

/// Why a job cannot be started.
#[derive(Debug)]
pub(super) enum NotStarted {
    Files { size: u32, needed: u64, limit: u64 },
    OutputFile { path: PathBuf, error: io::Error },
    Pipes { rank: u32, error: io::Error },
    Input { rank: u32, error: io::Error },
    Program { rank: u32, size: u32, file: PathBuf, error: io::Error },
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
            NotStarted::Program { rank, size, file, error } => {
                write!(f, "cannot start {} as rank {rank} of {size}: ", file.display())?;
                sys::tell_of_start(error, f)
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

/// What is the same for all ranks.
pub(super) struct Start<'a> {
    pub(super) plan: &'a Plan,
    pub(super) signals: &'a Signals,
    pub(super) files: libc::rlimit,
    pub(super) coloured: Coloured,
    /// The output of the job, if that is a terminal.
    pub(super) shown_on: Option<BorrowedFd<'a>>,
    pub(super) mark: &'a str,
    /// The folder of our library, if it is found.
    pub(super) lib: Option<PathBuf>,
}

/// Which labels have a colour: those of output to a terminal.
#[derive(Clone, Copy)]
pub(super) struct Coloured {
    pub(super) out: bool,
    pub(super) err: bool,
}

impl Start<'_> {
    /// Checks the limit on open files before the first rank is started.
    pub(super) fn check(&self) -> Result<(), NotStarted> {
        let size = self.plan.size;
        let needed = FILES_OF_ITS_OWN + FILES_PER_RANK * u64::from(self.plan.ranks());
        let limit = self.files.rlim_max;
        if needed > limit { Err(NotStarted::Files { size, needed, limit }) } else { Ok(()) }
    }

    pub(super) fn rank(
        &self,
        part: &Part,
        rank: u32,
        input: &mut Input,
    ) -> Result<Rank, NotStarted> {
        let pipes = |error| NotStarted::Pipes { rank, error };
        let no_input = |error| NotStarted::Input { rank, error };
        let (rank_socket, bootstrap) = RankSocket::open(rank).map_err(pipes)?;
        let (out, stdout) = self.stream(rank, "out", self.plan.files.out.as_deref())?;
        let (err, stderr) = self.stream(rank, "err", self.plan.files.err.as_deref())?;
        let mut command = self.command(part, rank);
        command.stdin(input.of_rank(rank).map_err(no_input)?).stdout(stdout).stderr(stderr);
        command.env(bootstrap::VARIABLE, bootstrap.as_raw_fd().to_string());
        command.process_group(0);
        Child::new(bootstrap.as_raw_fd(), self.files, self.signals).prepare(&mut command);
        let child = command.spawn().map_err(|error| NotStarted::Program {
            rank,
            size: self.plan.size,
            file: part.file.clone(),
            error,
        })?;
        Ok(Rank {
            pid: Pid::try_from(child.id()).expect("process numbers are small"),
            rank_socket: Some(rank_socket),
            hello: None,
            goodbye: false,
            waits_for_all: false,
            out,
            err,
            ending: None,
            group_gone: false,
        })
    }

    fn command(&self, part: &Part, rank: u32) -> Command {
        let mut command = Command::new(&part.file);
        command.arg0(&part.words[0]).args(&part.words[1..]);
        if let Some(base) = &part.base {
            command.env_clear().envs(base);
        }
        command.envs(part.set.iter().map(|(name, value)| (name, value)));
        command.env("FERRY_RANK", rank.to_string()).env("FERRY_SIZE", self.plan.size.to_string());
        command.env(job::PROGRAM_VARIABLE, part.program.to_string());
        command.env(reaper::VARIABLE, self.mark);
        if let Some(lib) = &self.lib {
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
        rank: u32,
        ending: &str,
        pattern: Option<&str>,
    ) -> Result<(Option<Stream>, Stdio), NotStarted> {
        if let Some(path) = self.file_of(rank, ending, pattern) {
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
        let number = 2 * usize::try_from(rank).expect("ranks fit") + usize::from(ending == "err");
        let coloured = if ending == "err" { self.coloured.err } else { self.coloured.out };
        Ok((Some(Stream::new(pipe, self.label(rank, coloured), number)), Stdio::from(theirs)))
    }

    fn file_of(&self, rank: u32, ending: &str, pattern: Option<&str>) -> Option<PathBuf> {
        if let Some(pattern) = pattern {
            return Some(PathBuf::from(pattern.replace("%r", &rank.to_string())));
        }
        let folder = self.plan.files.folder.as_ref()?;
        Some(PathBuf::from(folder).join(format!("rank.{rank}.{ending}")))
    }

    fn label(&self, rank: u32, coloured: bool) -> String {
        match (self.plan.label, coloured) {
            (false, _) => String::new(),
            (true, false) => format!("[{rank}] "),
            // Six colours that are readable on white and on black.
            (true, true) => format!("\x1b[3{}m[{rank}]\x1b[0m ", 1 + rank % 6),
        }
    }
}
