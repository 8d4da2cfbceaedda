//! `ferry adopt`: the launcher of a job that was started without one of ours. A rank starts it when it first asks for
//! something that takes a launcher, such as to spawn programs, and hands the job over at its standard input.

use std::io::{self, stdin};
use std::os::fd::AsFd;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use ferrywire_host::Segment;
use ferrywire_host::bootstrap::late_launcher::{AdoptedJob, COMMAND};

use super::input::Input;
use super::job::{HangSettings, Job};
use super::options::Stdin;
use super::output::Sink;
use super::plan::Plan;
use super::start::Rank;
use super::{Beginning, NoJob, begin, mark_of};

/// The word after the command in the process that stays.
const STAY: &str = "stay";

/// How long the rank that has started us may take to connect.
const FIRST_MAX: Duration = Duration::from_secs(60);

/// Starts the process that stays, and ends: the program whose rank called has no child that it does not know.
pub(crate) fn run(stays: bool) -> ExitCode {
    let done = match stays {
        false => start_again().map_err(|error| format!("cannot start itself again: {error}")),
        true => adopt(),
    };
    match done {
        Ok(code) => code,
        Err(why) => {
            eprintln!("ferry adopt: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the words after the command are those of the process that stays.
pub(crate) fn stays(words: &[std::ffi::OsString]) -> bool {
    words.first().is_some_and(|word| word == STAY)
}

fn start_again() -> io::Result<ExitCode> {
    Command::new(std::env::current_exe()?).args([COMMAND, STAY]).spawn()?;
    Ok(ExitCode::SUCCESS)
}

fn adopt() -> Result<ExitCode, String> {
    let by_hand = |error| format!("no rank hands over a job, which alone starts this: {error}");
    let (segment, adopted) = AdoptedJob::take(stdin().as_fd()).map_err(by_hand)?;
    let mut job = job(segment, adopted).map_err(|error| error.to_string())?;
    match job.wait_for_first(Instant::now() + FIRST_MAX) {
        Ok(true) => Ok(ExitCode::from(job.run())),
        Ok(false) => Err("the rank that started this has not come".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// The job, none of whose ranks has come.
fn job(segment: Segment, adopted: AdoptedJob) -> Result<Job, NoJob> {
    let os = |what| move |error| NoJob::Os { what, error };
    let (number, size) = (segment.job(), segment.ranks());
    let plan = Plan::of_others(size);
    let mut job = begin(Beginning {
        plan: &plan,
        number,
        mark: mark_of(number),
        out: Sink::new(io::stdout()).map_err(os("use the standard output"))?,
        err: Sink::new(io::stderr()).map_err(os("use the standard error"))?,
        input: Input::fed(Stdin::None),
        colours: std::env::var_os("NO_COLOR").is_none(),
        timeout: None,
        fault_tolerant: false,
        hang: HangSettings::default(),
        launcher: None,
        trace: None,
        far: None,
    })?;
    job.adopt((0..size).map(Rank::of_others).collect(), segment, adopted);
    Ok(job)
}
