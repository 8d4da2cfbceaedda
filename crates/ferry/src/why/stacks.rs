//! The stacks of ranks on this host, by gdb, which stops each process for a moment.

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

/// What the threads of a rank do.
#[derive(Serialize)]
pub(super) struct RankStacks {
    pub(super) rank: String,
    pub(super) process: u32,
    /// A stack for each thread, as gdb prints it.
    pub(super) stacks: String,
}

/// The stacks of ranks, each with the number of its process. Says on the standard error what is missing, and why.
pub(super) fn of(ranks: &[(String, u32)]) -> Option<Vec<RankStacks>> {
    if ranks.is_empty() {
        eprintln!(
            "ferry why: no stacks: no rank of the job runs on this host; run it where the ranks are"
        );
        return None;
    }
    let until = Instant::now() + SECONDS_MAX;
    let mut all = Vec::new();
    for (rank, process) in ranks {
        match of_process(*process, until) {
            Ok(stacks) => all.push(RankStacks { rank: rank.clone(), process: *process, stacks }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                eprintln!("ferry why: no stacks: there is no gdb on this host; install gdb");
                return None;
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let seconds = SECONDS_MAX.as_secs();
                eprintln!("ferry why: no stacks from rank {rank} on: gdb has taken {seconds} s");
                break;
            }
            Err(error) => eprintln!("ferry why: no stacks of rank {rank} (pid {process}): {error}"),
        }
    }
    Some(all)
}

fn of_process(process: u32, until: Instant) -> io::Result<String> {
    let mut gdb = Command::new("gdb");
    gdb.args(["--batch", "--nx", "-q", "-iex", "set debuginfod enabled off", "-p"]);
    gdb.arg(process.to_string()).args(["-ex", "thread apply all backtrace"]);
    // Its output must fit into a pipe of any size, so it is read as it comes, by a thread.
    gdb.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut gdb = gdb.spawn()?;
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            let read = pipe.map(|mut pipe| pipe.read_to_string(&mut text));
            read.map_or_else(String::new, |_| text)
        })
    };
    let out = read(gdb.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    let err = read(gdb.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    while gdb.try_wait()?.is_none() {
        if Instant::now() >= until {
            gdb.kill()?;
            gdb.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let [out, err] = [out, err].map(|reader| reader.join().unwrap_or_default());
    let begin = out.find("\nThread ");
    let stacks = begin.map(|begin| out[begin..].trim().to_owned());
    stacks
        .ok_or_else(|| io::Error::other(err.lines().next().unwrap_or("gdb prints none").to_owned()))
}

/// How long gdb may take for all ranks together.
const SECONDS_MAX: Duration = Duration::from_secs(20);
