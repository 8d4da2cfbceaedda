//! `ferry run`: starts the ranks of a job, carries their output, and leaves nothing behind.
//!
//! | file | what it is |
//! |---|---|
//! | `options` | the command line, with the options of MPICH and Open MPI |
//! | `plan`, `program` | what exactly to start |
//! | `start` | starts one process for each rank |
//! | `debugger`, `rank_command` | ranks under gdb, each in a terminal; a command line around each program |
//! | `job` | the loop that runs until the last rank has ended |
//! | `host_list`, `hosts` | several hosts: which ranks run where; starts a daemon on each, and listens to it |
//! | `far`, `rail` | the addresses at which other hosts reach this one, and the rail between them |
//! | `daemon`, `wire` | the daemon, which runs the loop of `job` for its host; its protocol with the launcher |
//! | `output`, `input` | passes on output in whole lines; passes input to the ranks that read it |
//! | `reaper` | the process that ends the ranks if the launcher is killed |
//! | `report` | what went wrong, the first failure first |
//! | `watch`, `sys` | waiting for descriptors; the system calls |

mod adopt;
mod daemon;
mod debugger;
mod far;
#[cfg(fuzzing)]
pub(crate) mod fuzzed;
mod host_list;
mod hosts;
mod input;
mod job;
mod options;
mod output;
mod plan;
mod program;
mod rail;
mod rank_command;
mod reaper;
mod report;
mod services;
mod start;
mod sys;
mod watch;
mod wire;

use std::ffi::OsString;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ferrywire_host::{ErrorCode, Here, cores};

use crate::home::Home;
use crate::out;
use crate::trace::{NoRecording, Recording, RecordingFolder};
pub(crate) use adopt::{run as run_adopted, stays};
pub(crate) use daemon::run as run_daemon;
pub(crate) use debugger::{TERMINAL_COMMAND, run_terminal};
use far::{Far, NoFar};
pub(crate) use host_list::{is_this_host, own_name};
use hosts::HostsError;
use input::Input;
use job::{Course, FaultTolerance, Hang, HangSettings, Job, Launcher};
use options::{Asked, BadOptions, Options, Stdin};
pub(crate) use options::{DescribedOption, described, distance};
use output::Sink;
use plan::{BadPlan, Plan};
pub(crate) use rail::RailRequest;
use reaper::Reaper;
use report::RankName;
use services::Services;
use start::{Coloured, NotStarted, Rank, Settings, Start, Who};
pub(crate) use start::{FILES_OF_LAUNCHER, FILES_PER_RANK};
use sys::Signals;
pub(crate) use sys::{columns_of, memory_file, try_single_copy, user_of};

/// What the command is for.
pub(crate) const ABOUT: &str = "Starts the ranks of a job, on this machine or on several.";

/// How it is called, after its name.
pub(crate) const USAGE: &str = "[options] program [arguments] [: [options] program [arguments]]...";

const HELP: &str = "
       mpiexec and mpirun are other names of ferry run

Options, with defaults in parentheses:
";

/// What its help says after the options.
pub(crate) const MORE_HELP: &str = "
Every option may have one dash or two, and its value may follow a blank or an equals sign. The usual
options of MPICH and Open MPI work; those without a meaning here are ignored, with a note. There may be
more ranks than cores, and any user may start them, root included.

Each rank finds its number in FERRY_RANK, the size of the job in FERRY_SIZE and the number of its
program in FERRY_PROGRAM. Rank 0 reads the standard input; for the others it is empty. Lines of output
are never mixed. Without --timeout, MPIEXEC_TIMEOUT sets the time limit in seconds.

SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to the ranks, and ranks that still run 10 s later are
killed; a second such signal kills them at once. SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT are passed on.

The exit code is that of the first rank that failed, 128 plus the signal number if a signal killed it,
124 after a time-out, 127 or 126 if a program cannot be found or started. When one rank fails, the
others are ended. With --on-death continue, the exit code is 3 if ranks died and all others succeeded.
It is 35 if all ranks waited for each other for ever, and with --check 36 if mistakes were found.
";

/// What `--version` prints. Scripts look for the name of the implementation in it.
const VERSION: &str = concat!(
    "Ferrywire ",
    env!("CARGO_PKG_VERSION"),
    ": ferry run, also called mpiexec and mpirun, for MPI 5.0 with the standard ABI"
);

/// Why a job did not start.
enum NoJob {
    Options(BadOptions),
    Plan(BadPlan),
    Start(NotStarted),
    Hosts(HostsError),
    Far(NoFar),
    Recording(NoRecording),
    /// The reaper does not start.
    Reaper(io::Error),
    Os {
        what: &'static str,
        error: io::Error,
    },
}

impl NoJob {
    fn exit_code(&self) -> u8 {
        match self {
            NoJob::Options(_) => 2,
            NoJob::Plan(bad) => bad.exit_code(),
            NoJob::Start(not) => not.exit_code(),
            NoJob::Hosts(_)
            | NoJob::Far(_)
            | NoJob::Recording(_)
            | NoJob::Reaper(_)
            | NoJob::Os { .. } => 1,
        }
    }
}

impl NoJob {
    fn code(&self) -> ErrorCode {
        match self {
            NoJob::Options(bad) => bad.code(),
            NoJob::Plan(bad) => bad.code(),
            NoJob::Start(not) => not.code(),
            NoJob::Hosts(HostsError::NoSelf(_)) | NoJob::Os { .. } => ErrorCode::SYSTEM,
            NoJob::Hosts(HostsError::Rsh { .. }) => ErrorCode::RSH,
            NoJob::Far(NoFar::HostAddressError { .. }) => ErrorCode::ADDRESS,
            NoJob::Far(NoFar::NoFabric { .. }) => ErrorCode::RAIL,
            NoJob::Recording(_) => ErrorCode::TRACE,
            NoJob::Reaper(_) => ErrorCode::REAPER,
        }
    }
}

/// The text ends with the code.
impl fmt::Display for NoJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.code().ends(UncodedReason(self)))
    }
}

/// The reason without its code.
struct UncodedReason<'a>(&'a NoJob);

impl fmt::Display for UncodedReason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            NoJob::Options(bad) => write!(f, "{bad}"),
            NoJob::Plan(bad) => write!(f, "{bad}"),
            NoJob::Start(not) => write!(f, "{not}"),
            NoJob::Hosts(bad) => write!(f, "{bad}"),
            NoJob::Far(bad) => write!(f, "{bad}"),
            NoJob::Recording(bad) => write!(f, "{bad}"),
            NoJob::Reaper(error) => {
                write!(f, "cannot start the reaper, the process that guards the job: ")?;
                sys::tell_of_start(error, f)
            }
            NoJob::Os { what, error } => write!(f, "cannot {what}: {error}"),
        }
    }
}

/// Whether `name` is another name of `ferry run`.
pub(crate) fn answers_to(name: &str) -> bool {
    matches!(name, "mpiexec" | "mpirun")
}

/// Parses the arguments and runs the job, or prints the help or the version.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let code = options::parse(arguments).map_err(NoJob::Options).and_then(|asked| match asked {
        Asked::Run(options) => {
            let options =
                options.completed(|name| std::env::var_os(name)).map_err(NoJob::Options)?;
            run_job(&options)
        }
        Asked::Help => {
            out::line(format_args!(
                "{ABOUT}\n\nUsage: ferry run {USAGE}{HELP}{}{}",
                options::lines_of_help(),
                MORE_HELP.trim_end()
            ));
            Ok(0)
        }
        Asked::Version => {
            out::line(VERSION);
            Ok(0)
        }
    });
    ExitCode::from(code.unwrap_or_else(|error| {
        eprintln!("ferry run: {error}");
        error.exit_code()
    }))
}

fn run_job(options: &Options) -> Result<u8, NoJob> {
    if !options.ignored.is_empty() {
        eprintln!("ferry run: ignored, no meaning here: {}", options.ignored.join(", "));
    }
    if options.hosts.iter().any(|host| !host.is_here()) {
        return hosts::run(options);
    }
    let plan = Plan::new(options).map_err(NoJob::Plan)?;
    let cores = cores::usable();
    if options.dry_run {
        out::line(plan.told(cores, cores::oversubscribed(plan.size, cores)));
        return Ok(0);
    }
    let os = |what| move |error| NoJob::Os { what, error };
    let out = Sink::new(io::stdout()).map_err(os("use the standard output"))?;
    let err = Sink::new(io::stderr()).map_err(os("use the standard error"))?;
    let number = job_number();
    let mark = mark_of(number);
    let recording = Recording::begin(&options.recording, plan.size).map_err(NoJob::Recording)?;
    let folder =
        recording.as_ref().map(|recording| RecordingFolder::create(&mark, recording.bytes_max));
    let folder = folder.transpose().map_err(NoJob::Recording)?;
    let is_debugged_here = plan.is_debugged_here();
    let job = begin(Beginning {
        plan: &plan,
        number,
        mark,
        trace: folder.as_ref().map(RecordingFolder::variable),
        out,
        err,
        input: Input::new(if is_debugged_here { Stdin::None } else { options.stdin }),
        colours: std::env::var_os("NO_COLOR").is_none(),
        timeout: timeout_of(options),
        fault_tolerant: options.fault_tolerant,
        hang: hang_settings(options),
        launcher: None,
        far: None,
    })?;
    let mut debugged = plan.parts.iter().filter(|part| part.debugged().next().is_some());
    if let Some(debugger) = debugged.next().and_then(|part| part.debugger.as_ref()) {
        eprintln!("ferry run: ranks under gdb wait {} for the command `run`", debugger.place());
    }
    let code = job.run();
    if is_debugged_here {
        sys::regain_foreground();
    }
    if let (Some(recording), Some(folder)) = (recording, folder) {
        let (parts, lines) = folder.parts();
        recording.end(parts, lines).iter().for_each(|line| eprintln!("ferry run: {line}"));
    }
    Ok(code)
}

/// What it takes to start the ranks of this host.
struct Beginning<'a> {
    plan: &'a Plan,
    /// The number of the job.
    number: u32,
    /// The mark of the job, which all its processes on this host have in their environment.
    mark: String,
    out: Sink,
    err: Sink,
    input: Input,
    colours: bool,
    timeout: Option<(Instant, f64)>,
    /// The job continues when ranks die.
    fault_tolerant: bool,
    /// What to do about ranks that wait for ever.
    hang: HangSettings,
    /// The launcher, if this process is a daemon.
    launcher: Option<Launcher>,
    /// The connection to other hosts, if the job has any.
    far: Option<Far>,
    /// Where ranks record what they do.
    trace: Option<String>,
}

/// Starts the ranks of this host.
fn begin(beginning: Beginning<'_>) -> Result<Job, NoJob> {
    let Beginning { plan, number, mark, out, err, mut input, colours, timeout, .. } = beginning;
    let Beginning { fault_tolerant, hang, launcher, far, trace, .. } = beginning;
    let os = |what| move |error| NoJob::Os { what, error };
    // Before the first child starts, so that no SIGCHLD is lost.
    let signals = Signals::take(job::SIGNALS).map_err(os("set up signal handling"))?;
    sys::become_subreaper().map_err(os("become the parent of orphaned processes"))?;
    let files = sys::raise_files().map_err(os("read the limit on open files"))?;
    let mut reaper = Reaper::start(&mark, std::iter::empty()).map_err(NoJob::Reaper)?;
    let coloured = Coloured { out: colours && out.is_terminal, err: colours && err.is_terminal };
    let shown_on = out.is_terminal.then(|| out.as_fd());
    let lib = Home::find().ok().and_then(|home| home.lib_to_load());
    let part = plan.parts.first();
    let settings = Settings {
        files,
        coloured,
        lib,
        label: plan.label,
        output: plan.files.clone(),
        base: part.and_then(|part| part.base.clone()),
        set: part.map(|part| part.set.clone()).unwrap_or_default(),
        trace,
    };
    let start = Start { settings: &settings, signals: &signals, shown_on, mark: &mark };
    let ranks = match start_ranks(plan, &start, &mut input, &mut reaper) {
        Ok(ranks) => ranks,
        Err(error) => {
            reaper.end_all();
            return Err(NoJob::Start(error));
        }
    };
    let (first, size) = (plan.first, plan.size);
    // Those of an adopted job are all here, and others have started them.
    let here = if plan.parts.is_empty() { size } else { plan.ranks() };
    let (cores, course) = (cores::usable(), Course::new());
    Ok(Job {
        signals,
        reaper,
        ranks,
        input,
        out,
        err,
        number,
        mark,
        cores,
        timeout,
        size,
        here: Here::new(first, here, size, 0),
        launcher,
        far,
        others: None,
        fault_tolerant: fault_tolerant.then(FaultTolerance::default),
        settings,
        segment: None,
        spawning: Vec::new(),
        worlds: 0,
        services: Services::default(),
        adopted: None,
        hang: Hang::new(hang),
        recordings: None,
        course,
    })
}

/// The mark of a job. It contains our pid, so that no two jobs on a machine have the same at the same time.
fn mark_of(number: u32) -> String {
    format!("{number:08x}-{}", sys::own_pid())
}

/// What to do about ranks that wait for ever.
fn hang_settings(options: &Options) -> HangSettings {
    HangSettings {
        why_file: options.why_file.clone(),
        report_only: options.only_reports_deadlocks,
        check: options.check,
        timeout: options.hang_timeout_seconds.map(Duration::from_secs_f64),
    }
}

fn timeout_of(options: &Options) -> Option<(Instant, f64)> {
    let seconds = options.timeout_seconds?;
    Some((Instant::now() + Duration::from_secs_f64(seconds), seconds))
}

fn start_ranks(
    plan: &Plan,
    start: &Start<'_>,
    input: &mut Input,
    reaper: &mut Reaper,
) -> Result<Vec<Rank>, NotStarted> {
    start.check(plan)?;
    let mut ranks = Vec::new();
    for part in &plan.parts {
        for rank in part.first..part.first + part.ranks {
            let who = Who { rank, size: plan.size, peer: rank, name: RankName::of(rank) };
            let rank = start.rank(part, &who, input.of_rank(rank))?;
            reaper.guard(rank.pid);
            ranks.push(rank);
        }
    }
    Ok(ranks)
}

/// Draws the number of a job, which two jobs are unlikely to share. It keeps them apart; it is not a secret.
fn job_number() -> u32 {
    let random = RandomState::new().hash_one(sys::own_pid());
    u32::try_from(random >> 32).expect("half of 64 bits").max(1)
}
