//! `ferry run`: starts the ranks of a job, carries their output, and leaves nothing behind.
//!
//! | file | what it is |
//! |---|---|
//! | `options` | the command line, in the spellings of both families |
//! | `plan`, `program` | what exactly to start |
//! | `start` | one process for each rank |
//! | `job` | the loop, until the end of the last rank |
//! | `output`, `input` | whole lines out; input to who reads it |
//! | `keeper` | who cleans up if we are killed |
//! | `report` | what went wrong, first things first |
//! | `sys` | the system calls |

mod input;
mod job;
mod keeper;
mod options;
mod output;
mod plan;
mod program;
mod report;
mod start;
mod sys;

use std::ffi::OsString;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ferrywire_host::cores;

use crate::out;
use input::Input;
use job::{Course, Job};
use keeper::Keeper;
use options::{Asked, BadOptions, Options};
use output::Sink;
use plan::{BadPlan, Plan};
use start::{Coloured, NotStarted, Rank, Start};
use sys::Signals;

const HELP: &str = "\
Starts the ranks of a job on this machine.

Usage: ferry run [options] program [arguments] [: [options] program [arguments]]...
       mpiexec, mpirun: the same, with the options of MPICH and Open MPI

Options:
";

const MORE_HELP: &str = "
One dash or two, and -name=value, are taken for every option. The usual options of MPICH and Open MPI
are understood; those that mean nothing here are ignored, with a note. Any number of ranks may be
started, on any number of cores, by any user.

Each rank finds its number in FERRY_RANK and the size of the job in FERRY_SIZE. Rank 0 reads the
standard input; the others have none. Lines of output are never mixed.

The exit code is that of the first rank that failed, 128 and the signal if it died of one, 124 after a
time-out, 127 or 126 if a program cannot be found or started. When one rank fails, all are ended.
";

/// Why there is no job.
enum NoJob {
    Options(BadOptions),
    Plan(BadPlan),
    Start(NotStarted),
    Os { what: &'static str, error: io::Error },
}

impl NoJob {
    fn exit_code(&self) -> u8 {
        match self {
            NoJob::Options(_) => 2,
            NoJob::Plan(bad) => bad.exit_code(),
            NoJob::Start(not) => not.exit_code(),
            NoJob::Os { .. } => 1,
        }
    }
}

impl fmt::Display for NoJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoJob::Options(bad) => write!(f, "{bad}"),
            NoJob::Plan(bad) => write!(f, "{bad}"),
            NoJob::Start(not) => write!(f, "{not}"),
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
        Asked::Run(options) => run_job(&options),
        Asked::Help => {
            out::line(format_args!("{HELP}{}{}", options::lines_of_help(), MORE_HELP.trim_end()));
            Ok(0)
        }
        Asked::Version => {
            out::line(format_args!("ferry {}", env!("CARGO_PKG_VERSION")));
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
    let plan = Plan::new(options).map_err(NoJob::Plan)?;
    let cores = cores::usable();
    if options.dry_run {
        out::line(plan.told(cores, cores::crowded(plan.size, cores)));
        return Ok(0);
    }
    Ok(start_job(options, &plan, cores)?.run())
}

fn start_job(options: &Options, plan: &Plan, cores: u32) -> Result<Job, NoJob> {
    let os = |what| move |error| NoJob::Os { what, error };
    // Before anything has a child, so that no signal of one is lost.
    let signals = Signals::take(job::SIGNALS).map_err(os("take the signals"))?;
    sys::become_subreaper().map_err(os("become the parent of orphans"))?;
    let files = sys::raise_files().map_err(os("ask for the limit of open files"))?;
    let out = Sink::new(io::stdout()).map_err(os("use the standard output"))?;
    let err = Sink::new(io::stderr()).map_err(os("use the standard error"))?;
    let mut input = Input::new(options.stdin);
    let colours = std::env::var_os("NO_COLOR").is_none();
    let number = job_number();
    // With our own number, no two jobs of a machine have the same at the same time.
    let mark = format!("{number:08x}-{}", sys::own_pid());
    let mut keeper = Keeper::start(&mark, std::iter::empty()).map_err(os("start the keeper"))?;
    let coloured = Coloured { out: colours && out.is_terminal, err: colours && err.is_terminal };
    let start = Start { plan, signals: &signals, files, coloured, mark: &mark };
    let ranks = match start_ranks(&start, &mut input, &mut keeper) {
        Ok(ranks) => ranks,
        Err(error) => {
            keeper.end_all();
            return Err(NoJob::Start(error));
        }
    };
    let timeout = options
        .timeout_seconds
        .map(|seconds| (Instant::now() + Duration::from_secs_f64(seconds), seconds));
    let course = Course::new();
    Ok(Job { signals, keeper, ranks, input, out, err, number, mark, cores, timeout, course })
}

fn start_ranks(
    start: &Start<'_>,
    input: &mut Input,
    keeper: &mut Keeper,
) -> Result<Vec<Rank>, NotStarted> {
    start.check()?;
    let mut ranks = Vec::new();
    for part in &start.plan.parts {
        for rank in part.first..part.first + part.ranks {
            let rank = start.rank(part, rank, input)?;
            keeper.guard(rank.pid);
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
