//! `ferry top`: what the ranks of a running job do, how fast, and who waits for whom.
//!
//! Like `ferry why`, it reads the facts that ranks keep in the memory that they share. It asks ranks for their queues and
//! counters once for each look, and makes them do nothing else.
//!
//! | file | what it does |
//! |---|---|
//! | `sample.rs` | looks at the ranks |
//! | `rates.rs` | rates and states, from two looks |
//! | `table.rs` | columns, groups of ranks that are alike, numbers in words |
//! | `detail.rs` | one rank: its last calls, its objects, and what is not over |
//! | `live.rs` | the view that fills a terminal |

mod detail;
#[cfg(feature = "live")]
mod live;
mod rates;
mod sample;
#[cfg(test)]
mod stories;
mod table;

use std::fmt;
#[cfg(feature = "live")]
use std::io;
use std::io::{IsTerminal as _, stdout};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ferrywire_host::ErrorCode;
use serde::Serialize;

use crate::job_facts::{JobFacts, JobNotFound};
use crate::out;
use detail::Detail;
use rates::{RankRow, Totals, rows};
use sample::Sample;
use table::{View, columns, grouped, line_of, titles};

/// Shows what the ranks of a running job do, how fast, and who waits for whom.
///
/// In a terminal the view is renewed until the job ends or a key is pressed; otherwise one table is printed.
#[derive(Args)]
pub(crate) struct Top {
    /// The process id of the launcher or of a rank. Without it, there must be only one job of this user.
    process: Option<u32>,
    /// Print one table and exit, in a terminal, too.
    #[arg(long)]
    once: bool,
    /// Print the result as JSON, and exit.
    #[arg(long)]
    json: bool,
    /// Print the last calls, the communicators and what is not over of one rank, and exit.
    #[arg(long, value_name = "RANK")]
    rank: Option<u32>,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct TopReport<'a> {
    job: u32,
    program: &'a str,
    running_s: f64,
    #[serde(flatten)]
    totals: Totals,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Detail>,
    ranks: &'a [RankRow],
}

/// Why nothing is shown.
enum NotShown {
    Job(JobNotFound),
    /// There is no such rank, but others.
    NoRank(u32, String),
    #[cfg(feature = "live")]
    Terminal(io::Error),
}

impl From<JobNotFound> for NotShown {
    fn from(error: JobNotFound) -> NotShown {
        NotShown::Job(error)
    }
}

impl fmt::Display for NotShown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotShown::Job(error) => write!(f, "{error}"),
            NotShown::NoRank(rank, all) => {
                write!(f, "--rank {rank}: the job has no such rank; it has {all}")
            }
            #[cfg(feature = "live")]
            NotShown::Terminal(error) => {
                write!(f, "cannot use this terminal: {error}; --once prints one table")
            }
        }
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds, such as 0.5")?;
    match (INTERVAL_MIN_S..=INTERVAL_MAX_S).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(format!("expected {INTERVAL_MIN_S} to {INTERVAL_MAX_S} seconds")),
    }
}

/// A shorter interval would disturb the job, and its rates would mean little.
const INTERVAL_MIN_S: f64 = 0.2;
const INTERVAL_MAX_S: f64 = 3600.0;

impl Top {
    pub(crate) fn run(&self) -> ExitCode {
        match self.shown() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("ferry top: {}", ErrorCode::NO_JOB.ends(error));
                ExitCode::FAILURE
            }
        }
    }

    fn shown(&self) -> Result<(), NotShown> {
        let mut job = JobFacts::find(self.process)?;
        let before = Sample::take(&mut job)?;
        let is_terminal = stdout().is_terminal();
        #[cfg(feature = "live")]
        if is_terminal && !(self.once || self.json || self.rank.is_some()) {
            let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            let ended = live::show(&mut job, before, self.interval, colours);
            return match ended.map_err(NotShown::Terminal)? {
                None => Ok(()),
                Some(JobNotFound::Over) => {
                    eprintln!("ferry top: the job has ended");
                    Ok(())
                }
                Some(error) => Err(error.into()),
            };
        }
        std::thread::sleep(self.interval);
        let sample = Sample::take(&mut job)?;
        let view = View { rows: rows(&before, &sample), sample };
        let all = || table::ranks(&view.rows.iter().map(|row| row.ranks[0]).collect::<Vec<_>>());
        let detail = match self.rank {
            None => None,
            Some(rank) => {
                Some(Detail::of(&view, rank).ok_or_else(|| NotShown::NoRank(rank, all()))?)
            }
        };
        if self.json {
            let (program, running) = view.sample.program();
            out::json(&TopReport {
                job: job.job(),
                program,
                running_s: running.as_secs_f64(),
                totals: Totals::of(&view.rows),
                detail,
                ranks: &view.rows,
            });
        } else if let Some(detail) = detail {
            detail.lines().iter().for_each(out::line);
        } else {
            table_in(&view, is_terminal.then(terminal_size)).iter().for_each(out::line);
        }
        Ok(())
    }
}

/// The lines of a table in a terminal of so many columns and lines, or in a file.
fn table_in(view: &View, terminal: Option<(usize, usize)>) -> Vec<String> {
    // The first line, an empty one, the titles, and the prompt that follows.
    let room = terminal.map(|(_, lines)| lines.saturating_sub(4));
    let rows = match room {
        Some(room) if view.rows.len() > room => grouped(&view.rows, room),
        _ => view.rows.clone(),
    };
    let width = terminal.map(|(columns, _)| columns);
    let columns = columns(view, &rows, width);
    let mut lines = vec![view.head(width), String::new(), titles(&columns)];
    lines.extend(rows.iter().map(|row| line_of(&columns, row)));
    lines
}

/// Columns and lines of the terminal.
fn terminal_size() -> (usize, usize) {
    #[cfg(feature = "live")]
    if let Ok((columns, lines)) = ratatui::crossterm::terminal::size()
        && columns > 0
    {
        return (columns.into(), lines.into());
    }
    (80, 24)
}
