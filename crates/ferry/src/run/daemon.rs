//! The daemon of a job on one of its hosts: it starts and runs the ranks there on behalf of the launcher.
//!
//! It talks to the launcher by its standard input and output. When the launcher is gone, the input ends, and the daemon
//! kills its ranks.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::process::ExitCode;

use super::far::Far;
use super::input::Input;
use super::job::{HangSettings, Launcher};
use super::output::Sink;
use super::plan::Plan;
use super::wire::{self, Assignment, FrameKind, Frames, News, Order, VERSION};
use super::{Beginning, NoJob, begin, sys};
use crate::trace::RecordingFolder;

/// Waits for an assignment, and runs it.
pub(crate) fn run() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("ferry daemon: {why}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), String> {
    if io::stdin().is_terminal() {
        return Err(NOT_BY_HAND.into());
    }
    sys::hide_memory()
        .map_err(|error| format!("cannot keep the secret out of core dumps: {error}"))?;
    let copy = |descriptor: &dyn AsFd| descriptor.as_fd().try_clone_to_owned().map(File::from);
    let orders = copy(&io::stdin()).map_err(|error| format!("cannot use the input: {error}"))?;
    let news = copy(&io::stdout()).map_err(|error| format!("cannot use the output: {error}"))?;
    let mut launcher = Launcher { orders: Frames::new(orders), news };
    let here = News::Here { version: VERSION };
    wire::say(&launcher.news, &here)
        .map_err(|error| format!("cannot tell the launcher: {error}"))?;
    let Some(assignment) = assignment(&mut launcher.orders)? else { return Ok(()) };
    if assignment.version != VERSION {
        let theirs = assignment.version;
        return Err(format!(
            "the launcher has protocol version {theirs}, and this daemon {VERSION}: install the same ferry on both hosts"
        ));
    }
    let news = launcher.news.try_clone().map_err(|error| error.to_string())?;
    match start(assignment, launcher) {
        Ok(job) => {
            let host_address = job.far.as_ref().map(|far| &far.host_address);
            let started = News::Started {
                port: host_address.map_or(0, |host_address| host_address.group.port),
                addresses: host_address
                    .map(|host_address| host_address.addresses.clone())
                    .unwrap_or_default(),
                machine: ferrywire_host::cores::machine(),
                frame_bytes_max: host_address
                    .map_or(u32::MAX, |host_address| host_address.frame_bytes_max),
                providers: job.far.as_ref().map(|far| far.candidates.clone()).unwrap_or_default(),
            };
            // Sent before the first output of a rank.
            let _ = wire::say(&news, &started);
            job.run();
            Ok(())
        }
        Err(error) => {
            let not_started = News::NotStarted { why: error.to_string(), code: error.exit_code() };
            wire::say(&news, &not_started).map_err(|error| error.to_string())
        }
    }
}

/// The first order. `None` if the launcher is gone, or the job has failed elsewhere.
fn assignment(orders: &mut Frames) -> Result<Option<Assignment>, String> {
    loop {
        match orders.next() {
            Ok(Some((FrameKind::Words, bytes))) => match wire::understood(&bytes) {
                Ok(Order::Start(assignment)) => return Ok(Some(*assignment)),
                // The job has failed elsewhere before it began here.
                Ok(Order::End | Order::Signal(_)) => return Ok(None),
                _ => return Err(NOT_BY_HAND.into()),
            },
            Ok(None) => {
                if orders.poll().is_err() {
                    return Ok(None);
                }
            }
            _ => return Err(NOT_BY_HAND.into()),
        }
    }
}

fn start(assignment: Assignment, launcher: Launcher) -> Result<super::job::Job, NoJob> {
    let os = |what| move |error| NoJob::Os { what, error };
    let terminals = assignment.terminals;
    let out = Sink::framed(&launcher.news, FrameKind::Out, terminals.out)
        .map_err(os("use the channel"))?;
    let err = Sink::framed(&launcher.news, FrameKind::Err, terminals.err)
        .map_err(os("use the channel"))?;
    let (number, stdin, fault_tolerant) =
        (assignment.job, assignment.stdin, assignment.fault_tolerant);
    // Hosts may be containers of one machine; each reaper looks only for the processes of its own host.
    let mark = format!("{}-{}", assignment.mark, sys::own_pid());
    let network = assignment.network.clone();
    let hang = HangSettings { timeout: assignment.hang_timeout, ..HangSettings::default() };
    let recordings = assignment.recording_bytes_max;
    let recordings = recordings.map(|bytes_max| RecordingFolder::create(&mark, bytes_max));
    let recordings = recordings.transpose().map_err(NoJob::Recording)?;
    let plan = Plan::assigned(assignment).map_err(NoJob::Plan)?;
    let alone = plan.ranks() == plan.size;
    let far = (!alone).then(|| Far::open(plan.ranks(), network)).transpose().map_err(NoJob::Far)?;
    let (input, colours) = (Input::fed(stdin), terminals.colours);
    let mut job = begin(Beginning {
        plan: &plan,
        number,
        mark,
        out,
        err,
        input,
        colours,
        timeout: None,
        fault_tolerant,
        hang,
        launcher: Some(launcher),
        far,
        trace: recordings.as_ref().map(RecordingFolder::variable),
    })?;
    job.recordings = recordings;
    Ok(job)
}

const NOT_BY_HAND: &str = "this command is started by `ferry run --hosts`, not by hand";
