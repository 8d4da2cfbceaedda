//! `ferry run`: starts the ranks of a job, carries their output, and leaves nothing behind.
//!
//! | file | what it is |
//! |---|---|
//! | `options` | the command line, in the spellings of both families |
//! | `plan`, `program` | what exactly to start |
//! | `start` | one process for each rank |
//! | `job` | the loop, until the end of the last rank |
//! | `hosts`, `hosts` | several hosts: who gets which ranks; starting and hearing a daemon on each |
//! | `far`, `rail` | how the ranks of a host are reached by those of others, and by which rail |
//! | `daemon`, `wire` | such a daemon: it runs the loop of `job` for its host; what is said between them |
//! | `output`, `input` | whole lines out; input to who reads it |
//! | `reaper` | who cleans up if we are killed |
//! | `report` | what went wrong, first things first |
//! | `watch`, `sys` | waiting for descriptors; the system calls |

mod daemon;
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
mod reaper;
mod report;
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

use ferrywire_host::cores;

use crate::home::Home;
use crate::out;
pub(crate) use daemon::run as run_daemon;
use far::{Far, NoFar};
use hosts::HostsError;
use input::Input;
use job::{Course, FaultTolerance, Job, Launcher};
use options::{Asked, BadOptions, Options};
use output::Sink;
use plan::{BadPlan, Plan};
pub(crate) use rail::RailRequest;
use reaper::Reaper;
use start::{Coloured, NotStarted, Rank, Start};
use sys::Signals;

const HELP: &str = "\
Starts the ranks of a job, on this machine or on several.

Usage: ferry run [options] program [arguments] [: [options] program [arguments]]...
       mpiexec, mpirun: the same, with the options of MPICH and Open MPI

Options:
";

const MORE_HELP: &str = "
One dash or two, and -name=value, are taken for every option. The usual options of MPICH and Open MPI
are understood; those that mean nothing here are ignored, with a note. Any number of ranks may be
started, on any number of cores, by any user.

Each rank finds its number in FERRY_RANK, the size of the job in FERRY_SIZE and the number of its
program in FERRY_PROGRAM. Rank 0 reads the standard input; the others have none. Lines of output are
never mixed. MPIEXEC_TIMEOUT is a time-out in seconds where --timeout is not given.

SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to the ranks, and ranks that still run 10 s later are
killed; a second such signal kills them at once. SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT are passed on.

The exit code is that of the first rank that failed, 128 and the signal if it died of one, 124 after a
time-out, 127 or 126 if a program cannot be found or started. When one rank fails, all are ended.
With --on-death continue it is 3 if ranks died and all others ended well.
";

/// Scripts look for the name of an implementation in what a launcher says of itself.
const VERSION: &str = concat!(
    "Ferrywire ",
    env!("CARGO_PKG_VERSION"),
    ": ferry run, also as mpiexec and mpirun, for MPI 5.0 with its standard ABI"
);

/// Why there is no job.
enum NoJob {
    Options(BadOptions),
    Plan(BadPlan),
    Start(NotStarted),
    Hosts(HostsError),
    Far(NoFar),
    /// The process that cleans up after us does not start.
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
            NoJob::Hosts(_) | NoJob::Far(_) | NoJob::Reaper(_) | NoJob::Os { .. } => 1,
        }
    }
}

impl fmt::Display for NoJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoJob::Options(bad) => write!(f, "{bad}"),
            NoJob::Plan(bad) => write!(f, "{bad}"),
            NoJob::Start(not) => write!(f, "{not}"),
            NoJob::Hosts(bad) => write!(f, "{bad}"),
            NoJob::Far(bad) => write!(f, "{bad}"),
            NoJob::Reaper(error) => {
                write!(f, "cannot start the process that guards the job: ")?;
                sys::tell_of_start(error, f)
            }
            NoJob::Os { what, error } => write!(f, "cannot {what}: {error}"),
        }
    }
}

/// Whether a command of this name is `ferry run`.
pub(crate) fn answers_to(name: &str) -> bool {
    matches!(name, "mpiexec" | "mpirun")
}

/// Runs a job as the arguments say.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let code = options::parse(arguments).map_err(NoJob::Options).and_then(|asked| match asked {
        Asked::Run(options) => {
            let options =
                options.completed(|name| std::env::var_os(name)).map_err(NoJob::Options)?;
            run_job(&options)
        }
        Asked::Help => {
            out::line(format_args!("{HELP}{}{}", options::lines_of_help(), MORE_HELP.trim_end()));
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
        eprintln!("ferry run: ignored, without a meaning here: {}", options.ignored.join(", "));
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
    let job = begin(Beginning {
        plan: &plan,
        number,
        mark: mark_of(number),
        out,
        err,
        input: Input::new(options.stdin),
        colours: std::env::var_os("NO_COLOR").is_none(),
        timeout: timeout_of(options),
        fault_tolerant: options.fault_tolerant,
        launcher: None,
        far: None,
    })?;
    Ok(job.run())
}

/// All that a job on this host begins with.
struct Beginning<'a> {
    plan: &'a Plan,
    /// The number of the job.
    number: u32,
    /// What all its processes here have in their environment.
    mark: String,
    out: Sink,
    err: Sink,
    input: Input,
    colours: bool,
    timeout: Option<(Instant, f64)>,
    /// It goes on when ranks die.
    fault_tolerant: bool,
    /// The launcher, if this is its daemon.
    launcher: Option<Launcher>,
    /// The way to other hosts, if there are any.
    far: Option<Far>,
}

/// Starts the ranks of this host.
fn begin(beginning: Beginning<'_>) -> Result<Job, NoJob> {
    let Beginning { plan, number, mark, out, err, mut input, colours, timeout, .. } = beginning;
    let Beginning { fault_tolerant, launcher, far, .. } = beginning;
    let os = |what| move |error| NoJob::Os { what, error };
    // Before anything has a child, so that no signal of one is lost.
    let signals = Signals::take(job::SIGNALS).map_err(os("take the signals"))?;
    sys::become_subreaper().map_err(os("become the parent of orphans"))?;
    let files = sys::raise_files().map_err(os("ask for the limit of open files"))?;
    let mut reaper = Reaper::start(&mark, std::iter::empty()).map_err(NoJob::Reaper)?;
    let coloured = Coloured { out: colours && out.is_terminal, err: colours && err.is_terminal };
    let shown_on = out.is_terminal.then(|| out.as_fd());
    let lib = Home::find().ok().and_then(|home| home.lib_to_load());
    let start = Start { plan, signals: &signals, files, coloured, shown_on, mark: &mark, lib };
    let ranks = match start_ranks(&start, &mut input, &mut reaper) {
        Ok(ranks) => ranks,
        Err(error) => {
            reaper.end_all();
            return Err(NoJob::Start(error));
        }
    };
    let (first, size) = (plan.first, plan.size);
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
        first,
        size,
        launcher,
        far,
        fault_tolerant: fault_tolerant.then(FaultTolerance::default),
        course,
    })
}

/// With our own number, no two jobs of a machine have the same at the same time.
fn mark_of(number: u32) -> String {
    format!("{number:08x}-{}", sys::own_pid())
}

fn timeout_of(options: &Options) -> Option<(Instant, f64)> {
    let seconds = options.timeout_seconds?;
    Some((Instant::now() + Duration::from_secs_f64(seconds), seconds))
}

fn start_ranks(
    start: &Start<'_>,
    input: &mut Input,
    reaper: &mut Reaper,
) -> Result<Vec<Rank>, NotStarted> {
    start.check()?;
    let mut ranks = Vec::new();
    for part in &start.plan.parts {
        for rank in part.first..part.first + part.ranks {
            let rank = start.rank(part, rank, input)?;
            reaper.guard(rank.pid);
            ranks.push(rank);
        }
    }
    Ok(ranks)
}

/// A number that two jobs hardly share. It keeps them apart, it is no secret.
fn job_number() -> u32 {
    let random = RandomState::new().hash_one(sys::own_pid());
    u32::try_from(random >> 32).expect("half of 64 bits").max(1)
}
