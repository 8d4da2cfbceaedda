//! `ferry top`: what the ranks of a running job do, how fast, and who waits for whom.
//!
//! Like `ferry why`, it reads the facts that ranks keep in the memory that they share. It asks ranks for their queues and
//! counters once for each look, and makes them do nothing else.
//!
//! | file | what it does |
//! |---|---|
//! | `sample.rs` | looks at the ranks and their processes |
//! | `rates.rs` | rates and states, from two looks |
//! | `table.rs` | columns, groups of ranks that are alike, numbers in words |
//! | `detail.rs` | one rank: its last calls, its objects, and what is not over |
//! | `live.rs` | the view that fills a terminal |

mod detail;
#[cfg(feature = "live")]
mod live;
mod rates;
mod sample;
mod table;

use std::io::{IsTerminal as _, stdout};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::out;
use rates::{Row, Totals, rows};
use sample::Source;
use table::{View, columns, grouped, line_of, titles};

/// Shows what the ranks of a running job on this host do, how fast, and who waits for whom.
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
    detail: Option<detail::Detail>,
    ranks: &'a [Row],
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
        let mut source = match Source::of(self.process) {
            Ok(source) => source,
            Err(error) => {
                eprintln!("ferry top: {error}");
                return ExitCode::FAILURE;
            }
        };
        let is_terminal = stdout().is_terminal();
        #[cfg(feature = "live")]
        if is_terminal && !(self.once || self.json || self.rank.is_some()) {
            let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            return match live::show(&mut source, self.interval, colours) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("ferry top: cannot use this terminal: {error}; --once prints one table");
                    ExitCode::FAILURE
                }
            };
        }
        let before = source.look();
        std::thread::sleep(self.interval);
        let sample = source.look();
        let view = View { rows: rows(&before, &sample), sample };
        let detail = match self.rank {
            None => None,
            Some(rank) => match detail::Detail::of(&view, rank) {
                Some(detail) => Some(detail),
                None => {
                    let ranks: Vec<u32> = view.rows.iter().map(|row| row.ranks[0]).collect();
                    let ranks = table::ranks(&ranks);
                    eprintln!("ferry top: --rank {rank}: there is no such rank on this host; there are {ranks}");
                    return ExitCode::FAILURE;
                }
            },
        };
        if self.json {
            out::json(&TopReport {
                job: source.job(),
                program: &view.sample.program,
                running_s: view.sample.running.as_secs_f64(),
                totals: Totals::of(&view.rows),
                detail,
                ranks: &view.rows,
            });
        } else if let Some(detail) = detail {
            detail.lines().iter().for_each(out::line);
        } else {
            table_in(&view, is_terminal.then(terminal_size)).iter().for_each(out::line);
        }
        ExitCode::SUCCESS
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
