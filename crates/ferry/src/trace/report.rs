//! `ferry report`: a trace as one page for a browser, which needs nothing else.

mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};
use ferrywire_host::ErrorCode;

use super::perfetto;
use super::stats::Statistics;
use crate::out;

/// Makes a page with plots of a trace that `ferry run --trace` has written.
///
/// The page is one file for any browser, and loads nothing from elsewhere.
#[derive(Args)]
pub(crate) struct TraceReport {
    /// The trace.
    #[arg(value_hint = ValueHint::FilePath)]
    trace: PathBuf,
    /// Where the page is written [default: TRACE.html].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Print statistics instead, as ferry run --stats does.
    #[arg(long, conflicts_with = "output")]
    stats: bool,
    /// Print the statistics as JSON.
    #[arg(long, conflicts_with_all = ["output", "stats"])]
    json: bool,
}

impl TraceReport {
    pub(crate) fn run(&self) -> ExitCode {
        match self.attempt() {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("ferry report: {}", ErrorCode::TRACE.ends(why));
                ExitCode::FAILURE
            }
        }
    }

    fn attempt(&self) -> Result<(), String> {
        let path = self.trace.display();
        let bytes =
            fs::read(&self.trace).map_err(|error| format!("cannot read {path}: {error}"))?;
        let timeline =
            perfetto::parse(&bytes).map_err(|error| format!("cannot use {path}: {error}"))?;
        let stats = Statistics::of(&timeline);
        if self.json {
            out::json(&stats);
            return Ok(());
        }
        if self.stats {
            stats.lines().iter().for_each(out::line);
            return Ok(());
        }
        let title = self.trace.file_name().unwrap_or_default().to_string_lossy();
        let output = self.output.clone().unwrap_or_else(|| with_html(&self.trace));
        let page = page::page(&title, &timeline, &stats);
        fs::write(&output, page)
            .map_err(|error| format!("cannot write the page to {}: {error}", output.display()))?;
        out::line(format!("wrote {}: open it in a browser", output.display()));
        Ok(())
    }
}

fn with_html(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".html");
    PathBuf::from(name)
}
